package cloudwatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/awsx"
	"weir/internal/event"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// Options configures an Output. Params must have passed Check; Log is required.
type Options struct {
	Params Params
	ID     string // @id: names the output in logs and metrics
	Log    *slog.Logger
	// Names says what the <buffer> section allows in placeholders. Placeholders that read
	// the tag and the record directly always work.
	Names placeholder.Options
	// Inject is the <inject> section: its fields are there when names are looked up and
	// messages are made. nil for none.
	Inject Injector
	// Formatter is the <format> section; nil writes message_keys, or the
	// record as JSON.
	Formatter Formatter
	// UsesTag says that Inject or Formatter depend on the tag: requests are then told it.
	UsesTag bool
	// LaneIsTag takes the tag of a batch as its lane: group, NUL, stream. The names in Params
	// are not looked at.
	LaneIsTag bool
	// Notice is the form in which losses are told to a stream, "text" or "json"; "" is what
	// loss_notice says, else text.
	Notice string
	// NoGroups makes auto_create_stream create streams only: who ships logs may not be who
	// owns groups. NoStreams makes it create nothing: a group is only made for a stream.
	NoGroups, NoStreams bool
	// Tokens is shared by all outputs of the process; nil makes one for this output alone.
	Tokens *Tokens
	// Now is the clock for signatures; nil is time.Now.
	Now func() time.Time
}

// Output sends to CloudWatch Logs. It implements output.Output.
type Output struct {
	id      string
	log     *slog.Logger
	client  *client
	session *awsx.Session
	tokens  *Tokens
	host    string // of the endpoint

	tokenHost *tokenHost

	lenient  bool // it is Amazon's: sequence tokens mean nothing
	creating singleFlight
	spread   spread
	bodies   sync.Pool // of *workspace

	group, stream namer
	usesTag       bool
	laneIsTag     bool
	noticeJSON    bool
	encoding      encoding
	tail          string // behind the events of each body: the entity, or ""
	gzip          bool

	autoCreate  bool
	noGroups    bool
	dropMissing bool
	kms, class  string
	tags        []byte // JSON object, or nil
	days        int    // retention of new groups; 0: none, or by record
	retention   *retention
	retryLimit  *int
	retryWait   *time.Duration
	throttled   throttles
	partial     partials
	logRejected bool
	entityTold  atomic.Bool

	now     func() time.Time
	stats   counters
	metrics *Metrics
}

// New makes the output. It reads the environment, the shared AWS configuration and the
// certificate authorities but does not use the network; credentials are looked up when
// the first request is sent.
func New(ctx context.Context, opt Options) (*Output, error) {
	p := &opt.Params
	session, err := awsx.New(ctx, awsx.Options{
		Params: p.Params, Service: "logs", Log: opt.Log, Now: opt.Now, Conns: max(p.InFlight(), 16),
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := awsx.LogsEndpoint(ctx, session.Config(), p.Endpoint)
	if err != nil {
		return nil, err
	}
	o := &Output{
		id: opt.ID, log: opt.Log, session: session, host: endpoint.Host, lenient: awsx.AmazonHost(endpoint.Hostname()),
		client: &client{session: session, endpoint: endpoint, deadline: p.RequestDeadline, format: p.LogFormat},
		tokens: opt.Tokens, gzip: p.Compression == "gzip", tail: entity(p.EntityKeyAttributes, p.EntityAttributes),
		autoCreate: p.AutoCreate && !opt.NoStreams, dropMissing: p.DropMissingTarget, kms: p.KMSKeyID, class: p.GroupClass,
		logRejected: p.LogRejected, laneIsTag: opt.LaneIsTag, noGroups: opt.NoGroups, now: opt.Now,
	}
	if opt.Notice == "" {
		opt.Notice = p.LossNotice
	}
	o.noticeJSON = opt.Notice == "json" || p.LogFormat == "json/emf"
	if o.now == nil {
		o.now = time.Now
	}
	o.client.fix()
	if o.client.deadline <= 0 {
		o.client.deadline = time.Minute
	}
	if o.tokens == nil {
		o.tokens = NewTokens()
	}
	o.tokenHost = o.tokens.host(o.host)
	if p.RetentionDays != nil {
		o.days = *p.RetentionDays
	}
	if !p.DisableRetryLimit {
		o.retryLimit = p.RetryLimit
	}
	o.retryWait = p.RetryWait
	if err := o.compileNames(opt); err != nil {
		return nil, err
	}
	if err := o.compile(opt); err != nil {
		return nil, err
	}
	o.metrics = newMetrics(o)
	if o.days > 0 || p.RetentionKey != "" {
		o.retention = newRetention(opt.Log, o.setRetention)
	}
	return o, nil
}

// InFlight is how many requests the configuration wants in flight; 0 if it does not say.
func (p *Params) InFlight() int {
	if p.Concurrency == nil {
		return 0
	}
	return *p.Concurrency
}

// compileNames makes the namers.
func (o *Output) compileNames(opt Options) (err error) {
	if opt.LaneIsTag {
		return nil
	}
	if o.group, err = opt.Params.groupNamer(opt.Names); err != nil {
		return err
	}
	o.stream, err = opt.Params.streamNamer(opt.Names)
	return err
}

// Splitter implements output.Output.
func (o *Output) Splitter() output.Splitter {
	if o.laneIsTag {
		return tagSplitter{}
	}
	return o.newSplitter()
}

// LaneOf implements output.TagLanes. Where a name depends on the record or the time, no
// lane is known.
func (o *Output) LaneOf(tag string) (lane string, ok bool) {
	if o.laneIsTag {
		return tag, isLane(tag)
	}
	s := o.newSplitter()
	if s.perRecord || s.perTime {
		return "", false
	}
	s.find(tag, event.Entry{})
	return string(s.lane), len(s.lane) > 0
}

// UsesTags implements output.Tagged.
func (o *Output) UsesTags() bool { return o.usesTag }

// Request implements output.Output.
func (o *Output) Request() output.Request { return &request{o: o} }

// Scope implements output.Output: the service throttles PutLogEvents per account and
// region. The account is told by where the credentials come from.
func (o *Output) Scope() string {
	return "logs:PutLogEvents " + o.host + " " + o.session.Region() + " " + o.session.Account()
}

// Close implements output.Output.
func (o *Output) Close() error {
	if o.retention != nil {
		o.retention.close()
	}
	o.session.Close()
	return nil
}

func (o *Output) setRetention(ctx context.Context, group string, days int) *output.Error {
	what := fmt.Sprintf("set retention of group %q to %d days", group, days)
	return o.operation(ctx, what, "PutRetentionPolicy", retentionBody(group, days))
}
