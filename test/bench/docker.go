package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Targets of the Docker driver, as the project has set them.
const (
	dockerRate = 150_000  // lines a second through pipes on two cores
	dockerPeak = 64 << 20 // bytes resident with 100 containers
	dockerLine = 100      // bytes of a line
)

// dockerParts are the parts of the measurement: pipes written by a played engine, and a real
// one with its own awslogs driver beside weir.
func dockerParts() []string { return []string{"pipes", "engine"} }

// dockerRow is a row of the table.
type dockerRow struct {
	what       string
	containers int
	lines      int
	arrived    int64
	taken      time.Duration // until the last container had ended
	wall       time.Duration // until the last line had arrived
	cpu        time.Duration // of weir, or of the engine where that is the subject
	user       time.Duration
	engine     time.Duration // CPU time of the engine beside it; 0: not measured
	peak       int64
	enginePeak int64 // of the engine beside it
}

// docker measures the Docker driver and prints its table.
func (b *bench) docker(ctx context.Context, subjects []*subject) error {
	parts := dockerParts()
	switch b.o.docker {
	case "none", "":
		return nil
	case "all":
	default:
		parts = strings.Split(b.o.docker, ",")
		for _, p := range parts {
			if !slices.Contains(dockerParts(), p) {
				return fmt.Errorf("there is no part %q; there are %s", p, strings.Join(dockerParts(), ", "))
			}
		}
	}
	subjects = slices.DeleteFunc(slices.Clone(subjects), func(s *subject) bool { return s.fluent })
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "docker\tcontainers\tlines/s taken\tlines/s arrived\tlines/CPU s\tlow-high\tsystem\tof the engine\tpeak MiB\tsent\treceived\ttarget\t\n")
	var rows [][]dockerRow
	add := func(n int, measure func() (dockerRow, error)) error {
		r, err := measure()
		if err != nil {
			return err
		}
		for len(rows) <= n {
			rows = append(rows, nil)
		}
		rows[n] = append(rows[n], r)
		fmt.Fprint(os.Stderr, ".")
		return nil
	}
	left := ""
	for range min(b.o.runs, 3) {
		n := 0
		for _, s := range subjects {
			if slices.Contains(parts, "pipes") {
				for _, containers := range []int{20, 100} {
					if err := add(n, func() (dockerRow, error) { return b.pipes(ctx, s, containers) }); err != nil {
						return err
					}
					n++
				}
			}
		}
		if !slices.Contains(parts, "engine") {
			continue
		}
		if err := b.engines(ctx, subjects, func(m func() (dockerRow, error)) error {
			defer func() { n++ }()
			return add(n, m)
		}); errors.Is(err, errNoEngine) {
			left = err.Error()
		} else if err != nil {
			return err
		}
	}
	for _, rs := range rows {
		dockerMedian(w, rs)
	}
	fmt.Fprintln(os.Stderr)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nlines of %d bytes; taken: until the last container had ended, arrived: until the endpoint had all; lines/CPU s: of weir alone,\n"+
		"or of dockerd where its own awslogs driver is measured; of the engine: CPU s and peak of dockerd beside weir\n", dockerLine)
	if left != "" {
		fmt.Println("left out:", left)
	}
	fmt.Println()
	return nil
}

func (r dockerRow) perCPU() float64 { return float64(r.lines) / r.cpu.Seconds() }

// dockerMedian prints the median of some runs.
func dockerMedian(w *tabwriter.Writer, rs []dockerRow) {
	if len(rs) == 0 {
		return
	}
	slices.SortFunc(rs, func(x, y dockerRow) int { return int(x.perCPU() - y.perCPU()) })
	m := rs[len(rs)/2]
	for _, r := range rs {
		m.peak, m.enginePeak = max(m.peak, r.peak), max(m.enginePeak, r.enginePeak)
	}
	taken, arrived := float64(m.lines)/m.taken.Seconds(), float64(m.arrived)/m.wall.Seconds()
	target := ""
	if m.engine == 0 && strings.HasPrefix(m.what, "weir") {
		target = fmt.Sprintf("%d %s", dockerRate, met(arrived >= dockerRate))
		if m.containers == 100 {
			target += fmt.Sprintf(", %d MiB %s", dockerPeak>>20, met(m.peak <= dockerPeak))
		}
	}
	beside := ""
	if m.engine > 0 {
		beside = fmt.Sprintf("%.1f s, %.0f MiB", m.engine.Seconds(), float64(m.enginePeak)/(1<<20))
	}
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f-%.0f\t%.0f%%\t%s\t%.1f\t%d\t%d\t%s\t\n", m.what, m.containers, taken, arrived, m.perCPU(),
		rs[0].perCPU(), rs[len(rs)-1].perCPU(), 100*float64(m.cpu-m.user)/float64(m.cpu), beside, float64(m.peak)/(1<<20), m.lines, m.arrived, target)
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

// arrived waits until the endpoint has n lines, or no more come.
func (b *bench) arrived(ctx context.Context, n int64, patience time.Duration) (int64, error) {
	last, since := int64(-1), time.Now()
	for {
		t, err := b.sink.stats()
		if err != nil || t.Events >= n {
			return t.Events, err
		}
		if t.Events != last {
			last, since = t.Events, time.Now()
		}
		if time.Since(since) > patience {
			return t.Events, nil
		}
		select {
		case <-ctx.Done():
			return t.Events, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// dockerEnv is the environment of weir docker-plugin.
func (b *bench) dockerEnv(profile string) []string {
	return []string{"AWS_CA_BUNDLE=" + b.sink.cert, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", profileVariable + "=" + profile}
}

// dockerOptions are the log options of a container.
func (b *bench) dockerOptions(stream string) map[string]string {
	return map[string]string{"awslogs-group": "bench", "awslogs-stream": stream, "awslogs-region": "us-east-1", "awslogs-endpoint": "https://" + b.sink.addr}
}

// emptied gives a directory for a run, empty.
func (b *bench) emptied(name string) (string, error) {
	dir := filepath.Join(b.o.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}
