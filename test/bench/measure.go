package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	fc "weir/test/forwardclient"
)

// measureFunc does one measurement and gives its result as a line.
type measureFunc func(ctx context.Context, b *bench, s *subject) (string, error)

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func (b *bench) begin(ctx context.Context, s *subject, name string, u setup, delays bool) (*running, error) {
	path := "/reset"
	if delays {
		path += "?delays=1"
	}
	if err := b.sink.ask(path, nil); err != nil {
		return nil, err
	}
	return s.start(ctx, filepath.Join(b.o.dir, name), b.sink, u)
}

// send sends a job, waits until everything has arrived and checks that it did.
func (b *bench) send(ctx context.Context, r *running, j job) (sent, tally, error) {
	report, err := b.client(ctx, j)
	if err != nil {
		return report, tally{}, r.failed(err)
	}
	t, err := b.drained(ctx, r, int64(report.Events), 20*time.Second)
	if err == nil && (t.Events != int64(report.Events) || report.Acked != report.Events) {
		err = fmt.Errorf("sent %d, acknowledged %d, received %d", report.Events, report.Acked, t.Events)
	}
	return report, t, err
}

// floor is what this machine gives a program just now that writes and syncs 64 KiB a hundred
// times a second, and one that sleeps for a millisecond: whoever shares disk and cores with
// the measurement adds to what is measured.
func floor(dir string) (string, error) {
	f, err := os.CreateTemp(dir, "floor")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 64<<10)
	var syncs, naps []time.Duration
	for range 300 {
		at := time.Now()
		if _, err := f.Write(block); err != nil {
			return "", err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return "", err
		}
		syncs = append(syncs, time.Since(at))
		at = time.Now()
		time.Sleep(time.Millisecond)
		naps = append(naps, time.Since(at)-time.Millisecond)
		time.Sleep(9 * time.Millisecond)
	}
	slices.Sort(syncs)
	slices.Sort(naps)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	n := len(syncs)
	return fmt.Sprintf("this machine alone: write and fdatasync of 64 KiB p50 %.1f ms, p99 %.1f ms; waking up late p99 %.1f ms",
		ms(syncs[n/2]), ms(syncs[n*99/100]), ms(naps[n*99/100])), nil
}

// measureIdle is the memory of a subject that has carried a little and then nothing.
func measureIdle(ctx context.Context, b *bench, s *subject) (string, error) {
	r, err := b.begin(ctx, s, "idle", setup{}, false)
	if err != nil {
		return "", err
	}
	fresh, err := r.usage()
	if err != nil {
		return "", err
	}
	if _, _, err := b.send(ctx, r, job{Addr: r.addr, Mode: fc.Packed, PerMessage: 10, Record: "kubernetes", Events: 1000, Rate: 1000}); err != nil {
		return "", err
	}
	time.Sleep(15 * time.Second)
	was, err := r.usage()
	if err != nil {
		return "", err
	}
	time.Sleep(10 * time.Second)
	u, err := r.usage()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("resident %s after the start, %s idle after 1000 events; CPU of 10 idle seconds: %v", mib(fresh.rss), mib(u.rss), u.cpu()-was.cpu()), r.terminate()
}

// measureAllocs counts heap allocations per 1000 events, acknowledgements included: all of
// them, and those of the way into the buffer alone, for which the endpoint is taken away. It
// builds the tree in the working directory with a counter in it: reading weir's own metrics
// costs thousands of allocations, and not each time as many.
func measureAllocs(ctx context.Context, b *bench, s *subject) (string, error) {
	if s.name != "weir" {
		return "measured of the tree in the working directory only", nil
	}
	counted := *s
	counted.path = filepath.Join(b.o.dir, "weir-counted")
	if err := buildProfiled(ctx, b.o.dir, counted.path); err != nil {
		return "", err
	}
	var lines []string
	for _, c := range cases() {
		line, err := b.allocs(ctx, c, &counted)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
		lines = append(lines, line)
	}
	return "allocations per 1000 events: " + strings.Join(lines, "; "), nil
}

