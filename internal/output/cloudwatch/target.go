package cloudwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/awsx"
	"weir/internal/output"
)

// singleFlight lets one goroutine do a piece of work by name while others wait for it.
type singleFlight struct {
	mu    sync.Mutex // guards calls
	calls map[string]*work
}

type work struct {
	done chan struct{}
	err  *output.Error // valid when done is closed
}

// do runs call, or waits for the goroutine that runs one under the same name.
func (f *singleFlight) do(ctx context.Context, name string, call func() *output.Error) *output.Error {
	f.mu.Lock()
	if c := f.calls[name]; c != nil {
		f.mu.Unlock()
		select {
		case <-c.done:
			return c.err
		case <-ctx.Done():
			return &output.Error{Kind: output.Unavailable, Op: "wait for " + name, Err: ctx.Err()}
		}
	}
	if f.calls == nil {
		f.calls = map[string]*work{}
	}
	c := &work{done: make(chan struct{})}
	f.calls[name] = c
	f.mu.Unlock()
	c.err = call()
	f.mu.Lock()
	delete(f.calls, name)
	f.mu.Unlock()
	close(c.done)
	return c.err
}

// create makes the stream, and the group if that is missing too. The stream comes first:
// who may only create streams needs no more permission than that.
func (o *Output) create(ctx context.Context, group, stream string, g groupSettings) *output.Error {
	what := fmt.Sprintf("create stream %q in group %q", stream, group)
	return o.creating.do(ctx, what, func() *output.Error {
		for attempt := 0; ; attempt++ {
			err := kept(o.operation(ctx, what, "CreateLogStream", streamBody(group, stream)))
			switch {
			case err == nil:
				o.stats.streams.Add(1)
				return nil
			case err.Kind != output.NoTarget:
				return err
			case o.noGroups:
				err.Hint = "create the log group, or allow it to be created"
				return err
			case attempt > 0:
				// The group was made a moment ago and is not visible everywhere yet.
				err.Kind, err.After = output.Conflict, time.Second
				return err
			}
			if err := o.createGroup(ctx, group, g); err != nil {
				return err
			}
		}
	})
}

// kept makes sure that no event is given up because its target cannot be made as the
// configuration wants it: what the service does not like is a name, a key or a tag.
func kept(err *output.Error) *output.Error {
	if err != nil && err.Kind == output.Refused {
		err.Kind, err.Hint = output.Denied, "check kms_key_id, log_group_class and log_group_aws_tags"
	}
	return err
}

func (o *Output) createGroup(ctx context.Context, group string, g groupSettings) *output.Error {
	what := fmt.Sprintf("create group %q", group)
	return o.creating.do(ctx, what, func() *output.Error {
		existed := false
		err := kept(o.operationOr(ctx, what, "CreateLogGroup", o.groupBody(group, g), &existed))
		if err != nil {
			return err
		}
		if existed {
			return nil // somebody else made it, and what it gets is theirs to say
		}
		o.stats.groups.Add(1)
		o.log.Info("log group created", "group", group)
		if days := o.retentionOf(g); days > 0 {
			o.retention.ask(group, days)
		}
		return nil
	})
}

func (o *Output) retentionOf(g groupSettings) int {
	if o.days > 0 {
		return o.days
	}
	return g.retention
}

func (o *Output) operation(ctx context.Context, what, op string, body []byte) *output.Error {
	var existed bool
	return o.operationOr(ctx, what, op, body, &existed)
}

// spread gives each create call that was throttled its own moment for the next attempt:
// all at once they would meet the quota again and again.
type spread struct {
	mu   sync.Mutex // guards next
	next time.Time
}

// The service takes 50 CreateLogStream a second and some more CreateLogGroup; others use
// that quota too.
const (
	spreadFirst = 500 * time.Millisecond
	spreadStep  = time.Second / 40
	spreadMost  = 30 * time.Second
)

// after is how long a call that is throttled now waits.
func (s *spread) after(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := now.Add(spreadFirst)
	if s.next.Before(first) || s.next.After(now.Add(spreadMost)) {
		s.next = first
	}
	at := s.next
	s.next = at.Add(spreadStep)
	return at.Sub(now)
}

