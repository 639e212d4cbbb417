package buffer

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/buffer/segment"
	"weir/internal/event"
	"weir/internal/input"
	"weir/internal/ledger"
)

// Buffer is a bounded queue of batches. Its methods may be used from any goroutine, except
// that only one goroutine at a time may call Next.
//
//	Append ──► open frame ──committer──► tail segment ──► … segments …
//	                         │                              │ cold
//	                         └──► memory (recent frames) ───┴──► Next ──► window ──Settle──► mark
//
// Locks: journalMu before mu. mu is never held over a file operation of the hot path.
type Buffer struct {
	o        Options
	id       uint64 // identity of the log
	volatile bool
	lock     io.Closer
	pool     *pool     // of frames; the Share's if there is one
	idle     sync.Pool // of *waiter
	refusals [ledgerReasons]error
	comp     *segment.Compressor // the committer's
	scratch  []byte              // the committer's: a compressed frame
	ticks    int                 // the committer's: how often its timer has fired
	chunks   []event.Chunk       // the committer's: of the batches stored last
	decomp   sync.Pool           // of *segment.Decompressor
	blocks   sync.Pool           // of *Run
	tags     tagCache            // the reader's

	storedSeq, markSeq atomic.Uint64 // stored.Seq-1 and mark.Seq-1, for a look without the lock
	roomElsewhere      atomic.Bool   // another buffer has given room back to the Share

	journalMu sync.Mutex // guards journal; held while the books change, so that both agree
	journal   journal

	mu sync.Mutex // guards everything below

	// Numbering: mark <= reader.pos <= stored <= next.
	next, stored, mark segment.Pos
	own                ledger.Sheet // what went through the buffer, as booked in o.Book

	// Room.
	limit        int64
	maxOpen      int64 // bound of waitingBytes
	ceiling      int64 // the largest limit so far: what was reserved below it may be written
	used         int64 // lengths of all segment files
	shared       int64 // what Options.Share has booked for this buffer
	flying       int64 // length of the frame that the committer has
	reserved     int64
	waitingBytes int64 // batches reserved or committed that the committer has not taken
	full         fullState
	tight        bool   // a reservation failed since the committer last cleaned up
	noSpace      error  // why no segment can be made ready
	freedAt      uint64 // counts times at which room was made on the disk
	askedAt      uint64 // freedAt when the disk was asked last
	floor        *floor
	fault        error // why the last write failed, while it is retried
	faultSince   time.Time

	open      *frame
	line      []*frame // full ones before it: a gap stands between
	lineBytes int64
	segments  []*segmentFile // by first Seq; the last may be the tail
	tail      *segmentFile   // being written; nil before the first write
	spare     *segmentFile   // ready to become the tail
	storing   bool           // the committer is writing to the tail

	mem        memory
	reader     reader
	again      again
	repeats    repeats // filled at Open, then only read
	window     window
	drops      []*drop           // given up, and not yet passed by the reader
	restored   map[uint64][]Span // ended before the restart, and not yet passed by the reader
	ahead      uint64            // events in drops and restored
	dropping   bool              // somebody is giving up a segment
	condemned  []*segmentFile    // given up, but not removed yet
	cleaning   bool              // the committer is removing finished segments: there is room in a moment
	aside      int               // damaged pieces kept aside
	misses     []*drop           // gaps of lost events that are not written down yet, by Seq
	openGaps   []*drop           // those of them behind which nothing was appended yet
	unsaid     ledger.Sheet      // events of misses: in o.Book, but in no record yet
	gapsDue    bool              // they are to be written down now
	losses     uint64            // counts losses, for the door file
	lostIDs    []event.Chunk     // of what was lost last
	lostBefore []event.Chunk     // likewise, before this start
	numbers    uint64            // the next gap's in the door file
	untold     int               // gaps in the window that have not been told

	dirty     bool   // something changed since the last checkpoint
	unsynced  bool   // Interval: written since the last sync
	sealed    bool   // no more appends
	stopping  bool   // the committer ends once everything is stored
	discarded bool   // … and leaves the files as they are
	giveUp    bool   // … or at once
	ended     bool   // the committer has ended
	finished  bool   // closed for the reader
	wantClean bool   // the committer is to remove finished segments now
	wantSpare bool   // the committer is to make a segment ready now
	wantBytes int64  // Lean: for so many bytes
	restedAt  uint64 // Lean: stored.Seq at the last tick

	storedWait, markWait, roomWait, readWait waiters

	kick    chan struct{}  // one token: the committer has something to look at
	done    chan struct{}  // closed when the committer has ended
	freeing sync.WaitGroup // goroutines that close removed segments
}

// ledgerReasons is the number of reasons that a Sheet can hold.
const ledgerReasons = len(ledger.Sheet{}.Dropped)

// fullState remembers a time of fullness for the two log lines about it.
type fullState struct {
	since, last      time.Time // of a batch that did not fit
	reason           ledger.Reason
	logged           bool
	refused, dropped uint64 // events
}

// noteFull notes that a batch did not fit. The committer writes the log line.
func (b *Buffer) noteFull(reason ledger.Reason) {
	if b.full.since.IsZero() {
		b.full = fullState{since: time.Now(), reason: reason}
		b.kickCommitter()
	}
	b.full.last = time.Now()
}

// refusal is made once for each reason, since it may be returned very often.
func refusal(dir string, reason ledger.Reason) error {
	why := "total_limit_size is reached"
	if reason == ledger.DiskFull {
		why = "the disk is full, at its free-space floor, or fails"
	}
	return fmt.Errorf("append to buffer %s: %s: %w", dir, why, input.ErrRefused)
}

// pending is how many events have not ended, counted by position in the log: what was
// numbered, less what the mark has passed, less what has ended behind it.
func (b *Buffer) pending() uint64 {
	from := b.reader.pos.Events
	ended := b.ahead
	if h := b.window.front(); h != nil {
		from = h.start.Events
		ended += b.window.ended()
	}
	return b.next.Events - from - ended
}

// Stats describes the buffer at this moment.
func (b *Buffer) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	sheet := b.o.Book.Sheet()
	pending := b.pending()
	s := Stats{
		Bytes:         b.used + b.flying + b.openSize() + b.reserved,
		Limit:         b.limit,
		Segments:      len(b.segments),
		PendingEvents: pending,
		Unstored:      b.next.Events - b.stored.Events,
		Balance:       sheet.Pending() - int64(pending),
		Stored:        Seq(b.stored.Seq - 1),
		Mark:          Seq(b.mark.Seq - 1),
		Fault:         b.fault,
		Untold:        b.countUntold(),
	}
	if pending > 0 {
		s.PendingBytes = b.next.Bytes - b.mark.Bytes
		s.Oldest = b.oldest()
	}
	if s.Fault == nil {
		s.Fault = b.noSpace
	}
	return s
}

// oldest is when the frame at the mark was accepted.
func (b *Buffer) oldest() time.Time {
	if h := b.window.front(); h != nil && h.accepted != 0 {
		return time.Unix(0, h.accepted)
	}
	if f := b.mem.unread; f != nil && f.hdr.Start.Seq <= b.mark.Seq {
		return time.Unix(0, f.hdr.Accepted)
	}
	for i := len(b.segments) - 1; i >= 0; i-- {
		if s := b.segments[i]; s.start.Seq <= b.mark.Seq && s.accepted != 0 {
			return time.Unix(0, s.accepted)
		}
	}
	if !b.open.empty() {
		return time.Unix(0, b.open.hdr.Accepted)
	}
	return time.Now()
}
