package deliver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/vfs"
)

// entry makes one entry whose record is {"n": n}.
func entry(dst []byte, t event.Time, n uint32) []byte {
	dst = append(dst, 0x92)
	dst = event.AppendTime(dst, t)
	dst = append(dst, 0x81, 0xa1, 'n', 0xce)
	return binary.BigEndian.AppendUint32(dst, n)
}

// batch makes a batch of entries numbered from first.
func batch(tag string, first uint32, count int) event.Batch {
	b := event.Batch{Tag: tag, Count: count, First: 1e18, Last: 1e18}
	for i := range count {
		b.Entries = entry(b.Entries, 1e18, first+uint32(i))
	}
	return b
}

// numbers reads the numbers of entries back.
func numbers(b []byte) []uint32 {
	var out []uint32
	for len(b) > 0 {
		e, n, err := event.Next(b)
		if err != nil {
			panic(err)
		}
		out = append(out, binary.BigEndian.Uint32(e.Record[len(e.Record)-4:]))
		b = b[n:]
	}
	return out
}

// fake is an output whose lane is the tag, or with byNumber the number modulo that. It
// keeps what was accepted.
type fake struct {
	limit int // entries in a request
	// takes decides about a notice in an accepted request; nil takes all.
	takes    func(lane string, n output.Notice, events int) bool
	lotLimit int64 // of the parking lot; default 16 MiB
	bufLimit int64 // of the buffer; default 64 MiB
	window   int   // pieces that may wait; default maxPieces
	spanned  bool  // entries may not stand beside others: each fills a request
	byNumber uint32
	slow     time.Duration // the reader takes for a batch
	// answer decides about a request; nil accepts all.
	answer func(lane string, ns []uint32) output.Result

	mu       sync.Mutex
	accepted map[string][]uint32
	notices  map[string][]told // accepted
	sizes    []int
	sends    int
	inFlight map[string]int
	most     int // requests in flight at once
	lanemost int // of one lane
}

func newFake() *fake {
	return &fake{limit: 10_000, accepted: map[string][]uint32{}, notices: map[string][]told{}, inFlight: map[string]int{}}
}

func (f *fake) Splitter() output.Splitter { return &fakeSplitter{f} }
func (f *fake) Request() output.Request   { return &fakeRequest{f: f} }
func (f *fake) Scope() string             { return "fake" }
func (f *fake) Close() error              { return nil }

// LaneOf implements output.TagLanes.
func (f *fake) LaneOf(tag string) (string, bool) { return tag, f.byNumber == 0 && tag != "unknown" }

// told is a notice that was accepted, and how many events of the lane had been then.
type told struct {
	output.Notice
	at int
}

type fakeSplitter struct{ f *fake }

func (s *fakeSplitter) Split(b event.Batch, add func([]byte, output.Run)) {
	if s.f.slow > 0 {
		time.Sleep(s.f.slow)
	}
	if s.f.byNumber == 0 {
		add([]byte(b.Tag), output.Run{Len: len(b.Entries), Count: b.Count})
		return
	}
	for off := 0; off < len(b.Entries); {
		e, n, _ := event.Next(b.Entries[off:])
		num := binary.BigEndian.Uint32(e.Record[len(e.Record)-4:])
		add(fmt.Appendf(nil, "%d", num%s.f.byNumber), output.Run{Off: off, Len: n, Count: 1})
		off += n
	}
}

type fakeRequest struct {
	f    *fake
	lane string
	buf  []byte
	n    int

	notice *output.Notice
	place  int // entries before it
}

func (r *fakeRequest) Reset(lane string) { r.lane, r.buf, r.n, r.notice = lane, r.buf[:0], 0, nil }

// Tell implements output.Teller. A notice needs the room of an entry.
func (r *fakeRequest) Tell(n output.Notice) bool {
	if r.notice != nil || r.n > 0 && r.n == r.f.limit {
		return false
	}
	n.Reasons = append([]output.ReasonCount(nil), n.Reasons...)
	r.notice, r.place = &n, r.n
	return true
}
func (r *fakeRequest) Fill() float64 { return float64(r.n) / float64(r.f.limit) }

func (r *fakeRequest) Add(b []byte, limit int) (entries, size int, full bool) {
	for size < len(b) && entries < limit {
		if r.n == r.f.limit || r.f.spanned && r.n == 1 {
			return entries, size, true
		}
		_, n, err := event.Next(b[size:])
		if err != nil {
			panic(err)
		}
		r.buf = append(r.buf, b[size:size+n]...)
		size += n
		entries++
		r.n++
	}
	return entries, size, r.n == r.f.limit || r.f.spanned
}

