package cloudwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"weir/internal/ledger"
	"weir/internal/output"
)

// request is a PutLogEvents for one lane. An event larger than the service takes makes
// several puts out of it; all others make one.
type request struct {
	o *Output
	*workspace
	lane          string
	group, stream string
	tokenKey      string

	next     int     // items below it are delivered
	resent   bool    // an attempt may have been accepted without our seeing the answer
	sent     int     // bytes of bodies sent by the last Send
	msg      message // the body as last encoded, for a retry without hashing again
	msgTo    int     // up to which item msg goes; 0: there is none
	msgToken string
}

// workspace is the memory in which requests are made: megabytes, so that there are only as
// many as requests in hand.
type workspace struct {
	body  body
	zip   zipper
	fates []ledger.Reason // what the service rejected, by entry; empty: nothing
}

// Free implements output.Freer.
func (r *request) Free() {
	if r.workspace == nil {
		return
	}
	r.o.bodies.Put(r.workspace)
	r.workspace, r.msg, r.msgTo = nil, message{}, 0
}

// Reset implements output.Request.
func (r *request) Reset(lane string) {
	if r.workspace == nil {
		if r.workspace, _ = r.o.bodies.Get().(*workspace); r.workspace == nil {
			r.workspace = &workspace{body: body{e: &r.o.encoding}}
		}
	}
	group, stream := LaneNames(lane)
	r.lane, r.group, r.stream, r.tokenKey = lane, group, stream, ""
	r.body.reset(group, stream)
	r.next, r.sent, r.resent = 0, 0, false
	r.fates = r.fates[:0]
	r.msg, r.msgTo = message{}, 0
}

// SetTag implements output.TagTaker.
func (r *request) SetTag(tag string) { r.body.tag = tag }

// Add implements output.Request.
func (r *request) Add(b []byte, limit int) (entries, size int, full bool) {
	return r.body.add(b, limit)
}

// Fill implements output.Request.
func (r *request) Fill() float64 {
	if r.workspace == nil {
		return 0
	}
	return r.body.fill()
}

// Send implements output.Request.
func (r *request) Send(ctx context.Context) output.Result {
	r.sent = 0
	r.body.place(r.o.now().UnixMilli())
	if r.body.pieces && r.next == 0 {
		r.next = r.o.partial.done(r)
	}
	for n := len(r.body.items); r.next < n; {
		to := n
		if r.body.pieces {
			to = r.next + 1 // each has the size of a whole request
		}
		if err := r.put(ctx, to); err != nil {
			r.o.partial.note(r)
			return output.Result{Err: err, Bytes: r.sent, Resent: r.resent}
		}
		r.next, r.msgTo = to, 0
	}
	r.o.partial.note(r)
	res := output.Result{Bytes: r.sent, Resent: r.resent, Untold: r.body.notice.untold}
	if len(r.body.ended) > 0 || len(r.fates) > 0 {
		res.Ended = r.body.settle(nil, r.reasons())
	}
	return res
}

// reasons returns fates with an element for each entry.
func (r *request) reasons() []ledger.Reason {
	if len(r.fates) != r.body.entries {
		r.fates = make([]ledger.Reason, r.body.entries)
	}
	return r.fates
}

// put sends the items up to to. It makes a missing target, answers token conflicts, and
// leaves every wait to delivery.
func (r *request) put(ctx context.Context, to int) *output.Error {
	o := r.o
	lane, probing, err := r.turn(ctx)
	if err != nil {
		return r.fail(output.Unavailable, err)
	}
	answered := false
	if lane != nil {
		defer func() {
			o.tokens.release(lane)
			if probing {
				o.tokenHost.probedBy(answered)
			}
		}()
	}
	created := false
	for conflicts := 0; ; {
		token := ""
		if lane != nil {
			token = lane.token
		}
		m := r.encode(to, token)
		a, err := o.client.call(ctx, m)
		r.resent, m.resent = r.resent || m.resent, false
		r.sent += len(m.body)
		if err != nil {
			return failed(r.what(to), err)
		}
		if a.status/100 == 2 {
			answered = true
			return r.accepted(a, to, lane)
		}
		var again bool
		var failure *output.Error
		switch a.code {
		case "ResourceNotFoundException":
			if lane != nil {
				lane.token, lane.known = "", true // a new stream expects none
			}
			again, failure = r.missing(ctx, a, to, created)
			created = true
		case "InvalidSequenceTokenException", "DataAlreadyAcceptedException":
			answered = true
			var done bool
			if done, again, failure = r.conflict(a, to, lane, &conflicts); done {
				return nil
			}
		default:
			// Of an error inside the service, or of a gateway's time-out, nobody knows how far
			// the request had come. 503 is an answer before any work.
			r.resent = r.resent || a.status >= 500 && a.status != http.StatusServiceUnavailable
			return r.refusal(a, to)
		}
		if !again {
			return failure
		}
	}
}

