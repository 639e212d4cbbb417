package fluentd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"weir/internal/event"
	"weir/internal/input"
)

// Source is what monitor_agent tells of.
type Source struct {
	Plugins func() []Plugin
	// ByTag gives the id of the output of the top level that takes a tag, "" for none.
	ByTag func(tag string) string
	// About tells of the process.
	About func() About
}

// About is what /api/config tells of the process; empty texts are null.
type About struct{ Version, Config, Log, Root string }

// NewAgent makes the server of @type monitor_agent.
func NewAgent(p *AgentParams, source Source, log *slog.Logger) *Server {
	a := &agent{p: p, source: source}
	h := &routes{
		pages: map[string]http.HandlerFunc{
			"/api/plugins.json": func(w http.ResponseWriter, r *http.Request) { a.json(w, r, object{{"plugins", a.list(r)}}) },
			"/api/plugins":      func(w http.ResponseWriter, r *http.Request) { writeLTSV(w, a.list(r)) },
			"/api/config.json":  func(w http.ResponseWriter, r *http.Request) { a.json(w, r, a.about()) },
			"/api/config":       func(w http.ResponseWriter, _ *http.Request) { writeLTSV(w, []object{a.about()}) },
		},
		missing: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"Not found"}`)
		},
	}
	return &Server{addr: address(p.Bind, p.Port), handler: h, log: log, agent: a}
}

type agent struct {
	p      *AgentParams
	source Source
}

// list gives the plug-ins that a request asks for: by tag, by id, or by type.
func (a *agent) list(r *http.Request) []object {
	q := r.URL.Query()
	first := func(names ...string) (string, bool) {
		for _, n := range names {
			if v, ok := q[n]; ok {
				return v[0], true
			}
		}
		return "", false
	}
	flag := func(name string, or bool) bool {
		if v := q.Get(name); v != "" {
			return v != "no" && v != "false"
		}
		return or
	}
	wanted := func(*Plugin) bool { return true }
	only := false // the first one
	if tag, ok := first("tag"); ok {
		id := a.source.ByTag(tag)
		wanted, only = func(p *Plugin) bool { return p.ID == id && p.Kind == Output }, true
	} else if id, ok := first("@id", "id"); ok {
		wanted, only = func(p *Plugin) bool { return p.ID == id }, true
	} else if typ, ok := first("@type", "type"); ok {
		wanted = func(p *Plugin) bool { return p.Type == typ }
	}
	config, retry := flag("with_config", a.p.IncludeConfig), flag("with_retry", a.p.IncludeRetry)
	out := []object{}
	plugins := a.source.Plugins()
	for i := range plugins {
		p := &plugins[i]
		if !wanted(p) {
			continue
		}
		o := p.describe(config, retry)
		if a.p.IncludeDebug && (q.Has("debug") || q.Has("with_ivars")) {
			o = append(o, pair{"instance_variables", object{}}) // there are no Ruby objects
		}
		out = append(out, o)
		if only {
			break
		}
	}
	return out
}

// describe gives what monitor_agent shows of a plug-in, in its order.
func (p *Plugin) describe(config, retry bool) object {
	o := object{{"plugin_id", p.ID}, {"plugin_category", p.category()}, {"type", p.Type}}
	if config {
		all := object{}
		for _, c := range p.Config {
			all = append(all, pair{c[0], c[1]})
		}
		o = append(o, pair{"config", all})
	}
	o = append(o, pair{"output_plugin", p.Kind == Output})
	s := p.Status
	keys := []int64{}
	var c chunks
	if p.Buffered && s != nil {
		for i, w := range s.Buffer.Windows {
			if !w.IsZero() && (i == 0 || !w.Equal(s.Buffer.Windows[0])) {
				keys = append(keys, w.Unix())
			}
		}
		c = p.chunks(time.Now())
		o = append(o, pair{"buffer_queue_length", c.queued}, pair{"buffer_timekeys", keys}, pair{"buffer_total_queued_size", totalBytes(c)})
	}
	switch p.Kind {
	case Input, Filtering:
		return append(o, pair{"retry_count", nil}, pair{"emit_records", int64(p.Records)}, pair{"emit_size", int64(p.Bytes)})
	case MultiOutput:
		return append(o, pair{"retry_count", int64(0)})
	}
	failed := int64(failures(s))
	o = append(o, pair{"retry_count", failed}, pair{"emit_records", int64(s.EventsIn)}, pair{"emit_size", int64(s.BytesIn)}, pair{"emit_count", int64(s.Emits)},
		pair{"write_count", int64(writes(s))}, pair{"write_secondary_count", int64(0)}, pair{"rollback_count", failed}, pair{"slow_flush_count", int64(s.SlowFlushes)},
		pair{"flush_time_count", flushTime(s)}, pair{"drop_oldest_chunk_count", int64(0)})
	if p.Buffered {
		o = append(o, pair{"buffer_stage_length", c.staged}, pair{"buffer_stage_byte_size", c.stagedBytes}, pair{"buffer_queue_byte_size", c.queuedBytes},
			pair{"buffer_available_buffer_space_ratios", freeRatio(&s.Buffer)})
		if len(keys) > 0 {
			o = append(o, pair{"buffer_oldest_timekey", keys[0]}, pair{"buffer_newest_timekey", keys[len(keys)-1]})
		}
	}
	if retry {
		o = append(o, pair{"retry", p.retry()})
	}
	return o
}

// retry is what is being tried again; empty when all is well.
func (p *Plugin) retry() object {
	s := p.Status
	if s.PausedUntil.IsZero() {
		return object{}
	}
	steps := 0 // the first failure is none
	for i := range s.Lanes {
		steps = max(steps, s.Lanes[i].Attempts-1)
	}
	return object{{"start", rubyTime(s.LastErrorAt)}, {"steps", int64(steps)}, {"next_time", rubyTime(s.PausedUntil)}}
}

func rubyTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700")
}

func (a *agent) about() object {
	b := a.source.About()
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return object{{"pid", int64(os.Getpid())}, {"ppid", int64(os.Getppid())}, {"version", b.Version}, {"config_path", text(b.Config)},
		{"pid_file", nil}, {"plugin_dirs", []int64{}}, {"log_path", text(b.Log)}, {"root_dir", text(b.Root)}}
}

func (a *agent) json(w http.ResponseWriter, r *http.Request, v object) {
	w.Header().Set("Content-Type", "application/json")
	text := v.appendJSON(nil)
	if a.p.IncludeDebug && r.URL.Query().Has("debug") {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") == nil {
			text = b.Bytes()
		}
	}
	_, _ = w.Write(text) // the client went away
}

func writeLTSV(w http.ResponseWriter, rows []object) {
	w.Header().Set("Content-Type", "text/plain")
	var text []byte
	for _, row := range rows {
		for i, p := range row.flat() {
			if i > 0 {
				text = append(text, '\t')
			}
			text = append(append(append(text, p.key...), ':'), p.text()...)
		}
		text = append(text, '\n')
	}
	_, _ = w.Write(text) // the client went away
}

// emit sends the figures as events, one for each plug-in, every emit_interval until ctx is
// done. A full buffer that refuses them gets the next ones instead.
func (a *agent) emit(ctx context.Context, e input.Emitter) {
	tick := time.NewTicker(max(a.p.EmitInterval, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := event.FromTime(time.Now())
		b := event.Batch{Tag: a.p.Tag, First: now, Last: now}
		plugins := a.source.Plugins()
		for i := range plugins {
			b.Entries = event.AppendEntry(b.Entries, now, plugins[i].describe(false, false).appendMsgpack(nil))
			b.Count++
		}
		if _, err := e.Emit(ctx, b); err != nil {
			e.Lost(b)
		}
	}
}

// object is a JSON object whose members keep their order. Values are nil, bool, string,
// int64, float64, []int64, []object and object.
type object []pair

type pair struct {
	key   string
	value any
}

// flat leaves objects out.
func (o object) flat() (out object) {
	for _, p := range o {
		if _, is := p.value.(object); !is {
			out = append(out, p)
		}
	}
	return out
}

// text is a value as the LTSV form shows it.
func (p pair) text() string {
	switch v := p.value.(type) {
	case nil:
		return ""
	case float64:
		return string(appendFloat(nil, v))
	case []int64:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	}
	return fmt.Sprint(p.value)
}

func (o object) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, p := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONText(dst, p.key), ':')
		switch v := p.value.(type) {
		case object:
			dst = v.appendJSON(dst)
		case []object:
			dst = append(dst, '[')
			for j, m := range v {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = m.appendJSON(dst)
			}
			dst = append(dst, ']')
		case float64:
			dst = appendFloat(dst, v)
		case string:
			dst = appendJSONText(dst, v)
		default:
			text, _ := json.Marshal(v) // nothing in it can fail
			dst = append(dst, text...)
		}
	}
	return append(dst, '}')
}

func appendJSONText(dst []byte, s string) []byte {
	dst, _ = event.AppendStringEscaped(append(dst, '"'), []byte(s))
	return append(dst, '"')
}

func (o object) appendMsgpack(dst []byte) []byte {
	dst = event.AppendMapHeader(dst, len(o))
	for _, p := range o {
		dst = event.AppendStr(dst, p.key)
		switch v := p.value.(type) {
		case bool:
			dst = event.AppendBool(dst, v)
		case string:
			dst = event.AppendStr(dst, v)
		case int64:
			dst = event.AppendInt(dst, v)
		case float64:
			dst = event.AppendFloat(dst, v)
		case []int64:
			dst = event.AppendArrayHeader(dst, len(v))
			for _, n := range v {
				dst = event.AppendInt(dst, n)
			}
		default:
			dst = event.AppendNil(dst)
		}
	}
	return dst
}
