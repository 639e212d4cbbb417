package emulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	sigAlgorithm = "AWS4-HMAC-SHA256"
	sigTime      = "20060102T150405Z"
)

// authorization is a parsed Authorization header.
type authorization struct {
	accessKey, date, region, service string
	signed                           []string
	signature                        string
}

func errSignature(format string, args ...any) *apiError {
	return newAPIError("InvalidSignatureException", format, args...)
}

func errIncomplete(format string, args ...any) *apiError {
	return newAPIError("IncompleteSignatureException", format, args...)
}

// parseAuthorization checks the shape of the header.
func parseAuthorization(h http.Header) (a authorization, _ *apiError) {
	raw := h.Get("Authorization")
	if raw == "" {
		return a, newAPIError("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	rest, ok := strings.CutPrefix(raw, sigAlgorithm+" ")
	if !ok {
		return a, errIncomplete("Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders' parameter. Authorization=%s", firstWord(raw))
	}
	params := make(map[string]string)
	for part := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		params[k] = v
	}
	var missing []string
	for _, k := range []string{"Credential", "Signature", "SignedHeaders"} {
		if params[k] == "" {
			missing = append(missing, "Authorization header requires '"+k+"' parameter.")
		}
	}
	if h.Get("X-Amz-Date") == "" && h.Get("Date") == "" {
		missing = append(missing, "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	if missing != nil {
		return a, errIncomplete("%s Authorization=%s", strings.Join(missing, " "), sigAlgorithm)
	}
	scope := strings.Split(params["Credential"], "/")
	if n := len(scope); n < 5 || scope[n-1] != "aws4_request" {
		return a, errIncomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'", params["Credential"])
	}
	n := len(scope)
	a = authorization{
		accessKey: strings.Join(scope[:n-4], "/"), date: scope[n-4], region: scope[n-3], service: scope[n-2],
		signed: strings.Split(params["SignedHeaders"], ";"), signature: params["Signature"],
	}
	if a.service != "logs" {
		return a, errSignature("Credential should be scoped to correct service: 'logs'. ")
	}
	return a, nil
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

// checkDate judges the date of the signature by the service's clock.
func (a *authorization) checkDate(h http.Header, now time.Time, skew time.Duration) *apiError {
	raw := h.Get("X-Amz-Date")
	date, err := time.Parse(sigTime, raw)
	if err != nil {
		if date, err = http.ParseTime(h.Get("Date")); err != nil {
			return errIncomplete("Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", raw)
		}
		date = date.UTC()
	}
	if day := date.Format("20060102"); a.date != day {
		return errSignature("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.", a.date, day, raw)
	}
	minutes := int(skew / time.Minute)
	at, clock := date.Format(sigTime), now.UTC().Format(sigTime)
	switch {
	case date.Before(now.Add(-skew)):
		return errSignature("Signature expired: %s is now earlier than %s (%s - %d min.)", at, now.Add(-skew).UTC().Format(sigTime), clock, minutes)
	case date.After(now.Add(skew)):
		return errSignature("Signature not yet current: %s is still later than %s (%s + %d min.)", at, now.Add(skew).UTC().Format(sigTime), clock, minutes)
	}
	return nil
}

// verify checks the signature itself with the secret of the access key.
func (a *authorization) verify(r *http.Request, body []byte, secrets map[string]string) *apiError {
	secret, ok := secrets[a.accessKey]
	if !ok {
		return errUnrecognizedClient()
	}
	for _, must := range []string{"host", "x-amz-date"} {
		if !slices.Contains(a.signed, must) && !(must == "x-amz-date" && slices.Contains(a.signed, "date")) {
			return errSignature("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
		}
	}
	if r.Header.Get("X-Amz-Security-Token") != "" && !slices.Contains(a.signed, "x-amz-security-token") {
		return errSignature("'X-Amz-Security-Token' must be a 'SignedHeader' in the AWS Authorization.")
	}
	sum := sha256.Sum256(body)
	payload := hex.EncodeToString(sum[:])
	if h := r.Header.Get("X-Amz-Content-Sha256"); h != "" && h != payload {
		return errSignature("The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	scope := a.date + "/" + a.region + "/" + a.service + "/aws4_request"
	canon := sha256.Sum256([]byte(a.canonical(r, payload)))
	date := r.Header.Get("X-Amz-Date")
	text := sigAlgorithm + "\n" + date + "\n" + scope + "\n" + hex.EncodeToString(canon[:])
	key := mac(mac(mac(mac([]byte("AWS4"+secret), a.date), a.region), a.service), "aws4_request")
	if want := hex.EncodeToString(mac(key, text)); !hmac.Equal([]byte(want), []byte(a.signature)) {
		return errSignature("The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// canonical is the canonical request of Signature Version 4.
func (a *authorization) canonical(r *http.Request, payload string) string {
	var b strings.Builder
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	b.WriteString(r.Method + "\n" + path + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range a.signed {
		b.WriteString(name + ":")
		switch name {
		case "host":
			b.WriteString(r.Host)
		case "content-length":
			b.WriteString(itoa(r.ContentLength))
		default:
			for i, v := range r.Header[textproto.CanonicalMIMEHeaderKey(name)] {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(strings.Join(strings.Fields(v), " "))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n" + strings.Join(a.signed, ";") + "\n" + payload)
	return b.String()
}

func canonicalQuery(q url.Values) string {
	return strings.ReplaceAll(q.Encode(), "+", "%20")
}