func (r *request) what(to int) string {
	return fmt.Sprintf("put %d events to group %q stream %q", to-r.next, r.group, r.stream)
}

func (r *request) fail(k output.Kind, err error) *output.Error {
	return &output.Error{Kind: k, Op: r.what(len(r.body.items)), Err: err}
}

// turn takes the stream's place in the memory of sequence tokens; nil where tokens mean
// nothing. probing says that this request finds out whether they do.
func (r *request) turn(ctx context.Context) (lane *tokenLane, probing bool, err error) {
	o := r.o
	if o.lenient && !o.tokenHost.enforced.Load() {
		return nil, false, nil
	}
	if r.tokenKey == "" {
		r.tokenKey = o.host + "\x00" + o.session.Region() + "\x00" + o.session.Account() + "\x00" + r.group + "\x00" + r.stream
	}
	if lane, err = o.tokens.acquire(ctx, r.tokenKey); err != nil {
		return nil, false, fmt.Errorf("wait for another request to the stream: %w", err)
	}
	if lane.known {
		return lane, false, nil
	}
	if probing, err = o.tokenHost.probe(ctx); err != nil {
		o.tokens.release(lane)
		return nil, false, fmt.Errorf("wait for the first answer of the endpoint: %w", err)
	}
	if o.tokenHost.enforced.Load() {
		// We have no token: asking for it costs less than a conflict.
		if token, ok := o.uploadToken(ctx, r.group, r.stream); ok {
			lane.token, lane.known = token, true
		}
	}
	return lane, probing, nil
}

// encode makes the message for the items up to to, or returns the last one if it is the same.
func (r *request) encode(to int, token string) *message {
	if r.msgTo == to && r.msgToken == token {
		return &r.msg
	}
	plain := r.body.wire(r.next, to, token, r.o.tail)
	r.msg = message{op: "PutLogEvents", body: plain}
	if r.o.gzip {
		if z := r.zip.compress(plain); z != nil {
			r.msg.body, r.msg.encoding = z, "gzip"
		}
	}
	r.msg.sum = hexSum(r.msg.body)
	r.msgTo, r.msgToken = to, token
	return &r.msg
}

// answer is what PutLogEvents answers.
type answer struct {
	NextToken     string     `json:"nextSequenceToken"`
	ExpectedToken string     `json:"expectedSequenceToken"`
	Rejected      *rejection `json:"rejectedLogEventsInfo"`
	Entity        *struct {
		Type string `json:"errorType"`
	} `json:"rejectedEntityInfo"`
}

var errNoAnswer = errors.New("the answer has status 200 but does not come from CloudWatch Logs")

// accepted reads a success.
func (r *request) accepted(a *reply, to int, lane *tokenLane) *output.Error {
	r.o.throttled.forget(r.lane)
	var ans answer
	if err := json.Unmarshal(a.body, &ans); err != nil && (len(a.body) > 0 || a.id == "") {
		e := failed(r.what(to), &failure{output.Unavailable, errNoAnswer})
		e.Hint = "check endpoint and proxy"
		return e
	}
	if lane != nil {
		lane.token, lane.known = ans.NextToken, ans.NextToken != ""
	}
	if ans.Rejected != nil {
		r.body.reject(r.reasons(), r.next, to, ans.Rejected)
		if r.o.logRejected {
			r.o.log.Warn("events rejected by CloudWatch Logs", "group", r.group, "stream", r.stream, "answer", string(a.body))
		}
	}
	if ans.Entity != nil && r.o.entityTold.CompareAndSwap(false, true) {
		r.o.log.Warn("CloudWatch Logs does not accept the entity; events are stored without it", "reason", ans.Entity.Type)
	}
	return nil
}

