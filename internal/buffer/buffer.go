package buffer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// Seq numbers the batches of a buffer from 1, in order of acceptance, for the life of the
// buffer's directory.
type Seq uint64

// Overflow says what happens when a batch does not fit.
type Overflow uint8

const (
	Throw      Overflow = iota // refuse it: the sender keeps its data
	Block                      // wait for room
	DropOldest                 // give up the oldest segment that the reader has not begun
	DropNewest                 // give up the batch
	try                        // refuse it, and say nothing: it has another place
)

// Durability says when an appended batch counts as stored.
type Durability uint8

const (
	Sync     Durability = iota // after fdatasync, shared by all batches waiting for it
	Interval                   // after the write; fdatasync runs every Options.SyncEvery
	OS                         // after the write; the kernel decides when it reaches the disk
)

// Options configures a Buffer. FS, Dir, Book, Log and Limit are required.
type Options struct {
	FS         vfs.FS
	Dir        string // the buffer's own directory, created if missing
	Book       *ledger.Book
	Log        *slog.Logger
	Limit      int64                  // total_limit_size: bytes of all segment files, kept to the byte
	MinFree    int64                  // free-space floor of the file system; below it acts like Limit
	Overflow   Overflow               //
	Durability Durability             //
	SyncEvery  time.Duration          // for Interval; default 1 s
	Compress   string                 // "", "text", "gzip" or "zstd": how frame payloads are stored
	Capacity   int64                  // of the file system; 0: large, or not known
	Segment    int64                  // size at which a new segment begins; default Limit/16 within 1 and 64 MiB (Lean: Limit/64 from 256 KiB on), on a small file system Capacity/128 from 256 KiB on, never above Limit/8
	Recent     int64                  // bytes of frames kept in memory for the reader; default 16 MiB, 2 MiB on a volatile FS
	Beside     func(name string) bool // tells names in Dir that are known to be somebody else's: not warned about; may be nil
	Tell       bool                   // gaps stay pending until Settle says that they were told
	Share      *Share                 // a limit that several buffers have together; may be nil
	Repeats    int                    // how many messages are remembered from before a restart; default 32768
	Lean       bool                   // one of many, mostly idle: disk and memory are taken only as they are needed

	// MakeRoom, if set, is called when the disk is full or at its floor, before anything is
	// given up here: need bytes are wanted. It may let another buffer GiveUp, and tells
	// whether it did. b is not locked.
	MakeRoom func(b *Buffer, need int64) bool
}

// What a Buffer's methods fail with, wrapped.
var (
	// ErrDropped is returned by Reserve and Append when the batch was booked as dropped
	// because the buffer is full: the caller goes on as if it had been accepted nowhere.
	ErrDropped = errors.New("buffer is full: batch dropped")
	// ErrClosed: the buffer takes or gives nothing any more.
	ErrClosed = errors.New("buffer is closed")
	// ErrGone: what a Ref or a Part speaks of is not waiting in the buffer.
	ErrGone = errors.New("not in the buffer")
	// ErrDamaged: the bytes on disk changed after they had been read once.
	ErrDamaged = errors.New("buffer data is damaged")
)

// Bounds that keep memory and the format in check.
const (
	maxOpen       = 4 << 20   // bytes of batches that wait for the committer before Reserve throttles
	maxBatch      = 256 << 20 // bytes of entries of one batch
	defaultRecent = 16 << 20
	minSegment    = 4 << 10
)

func (o *Options) validate() error {
	switch {
	case o.FS == nil || o.Book == nil || o.Log == nil:
		return errors.New("open buffer: FS, Book and Log are required")
	case o.Dir == "":
		return errors.New("open buffer: a directory is required")
	case o.Limit <= 0:
		return fmt.Errorf("open buffer %s: total_limit_size is %d; write a size above 0", o.Dir, o.Limit)
	}
	if o.SyncEvery <= 0 {
		o.SyncEvery = time.Second
	}
	if o.Segment <= 0 && o.Lean {
		o.Segment = min(max(o.Limit/64, 1<<18), 64<<20)
	} else if o.Segment <= 0 {
		o.Segment = min(max(o.Limit/16, 1<<20), 64<<20)
		if o.Capacity > 0 { // each buffer reserves two, and there may be many
			o.Segment = min(o.Segment, max(o.Capacity/128, 1<<18))
		}
	}
	if o.Repeats <= 0 {
		o.Repeats = maxRepeats
	}
	o.Segment = max(min(o.Segment, o.Limit/8), minSegment)
	if o.Recent <= 0 {
		o.Recent = defaultRecent
		if vfs.Volatile(o.FS) {
			o.Recent = defaultRecent / 8 // the file system holds it already
		}
	}
	return nil
}

// Span is a run of entries of one batch.
type Span struct{ First, Count uint32 }

// Part is what became of some entries of one batch.
type Part struct {
	Seq Seq
	Span
	Fate ledger.Fate
}

// Ref finds entries in the buffer again without holding them in memory.
type Ref struct {
	Seq      Seq    // the batch
	Frame    Seq    // first Seq of the frame that holds it
	Off, Len uint32 // bytes within the frame's (decompressed) payload
	Span            // which entries of the batch
}

// Item is one batch read back.
type Item struct {
	Seq   Seq
	Batch event.Batch // borrowed from the Run
	Ended []Span      // entries that had ended before a restart, ascending; usually nil
	frame Seq
	off   uint32 // of Batch.Entries within the payload
}

// Ref makes a reference to a run of the item's entries: off and size in bytes within
// Batch.Entries, s counted in entries.
func (it *Item) Ref(off, size int, s Span) Ref {
	return Ref{Seq: it.Seq, Frame: it.frame, Off: it.off + uint32(off), Len: uint32(size), Span: s}
}

// Gap tells of batches that were given up or found damaged: what had not ended of them
// was booked as dropped.
type Gap struct {
	First, Last Seq
	Events      uint64 // booked as dropped
	Reason      ledger.Reason
	Tags        map[string]Loss // per tag; empty when damage hides it
}

// Loss is how much of something was lost.
type Loss struct {
	Events      uint64
	Bytes       uint64 // of entries
	First, Last event.Time
}

// Stats describes a buffer at one moment.
type Stats struct {
	Bytes, Limit  int64 // of segment files
	Segments      int
	PendingEvents uint64
	PendingBytes  uint64    // of the entries of unsettled batches, approximately
	Oldest        time.Time // when the oldest pending batch was accepted; zero if none
	Unstored      uint64    // events that are not on disk yet
	Balance       int64     // admitted - ended - PendingEvents, read in one instant: must be 0
	Stored        Seq       // everything up to here is stored
	Mark          Seq       // everything up to here has ended
	Fault         error     // why nothing can be written just now: full disk, I/O error; nil when well
	Untold        int       // gaps that have not been told, with Options.Tell
}