func (b *bench) allocs(ctx context.Context, c benchCase, s *subject) (string, error) {
	r, err := b.begin(ctx, s, "allocs", setup{key: c.key}, false)
	if err != nil {
		return "", err
	}
	j := c.job
	j.Addr, j.Conns, j.Events = r.addr, 2, 400_000
	if _, _, err := b.send(ctx, r, j); err != nil { // warm up
		return "", err
	}
	if err := b.sink.ask("/reset", nil); err != nil {
		return "", err
	}
	j.Events = 2_000_000
	var t tally
	all, err := r.allocations(func() (err error) {
		_, t, err = b.send(ctx, r, j)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := errors.Join(b.sink.ask("/reset", nil), b.sink.ask("/down", nil)); err != nil {
		return "", err
	}
	in, err := r.allocations(func() error {
		_, err := b.client(ctx, j)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := b.sink.ask("/up", nil); err != nil {
		return "", err
	}
	if _, err := b.drained(ctx, r, int64(j.Events), time.Minute); err != nil {
		return "", err
	}
	per := func(n float64) float64 { return n * 1000 / float64(j.Events) }
	return fmt.Sprintf("%s %.1f (%d puts), into the buffer alone %.2f", c.name, per(all), t.Puts, per(in)), r.terminate()
}

// allocations counts the heap allocations of the subject while do runs.
func (r *running) allocations(do func() error) (float64, error) {
	var n [4]float64 // the first questions cost more than the later ones
	for i := range n {
		var err error
		if n[i], err = r.mallocs(); err != nil {
			return 0, err
		}
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := r.mallocs()
	return max(after-n[3]-(n[3]-n[2]), 0), err
}

// mallocs asks the counter of a profiled build for the number of heap allocations so far.
func (r *running) mallocs() (n float64, err error) {
	resp, err := http.Get("http://" + r.profile + "/mallocs")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := fmt.Fscan(resp.Body, &n); err != nil {
		return 0, fmt.Errorf("read the number of allocations: %w", err)
	}
	return n, nil
}

// measureLatency is the time from an event's creation to its arrival at the endpoint.
func measureLatency(ctx context.Context, b *bench, s *subject) (string, error) {
	alone, err := floor(b.o.dir)
	if err != nil {
		return "", err
	}
	r, err := b.begin(ctx, s, "latency", setup{key: "log", flush: 0.2}, true)
	if err != nil {
		return "", err
	}
	const rate, seconds = 20_000, 20
	report, t, err := b.send(ctx, r, job{Addr: r.addr, Mode: fc.Packed, PerMessage: 100, Record: "docker", Size: 256,
		Events: rate * seconds, Rate: rate, Fresh: true, TimedAcks: true, Conns: 2})
	if err != nil {
		return "", err
	}
	u, err := r.usage()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("20000/s, flush_interval 0.2: event to endpoint p50 %d ms, p90 %d ms, p99 %d ms, max %d ms (%d events, %d puts); ack p50 %.1f ms, p99 %.1f ms; %.3f cores; peak %s; %s",
		t.Delays[0], t.Delays[1], t.Delays[2], t.Delays[3], t.Events, t.Puts, report.Acks[0]*1e3, report.Acks[2]*1e3, u.cpu().Seconds()/report.Seconds, mib(u.peak), alone), s.ended(r)
}

// ended stops a subject. Fluent Bit's exit code means nothing here.
func (s *subject) ended(r *running) error {
	err := r.terminate()
	if s.fluent {
		return nil
	}
	return err
}

// measureAck is the time until an acknowledgement at half the rate that was reached at
// saturation.
func measureAck(ctx context.Context, b *bench, s *subject) (string, error) {
	alone, err := floor(b.o.dir)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, c := range cases() {
		if c.name != "kubernetes" && c.name != "packed10" {
			continue
		}
		full, err := b.once(ctx, c, s)
		if err != nil {
			return "", err
		}
		r, err := b.begin(ctx, s, "ack", setup{key: c.key}, false)
		if err != nil {
			return "", err
		}
		j := c.job
		j.Addr, j.Conns, j.TimedAcks = r.addr, 2, true
		j.Rate = int(float64(full.events) / full.wall.Seconds() / 2)
		j.Events = j.Rate * 10
		report, _, err := b.send(ctx, r, j)
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s at %d/s: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms", c.name, j.Rate,
			report.Acks[0]*1e3, report.Acks[1]*1e3, report.Acks[2]*1e3, report.Acks[3]*1e3))
		if err := r.terminate(); err != nil {
			return "", err
		}
	}
	return "time to the ack at half load: " + strings.Join(lines, "; ") + "; " + alone, nil
}

// measureStreams is the memory with many streams, one a tag.
func measureStreams(ctx context.Context, b *bench, s *subject) (string, error) {
	r, err := b.begin(ctx, s, "streams", setup{streams: true, threads: 8}, false)
	if err != nil {
		return "", err
	}
	report, t, err := b.send(ctx, r, job{Addr: r.addr, Mode: fc.Packed, PerMessage: 20, Record: "kubernetes", Events: 100 * b.o.streams,
		Conns: 2, Tags: b.o.streams})
	if err != nil {
		return "", err
	}
	u, err := r.usage()
	if err != nil {
		return "", err
	}
	if t.Streams != b.o.streams {
		return "", fmt.Errorf("%d of %d streams have arrived", t.Streams, b.o.streams)
	}
	return fmt.Sprintf("%d streams, %d events: peak %s, %d puts, %.0f records/CPU s, %.0f records/s", t.Streams, t.Events, mib(u.peak), t.Puts,
		float64(report.Events)/u.cpu().Seconds(), float64(report.Events)/report.Seconds), r.terminate()
}

// measureOutage is the memory while the endpoint is away, and whether everything arrives
// afterwards.
func measureOutage(ctx context.Context, b *bench, s *subject) (string, error) {
	const rate = 5_000
	r, err := b.begin(ctx, s, "outage", setup{limit: "8g", threads: 2}, false)
	if err != nil {
		return "", err
	}
	events := int(b.o.outage.Seconds()+10) * rate
	type answer struct {
		s   sent
		err error
	}
	done := make(chan answer, 1)
	go func() {
		report, err := b.client(ctx, job{Addr: r.addr, Mode: fc.Packed, PerMessage: 100, Record: "kubernetes", Events: events, Rate: rate, Conns: 2})
		done <- answer{report, err}
	}()
	time.Sleep(5 * time.Second)
	if err := b.sink.ask("/down", nil); err != nil {
		return "", err
	}
	select {
	case <-time.After(b.o.outage):
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-done:
		return "", fmt.Errorf("the client ended during the outage: %d sent, %w", a.s.Events, a.err)
	}
	during, err := r.usage()
	if err != nil {
		return "", err
	}
	back := time.Now()
	if err := b.sink.ask("/up", nil); err != nil {
		return "", err
	}
	a := <-done
	if a.err != nil {
		return "", r.failed(a.err)
	}
	t, err := b.drained(ctx, r, int64(a.s.Events), time.Minute)
	if err != nil {
		return "", err
	}
	drained := time.Since(back)
	after, err := r.usage()
	if err != nil {
		return "", err
	}
	if t.Events != int64(a.s.Acked) || a.s.Acked != a.s.Events {
		return "", fmt.Errorf("sent %d, acknowledged %d, received %d", a.s.Events, a.s.Acked, t.Events)
	}
	return fmt.Sprintf("%v without endpoint at %d/s: peak %s during, %s after; %d events, all delivered %v after it came back",
		b.o.outage, rate, mib(during.peak), mib(after.peak), t.Events, drained.Round(time.Second)), r.terminate()
}