func (r *fakeRequest) Send(ctx context.Context) output.Result {
	f := r.f
	ns := numbers(r.buf)
	f.mu.Lock()
	f.sends++
	f.inFlight[r.lane]++
	total := 0
	for _, n := range f.inFlight {
		total += n
	}
	f.most, f.lanemost = max(f.most, total), max(f.lanemost, f.inFlight[r.lane])
	f.mu.Unlock()
	var res output.Result
	if f.answer != nil {
		res = f.answer(r.lane, ns)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight[r.lane]--
	if n := r.notice; res.Err == nil && n != nil && (f.takes == nil || f.takes(r.lane, *n, len(ns))) {
		before := r.place
		for _, e := range res.Ended {
			before -= max(min(e.First+e.Count, r.place)-e.First, 0)
		}
		f.notices[r.lane] = append(f.notices[r.lane], told{*n, len(f.accepted[r.lane]) + before})
	} else if res.Err == nil && n != nil {
		res.Untold = true
	}
	if res.Err == nil {
		f.sizes = append(f.sizes, len(ns))
		ended := res.Ended
		for i, n := range ns {
			for len(ended) > 0 && ended[0].First+ended[0].Count <= i {
				ended = ended[1:]
			}
			if len(ended) == 0 || i < ended[0].First {
				f.accepted[r.lane] = append(f.accepted[r.lane], n)
			}
		}
	}
	return res
}

func (f *fake) got(lane string) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]uint32(nil), f.accepted[lane]...)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.accepted {
		n += len(a)
	}
	return n
}

func fails(k output.Kind) output.Result {
	return output.Result{Err: &output.Error{Kind: k, Op: "put", Err: errors.New("no: " + k.String())}}
}

// rig is a buffer with a delivery to a fake output.
type rig struct {
	t    *testing.T
	buf  *buffer.Buffer
	lot  *buffer.Buffer
	book ledger.Book
	lotb ledger.Book
	out  *fake
	d    *Deliverer
	log  bytes.Buffer
	logm sync.Mutex

	lotLimit int64
	logger   *slog.Logger
	o        Options
	fs       vfs.FS
	limit    int64 // of the buffer
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func newRig(t *testing.T, out *fake, change func(*Options)) *rig {
	t.Helper()
	return newRigOn(t, vfs.NewMem(0), 0, out, change)
}

// newRigOn makes a rig on a file system, with so many bytes of frames kept in memory.
func newRigOn(t *testing.T, fs vfs.FS, recent int64, out *fake, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, out: out, lotLimit: 16 << 20, fs: fs, limit: 64 << 20}
	o := Options{ID: "out", Output: out, Workers: 4, Retry: DefaultRetry, Linger: Linger{Interval: time.Second}}
	o.Retry.Jitter = false
	if change != nil {
		change(&o)
	}
	if out.bufLimit > 0 {
		r.limit = out.bufLimit
	}
	log := slog.New(slog.NewTextHandler(lockedWriter{&r.logm, &r.log}, nil))
	var err error
	bo := buffer.Options{FS: fs, Dir: "b", Book: &r.book, Log: log, Limit: r.limit, Durability: buffer.OS, Recent: recent, Tell: o.Tell}
	if o.Circular {
		bo.Overflow = buffer.DropOldest
	}
	if r.buf, err = buffer.Open(bo); err != nil {
		t.Fatal(err)
	}
	o.Buffer, o.Log = r.buf, log
	if out.lotLimit > 0 {
		r.lotLimit = out.lotLimit
	}
	if o.Retry.ParkAfter > 0 && o.Retry.ParkAfter < 4*time.Minute {
		if r.lot, err = buffer.Open(buffer.Options{FS: fs, Dir: "l", Book: &r.lotb, Log: log, Limit: r.lotLimit, Durability: buffer.OS, Tell: o.Tell}); err != nil {
			t.Fatal(err)
		}
		o.Parking = r.lot
	}
	r.o, r.logger = o, log
	r.d = New(o)
	if out.window > 0 {
		r.d.window = out.window
	}
	r.d.Start()
	return r
}

func (r *rig) append(b event.Batch) {
	r.t.Helper()
	if _, err := r.buf.Append(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
}

// stop ends the delivery within grace and checks the books.
func (r *rig) stop(grace time.Duration) {
	r.t.Helper()
	if err := r.buf.Seal(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	r.d.Stop(ctx, false)
	st := r.buf.Stats()
	if st.Balance != 0 {
		r.t.Errorf("books are off by %d", st.Balance)
	}
	sheet := r.book.Sheet()
	if got := sheet.Pending(); got != int64(st.PendingEvents) {
		r.t.Errorf("book says %d pending, buffer %d", got, st.PendingEvents)
	}
	if err := r.buf.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	if r.lot != nil {
		if st := r.lot.Stats(); st.Balance != 0 {
			r.t.Errorf("books of the lot are off by %d", st.Balance)
		}
		if err := r.lot.Close(context.Background()); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) logs() string {
	r.logm.Lock()
	defer r.logm.Unlock()
	return r.log.String()
}

// ascending fails unless got is first, first+1, … n numbers.
func ascending(t *testing.T, what string, got []uint32, first uint32, n int) {
	t.Helper()
	if len(got) != n {
		t.Errorf("%s: %d events arrived, want %d", what, len(got), n)
	}
	for i, v := range got {
		if v != first+uint32(i) {
			t.Fatalf("%s: event %d is number %d, want %d", what, i, v, first+uint32(i))
		}
	}
}