// missing deals with a group or stream that does not exist. again says to put once more.
func (r *request) missing(ctx context.Context, a *reply, to int, created bool) (again bool, err *output.Error) {
	o := r.o
	if !o.autoCreate {
		e := o.refused(r.what(to), "PutLogEvents", a)
		e.Hint = "create the group and the stream, or write auto_create_stream true"
		if o.laneIsTag {
			e.Hint = "create the group and the stream, or allow them to be created"
		}
		if o.dropMissing {
			e.Kind, e.Fate = output.Drop, ledger.NoTarget.Fate()
		}
		return false, e
	}
	if created {
		// Made a moment ago, and not visible everywhere yet.
		e := o.refused(r.what(to), "PutLogEvents", a)
		e.Kind, e.After = output.Conflict, time.Second
		return false, e
	}
	if e := o.create(ctx, r.group, r.stream, r.body.group); e != nil {
		return false, e
	}
	return true, nil
}

// maxConflicts is how often one Send answers a token conflict before it lets others have
// their turn.
const maxConflicts = 3

// conflict deals with an endpoint that enforces sequence tokens. done says that the events
// had been accepted before, again to put once more.
func (r *request) conflict(a *reply, to int, lane *tokenLane, conflicts *int) (done, again bool, err *output.Error) {
	o := r.o
	o.stats.conflicts.Add(1)
	if o.tokenHost.enforced.CompareAndSwap(false, true) {
		o.log.Info("the endpoint enforces sequence tokens: requests for one stream follow each other", "endpoint", o.host)
	}
	token := expectedToken(a)
	if lane != nil {
		lane.token, lane.known = token, true
	}
	if a.code == "DataAlreadyAcceptedException" {
		return true, false, nil
	}
	if *conflicts++; *conflicts > maxConflicts || lane == nil {
		// Another process writes to the stream too, or this request began before we knew
		// that tokens count.
		return false, false, o.refused(r.what(to), "PutLogEvents", a)
	}
	return false, true, nil
}

// expectedToken finds the token in an answer about a wrong one: in its field, or, from
// emulators that do not fill that, at the end of the text.
func expectedToken(a *reply) string {
	var ans answer
	token := ""
	if json.Unmarshal(a.body, &ans) == nil {
		token = ans.ExpectedToken
	}
	if i := strings.LastIndex(a.text, ": "); token == "" && i >= 0 {
		token = strings.TrimSpace(a.text[i+2:])
	}
	if token == "null" || strings.ContainsAny(token, " \t") {
		return ""
	}
	return token
}

// refusal makes an error of any other answer.
func (r *request) refusal(a *reply, to int) *output.Error {
	o := r.o
	e := o.refused(r.what(to), "PutLogEvents", a)
	if e.Kind != output.Throttled || o.retryLimit == nil && o.retryWait == nil {
		return e
	}
	n := o.throttled.add(r.lane)
	if limit := o.retryLimit; limit != nil && (*limit < 1 || n > *limit+1) {
		e.Kind, e.Fate = output.Drop, ledger.ThrottleLimit.Fate()
		e.Hint = fmt.Sprintf("put_log_events_retry_limit is %d", *limit)
		o.throttled.forget(r.lane)
	}
	if wait := o.retryWait; wait != nil {
		e.After = max(e.After, backoff(*wait, n))
	}
	return e
}

// maxRetryWait caps what put_log_events_retry_wait doubles to; Fluentd lets it grow to a day.
const maxRetryWait = time.Minute

// backoff is the n-th wait (from 1): it doubles each time and varies by an eighth.
func backoff(first time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 20), maxRetryWait)
	if d < 0 {
		d = maxRetryWait
	}
	return d + time.Duration((rand.Float64()-0.5)/4*float64(d))
}
