package awsx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"weir/internal/output"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for kind, codes := range map[output.Kind]string{
		output.Throttled: "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException TooManyRequestsException " +
			"RequestLimitExceeded BandwidthLimitExceeded ProvisionedThroughputExceededException SlowDown PriorRequestNotComplete " +
			"TransactionInProgressException EC2ThrottledException",
		output.Credentials: "ExpiredToken ExpiredTokenException UnrecognizedClientException InvalidSignatureException SignatureDoesNotMatch " +
			"InvalidClientTokenId MissingAuthenticationTokenException IncompleteSignature RequestExpired RequestTimeTooSkewed",
		output.Denied:      "AccessDenied AccessDeniedException LimitExceededException OptInRequired",
		output.NoTarget:    "ResourceNotFoundException",
		output.Conflict:    "OperationAbortedException InvalidSequenceTokenException DataAlreadyAcceptedException",
		output.Refused:     "InvalidParameterException ValidationException SerializationException",
		output.Unavailable: "ServiceUnavailableException InternalFailure RequestTimeout RequestTimeoutException UnknownOperationException WhatIsThis",
	} {
		for _, code := range strings.Fields(codes) {
			for _, form := range []string{code, "com.amazonaws.logs#" + code, code + ":http://internal.amazon.com/coral/"} {
				if got := Classify(400, form); got != kind {
					t.Errorf("%s is %v, want %v", form, got, kind)
				}
			}
		}
	}
	for status, kind := range map[int]output.Kind{
		400: output.Unavailable, 401: output.Credentials, 403: output.Denied, 404: output.Unavailable, 407: output.Unavailable, 408: output.Unavailable,
		413: output.Refused, 429: output.Throttled, 500: output.Unavailable, 502: output.Unavailable, 503: output.Unavailable, 504: output.Unavailable, 301: output.Unavailable,
	} {
		if got := Classify(status, ""); got != kind {
			t.Errorf("status %d is %v, want %v", status, got, kind)
		}
	}
}

func TestNetworkHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{IsNotFound: true}, "no such host"},
		{x509.UnknownAuthorityError{}, "AWS_CA_BUNDLE"},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, "another host"},
		{tls.RecordHeaderError{}, "does not speak TLS"},
		{syscall.ECONNREFUSED, "nothing listens"},
		{context.DeadlineExceeded, "no answer in time"},
		{errors.New("something"), ""},
	} {
		got := NetworkHint(fmt.Errorf("dial: %w", c.err))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}
