package deliver

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/buffer"
	"weir/internal/output"
)

func TestLaneThatIsNeverEmptyStaysSmall(t *testing.T) {
	l := &lane{heapIdx: -1}
	p := piece{}
	p.Count, p.Len = 1, 20
	var dst []piece
	for i := range 1_000_000 {
		p.Seq = buffer.Seq(2 * i)
		l.push(p)
		if i >= 3 {
			dst = l.take(dst[:0], 1, 1)
		}
	}
	if l.waiting() != 3 || cap(l.pieces) > 64 {
		t.Errorf("%d pieces wait in room for %d", l.waiting(), cap(l.pieces))
	}
}

func TestEmptyLanesKeepLittleMemory(t *testing.T) {
	out := newFake()
	r := newRig(t, out, func(o *Options) { o.Linger.Interval = 0 })
	one := batch("", 0, 1)
	for l := range 2000 {
		one.Tag = fmt.Sprint(l)
		for range 60 {
			r.append(one)
		}
	}
	r.stop(time.Minute)
	kept := 0
	for _, l := range r.d.lanes {
		kept += cap(l.pieces)
	}
	if kept > keptPieces {
		t.Errorf("empty lanes keep room for %d pieces", kept)
	}
	if err := r.d.consistent(); err != nil {
		t.Error(err)
	}
}

func TestBadLaneDoesNotFillMemoryForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newFake()
		out.window = 1000
		out.answer = func(lane string, _ []uint32) output.Result {
			if lane == "bad" {
				return fails(output.Denied)
			}
			return output.Result{}
		}
		r := newRig(t, out, func(o *Options) { o.Retry.ParkAfter = time.Minute })
		one := batch("bad", 0, 1)
		for i := range 60_000 { // each a batch of its own
			r.append(one)
			if i%1000 == 0 {
				synctest.Wait() // and a frame of its own now and then
			}
		}
		synctest.Wait()
		r.append(batch("good", 0, 1))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		ascending(t, "good", out.got("good"), 0, 1)
		r.stop(time.Second)
	})
}

func TestManyLanesHoldLittleMemory(t *testing.T) {
	out := newFake()
	r := newRig(t, out, func(o *Options) { o.Linger.Interval = time.Hour })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const lanes = 10_000
	for l := range lanes {
		r.append(batch(fmt.Sprint("lane-", l), 0, 1))
	}
	for {
		if s := r.d.Stats(); s.Lanes == lanes {
			break
		}
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := int64(after.HeapAlloc-before.HeapAlloc) / lanes; per > 1500 {
		t.Errorf("%d bytes a lane", per)
	}
	r.stop(time.Minute)
	if n := out.count(); n != lanes {
		t.Errorf("%d events arrived, want %d", n, lanes)
	}
}
