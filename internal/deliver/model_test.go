package deliver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs/vfstest"
)

// consistent recomputes what the Deliverer counts along the way.
func (d *Deliverer) consistent() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var carried, pieces, held, due, flights, sending, building, left, kept, queued, marks int
	for _, l := range d.lanes {
		events, bytes, marked := 0, 0, 0
		for i := l.head; i < len(l.pieces); i++ {
			p := &l.pieces[i]
			events += int(p.Count)
			bytes += int(p.Len)
			if isMark(*p) {
				marked++
			}
			if i > l.head && !l.pieces[i-1].before(p) {
				return fmt.Errorf("lane %q: piece %d is out of order", l.key, i)
			}
		}
		if events != l.events || bytes != l.bytes {
			return fmt.Errorf("lane %q counts %d events, %d bytes and has %d, %d", l.key, l.events, l.bytes, events, bytes)
		}
		if marked != l.marks {
			return fmt.Errorf("lane %q counts %d marks and has %d", l.key, l.marks, marked)
		}
		marks += marked
		pieces += l.waiting()
		held += l.bytes
		flights += len(l.flights)
		for _, f := range l.flights {
			carried += f.carried
		}
		sending += l.sending
		kept += l.kept
		if l.building {
			building++
		}
		if l.queued {
			due += l.bytes
			queued++
		}
		if l.givenUp {
			left += l.waiting()
		}
		if l.kept > 0 && l.waiting() > 0 {
			return fmt.Errorf("lane %q has pieces and counts as empty", l.key)
		}
		waits := l.queued || l.heapIdx >= 0 || l.building || l.givenUp || len(l.flights) > 0 ||
			l.parked && l.marks == l.waiting()
		if l.waiting() > 0 && !waits && !d.stopped {
			return fmt.Errorf("lane %q is stuck with %d events", l.key, l.events)
		}
	}
	if building == 0 && carried != d.carried {
		return fmt.Errorf("%d bytes are counted in requests, %d are there", d.carried, carried)
	}
	got := []int{d.pieces, d.bytes, d.dueBytes, d.flights, d.inFlight, d.building, d.left, d.kept, len(d.ready) - d.readyAt, d.marks}
	want := []int{pieces, held, due, flights, sending, building, left, kept, queued, marks}
	if !slices.Equal(got, want) {
		return fmt.Errorf("counters %v, want %v (pieces, bytes, due bytes, flights, in flight, building, given up, kept, queued, marks)", got, want)
	}
	return nil
}

// plan is a drawn course of events.
type plan struct {
	seed             uint64
	workers, perLane int
	lanes            int
	park             bool
	second           bool // a <secondary>, and retries that end soon
	tell             bool // losses are told to their lane
	slots            int  // shared with nobody; 0: none
	rest             time.Duration
	limit            int
	badness          int // per cent of requests that fail
	badLane          int // lane that always fails for a while; -1 none
	steps            []step
}

type step struct {
	kind  string // append, miss, flush, halt, restart, wait
	lane  int
	count int
	pause time.Duration
	give  bool
}

func drawPlan(t *rapid.T) plan {
	p := plan{
		seed:    rapid.Uint64().Draw(t, "seed"),
		workers: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "workers"),
		perLane: rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "perLane"),
		lanes:   rapid.IntRange(1, 5).Draw(t, "lanes"),
		park:    rapid.Bool().Draw(t, "park"),
		second:  rapid.SampledFrom([]bool{false, false, true}).Draw(t, "second"),
		tell:    rapid.Bool().Draw(t, "tell"),
		slots:   rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "slots"),
		rest:    rapid.SampledFrom([]time.Duration{0, 0, 200 * time.Millisecond}).Draw(t, "rest"),
		limit:   rapid.SampledFrom([]int{3, 10, 50}).Draw(t, "limit"),
		badness: rapid.SampledFrom([]int{0, 20, 60}).Draw(t, "badness"),
		badLane: rapid.IntRange(-1, 3).Draw(t, "badLane"),
	}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		s := step{
			kind:  rapid.SampledFrom([]string{"append", "append", "append", "append", "append", "miss", "flush", "wait", "halt", "restart"}).Draw(t, "kind"),
			lane:  rapid.IntRange(0, p.lanes-1).Draw(t, "lane"),
			count: rapid.IntRange(1, 30).Draw(t, "count"),
			pause: rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Millisecond, time.Second, 20 * time.Second}).Draw(t, "pause"),
			give:  rapid.Bool().Draw(t, "give"),
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// course runs a plan against a fake output.
type course struct {
	plan
	t       *testing.T
	fs      *vfstest.FS
	out     *fake
	other   *fake // the secondary
	o       Options
	buf     *buffer.Buffer
	lot     *buffer.Buffer
	book    *ledger.Book
	lotBook *ledger.Book
	d       *Deliverer
	next    []uint32
	missed  []uint64 // of each lane

	mu     sync.Mutex
	rng    *rand.Rand
	healed bool
	ended  map[uint32]ledger.Fate // number*lanes+lane: what ended undelivered
}

