// Package awsx is what the AWS outputs share: region, credentials, endpoint, transport
// and signing from the AWS SDK, and the translation of AWS errors into output.Kind.
//
// Nothing here fails at start for a reason of the network: credentials are looked up
// when the first request is signed, so that a machine may boot without its network.
package awsx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"weir/internal/output"
)

// CleanCode reduces the forms in which AWS names an error (com.amazonaws.logs#Name,
// Name:http://…) to the bare name.
func CleanCode(code string) string {
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	if i := strings.IndexByte(code, ':'); i >= 0 {
		code = code[:i]
	}
	return strings.TrimSpace(code)
}

// Classify says what kind of failure an answer with this HTTP status and error code is.
// code may be empty, as in the answer of a proxy.
//
// An answer that says nothing we know is Unavailable: it is retried, and no event is ever
// given up because of an error that we do not understand.
func Classify(status int, code string) output.Kind {
	switch CleanCode(code) {
	case "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded", "SlowDown", "EC2ThrottledException",
		"PriorRequestNotComplete", "TransactionInProgressException", "TransactionInProgress":
		return output.Throttled
	case "ExpiredToken", "ExpiredTokenException", "ExpiredCredentials", "UnrecognizedClient", "UnrecognizedClientException",
		"InvalidSignature", "InvalidSignatureException", "SignatureDoesNotMatch", "InvalidClientTokenId", "InvalidAccessKeyId",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature", "IncompleteSignatureException",
		"RequestExpired", "RequestExpiredException", "RequestTimeTooSkewed", "RequestInTheFuture", "AuthFailure",
		"InvalidToken", "InvalidIdentityToken", "IDPCommunicationError", "TokenRefreshRequired":
		return output.Credentials
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized", "OptInRequired",
		// For Logs this one means a quota of resources, which waiting a second does not raise.
		"LimitExceededException", "LimitExceeded", "KMSAccessDeniedException":
		return output.Denied
	case "ResourceNotFoundException", "ResourceNotFound":
		return output.NoTarget
	case "OperationAbortedException", "OperationAborted", "ConflictException",
		"InvalidSequenceTokenException", "DataAlreadyAcceptedException":
		return output.Conflict
	case "InvalidParameterException", "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination",
		"ValidationException", "ValidationError", "SerializationException", "MalformedInputException", "RequestEntityTooLarge":
		return output.Refused
	case "ServiceUnavailable", "ServiceUnavailableException", "InternalFailure", "InternalServerError", "InternalServerException",
		"RequestTimeout", "RequestTimeoutException":
		return output.Unavailable
	}
	switch status {
	case 429:
		return output.Throttled
	case 413:
		return output.Refused
	case 401:
		return output.Credentials
	case 403:
		return output.Denied
	}
	return output.Unavailable
}

// NetworkHint says in a few words what to look at after a request that got no answer, or "".
func NetworkHint(err error) string {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host: check region, endpoint and the name servers"
	case errors.As(err, &unknown):
		return "the certificate is not signed by a known authority: set AWS_CA_BUNDLE, or ssl_verify_peer false for a test"
	case errors.As(err, &host):
		return "the certificate is for another host: check endpoint"
	case errors.As(err, &record):
		return "the endpoint does not speak TLS: write http:// in endpoint if that is meant"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check endpoint, proxy and firewall"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return ""
}
