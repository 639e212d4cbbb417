package app

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/internal/buffer"
	"weir/internal/config"
	"weir/internal/deliver"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/output"
	"weir/internal/output/cloudwatch"
	"weir/internal/output/file"
	"weir/internal/web/fluentd"
)

// outputPlan is one configured output, ready to be built.
type outputPlan struct {
	id, typ   string
	pos       fluentconf.Pos
	params    [][2]string // as written, without secrets
	text      string      // the section as text: the same text after a reload means that nothing changed
	buffer    config.Buffer
	dir       string // of the file buffer; "" for memory
	null      bool
	counts    *fluentd.Filter // of @type prometheus, which is null otherwise
	direct    bool            // Fluentd has no buffer for it
	slow      time.Duration   // slow_flush_log_threshold
	noPark    bool            // lanes are never parked: in memory that would not be delivered, which a source wants to wait for
	workers   int
	maxEvents int  // in one request; 0: no own limit
	tell      bool // losses are told to the destination
	secondary *outputPlan
	build     func(log *slog.Logger, s *shared) (output.Output, error)
	detail    string         // for the summary: "group … stream …"
	lines     file.Formatter // writes an event as the output does; nil for cloudwatch_logs
}

// shared is what the outputs of a process have in common.
type shared struct {
	tokens *cloudwatch.Tokens // sequence tokens: no output of the process may carry a stale one
}

func (o *outputPlan) describe() string {
	s := o.typ
	if o.id != o.typ {
		s += " (" + o.id + ")"
	}
	if o.detail != "" {
		s += " " + o.detail
	}
	if o.null {
		return s
	}
	if o.dir == "" {
		return fmt.Sprintf("%s, memory buffer %s", s, mib(int64(o.buffer.TotalLimit)))
	}
	return fmt.Sprintf("%s, file buffer %s in %s", s, mib(int64(o.buffer.TotalLimit)), o.dir)
}