// operationOr calls an operation that makes something. That it exists already is success.
func (o *Output) operationOr(ctx context.Context, what, op string, body []byte, existed *bool) *output.Error {
	m := &message{op: op, body: body, sum: hexSum(body)}
	a, err := o.client.call(ctx, m)
	if err != nil {
		return failed(what, err)
	}
	if a.status/100 == 2 {
		return nil
	}
	if a.code == "ResourceAlreadyExistsException" {
		*existed = true
		return nil
	}
	e := o.refused(what, op, a)
	if e.Kind == output.Throttled {
		// The quotas of the create calls are far below that of PutLogEvents, which this must
		// not slow down. The lane waits for its turn.
		if o.stats.createThrottled.Add(1) == 1 {
			o.log.Info("creating groups and streams is throttled by the account's quota; each waits for its turn", "op", op)
		}
		e.Kind, e.After = output.Conflict, max(e.After, o.spread.after(o.now()))
	}
	return e
}

// failed makes an error of a request without an answer.
func failed(what string, err error) *output.Error {
	e := &output.Error{Kind: output.Unavailable, Op: what, Err: err}
	var f *failure
	if errors.As(err, &f) {
		e.Kind = f.kind
	}
	if e.Kind == output.Unavailable {
		e.Hint = awsx.NetworkHint(err)
	}
	return e
}

// refused makes an error of an answer that is no success.
func (o *Output) refused(what, op string, a *reply) *output.Error {
	e := &output.Error{Kind: awsx.Classify(a.status, a.code), Op: what, After: a.after}
	switch {
	case a.code != "" && a.text != "":
		e.Err = fmt.Errorf("%s: %s", a.code, a.text)
	case a.code != "":
		e.Err = errors.New(a.code)
	default:
		e.Err = fmt.Errorf("HTTP status %d: %s", a.status, a.text)
	}
	switch e.Kind {
	case output.Denied:
		e.Hint = deniedHint(op, a.code)
	case output.Credentials:
		e.Hint = "credentials come from " + firstOf(o.session.Source(), "nowhere yet")
		if o.session.Skew() != 0 {
			e.Hint += "; this machine's clock is wrong by " + o.session.Skew().Round(time.Second).String()
		}
	case output.Unavailable:
		if a.code == "" && a.status/100 != 5 {
			e.Hint = "this is no answer of CloudWatch Logs: check endpoint and proxy"
		}
	}
	return e
}

func deniedHint(op, code string) string {
	if code == "LimitExceededException" {
		return "a quota of the account is used up: raise it in Service Quotas"
	}
	switch op {
	case "CreateLogGroup":
		return "allow logs:CreateLogGroup (with tags also logs:TagResource), or create the group beforehand"
	case "CreateLogStream":
		return "allow logs:CreateLogStream on the group"
	}
	return "allow logs:" + op + " on the group"
}

func appendField(dst []byte, key, value string) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	return appendPair(dst, []byte(key), []byte(value))
}

func streamBody(group, stream string) []byte {
	b := appendField([]byte{'{'}, "logGroupName", group)
	return append(appendField(b, "logStreamName", stream), '}')
}

func (o *Output) groupBody(group string, g groupSettings) []byte {
	b := appendField([]byte{'{'}, "logGroupName", group)
	if o.kms != "" {
		b = appendField(b, "kmsKeyId", o.kms)
	}
	if o.class != "" {
		b = appendField(b, "logGroupClass", o.class)
	}
	tags := g.tags
	if len(tags) == 0 {
		tags = o.tags
	}
	if len(tags) > 2 {
		b = append(append(b, `,"tags":`...), tags...)
	}
	return append(b, '}')
}

// uploadToken asks an endpoint that enforces sequence tokens which one a stream expects.
// The service itself is never asked.
func (o *Output) uploadToken(ctx context.Context, group, stream string) (token string, ok bool) {
	b := appendField([]byte{'{'}, "logGroupName", group)
	b = append(appendField(b, "logStreamNamePrefix", stream), '}')
	a, err := o.client.call(ctx, &message{op: "DescribeLogStreams", body: b, sum: hexSum(b)})
	if err != nil || a.status/100 != 2 {
		return "", false
	}
	var list struct {
		LogStreams []struct {
			LogStreamName       string `json:"logStreamName"`
			UploadSequenceToken string `json:"uploadSequenceToken"`
		} `json:"logStreams"`
	}
	if json.Unmarshal(a.body, &list) != nil {
		return "", false
	}
	for _, s := range list.LogStreams {
		if s.LogStreamName == stream {
			return s.UploadSequenceToken, true
		}
	}
	return "", false
}
