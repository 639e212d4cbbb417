package emulator

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	targetPrefix = "Logs_20140328."
	contentType  = "application/x-amz-json-1.1"
)

// errConnection ends a request whose connection is to be reset.
var errConnection = errors.New("connection to be reset")

// serveAPI is the whole life of an API request.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	op, known := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	handler := s.ops[op]
	if !known || handler == nil {
		s.stats.count("unknown", "UnknownOperationException")
		s.writeError(w, &apiError{Status: http.StatusBadRequest, Type: "UnknownOperationException"})
		return
	}
	s.running.RLock()
	defer s.running.RUnlock()
	c := s.pool.Get().(*call)
	defer s.pool.Put(c)
	c.reset(op, s.clock())
	if s.opt.Clock != nil { // clients take the service's time from here
		w.Header().Set("Date", c.now.UTC().Format(http.TimeFormat))
	}

	early := s.faults.Load().decide(true, op, "", "", c.now)
	if early != nil && early.Kind == FaultClockSkew {
		c.now = c.now.Add(time.Duration(early.Skew))
		w.Header().Set("Date", c.now.UTC().Format(http.TimeFormat))
	}
	result, outcome, err := s.answer(r, c, handler, early)
	if errors.Is(err, errConnection) {
		if outcome == "" {
			outcome = "connection_lost"
		}
		s.stats.count(op, outcome)
		s.reset(w)
		return
	}
	var apiErr *apiError
	if errors.As(err, &apiErr) {
		if outcome == "" {
			outcome = apiErr.Type
		}
		s.stats.count(op, outcome)
		s.writeError(w, apiErr)
		return
	}
	if outcome == "" {
		outcome = "ok"
	}
	s.stats.count(op, outcome)
	s.writeResult(w, result)
}

// answer produces the result of a call or the error to send. Outcome is the
// name under which it is counted when that is not the error's type.
func (s *Server) answer(r *http.Request, c *call, handler operation, early *FaultRule) (result any, outcome string, err error) {
	if err := s.readBody(r, c, early); err != nil {
		if errors.Is(err, errConnection) && early != nil {
			outcome = "fault:" + early.Kind
		}
		return nil, outcome, err
	}
	if apiErr := s.authenticate(r, c); apiErr != nil {
		if early != nil && early.Kind == FaultClockSkew {
			outcome = "fault:" + early.Kind
		}
		return nil, outcome, apiErr
	}
	if early != nil && early.Kind == FaultClockSkew {
		// Only signatures are judged by the wrong clock; events are not.
		c.now = s.clock()
	}
	fs := s.faults.Load()
	scanErr := s.scan(c, fs != nil)
	rule := fs.decide(false, c.op, c.group, c.stream, c.now)
	if rule != nil {
		outcome = "fault:" + rule.Kind
		if apiErr := rule.apiError(c.op, c.group, c.region, s.opt.Account); apiErr != nil {
			return nil, outcome, apiErr
		}
		if err := s.strikeBefore(r, c, rule); err != nil {
			return nil, outcome, err
		}
	}
	if apiErr := s.quotas.check(c); apiErr != nil {
		return nil, outcome, apiErr
	}
	if scanErr != nil {
		return nil, outcome, scanErr
	}
	result, apiErr := handler(s, c)
	if apiErr != nil {
		err = apiErr
	}
	if rule != nil {
		return s.strikeAfter(r, rule, result, outcome, err)
	}
	return result, outcome, err
}

// scan decodes a PutLogEvents body, which is wanted in any case, and the names
// in other bodies, which only rules want.
func (s *Server) scan(c *call, rules bool) *apiError {
	if c.op == "PutLogEvents" {
		err := scanPut(c.body, &c.put)
		c.group, c.stream = c.put.group, c.put.stream
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errJSONType):
			return errSerialization("A value in the request body can not be converted to the type of its member")
		}
		return errSerialization("Unable to parse the request body: %v", err)
	}
	if rules {
		var names struct {
			LogGroupName, LogGroupIdentifier, ResourceArn, LogStreamName string
		}
		// A body that can't be read has no names; the operation reports it.
		_ = json.Unmarshal(c.body, &names)
		c.group, c.stream = names.LogGroupName, names.LogStreamName
		for _, id := range []string{names.LogGroupIdentifier, names.ResourceArn} {
			if c.group == "" {
				c.group, _ = groupFromIdentifier(id)
			}
		}
	}
	return nil
}

// strikeBefore carries out rules that act before the operation.
func (s *Server) strikeBefore(r *http.Request, c *call, rule *FaultRule) error {
	switch rule.Kind {
	case FaultReset:
		return errConnection
	case FaultHang:
		s.wait(r, time.Duration(rule.Duration))
		return errConnection
	case FaultDelay:
		if !s.wait(r, time.Duration(rule.Duration)) {
			return errConnection
		}
		c.now = s.clock()
	case FaultReject:
		c.reject, c.rejectShare = rule.As, rule.Share
		if rule.Share == 0 {
			c.rejectShare = 1
		}
	}
	return nil
}

// strikeAfter carries out rules that act on the answer.
func (s *Server) strikeAfter(r *http.Request, rule *FaultRule, result any, outcome string, err error) (any, string, error) {
	switch rule.Kind {
	case FaultLostAnswer:
		switch rule.Then {
		case "hang":
			s.wait(r, time.Duration(rule.Duration))
		case "500":
			return nil, outcome, errInternal()
		}
		return nil, outcome, errConnection
	case FaultSlowAnswer:
		if err == nil {
			return slowly{result, rule.BytesPerSecond}, outcome, nil
		}
	}
	return result, outcome, err
}

