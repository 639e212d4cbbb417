package s3

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"weir/internal/awsx"
	"weir/internal/output"
)

// answer is what is known of an error: the status and the code of an answer, if there was
// one.
type answer struct {
	status int // 0: there was no answer
	code   string
	header http.Header
}

func answerOf(err error) (a answer) {
	var re *smithyhttp.ResponseError
	if errors.As(err, &re) && re.Response != nil && re.Response.Response != nil {
		a.status, a.header = re.Response.StatusCode, re.Response.Header
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		a.code = api.ErrorCode()
	}
	return a
}

// taken says that the condition of a put was not met: there is an object.
func (a answer) taken() bool {
	return a.status == http.StatusPreconditionFailed || a.code == "PreconditionFailed"
}

// lacksConditions says that the service does not know the condition of a put.
func (a answer) lacksConditions() bool {
	switch {
	case a.status == http.StatusNotImplemented || a.code == "NotImplemented":
		return true
	case a.status == http.StatusBadRequest:
		return a.code == "InvalidArgument" || a.code == "InvalidRequest" || a.code == "UnsupportedHeader"
	}
	return false
}

// kind is awsx's classification with what is particular to S3. No answer here is about the
// content of an object, so that nothing is ever bisected: what S3 refuses it refuses for
// the configuration's sake.
func (a answer) kind(err error) output.Kind {
	switch a.code {
	case "NoSuchBucket":
		return output.NoTarget
	case "ConditionalRequestConflict", "OperationAborted":
		return output.Conflict
	case "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "NoSuchUpload", "InvalidPart", "RequestTimeout":
		return output.Unavailable
	}
	if isCredentials(err) {
		return output.Credentials
	}
	k := awsx.Classify(a.status, a.code)
	switch {
	case k == output.Refused, k == output.NoTarget:
		return output.Denied
	case k == output.Unavailable && a.status >= 300 && a.status < 500 && a.status != http.StatusRequestTimeout && a.status != http.StatusTemporaryRedirect:
		return output.Denied
	}
	return k
}

// hint says what the user can do.
func (a answer) hint(err error) string {
	switch a.code {
	case "NoSuchBucket":
		return "make the bucket, write another s3_bucket, or auto_create_bucket true"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		if r := a.header.Get("X-Amz-Bucket-Region"); r != "" {
			return "the bucket is in another region: write s3_region " + r
		}
		return "the bucket is in another region, or it needs another s3_endpoint"
	case "AccessDenied":
		return "allow s3:PutObject on the bucket's objects, with ssekms_key_id kms:GenerateDataKey too"
	case "SignatureDoesNotMatch", "InvalidAccessKeyId":
		return "check the keys, and s3_region"
	}
	if a.status == 0 {
		return awsx.NetworkHint(err)
	}
	if a.status == http.StatusMovedPermanently {
		return "the bucket is in another region, or it needs another s3_endpoint"
	}
	return ""
}

// failure makes delivery's error of one of the SDK.
func failure(what string, err error) *output.Error {
	a := answerOf(err)
	out := &output.Error{Kind: a.kind(err), Op: what, Hint: a.hint(err), Err: err}
	if n, perr := strconv.Atoi(a.header.Get("Retry-After")); perr == nil && n > 0 {
		out.After = time.Duration(min(n, 3600)) * time.Second
	}
	return out
}

// perhaps says whether a put that failed so may have been accepted nevertheless; sent says
// that its body had left this machine.
func (a answer) perhaps(sent bool) bool {
	switch a.status {
	case 0:
		return sent
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	}
	return a.status/100 == 2 // its body was broken
}
