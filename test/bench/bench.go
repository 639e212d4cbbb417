package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// bench runs measurements against one sink.
type bench struct {
	o    *options
	sink *sink
}

// result is one run of one case.
type result struct {
	events    int
	cpu, user time.Duration
	wall      time.Duration // until everything had arrived
	peak      int64
	puts      int64
	body      int64
}

func (r result) perCPU() float64 { return float64(r.events) / r.cpu.Seconds() }

// client sends a job from another process and waits for its report.
func (b *bench) client(ctx context.Context, j job) (sent, error) {
	self, err := os.Executable()
	if err != nil {
		return sent{}, err
	}
	in, err := json.Marshal(j)
	if err != nil {
		return sent{}, err
	}
	cmd := exec.CommandContext(ctx, self, "client")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return sent{}, fmt.Errorf("client: %w", err)
	}
	var s sent
	return s, json.Unmarshal(out, &s)
}

// drained waits until the sink has n events.
func (b *bench) drained(ctx context.Context, r *running, n int64, patience time.Duration) (tally, error) {
	last, since := int64(-1), time.Now()
	for {
		t, err := b.sink.stats()
		if err != nil || t.Events >= n {
			return t, err
		}
		if t.Events != last {
			last, since = t.Events, time.Now()
		}
		if err := r.alive(); err != nil {
			return t, r.failed(err)
		}
		if time.Since(since) > patience {
			return t, r.failed(fmt.Errorf("%d of %d events have arrived, and no more come", t.Events, n))
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// once runs a case once.
func (b *bench) once(ctx context.Context, c benchCase, s *subject) (result, error) {
	if err := b.sink.ask("/reset", nil); err != nil {
		return result{}, err
	}
	r, err := s.start(ctx, filepath.Join(b.o.dir, c.name), b.sink, setup{key: c.key, rewrite: c.rewrite})
	if err != nil {
		return result{}, err
	}
	j := c.job
	j.Addr, j.Conns = r.addr, 2
	if j.Events = b.o.events; j.Events == 0 {
		j.Events = int(float64(c.target) * b.o.seconds)
		if s.fluent {
			j.Events = int(float64(c.peer) * b.o.seconds)
		}
	}
	j.Events -= j.Events % (j.Conns * j.PerMessage)
	stop := b.profile(ctx, c, r)
	before, err := r.usage()
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	report, err := b.client(ctx, j)
	if err != nil {
		return result{}, r.failed(err)
	}
	got, err := b.drained(ctx, r, int64(report.Events), 20*time.Second)
	if err != nil {
		return result{}, err
	}
	wall := time.Since(begin)
	after, err := r.usage()
	if err != nil {
		return result{}, err
	}
	err = errors.Join(stop(), r.terminate())
	if err != nil && !s.fluent {
		return result{}, r.failed(err)
	}
	// Nothing may be lost, and nothing came twice: no fault was injected.
	if got, err = b.sink.stats(); err != nil {
		return result{}, err
	}
	if report.Acked != report.Events || got.Events != int64(report.Events) {
		return result{}, fmt.Errorf("%s, %s: sent %d, acknowledged %d, received %d", c.name, s.name, report.Events, report.Acked, got.Events)
	}
	return result{events: report.Events, cpu: after.cpu() - before.cpu(), user: after.user - before.user, wall: wall,
		peak: after.peak, puts: got.Puts, body: got.Bytes}, nil
}

// table runs the cases, all subjects in turn, and prints the medians.
func (b *bench) table(ctx context.Context, cases []benchCase, subjects []*subject) error {
	if len(cases) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "case\tsubject\trecords/CPU s\tlow-high\tsystem\trecords/s\tpeak MiB\tputs\tKiB/put\tacked=received\ttarget\t\n")
	var about strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&about, "  %-11s %s\n", c.name, c.about)
		all := make([][]result, len(subjects))
		for range b.o.runs {
			for i, s := range subjects {
				if s.fluent && c.rewrite {
					continue // it has no counterpart there
				}
				r, err := b.once(ctx, c, s)
				if err != nil {
					return err
				}
				all[i] = append(all[i], r)
			}
		}
		for i, s := range subjects {
			if len(all[i]) > 0 {
				row(w, c, s, all[i])
			}
		}
		fmt.Fprint(os.Stderr, ".")
	}
	fmt.Fprintln(os.Stderr)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nmedians of %d run(s); system: share of CPU time in the kernel\n%s\n", b.o.runs, about.String())
	return nil
}

func row(w *tabwriter.Writer, c benchCase, s *subject, rs []result) {
	slices.SortFunc(rs, func(x, y result) int { return int(x.perCPU() - y.perCPU()) })
	m := rs[len(rs)/2]
	peak := int64(0)
	for _, r := range rs {
		peak = max(peak, r.peak)
	}
	target := fmt.Sprint(c.target)
	switch {
	case s.fluent:
		target = ""
	case m.perCPU() >= float64(c.target):
		target += " met"
	default:
		target += fmt.Sprintf(" %.0f%%", 100*m.perCPU()/float64(c.target))
	}
	fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f-%.0f\t%.0f%%\t%.0f\t%.1f\t%d\t%d\t%d\t%s\t\n", c.name, s.name, m.perCPU(),
		rs[0].perCPU(), rs[len(rs)-1].perCPU(), 100*float64(m.cpu-m.user)/float64(m.cpu), float64(m.events)/m.wall.Seconds(),
		float64(peak)/(1<<20), m.puts, m.body/max(m.puts, 1)>>10, m.events, target)
}