// slowly is a result to be written at a rate.
type slowly struct {
	result         any
	bytesPerSecond int64
}

// wait sleeps for d (0: without end). It returns false early when the client
// gives up or the server closes.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	var end <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		end = t.C
	}
	select {
	case <-end:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// authenticate checks the signature.
func (s *Server) authenticate(r *http.Request, c *call) *apiError {
	a, apiErr := parseAuthorization(r.Header)
	if apiErr != nil {
		return apiErr
	}
	c.region = a.region
	if apiErr := a.checkDate(r.Header, c.now, s.lim.ClockSkew); apiErr != nil {
		return apiErr
	}
	if len(s.opt.Secrets) > 0 {
		return a.verify(r, c.wire, s.opt.Secrets)
	}
	return nil
}

// readBody fills c.wire and c.body.
func (s *Server) readBody(r *http.Request, c *call, early *FaultRule) error {
	src := io.Reader(r.Body)
	if early != nil {
		switch early.Kind {
		case FaultResetBody:
			half := r.ContentLength / 2
			if half < 0 {
				half = 1024
			}
			_, _ = io.CopyN(io.Discard, r.Body, half) // a broken client changes nothing here
			return errConnection
		case FaultSlowRead:
			src = &slowReader{s: s, r: r, rate: early.BytesPerSecond}
		}
	}
	limit := s.lim.RequestBytes
	var err error
	if c.wire, err = readLimited(src, c.wire[:0], r.ContentLength, limit); err != nil {
		return err
	}
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
		c.body = c.wire
		return nil
	case "gzip":
		c.plain, err = gunzip(c.wire, c.plain[:0], limit)
		c.body = c.plain
		return err
	default:
		e := newAPIError("UnsupportedMediaTypeException", "Content-Encoding '%s' is not supported", enc)
		e.Status = http.StatusUnsupportedMediaType
		return e
	}
}

// gunzip appends the uncompressed body to dst, up to limit bytes.
func gunzip(wire, dst []byte, limit int) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(wire))
	if err == nil {
		dst, err = readLimited(zr, dst, -1, limit)
	}
	var apiErr *apiError
	if err != nil && !errors.As(err, &apiErr) {
		return dst, errSerialization("The gzip request body is damaged")
	}
	return dst, err
}

// readLimited appends r to dst up to limit bytes. A larger body is the
// service's 413; a broken connection ends the request without an answer.
func readLimited(r io.Reader, dst []byte, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return dst, errTooLargeBody(limit)
	}
	if length > int64(cap(dst)) {
		dst = make([]byte, 0, length+1)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst) > limit {
			return dst, errTooLargeBody(limit)
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("%w: reading body: %w", errConnection, err)
		}
	}
}

func errTooLargeBody(limit int) *apiError {
	e := newAPIError("RequestEntityTooLargeException", "Request body exceeds %d bytes", limit)
	e.Status = http.StatusRequestEntityTooLarge
	return e
}

// slowReader reads a body at a rate, in steps of a tenth of a second.
type slowReader struct {
	s    *Server
	r    *http.Request
	rate int64
}

func (sr *slowReader) Read(p []byte) (int, error) {
	step := min(int64(len(p)), max(1, sr.rate/10))
	n, err := sr.r.Body.Read(p[:step])
	if n > 0 && !sr.s.wait(sr.r, time.Duration(int64(n)*int64(time.Second)/sr.rate)) {
		return n, errConnection
	}
	return n, err
}

// requestID numbers requests in the form that the service uses.
func (s *Server) requestID() string {
	n := s.calls.Add(1)
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
}

func (s *Server) writeError(w http.ResponseWriter, e *apiError) {
	b := e.body()
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", itoa(int64(len(b))))
	h.Set("X-Amzn-Requestid", s.requestID())
	w.WriteHeader(e.Status)
	_, _ = w.Write(b) // a client that has gone away is no concern of ours
}

func (s *Server) writeResult(w http.ResponseWriter, result any) {
	rate := int64(0)
	if slow, ok := result.(slowly); ok {
		result, rate = slow.result, slow.bytesPerSecond
	}
	var b []byte
	switch v := result.(type) {
	case nil:
	case []byte:
		b = v
	default:
		var err error
		if b, err = json.Marshal(v); err != nil {
			s.log.Error("encoding an answer failed", "err", err)
			s.writeError(w, errInternal())
			return
		}
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", itoa(int64(len(b))))
	h.Set("X-Amzn-Requestid", s.requestID())
	w.WriteHeader(http.StatusOK)
	if rate == 0 {
		_, _ = w.Write(b)
		return
	}
	rc := http.NewResponseController(w)
	for len(b) > 0 {
		n := int(min(int64(len(b)), max(1, rate/10)))
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		_ = rc.Flush()
		b = b[n:]
		t := time.NewTimer(time.Duration(int64(n) * int64(time.Second) / rate))
		select {
		case <-t.C:
		case <-s.closing:
			t.Stop()
			return
		}
	}
}

// reset ends the connection with a TCP reset where that is possible, else by
// closing it without an answer.
func (s *Server) reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // makes Close send RST
	}
	_ = conn.Close()
}
