package app

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/formatter"
	"weir/internal/pipeline"
)

// fillRandom fills b for Ruby's random numbers.
func fillRandom(b []byte) { _, _ = rand.Read(b) } // it never fails

// filterPlan is one <filter>, built: filters are pure and hold nothing, and what a holder
// holds is elsewhere.
type filterPlan struct {
	id, typ string
	pos     fluentconf.Pos
	filter  filter.Filter
	holder  filter.Holder // in place of filter
	params  [][2]string   // as written, without secrets
	passed  pipeline.Counter
}

// late is the label for events that a holder has held too long; "" for none.
func (f *filterPlan) late() string {
	if c, ok := f.holder.(*filter.Concat); ok {
		return c.TimeoutLabel()
	}
	return ""
}

// filter reads a <filter>; nil after an error.
func (p *planner) filter(s *fluentconf.Section) *filterPlan {
	typ, pos := p.typeOf(s)
	if typ == "" {
		return nil
	}
	id := ""
	if prm := s.Get("@id"); prm != nil {
		id = prm.Value.Text
	}
	fp := &filterPlan{typ: typ, pos: s.Pos, id: p.identify(s, typ, id), params: shown(s)}
	if typ == "kubernetes_metadata" {
		p.d.Warn(pos, "kubernetes_metadata asks no API server here: events pass as they come", "let Fluent Bit's kubernetes filter add the metadata where the pods run")
		fp.filter = passing{}
		return fp
	}
	if typ == "prometheus" {
		f := p.metrics.NewFilter(s, p.d)
		if f == nil {
			return nil
		}
		fp.filter = f
		return fp
	}
	if typ == "stdout" {
		if fp.filter = p.stdoutFilter(s); fp.filter == nil {
			return nil
		}
		return fp
	}
	f, known := filter.New(s, p.filterEnv(s), p.d)
	if !known {
		h, known := filter.NewHolder(s, p.filterEnv(s), p.d)
		if !known {
			p.d.Error(pos, fmt.Sprintf("weir has no filter of type %q", typ),
				"filters are grep, parser, record_transformer, concat, detect_exceptions, prometheus, stdout and kubernetes_metadata, which passes events on")
		}
		if h == nil {
			return nil
		}
		fp.holder = h
		return fp
	}
	if f == nil {
		return nil
	}
	fp.filter = f
	return fp
}

// filterEnv is what a filter takes from its surroundings.
func (p *planner) filterEnv(s *fluentconf.Section) filter.Env {
	return filter.Env{
		Hostname: p.env.Hostname, Location: p.env.Location, Pos: s.Pos,
		Lookup: p.env.Lookup, Now: time.Now, Random: fillRandom, PID: os.Getpid(),
	}
}

// stdoutFilter is <filter> @type stdout: it writes every event and passes it on.
func (p *planner) stdoutFilter(s *fluentconf.Section) filter.Filter {
	var params struct {
		config.Plugin
		formatting
		formatter.FlatParams
	}
	before := len(p.d.Errors)
	config.Decode(s, &params, p.d)
	params.older(s)
	f, _ := p.formatter(s, &params.formatting, "stdout")
	if len(p.d.Errors) > before {
		return nil
	}
	return &stdoutFilter{format: f, w: p.env.Stdout}
}

type stdoutFilter struct {
	format formatter.Formatter
	mu     sync.Mutex // keeps lines whole
	w      io.Writer
}

// Apply implements filter.Filter.
func (f *stdoutFilter) Apply(s *filter.Scratch, tag string, src, _ []byte) (out []byte, kept, failed int) {
	text := s.Buf[:0]
	for b := src; len(b) > 0; kept++ {
		e, n, err := event.Next(b)
		if err != nil {
			break
		}
		text = f.format.Append(text, tag, e.Time, e.Record)
		b = b[n:]
	}
	s.Buf = text
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.w.Write(text) // a closed standard output is no reason to stop carrying logs
	return src, kept, 0
}

// passing is a filter that passes everything on.
type passing struct{}

// Apply implements filter.Filter.
func (passing) Apply(_ *filter.Scratch, _ string, src, _ []byte) (out []byte, kept, failed int) {
	kept, _, _, _, _ = event.Check(src)
	return src, kept, 0
}

// counted is a filter whose events are counted as they pass, for monitor_agent.
type counted struct{ of *filterPlan }

// Apply implements filter.Filter.
func (c counted) Apply(s *filter.Scratch, tag string, src, dst []byte) (out []byte, kept, failed int) {
	out, kept, failed = c.of.filter.Apply(s, tag, src, dst)
	c.of.passed.Batches.Add(1)
	c.of.passed.Events.Add(uint64(kept))
	c.of.passed.Bytes.Add(uint64(len(out)))
	return out, kept, failed
}
