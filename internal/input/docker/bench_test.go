//go:build linux

package docker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/dockertest"
	"weir/internal/ledger"
)

// nowhere is a Host whose spools keep nothing.
type nowhere struct{}

func (nowhere) Open(*Container) (Spool, error)           { return nowhere{}, nil }
func (nowhere) Put(context.Context, []event.Batch) error { return nil }
func (nowhere) Chunks() []event.Chunk                    { return nil }
func (nowhere) Release()                                 {}
func (nowhere) Miss(event.Chunk, string, ledger.Reason, uint64, uint64, event.Time, event.Time) {
}

// BenchmarkPipes measures lines through pipes into a spool that costs nothing. What the
// engine would do is done before, except the copying into the pipe.
func BenchmarkPipes(b *testing.B) {
	for _, pipes := range []int{1, 20} {
		for _, options := range [][]string{nil, {"weir-stderr-stream=e"}, {"awslogs-multiline-pattern=^!"}} {
			b.Run(fmt.Sprintf("%d/%s", pipes, strings.Join(options, "")), func(b *testing.B) { benchPipes(b, pipes, options) })
		}
	}
}

func benchPipes(b *testing.B, pipes int, options []string) {
	w := newWorld(b)
	p := New(Options{Socket: w.socket(), State: w.dir, Pipes: w.pipes(), Host: nowhere{}, Log: slog.New(slog.DiscardHandler)})
	must(b, p.Open())
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	defer func() { end(); must(b, <-ended) }()

	var block []byte
	const perBlock = 400
	for i := range perBlock {
		f := line(i, "10.0.0.1 - - [30/Nov/2026:10:00:00 +0000] \"GET /index.html HTTP/1.1\" 200 612 "+strings.Repeat("x", 40))
		if i%2 == 1 {
			f.Source = "stderr"
		}
		if i%4 == 0 {
			f.Line[0] = '!'
		}
		block = append(block, f.Bytes()...)
	}
	var all []*dockertest.Logger
	for i := range pipes {
		l, err := w.engine.Start(id(i), info(i, options...))
		must(b, err)
		all = append(all, l)
	}
	b.SetBytes(int64(len(block)) / perBlock)
	b.ReportAllocs()
	began := time.Now()
	b.ResetTimer()
	done := make(chan struct{})
	for i, l := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := i * perBlock; n < b.N; n += pipes * perBlock {
				if l.WriteRaw(block) != nil {
					b.Error("write")
					return
				}
			}
		}()
	}
	for range all {
		<-done
	}
	for _, l := range all {
		must(b, l.Stop())
	}
	b.StopTimer()
	b.ReportMetric(float64(p.Totals().Frames)/time.Since(began).Seconds(), "lines/s")
}

// BenchmarkCompose is the part of it that is ours: frames to batches, and their ids.
func BenchmarkCompose(b *testing.B) {
	var block []byte
	n := 0
	for ; len(block) < maxBlock-1000; n++ {
		f := line(n, "10.0.0.1 - - [30/Nov/2026:10:00:00 +0000] \"GET /index.html HTTP/1.1\" 200 612 "+strings.Repeat("x", 40))
		block = append(block, f.Bytes()...)
	}
	p := New(Options{Log: slog.New(slog.DiscardHandler), kill: nil})
	sv, err := decodeSaved(id64('a'), []byte(`{"Format":1,"File":"/run/`+id64('a')+`","ID":"c","Options":{"Group":"g","Stream":"s"}}`))
	must(b, err)
	s := newSession(p, sv, false)
	must(b, s.compile())
	s.pipe = &pipe{size: 1 << 20}
	d := &draft{}
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		d.reset(s.tags)
		var c Counts
		took := s.compose(d, block, false, &c)
		sum := s.namer.sum(block[:took])
		d.finish(took, &sum)
		if len(d.ready) != 1 || d.ready[0].Count != n {
			b.Fatal("events are missing")
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
