package cloudwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/awsx"
	"weir/internal/output"
)

// client speaks AWS JSON 1.1 with the service.
type client struct {
	session  *awsx.Session
	endpoint *url.URL
	deadline time.Duration
	format   string // x-amzn-logs-format of PutLogEvents; may be empty
	fixed    fixedHeaders
}

// fixedHeaders are values that all requests share. Nobody changes them.
type fixedHeaders struct{ contentType, agent, put, format []string }

func (c *client) fix() {
	c.fixed = fixedHeaders{[]string{"application/x-amz-json-1.1"}, []string{"weir"}, []string{"Logs_20140328.PutLogEvents"}, []string{c.format}}
}

// message is a request on its way.
type message struct {
	op       string // name of the operation
	body     []byte
	sum      string // hexadecimal SHA-256 of body
	encoding string // Content-Encoding; may be empty
	// resent is set when a connection broke after the body had been written: the service
	// may have accepted it.
	resent bool
}

// reply is an answer of the service.
type reply struct {
	status int
	code   string // of an error, without name space
	text   string // of an error
	after  time.Duration
	body   []byte
	id     string // request id
}

// failure is a request that got no answer, or no credentials to be sent with.
type failure struct {
	kind output.Kind
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// maxReply bounds what is read of an answer; real ones have less than a kilobyte.
const maxReply = 1 << 20

// call sends m until it has an answer that means something: a request that died on a
// connection that the service had already closed is repeated at once, a signature that was
// refused for the clock is made anew by the service's clock, and credentials that were
// refused are read again. The error is a *failure.
func (c *client) call(ctx context.Context, m *message) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	skewed, refreshed := false, false
	p := &payload{b: m.body}
	defer p.open.Wait()
	for stale := 0; ; {
		seen := &trace{} // one for each attempt: a late word of the last one must not count
		r := c.request(seen.in(ctx), m, p)
		used, err := c.session.Sign(ctx, r, m.sum)
		if err != nil && ctx.Err() != nil {
			return nil, &failure{output.Unavailable, err}
		}
		if err != nil {
			return nil, &failure{output.Credentials, err}
		}
		r.Body = p.reader()
		a, date, err := c.roundTrip(r, m, seen)
		var s *staleError
		switch {
		case errors.As(err, &s) && stale < 3:
			stale++
			continue
		case err != nil:
			return nil, &failure{output.Unavailable, err}
		case a.status/100 == 2 || awsx.Classify(a.status, a.code) != output.Credentials:
			return a, nil
		case !skewed && c.session.Skewed(date, r.Header.Get("X-Amz-Date")):
			skewed = true
			continue
		case !refreshed && c.session.Refresh(ctx, used):
			refreshed = true
			continue
		}
		return a, nil
	}
}

// payload hands out readers of a body. net/http may go on reading one after it has given
// up on a request; wait returns when none is read any more, so that the body's memory can
// be used again.
type payload struct {
	b    []byte
	open sync.WaitGroup
}

type payloadReader struct {
	bytes.Reader
	p      *payload
	closed atomic.Bool
}

func (r *payloadReader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.p.open.Done()
	}
	return nil
}

func (p *payload) reader() io.ReadCloser {
	p.open.Add(1)
	r := &payloadReader{p: p}
	r.Reset(p.b)
	return r
}

func (c *client) request(ctx context.Context, m *message, p *payload) *http.Request {
	u := *c.endpoint // signing writes into it
	target := c.fixed.put
	if m.op != "PutLogEvents" {
		target = []string{"Logs_20140328." + m.op}
	}
	r := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: c.endpoint.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(m.body)),
		GetBody:       func() (io.ReadCloser, error) { return p.reader(), nil },
		Header: http.Header{
			"Content-Type": c.fixed.contentType,
			"X-Amz-Target": target,
			"User-Agent":   c.fixed.agent,
		},
	}).WithContext(ctx)
	if m.encoding != "" {
		r.Header["Content-Encoding"] = []string{m.encoding}
	}
	if c.format != "" && m.op == "PutLogEvents" {
		r.Header["X-Amzn-Logs-Format"] = c.fixed.format
	}
	return r
}

// staleError is a request that died on a connection that had been used before, without a
// byte of an answer: the service, or something on the way, had closed it meanwhile.
type staleError struct{ err error }

func (e *staleError) Error() string { return e.err.Error() }
func (e *staleError) Unwrap() error { return e.err }

// trace is how far an attempt has come; set in the transport's goroutines.
type trace struct{ reused, written, answered atomic.Bool }

func (t *trace) in(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { t.reused.Store(i.Reused) },
		WroteRequest:         func(i httptrace.WroteRequestInfo) { t.written.Store(i.Err == nil) },
		GotFirstResponseByte: func() { t.answered.Store(true) },
	})
}

// roundTrip sends r and reads the answer, and the answer's Date.
func (c *client) roundTrip(r *http.Request, m *message, seen *trace) (*reply, string, error) {
	resp, err := c.session.Transport.RoundTrip(r)
	if err != nil {
		if seen.written.Load() {
			m.resent = true
		}
		if seen.reused.Load() && !seen.answered.Load() && closedByPeer(err) && r.Context().Err() == nil {
			return nil, "", &staleError{err}
		}
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		m.resent = true
		return nil, "", fmt.Errorf("read answer: %w", err)
	}
	return parseReply(resp, data), resp.Header.Get("Date"), nil
}

func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || isServerClosedIdle(err)
}

// isServerClosedIdle recognises an error that net/http does not export.
func isServerClosedIdle(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if s := err.Error(); s == "http: server closed idle connection" {
			return true
		}
	}
	return false
}

// parseReply understands an answer of the service, or of something else in its place.
func parseReply(resp *http.Response, data []byte) *reply {
	a := &reply{status: resp.StatusCode, body: data, id: resp.Header.Get("X-Amzn-Requestid")}
	if s := resp.Header.Get("Retry-After"); s != "" {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			a.after = time.Duration(min(n, 3600)) * time.Second
		}
	}
	if a.status/100 == 2 {
		return a
	}
	var e struct {
		Type     string `json:"__type"`
		Code     string `json:"code"`
		Message  string `json:"message"`
		Message2 string `json:"Message"`
	}
	_ = json.Unmarshal(data, &e) // an error page in HTML has no code; the status speaks then
	a.code = awsx.CleanCode(firstOf(resp.Header.Get("X-Amzn-Errortype"), e.Type, e.Code))
	a.text = firstOf(e.Message, e.Message2)
	if a.text == "" {
		a.text = string(bytes.ToValidUTF8(bytes.TrimSpace(data[:min(len(data), 200)]), nil))
	}
	return a
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
