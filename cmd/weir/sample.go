package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
)

// sample is a reader of lively JSON lines at a steady rate, or of a number of them as fast
// as they are read.
type sample struct {
	ctx    context.Context
	start  time.Time
	end    time.Time
	events int // 0: until end
	rate   int
	made   int
	rest   []byte
	rnd    *rand.Rand
}

func newSample(ctx context.Context, lasts time.Duration, events, rate int) *sample {
	now := time.Now()
	return &sample{ctx: ctx, start: now, end: now.Add(lasts), events: events, rate: rate, rnd: rand.New(rand.NewPCG(1, 2))}
}

// Read implements io.Reader.
func (s *sample) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ctx.Err() != nil {
			return 0, io.EOF
		}
		due := s.events - s.made
		if s.events == 0 {
			now := time.Now()
			if now.After(s.end) {
				return 0, io.EOF
			}
			due = int(now.Sub(s.start).Seconds()*float64(s.rate)) - s.made
		} else if due == 0 {
			return 0, io.EOF
		}
		if due <= 0 {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-s.ctx.Done():
			}
			continue
		}
		for range min(due, 500) {
			s.line()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// line makes one more line.
func (s *sample) line() {
	services := [...]string{"checkout", "catalogue", "payments", "search", "accounts"}
	verbs := [...]string{"GET", "GET", "GET", "POST", "PUT", "DELETE"}
	things := [...]string{"orders", "items", "carts", "sessions", "prices", "users"}
	s.made++
	service := services[s.rnd.IntN(len(services))]
	took := 2 + s.rnd.ExpFloat64()*20
	level, status, text := "info", 200, "served"
	switch p := s.rnd.Float64(); {
	case p < 0.01:
		level, status, text = "error", 500, "upstream closed the connection"
	case p < 0.04:
		level, status, text = "warn", 429, "slow down"
	}
	s.rest = fmt.Appendf(s.rest, `{"n":%d,"service":%q,"level":%q,"message":"%s %s /%s/%d","status":%d,"ms":%.1f,"trace":"%08x"}`+"\n",
		s.made, service, level, text, verbs[s.rnd.IntN(len(verbs))], things[s.rnd.IntN(len(things))], s.rnd.IntN(9000)+1000, status, took, s.rnd.Uint32())
}

// untilDone reads f until its end or the end of ctx, which a read from a terminal or a pipe
// would not notice.
func untilDone(ctx context.Context, f *os.File) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, f)
		_ = w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return r
}
