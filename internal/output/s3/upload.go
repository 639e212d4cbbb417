package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// slowest is how many bytes a second a body may need without the request being given up.
const slowest = 256 << 10

// limited gives a request its time, and finds out whether its body was sent.
func (o *Output) limited(ctx context.Context, bytes int64) (_ context.Context, sent *atomic.Bool, cancel context.CancelFunc) {
	ctx, cancel = context.WithTimeout(ctx, o.deadline+time.Duration(bytes/slowest)*time.Second)
	sent = &atomic.Bool{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				sent.Store(true)
			}
		},
	})
	return ctx, sent, cancel
}

// upload puts the object at a key; with fresh only if nothing is there. perhaps says that a
// put that failed may have been accepted.
func (o *Output) upload(ctx context.Context, r *request, a *attempt, fresh bool) (perhaps bool, err error) {
	if r.spool.size > partSize {
		return o.uploadParts(ctx, r, a, fresh)
	}
	ctx, sent, cancel := o.limited(ctx, r.spool.size)
	defer cancel()
	body := r.spool.reader(0, r.spool.size)
	defer body.end()
	in := o.object(r, a)
	in.Body, in.ContentLength = body, aws.Int64(r.spool.size)
	in.ContentMD5 = o.contentMD5(r.spool.partSum(0))
	if fresh {
		in.IfNoneMatch = aws.String("*")
	}
	if _, err = o.client.PutObject(ctx, in); err != nil {
		return answerOf(err).perhaps(sent.Load()), err
	}
	return false, nil
}

// contentMD5 is the header Content-MD5, where there is no newer checksum.
func (o *Output) contentMD5(sum []byte) *string {
	if o.checksum != "" {
		return nil
	}
	return aws.String(base64.StdEncoding.EncodeToString(sum))
}

// object is what all objects have.
func (o *Output) object(r *request, a *attempt) *s3.PutObjectInput {
	p := &o.p
	in := &s3.PutObjectInput{
		Bucket: &o.bucket, Key: aws.String(a.key), ContentType: aws.String(o.store.mime),
		ACL: types.ObjectCannedACL(strings.ReplaceAll(p.ACL, "_", "-")), StorageClass: types.StorageClass(p.StorageClass),
		ServerSideEncryption: types.ServerSideEncryption(p.SSE), ChecksumAlgorithm: o.checksum,
		GrantFullControl: optional(p.GrantFullControl), GrantRead: optional(p.GrantRead), GrantReadACP: optional(p.GrantReadACP),
		GrantWriteACP: optional(p.GrantWriteACP), SSEKMSKeyId: optional(p.KMSKeyID), Tagging: optional(p.Tagging),
	}
	if p.ReducedRedundancy {
		in.StorageClass = types.StorageClassReducedRedundancy
	}
	in.SSECustomerAlgorithm, in.SSECustomerKey, in.SSECustomerKeyMD5 = p.customerKey()
	if len(o.metaNames) > 0 {
		in.Metadata = map[string]string{}
		for i, k := range o.metaNames {
			in.Metadata[k] = headerText(o.key.expand(r.meta[i], &a.fresh))
		}
	}
	return in
}

// optional is nil for what is not set.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// headerText is a text as it may stand in a header.
func headerText(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return mime.BEncoding.Encode("utf-8", strings.ToValidUTF8(s, "\uFFFD"))
		}
	}
	return s
}

// uploadParts puts the object in parts. What was begun and not completed is aborted: its
// parts would cost money for ever.
func (o *Output) uploadParts(ctx context.Context, r *request, a *attempt, fresh bool) (perhaps bool, err error) {
	id, err := o.begin(ctx, o.object(r, a))
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			o.abort(ctx, a.key, id)
		}
	}()
	var done []types.CompletedPart
	for i := range r.spool.parts() {
		part, err := o.uploadPart(ctx, r, a, id, i)
		if err != nil {
			return false, err
		}
		done = append(done, part)
	}
	ctx, sent, cancel := o.limited(ctx, r.spool.size) // putting parts together takes the service its time
	defer cancel()
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &o.bucket, Key: &a.key, UploadId: &id, MultipartUpload: &types.CompletedMultipartUpload{Parts: done},
	}
	in.SSECustomerAlgorithm, in.SSECustomerKey, in.SSECustomerKeyMD5 = o.p.customerKey()
	if fresh {
		in.IfNoneMatch = aws.String("*")
	}
	if _, err = o.client.CompleteMultipartUpload(ctx, in); err != nil {
		return answerOf(err).perhaps(sent.Load()), err
	}
	return false, nil
}

func (o *Output) begin(ctx context.Context, in *s3.PutObjectInput) (id string, err error) {
	ctx, _, cancel := o.limited(ctx, 0)
	defer cancel()
	out, err := o.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: in.Bucket, Key: in.Key, ContentType: in.ContentType, ACL: in.ACL, StorageClass: in.StorageClass,
		ServerSideEncryption: in.ServerSideEncryption, ChecksumAlgorithm: in.ChecksumAlgorithm, GrantFullControl: in.GrantFullControl,
		GrantRead: in.GrantRead, GrantReadACP: in.GrantReadACP, GrantWriteACP: in.GrantWriteACP, SSEKMSKeyId: in.SSEKMSKeyId,
		Tagging: in.Tagging, Metadata: in.Metadata, SSECustomerAlgorithm: in.SSECustomerAlgorithm,
		SSECustomerKey: in.SSECustomerKey, SSECustomerKeyMD5: in.SSECustomerKeyMD5,
	})
	if err != nil {
		return "", err
	}
	if out.UploadId == nil {
		return "", errors.New("the service began an upload without naming it")
	}
	return *out.UploadId, nil
}

