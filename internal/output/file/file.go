// Package file writes events into files whose paths may depend on tag, time and record.
//
// What was sent is on the disk before it is reported as delivered, and a write that fails
// leaves nothing behind: the file is cut to its old length, and the retry writes it again.
//
// With append false Fluentd makes a new file, with the next number, for each chunk that it
// flushes. weir has no chunks of that kind: it goes on with its file of that path until
// chunk_limit_size, and takes the next free number then and after a restart.
package file

import (
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/placeholder"
)

const (
	full            = 4 << 20 // bytes of formatted events at which a request takes no more
	defaultLimit    = 256 << 20
	defaultFilePerm = 0o644
	defaultDirPerm  = 0o755
	// maxPaths bounds how many paths are remembered. A forgotten path costs a number.
	maxPaths = 4096
)

// Formatter turns an event into bytes. A Formatter may be used from any goroutine and
// copies what it needs.
type Formatter interface {
	Append(dst []byte, tag string, t event.Time, record []byte) []byte
}

// Options configures an Output. Params, Formatter and Log are required; Params must have
// passed Check.
type Options struct {
	Params    Params
	Names     placeholder.Options // what the <buffer> section allows in the path
	Formatter Formatter           // the <format> section; Fluentd's default here is out_file
	Log       *slog.Logger
	Limit     int64       // chunk_limit_size: where a numbered file ends; default 256 MiB
	FilePerm  fs.FileMode // default 0644
	DirPerm   fs.FileMode // default 0755
	FS        FS          // default OS
}

// Output is the file output. A lane is a path: what comes of several tags stands in a file in
// the order in which it was accepted.
type Output struct {
	o         Options
	template  *placeholder.Template
	separator string // before the number of a file
	binary    bool   // what is written are no lines

	mu    sync.Mutex // guards what follows; never held over a file operation
	paths map[string]*path
	clock int64 // counts uses, to find the path that was used longest ago
}

var _ output.Output = (*Output)(nil)

// path is a file that is being written, or a series of numbered ones.
type path struct {
	mu     sync.Mutex // held while a request is written
	number int        // of the file being written; -1 before the first
	seen   bool       // we have written to the file since our start

	users int   // requests that hold or wait for mu; guarded by Output.mu
	used  int64 // guarded by Output.mu
}

// New makes an Output. Nothing is opened.
func New(o Options) (*Output, error) {
	t, problems := o.Params.Template(o.Names)
	for _, p := range problems {
		if !p.Warning {
			return nil, fmt.Errorf("file output with path %q: %s; %s", o.Params.Path, p.Text, p.Hint)
		}
	}
	return outputOf(o, t), nil
}

// outputOf makes an Output whose paths are of a template.
func outputOf(o Options, t *placeholder.Template) *Output {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.FilePerm == 0 {
		o.FilePerm = defaultFilePerm
	}
	if o.DirPerm == 0 {
		o.DirPerm = defaultDirPerm
	}
	if o.FS == nil {
		o.FS = OS{}
	}
	return &Output{o: o, template: t, separator: "_", paths: map[string]*path{}}
}

// Scope is empty: nothing throttles.
func (o *Output) Scope() string { return "" }

// Close does nothing: files are open only while a request is written.
func (o *Output) Close() error { return nil }

// take returns the state of a path and keeps it from being forgotten until give.
func (o *Output) take(name string) *path {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.paths[name]
	if p == nil {
		if len(o.paths) >= maxPaths {
			o.forget()
		}
		p = &path{number: -1}
		o.paths[name] = p
	}
	o.clock++
	p.used = o.clock
	p.users++
	return p
}

func (o *Output) give(p *path) {
	o.mu.Lock()
	p.users--
	o.mu.Unlock()
}

// forget drops the idle path that was used longest ago.
func (o *Output) forget() {
	oldest, name := (*path)(nil), ""
	for n, p := range o.paths {
		if p.users == 0 && (oldest == nil || p.used < oldest.used) {
			oldest, name = p, n
		}
	}
	if oldest != nil {
		delete(o.paths, name)
	}
}

// UsesTags implements output.Tagged.
func (o *Output) UsesTags() bool { return true }

// Splitter returns a Splitter whose lanes are paths. A path holds a zero byte where the
// number of the file comes.
func (o *Output) Splitter() output.Splitter { return &splitter{o: o} }

type splitter struct {
	o    *Output
	lane []byte // of the run being made; nil if its path was refused
	next []byte
}

// Split makes a run of neighbouring entries with the same path. A path that would lead
// out of its directory ends the events as rejected, bad name.
func (s *splitter) Split(b event.Batch, add func(lane []byte, r output.Run)) {
	t := s.o.template
	if !t.UsesRecord() && t.SameTime(b.First, b.Last) {
		var ok bool
		s.lane, ok = s.path(s.lane, placeholder.Context{Tag: b.Tag, Time: b.First})
		s.add(add, ok, output.Run{Len: len(b.Entries), Count: b.Count})
		return
	}
	run, runOK, seen := output.Run{}, false, 0
	from, until := event.Time(0), event.Time(0) // when the path is that of s.lane, if only time matters
	for off := 0; off < len(b.Entries); {
		e, n, err := event.Next(b.Entries[off:])
		if err != nil { // cannot happen to checked entries; never stands in the way of the others
			if run.Count > 0 {
				s.add(add, runOK, run)
			}
			add(nil, output.Run{Off: off, Len: len(b.Entries) - off, Count: b.Count - seen, Fate: ledger.Invalid.Fate()})
			return
		}
		if run.Count == 0 || t.UsesRecord() || e.Time < from || e.Time >= until {
			var ok bool
			s.next, ok = s.path(s.next, placeholder.Context{Tag: b.Tag, Time: e.Time, Record: e.Record})
			if run.Count > 0 && (ok != runOK || string(s.next) != string(s.lane)) {
				s.add(add, runOK, run)
				run = output.Run{Off: off}
			}
			s.lane, s.next, runOK = s.next, s.lane, ok
			from, until = t.Window(e.Time)
		}
		run.Count++
		run.Len += n
		off += n
		seen++
	}
	if run.Count > 0 {
		s.add(add, runOK, run)
	}
}

func (s *splitter) add(add func(lane []byte, r output.Run), ok bool, r output.Run) {
	if !ok {
		r.Fate = ledger.BadName.Fate()
		add(nil, r)
		return
	}
	add(s.lane, r)
}

// path writes the lane of an event over dst.
func (s *splitter) path(dst []byte, c placeholder.Context) (out []byte, ok bool) {
	out, _, err := s.o.template.AppendPath(dst[:0], c)
	return out, err == nil
}