func mib(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// output reads an output's section; nil after an error.
func (p *planner) output(s *fluentconf.Section, typ string, pos fluentconf.Pos) *outputPlan {
	before := len(p.d.Errors)
	o := &outputPlan{typ: typ, pos: s.Pos, text: dump(s), params: shown(s)}
	if !p.outputType(o, s, typ, pos) {
		return nil
	}
	id := idOf(s)
	o.id = p.identify(s, typ, id)
	o.slow = slowFlush(s)
	if !o.null {
		p.bufferOf(o, id)
	}
	if secs := s.All("secondary"); len(secs) > 0 && !o.null {
		o.secondary = p.secondary(o, secs[0])
	}
	if len(p.d.Errors) > before {
		return nil
	}
	p.Outputs = append(p.Outputs, o)
	return o
}

// secondary reads a <secondary>; nil after an error.
func (p *planner) secondary(o *outputPlan, s *fluentconf.Section) *outputPlan {
	typ, pos := p.typeOfSecondary(s, o.typ)
	sec := &outputPlan{typ: typ, pos: s.Pos, id: o.id + ".secondary", buffer: o.buffer}
	for _, c := range s.Sections {
		if c.Name == "buffer" || c.Name == "secondary" {
			p.d.Error(c.Pos, fmt.Sprintf("a <secondary> cannot have a <%s> section", c.Name), "remove it: what comes here waits in the buffer of the primary output")
		}
	}
	switch typ {
	case "secondary_file":
		p.secondaryFile(sec, s, o)
		return sec
	case "null":
		sec.build = func(*slog.Logger, *shared) (output.Output, error) { return discard{}, nil }
	case "prometheus":
		p.d.Error(pos, "prometheus cannot be a <secondary>", "count the events with a <filter> @type prometheus before the output")
		return nil
	}
	if !p.outputType(sec, s, typ, pos) {
		return nil
	}
	return sec
}

func (p *planner) typeOfSecondary(s *fluentconf.Section, primary string) (string, fluentconf.Pos) {
	if s.Get("@type") == nil && s.Get("type") == nil {
		return primary, s.Pos
	}
	return p.typeOf(s)
}

// bufferOf finds the place of the output's buffer and warns where events can be lost.
func (p *planner) bufferOf(o *outputPlan, id string) {
	b := &o.buffer
	if !b.File() {
		if b.Overflow == "throw_exception" || b.Overflow == "" {
			p.d.Warn(b.Pos, fmt.Sprintf("output %s keeps its events in memory: they are lost when weir is killed", o.id),
				"use <buffer> @type file with a path, and acknowledgements in the sender")
		}
		return
	}
	switch {
	case b.Path != "":
		o.dir = bufferDir(b.Path)
	case p.System.RootDir != "" && id != "":
		o.dir = filepath.Join(p.System.RootDir, "worker0", id, "buffer")
	default:
		p.d.Error(b.Pos, "a file buffer needs a place", "add a path to <buffer>, or root_dir to <system> and an @id to this output")
		return
	}
	for _, dir := range []string{o.dir, filepath.Join(o.dir, ParkedDir), filepath.Join(o.dir, BacklogDir)} {
		if at, ok := p.paths[dir]; ok {
			p.d.Error(b.Pos, fmt.Sprintf("the buffer directory %s is already used at %s", dir, at), "give each output a path of its own")
			break
		}
		p.paths[dir] = b.Pos
	}
}

// slowFlush is slow_flush_log_threshold, Fluentd's 20 s without it. That the text is a number
// is checked where the plug-in's own parameters are decoded.
func slowFlush(s *fluentconf.Section) time.Duration {
	if prm := s.Get("slow_flush_log_threshold"); prm != nil && prm.Value.State == fluentconf.Text {
		if secs, err := strconv.ParseFloat(strings.TrimSpace(prm.Value.Text), 64); err == nil {
			return time.Duration(secs * float64(time.Second))
		}
	}
	return 20 * time.Second
}

// bufferDir is the directory of a file buffer for Fluentd's path parameter, which is a
// directory, or a pattern with one * for many files: the part before the * names it then.
func bufferDir(path string) string {
	if i := strings.IndexByte(path, '*'); i >= 0 {
		path = strings.TrimRight(path[:i], "._-")
		if strings.HasSuffix(path, "/") {
			path += "weir"
		}
	}
	return filepath.Clean(path)
}

// retry is the delivery policy of a <buffer> section.
func (o *outputPlan) retry() deliver.Retry {
	b := &o.buffer
	r := deliver.DefaultRetry
	r.Wait, r.Base, r.Jitter = b.RetryWait, b.RetryBase, b.RetryRandomize
	r.Timeout, r.Forever = b.RetryTimeout, b.RetryForever
	if b.RetryType == "periodic" {
		r.Base = 1
	}
	if b.RetryMaxWait != nil {
		r.Max = *b.RetryMaxWait
	}
	if b.RetryMaxTimes != nil {
		r.MaxTimes = *b.RetryMaxTimes
	}
	r.Secondary = b.RetryThreshold
	if b.ParkAfter != nil {
		r.ParkAfter = *b.ParkAfter
	}
	if o.noPark {
		r.ParkAfter = 0
	}
	return r
}

// pause is flush_thread_burst_interval where the file writes it: Fluentd's default of one
// second after every flush is a ceiling that nobody asks for.
func (o *outputPlan) pause() time.Duration {
	if b := o.buffer.BurstInterval; b != nil && *b > 0 {
		return time.Duration(*b * float64(time.Second))
	}
	return 0
}

// lateWait is the longest that events of a window that is over wait for company; Fluentd looks
// after windows as seldom as every eleventh of timekey or timekey_wait.
const lateWait = 5 * time.Second

// linger is how long events of this output wait for company.
func (o *outputPlan) linger() deliver.Linger {
	b := &o.buffer
	l := deliver.Linger{Interval: b.FlushInterval}
	if n := int(float64(b.ChunkLimit) * b.ChunkFullThreshold); n > 0 && n < 1<<20 {
		l.Bytes = n
	}
	l.Events = o.maxEvents
	if b.ChunkRecords != nil && *b.ChunkRecords > 0 && (l.Events == 0 || *b.ChunkRecords < l.Events) {
		l.Events = *b.ChunkRecords
	}
	switch b.FlushMode {
	case "immediate":
		l.Interval = 0
	case "lazy":
		// What comes after its window was over waits for company too, or every message of a
		// client that catches up would become a chunk, an object of S3, of its own.
		l.Interval = min(max(min(b.Timekey, b.TimekeyWait)/11, time.Second), lateWait)
		end := o.window()
		l.Hold = func(newest event.Time) time.Time { return end(newest).Time().Add(b.TimekeyWait) }
	}
	return l
}

// overflow translates overflow_action.
func overflow(action string) buffer.Overflow {
	switch action {
	case "block":
		return buffer.Block
	case "drop_oldest_chunk":
		return buffer.DropOldest
	case "drop_newest":
		return buffer.DropNewest
	}
	return buffer.Throw
}

// durability translates durability.
func durability(b *config.Buffer) buffer.Durability {
	switch {
	case !b.File() || b.Durability == "os":
		return buffer.OS
	case b.Durability == "interval":
		return buffer.Interval
	}
	return buffer.Sync
}