func (c *course) answer(lane string, ns []uint32) output.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := time.Duration(c.rng.IntN(300)) * time.Millisecond
	defer func() {
		c.mu.Unlock()
		time.Sleep(took)
		c.mu.Lock()
	}()
	for _, n := range ns {
		if n%97 == 13 { // poison: refused wherever it is
			return fails(output.Refused)
		}
	}
	if res := c.stillEnded(lane, ns); res.Ended != nil {
		return res
	}
	if c.healed {
		return output.Result{}
	}
	if lane == fmt.Sprint("l", c.badLane) {
		return fails([]output.Kind{output.Denied, output.Unavailable, output.Throttled}[c.seed%3])
	}
	if c.rng.IntN(100) < c.badness {
		kinds := []output.Kind{output.Unavailable, output.Unavailable, output.Throttled, output.Credentials, output.Denied, output.NoTarget, output.Conflict}
		res := fails(kinds[c.rng.IntN(len(kinds))])
		res.Resent = c.rng.IntN(3) == 0
		if c.rng.IntN(12) == 0 {
			res = fails(output.Drop)
			res.Err.Fate = ledger.ThrottleLimit.Fate()
			c.end(lane, ns)
		}
		return res
	}
	if len(ns) > 0 && c.rng.IntN(4) == 0 {
		first := c.rng.IntN(len(ns))
		n := 1 + c.rng.IntN(len(ns)-first)
		c.end(lane, ns[first:first+n])
		return output.Result{Ended: []output.Ended{{First: first, Count: n, Fate: ledger.TooOld.Fate()}}}
	}
	return output.Result{}
}

// end notes events that end undelivered.
func (c *course) end(lane string, ns []uint32) {
	for _, n := range ns {
		c.ended[number(lane, n)] = ledger.Fate{}
	}
}

func number(lane string, n uint32) (all uint32) {
	fmt.Sscanf(lane, "l%d", &all)
	return n*8 + all
}

// stillEnded rejects what was rejected before: until it was told, a restart brings it back.
func (c *course) stillEnded(lane string, ns []uint32) (res output.Result) {
	for i, n := range ns {
		if _, ok := c.ended[number(lane, n)]; ok {
			res.Ended = append(res.Ended, output.Ended{First: i, Count: 1, Fate: ledger.TooOld.Fate()})
		}
	}
	return res
}

// answerOther is the secondary's answer.
func (c *course) answerOther(string, []uint32) output.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.healed && c.rng.IntN(100) < 50 {
		return fails(output.Unavailable)
	}
	return output.Result{}
}

func (c *course) open() {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	c.book, c.lotBook = &ledger.Book{}, &ledger.Book{}
	var err error
	c.buf, err = buffer.Open(buffer.Options{FS: c.fs, Dir: "b", Book: c.book, Log: log, Limit: 16 << 20, Durability: buffer.OS, Tell: c.tell})
	if err != nil {
		c.t.Fatal(err)
	}
	c.o = Options{ID: "out", Buffer: c.buf, Output: c.out, Log: log, Workers: c.workers, PerLane: c.perLane,
		Retry: DefaultRetry, Linger: Linger{Interval: time.Second, Events: c.limit}, Throttle: &Throttle{}, Tell: c.tell, Pause: c.rest}
	if c.slots > 0 {
		c.o.Slots = NewSlots(c.slots)
	}
	if c.second {
		c.o.Secondary, c.o.Retry.MaxTimes = c.other, 3
	}
	if c.park {
		limit := int64(16 << 10)
		if c.tell {
			limit = 1 << 20 // a full one releases what waits for its notice, which a restart then loses
		}
		c.lot, err = buffer.Open(buffer.Options{FS: c.fs, Dir: "l", Book: c.lotBook, Log: log, Limit: limit, Durability: buffer.OS, Tell: c.tell})
		if err != nil {
			c.t.Fatal(err)
		}
		c.o.Parking = c.lot
		c.o.Retry.ParkAfter = 5 * time.Second
	}
	c.d = New(c.o)
	c.d.Start()
}

func (c *course) check() {
	c.t.Helper()
	synctest.Wait()
	if err := c.d.consistent(); err != nil {
		c.t.Error(err)
	}
	if c.park {
		if err := c.d.parking.slow.consistent(); err != nil {
			c.t.Error("parking lot:", err)
		}
		if st := c.lot.Stats(); st.Balance != 0 {
			c.t.Errorf("books of the lot are off by %d", st.Balance)
		}
	}
	if st := c.buf.Stats(); st.Balance != 0 {
		c.t.Errorf("books are off by %d", st.Balance)
	}
}