func (o *Output) uploadPart(ctx context.Context, r *request, a *attempt, id string, i int) (types.CompletedPart, error) {
	off := int64(i) * partSize
	n := min(partSize, r.spool.size-off)
	ctx, _, cancel := o.limited(ctx, n)
	defer cancel()
	body := r.spool.reader(off, n)
	defer body.end()
	in := &s3.UploadPartInput{
		Bucket: &o.bucket, Key: &a.key, UploadId: &id, PartNumber: aws.Int32(int32(i + 1)), Body: body, ContentLength: &n,
		ContentMD5: o.contentMD5(r.spool.partSum(i)), ChecksumAlgorithm: o.checksum,
	}
	in.SSECustomerAlgorithm, in.SSECustomerKey, in.SSECustomerKeyMD5 = o.p.customerKey()
	out, err := o.client.UploadPart(ctx, in)
	if err != nil {
		return types.CompletedPart{}, err
	}
	return types.CompletedPart{
		ETag: out.ETag, PartNumber: in.PartNumber, ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C,
		ChecksumCRC64NVME: out.ChecksumCRC64NVME, ChecksumSHA1: out.ChecksumSHA1, ChecksumSHA256: out.ChecksumSHA256,
	}, nil
}

// abortTime bounds the abort of an upload, which also happens when everything else ends.
const abortTime = 10 * time.Second

func (o *Output) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	_, err := o.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &o.bucket, Key: &key, UploadId: &id})
	if err != nil && answerOf(err).code != "NoSuchUpload" {
		o.log.Debug("an upload could not be aborted; its parts stay until a lifecycle rule removes them", "bucket", o.bucket, "key", key, "upload", id, "error", err)
	}
}

// head asks about an object; nil without an error means that there is none.
func (o *Output) head(ctx context.Context, key string) (*s3.HeadObjectOutput, error) {
	ctx, _, cancel := o.limited(ctx, 0)
	defer cancel()
	in := &s3.HeadObjectInput{Bucket: &o.bucket, Key: &key}
	in.SSECustomerAlgorithm, in.SSECustomerKey, in.SSECustomerKeyMD5 = o.p.customerKey()
	out, err := o.client.HeadObject(ctx, in)
	if err == nil {
		return out, nil
	}
	switch answerOf(err).status {
	case http.StatusNotFound:
		return nil, nil
	case 0, http.StatusServiceUnavailable:
		return nil, err
	}
	// The answer to HEAD has no body, and so does not say why: GET does.
	get, gerr := o.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: in.Bucket, Key: in.Key, Range: aws.String("bytes=0-0"),
		SSECustomerAlgorithm: in.SSECustomerAlgorithm, SSECustomerKey: in.SSECustomerKey, SSECustomerKeyMD5: in.SSECustomerKeyMD5,
	})
	if gerr == nil {
		_ = get.Body.Close() // nothing of it is wanted
		return nil, err
	}
	if a := answerOf(gerr); a.status == http.StatusNotFound && a.code == "NoSuchKey" {
		return nil, nil
	}
	return nil, gerr
}

// ours says whether the object at the attempt's key is the one of the request. Where the
// entity tag does not say that, because of encryption or in other services, the bytes do.
func (o *Output) ours(ctx context.Context, r *request, a *attempt) (bool, error) {
	there, err := o.head(ctx, a.key)
	if err != nil || there == nil {
		return false, err
	}
	if there.ContentLength == nil || *there.ContentLength != r.spool.size {
		return false, nil
	}
	if there.ETag != nil && strings.Trim(*there.ETag, `"`) == strings.Trim(r.spool.etag(), `"`) {
		return true, nil
	}
	ctx, _, cancel := o.limited(ctx, r.spool.size)
	defer cancel()
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: &a.key}
	in.SSECustomerAlgorithm, in.SSECustomerKey, in.SSECustomerKeyMD5 = o.p.customerKey()
	out, err := o.client.GetObject(ctx, in)
	if err != nil {
		return false, err
	}
	defer out.Body.Close()
	return equal(out.Body, r.spool.reader(0, r.spool.size))
}

// equal compares two readers.
func equal(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := io.ReadFull(a, x)
		m, berr := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, e := range []error{err, berr} {
			if e != nil && e != io.EOF && e != io.ErrUnexpectedEOF {
				return false, fmt.Errorf("compare the object that is there with ours: %w", e)
			}
		}
		if err != nil || berr != nil {
			return (err == nil) == (berr == nil), nil
		}
	}
}

// pattern shows a key whose marks are not filled in yet.
func (f *keyFormat) pattern(key string) string {
	return readable(strings.Trim(strconv.Quote(key), `"`))
}
