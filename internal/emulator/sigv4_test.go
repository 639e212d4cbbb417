package emulator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// signedByBotocore is a request that botocore 1.43 signed for this body, date
// and key: what verify computes must agree with another implementation.
func signedByBotocore() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:4586/", strings.NewReader(`{"logGroupNamePrefix":"a b"}`))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Logs_20140328.DescribeLogGroups")
	r.Header.Set("X-Amz-Date", "20261130T120000Z")
	r.Header.Set("X-Amz-Security-Token", "token+/=")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/eu-west-1/logs/aws4_request, "+
		"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, "+
		"Signature=3b7f1fab90105092670c835b6e9b5de92f0bf7fad3a3e30856ef4f90ca0c4faf")
	return r
}

func TestSignatureIsVerified(t *testing.T) {
	const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	mismatch := "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
	for _, tt := range []struct {
		name      string
		secrets   map[string]string
		change    func(*http.Request)
		typ, text string
	}{
		{name: "as signed", change: func(*http.Request) {}, typ: "InvalidParameterException"}, // the prefix has a space: it got through to the operation
		{name: "wrong secret", secrets: map[string]string{"AKIDEXAMPLE": "other"}, change: func(*http.Request) {}, typ: "InvalidSignatureException", text: mismatch},
		{name: "unknown key", secrets: map[string]string{"AKIDOTHER": secret}, change: func(*http.Request) {}, typ: "UnrecognizedClientException", text: "The security token included in the request is invalid."},
		{name: "other body", change: func(r *http.Request) {
			r.Body = http.NoBody
			r.ContentLength = 0
		}, typ: "InvalidSignatureException", text: mismatch},
		{name: "other target", change: func(r *http.Request) { r.Header.Set("X-Amz-Target", "Logs_20140328.DeleteLogGroup") }, typ: "InvalidSignatureException", text: mismatch},
		{name: "other host", change: func(r *http.Request) { r.Host = "logs.example.com" }, typ: "InvalidSignatureException", text: mismatch},
		{name: "claimed hash", change: func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "00") }, typ: "InvalidSignatureException"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.secrets == nil {
				tt.secrets = map[string]string{"AKIDEXAMPLE": secret}
			}
			s := newServer(t, Options{Secrets: tt.secrets})
			r := signedByBotocore()
			tt.change(r)
			got := serve(t, s, r)
			if got.Type() != tt.typ || tt.text != "" && got.Text() != tt.text {
				t.Errorf("got %s: %s", got.Type(), got.Text())
			}
		})
	}
}

func TestAuthorizationShape(t *testing.T) {
	s := newServer(t, Options{})
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	shift := func(d time.Duration) func(*http.Request) {
		return func(r *http.Request) { sign(r, noon.Add(d)) }
	}
	for _, tt := range []struct {
		name      string
		change    func(*http.Request)
		typ, text string
	}{
		{"good", func(*http.Request) {}, "", ""},
		{"none", func(r *http.Request) { r.Header.Del("Authorization") }, "MissingAuthenticationTokenException", "Missing Authentication Token"},
		{"basic", header("Authorization", "Basic Zm9v"), "IncompleteSignatureException", ""},
		{"no signature", header("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261130/r/logs/aws4_request, SignedHeaders=host"), "IncompleteSignatureException", "Authorization header requires 'Signature' parameter. Authorization=AWS4-HMAC-SHA256"},
		{"short scope", header("Authorization", "AWS4-HMAC-SHA256 Credential=a/logs/aws4_request, SignedHeaders=host, Signature=0"), "IncompleteSignatureException", ""},
		{"other service", header("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261130/r/s3/aws4_request, SignedHeaders=host, Signature=0"), "InvalidSignatureException", "Credential should be scoped to correct service: 'logs'. "},
		{"other day", header("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261129/r/logs/aws4_request, SignedHeaders=host, Signature=0"), "InvalidSignatureException", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '20261129' != '20261130', from '20261130T120000Z'."},
		{"no date", header("X-Amz-Date", ""), "IncompleteSignatureException", ""},
		{"garbled date", header("X-Amz-Date", "yesterday"), "IncompleteSignatureException", ""},
		{"5 minutes early", shift(5 * time.Minute), "", ""},
		{"5 minutes late", shift(-5 * time.Minute), "", ""},
		{"over 5 minutes early", shift(5*time.Minute + time.Second), "InvalidSignatureException", "Signature not yet current: 20261130T120501Z is still later than 20261130T120500Z (20261130T120000Z + 5 min.)"},
		{"over 5 minutes late", shift(-5*time.Minute - time.Second), "InvalidSignatureException", "Signature expired: 20261130T115459Z is now earlier than 20261130T115500Z (20261130T120000Z - 5 min.)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(s, "DescribeLogGroups", "{}")
			tt.change(r)
			got := serve(t, s, r)
			if got.Type() != tt.typ || tt.text != "" && got.Text() != tt.text {
				t.Errorf("got %d %s: %s", got.Status, got.Type(), got.Text())
			}
		})
	}
}