func (c *course) close(grace time.Duration, giveUp bool) {
	if err := c.buf.Seal(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	c.d.Stop(ctx, giveUp)
	c.check()
	if err := c.buf.Close(context.Background()); err != nil {
		c.t.Error(err)
	}
	if c.lot != nil {
		if err := c.lot.Close(context.Background()); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *course) run() {
	c.next, c.missed = make([]uint32, c.lanes), make([]uint64, c.lanes)
	c.open()
	for _, s := range c.steps {
		switch s.kind {
		case "append":
			b := batch(fmt.Sprint("l", s.lane), c.next[s.lane], s.count)
			c.next[s.lane] += uint32(s.count)
			if _, err := c.buf.Append(context.Background(), b); err != nil {
				c.t.Fatal(err)
			}
		case "miss":
			// Always of one lane: a gap of several that was told to some of them before a
			// restart is told again.
			c.missed[0] += uint64(s.count)
			_ = c.buf.Miss("l0", ledger.WireLoss, buffer.Loss{Events: uint64(s.count)})
		case "flush":
			c.d.Flush()
		case "halt":
			c.d.Halt(context.Background())
			c.buf.Rewind()
			if c.lot != nil {
				c.lot.Rewind()
			}
			c.d = New(c.o)
			c.d.Start()
		case "restart":
			c.close(s.pause/2, s.give)
			c.open()
		}
		time.Sleep(s.pause)
		c.check()
	}
	c.mu.Lock()
	c.healed = true
	c.mu.Unlock()
	time.Sleep(10 * time.Minute) // longer than any wait
	c.check()
	if st := c.buf.Stats(); st.PendingEvents != 0 || st.Untold != 0 {
		c.t.Errorf("%d events and %d gaps still wait long after all is well", st.PendingEvents, st.Untold)
	}
	if c.lot != nil && c.lot.Stats().PendingEvents != 0 {
		c.t.Errorf("%d events still wait in the lot long after all is well", c.lot.Stats().PendingEvents)
	}
	c.close(time.Minute, false)
	c.verify()
}

// verify compares what arrived and what was booked with what was appended.
func (c *course) verify() {
	var delivered, rest, total, missing uint64
	for l := range c.lanes {
		seen := make([]int, c.next[l])
		got := c.out.got(fmt.Sprint("l", l))
		for i, n := range got {
			seen[n]++
			// What was given up and not told before a restart is tried again, behind what came later.
			if c.perLane == 1 && i > 0 && got[i-1] >= n && !(c.tell && c.second) {
				c.t.Errorf("lane %d: event %d arrived behind %d", l, n, got[i-1])
			}
		}
		delivered += uint64(len(got))
		other := c.other.got(fmt.Sprint("l", l))
		delivered += uint64(len(other))
		for _, n := range other {
			seen[n]++
		}
		total += uint64(c.next[l]) + c.missed[l]
		rest += c.missed[l]
		if told := c.out.sum(fmt.Sprint("l", l)); c.tell && uint64(len(got)+len(other))+told != uint64(c.next[l])+c.missed[l] {
			c.t.Errorf("lane %d: %d events arrived, %d at the secondary, and %d are told missing, of %d and %d", l, len(got), len(other), told, c.next[l], c.missed[l])
		}
		for n, times := range seen {
			_, ended := c.ended[uint32(n)*8+uint32(l)]
			want := 1
			if c.second && times == 0 && !ended && n%97 != 13 {
				missing++ // and must be booked as given up
				continue
			}
			if n%97 == 13 && times == 1 && slices.Contains(other, uint32(n)) {
				continue // the secondary does not refuse it
			}
			if ended || n%97 == 13 {
				want = 0
				rest++
			}
			if times != want {
				c.t.Errorf("lane %d: event %d arrived %d times, want %d", l, n, times, want)
			}
		}
	}
	s, p := c.book.Sheet(), c.lotBook.Sheet()
	if s.Admitted != total || s.Moved != p.Admitted {
		c.t.Errorf("admitted %d of %d, moved %d to a lot that has %d", s.Admitted, total, s.Moved, p.Admitted)
	}
	if n := s.Delivered + p.Delivered; n != delivered {
		c.t.Errorf("booked as delivered %d, delivered %d", n, delivered)
	}
	if n := s.Dropped[ledger.RetryLimit] + p.Dropped[ledger.RetryLimit]; n < missing {
		c.t.Errorf("%d events are missing, %d were given up", missing, n)
	} else {
		rest += missing
	}
	if n := s.Ended() - s.Delivered - s.Moved + p.Ended() - p.Delivered; n != rest {
		c.t.Errorf("booked as ended otherwise %d, want %d", n, rest)
	}
}

func TestAnyCourseOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		ok := t.Run("course", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &course{plan: p, t: t, fs: vfstest.New(), out: newFake(), ended: map[uint32]ledger.Fate{},
					rng: rand.New(rand.NewPCG(p.seed, 1))}
				c.out.limit, c.out.answer = p.limit, c.answer
				c.out.takes = func(string, output.Notice, int) bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.healed || c.rng.IntN(3) > 0
				}
				c.other = newFake()
				c.other.limit, c.other.answer = p.limit, c.answerOther
				c.run()
			})
		})
		if !ok {
			rt.Fatalf("plan %+v", p)
		}
	})
}
