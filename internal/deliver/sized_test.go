package deliver

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/event"
	"weir/internal/output"
)

// sizedFake is an output that says how large its requests may get and asks for tags; all
// its events are in one lane.
type sizedFake struct {
	*fake
	bytes int
	mu    sync.Mutex
	tags  []string
}

func (f *sizedFake) RequestBytes() int         { return f.bytes }
func (f *sizedFake) UsesTags() bool            { return true }
func (f *sizedFake) Splitter() output.Splitter { return oneLane{} }
func (f *sizedFake) Request() output.Request   { return &sizedRequest{Request: f.fake.Request(), f: f} }

type oneLane struct{}

func (oneLane) Split(b event.Batch, add func([]byte, output.Run)) {
	add([]byte("all"), output.Run{Len: len(b.Entries), Count: b.Count})
}

type sizedRequest struct {
	output.Request
	f *sizedFake
}

func (r *sizedRequest) SetTag(tag string) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.tags = append(r.f.tags, tag)
}

func TestSizedRequestsHoldWhatTheOutputSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &sizedFake{fake: newFake(), bytes: 12 << 20}
		f.limit = 1 << 30
		r := newRig(t, f.fake, func(o *Options) { o.Output, o.Linger = f, Linger{Interval: time.Hour} })
		const each = 1000
		per := len(batch("t", 0, each).Entries)
		n := 0
		for ; n*per < f.bytes; n++ { // far more than 10 000 events
			r.append(batch(fmt.Sprint("tag", n%2), uint32(n*each), each))
		}
		synctest.Wait()
		if len(f.sizes) != 1 || f.sizes[0] != n*each {
			t.Errorf("requests of %v events, want one of %d", f.sizes, n*each)
		}
		if len(f.tags) != n || f.tags[0] != "tag0" || f.tags[1] != "tag1" {
			t.Errorf("%d tags, want %d that alternate", len(f.tags), n)
		}
		r.stop(time.Second)
	})
}

func TestWaitingForAWindowDoesNotStopTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.limit = 1 << 30
		r := newRig(t, out, func(o *Options) {
			o.Linger = Linger{Events: 1 << 30, Hold: func(event.Time) time.Time { return time.Now().Add(24 * time.Hour) }}
		})
		for i := range maxPieces + 1000 { // each a batch of its own
			r.append(batch(fmt.Sprint("lane", i%7), uint32(i), 1))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := out.count(); n < maxPieces/7 {
			t.Errorf("%d events sent: the reader stands still with %d pieces", n, maxPieces)
		}
		r.stop(time.Second)
	})
}
