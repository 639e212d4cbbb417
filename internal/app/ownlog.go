package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/pipeline"
)

// ownLog makes events of weir's own log lines, as Fluentd does of its own: tags fluent.info
// and so on, for the label @FLUENT_LOG or a <match> that names such tags. Lines that come of
// delivering these events are not among them, or one could cause the next for ever.
type ownLog struct {
	plain   *slog.Logger
	reach   atomic.Pointer[logReach] // nil: nobody wants events
	lines   chan logLine
	lost    atomic.Uint64
	emit    emitter
	count   pipeline.Counter
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
}

// logReach is where the events of log lines can get to.
type logReach struct {
	label   string
	outputs map[string]bool // their ids
	holds   map[string]bool
	tags    map[string]bool // of which some <match> takes the events
}

// logLine is a line on its way to become an event.
type logLine struct {
	tag    string
	time   event.Time
	record []byte
	via    *way // of the configuration that wanted it; nil before the first one has started
}

const (
	// linesWaiting is how many lines may wait; more are lost.
	linesWaiting = 1024
	// lineMost is how long the record of a line may be.
	lineMost = 64 << 10
)

func newOwnLog(log *slog.Logger) *ownLog {
	o := &ownLog{plain: log, lines: make(chan logLine, linesWaiting)}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// logger is the log that is written and heard.
func (o *ownLog) logger() *slog.Logger { return slog.New(&hearing{Handler: o.plain.Handler(), log: o}) }

// set makes a configuration the one that gets the events. It returns the way before.
func (o *ownLog) set(g *generation) (before *way) {
	reach := g.plan.logReach()
	o.reach.Store(reach)
	if reach == nil {
		return o.emit.to.Load()
	}
	return o.emit.set(pipeline.New(pipeline.Options{
		Routes: g.routes.from(reach.label), Log: o.plain, In: &o.count, Unmatched: &ledger.Book{}, Errors: g.routes.from("@ERROR"), Nowhere: g.routes.unmatched,
	}))
}

// start begins to emit.
func (o *ownLog) start() {
	o.running.Go(func() {
		for {
			select {
			case l := <-o.lines:
				ctx, cancel := context.WithTimeout(o.ctx, sendMost)
				o.send(ctx, l)
				cancel()
			case <-o.ctx.Done():
				o.rest()
				return
			}
		}
	})
}

// rest emits what waits at the end, without waiting for room.
func (o *ownLog) rest() {
	for {
		select {
		case l := <-o.lines:
			o.send(o.ctx, l)
		default:
			return
		}
	}
}

// close emits what waits and ends. Whatever is logged later is not heard any more.
func (o *ownLog) close() {
	o.reach.Store(nil)
	o.stop()
	o.running.Wait()
}

// sendMost is how long an event may wait for room; the next ones wait behind it.
const sendMost = time.Second

// send emits the event of a line. What a full buffer does not take is lost, and booked.
func (o *ownLog) send(ctx context.Context, l logLine) {
	if l.via == nil {
		if l.via = o.enter(); l.via == nil {
			return
		}
	}
	defer l.via.calls.Add(-1)
	b := event.Batch{Tag: l.tag, Entries: event.AppendEntry(nil, l.time, l.record), Count: 1, First: l.time, Last: l.time}
	if _, err := l.via.in.Emit(ctx, b); err != nil {
		l.via.in.Lost(b)
	}
}

// enter is the way of events just now; nil before the first configuration has started.
func (o *ownLog) enter() *way {
	if o.emit.to.Load() == nil {
		return nil
	}
	return o.emit.enter()
}

// hear takes a line. It never blocks. Outputs that a reload removes stay until it is sent.
func (o *ownLog) hear(l logLine) {
	l.via = o.enter()
	select {
	case o.lines <- l:
	default:
		if l.via != nil {
			l.via.calls.Add(-1)
		}
		if n := o.lost.Add(1); n&(n-1) == 0 {
			o.plain.Warn("log lines come faster than they become events, some do not", "lost", n)
		}
	}
}

// hearing is a log handler that passes lines on, and makes events of them if they are wanted.
type hearing struct {
	slog.Handler
	log    *ownLog
	attrs  []slog.Attr
	prefix string
}

// WithAttrs implements slog.Handler.
func (h *hearing) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithAttrs(attrs)
	next.attrs = append([]slog.Attr(nil), h.attrs...)
	for _, a := range attrs {
		a.Key = h.prefix + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *hearing) WithGroup(name string) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithGroup(name)
	if name != "" {
		next.prefix += name + "."
	}
	return &next
}

// Handle implements slog.Handler.
func (h *hearing) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if reach := h.log.reach.Load(); reach != nil {
		h.hear(reach, &r)
	}
	return err
}

// hear makes an event of a line, unless it may come of delivering such events.
func (h *hearing) hear(reach *logReach, r *slog.Record) {
	tag := logTag(r.Level)
	if !reach.tags[tag] {
		return
	}
	l := lineWriter{reach: reach}
	for _, a := range h.attrs {
		l.add(a.Key, a.Value)
	}
	r.Attrs(func(a slog.Attr) bool {
		l.add(h.prefix+a.Key, a.Value)
		return true
	})
	if l.own {
		return
	}
	record := event.AppendMapHeader(nil, l.n+1)
	record = append(record, l.fields...)
	record = event.AppendStr(record, "message")
	record = event.AppendStr(record, r.Message+string(l.text))
	h.log.hear(logLine{tag: tag, time: event.FromTime(r.Time), record: record})
}

// logTag is Fluentd's tag for lines of a level.
func logTag(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "fluent.trace"
	case l < slog.LevelInfo:
		return "fluent.debug"
	case l < slog.LevelWarn:
		return "fluent.info"
	case l < slog.LevelError:
		return "fluent.warn"
	case l < slog.LevelError+4:
		return "fluent.error"
	}
	return "fluent.fatal"
}

func logTags() []string {
	return []string{"fluent.trace", "fluent.debug", "fluent.info", "fluent.warn", "fluent.error", "fluent.fatal"}
}

// lineWriter writes the fields of a line: as they are, and as text behind the message, which
// is what Fluentd does.
type lineWriter struct {
	reach  *logReach
	fields []byte
	text   []byte
	n      int
	own    bool // the line speaks of what delivers such events
}

func (l *lineWriter) add(key string, v slog.Value) {
	v = v.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, a := range v.Group() {
			l.add(key+"."+a.Key, a.Value)
		}
		return
	}
	switch key {
	case "output":
		l.own = l.own || l.reach.outputs[v.String()]
	case "filter":
		l.own = l.own || l.reach.holds[v.String()]
	case "message":
		key = "message_" // that is the line's own
	}
	if len(l.fields)+len(l.text) > lineMost {
		return
	}
	at := len(l.fields)
	l.fields = event.AppendStr(l.fields, key)
	value := len(l.fields)
	l.fields = appendLogValue(l.fields, v)
	l.n++
	l.text = append(append(append(l.text, ' '), key...), '=')
	l.text = event.AppendInspect(l.text, l.fields[value:])
	if len(l.fields) > lineMost {
		l.fields, l.n = l.fields[:at], l.n-1
	}
}

// appendLogValue writes a value of a log line as msgpack.
func appendLogValue(dst []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return event.AppendInt(dst, v.Int64())
	case slog.KindUint64:
		return event.AppendUint(dst, v.Uint64())
	case slog.KindFloat64:
		return event.AppendFloat(dst, v.Float64())
	case slog.KindBool:
		return event.AppendBool(dst, v.Bool())
	}
	return event.AppendStr(dst, v.String())
}
