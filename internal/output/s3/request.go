package s3

import (
	"context"
	"fmt"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// batch is how much formatted text is given to the compressor at a time.
const batch = 64 << 10

// request is one object: formatted, compressed and spooled while it is filled.
type request struct {
	o     *Output
	lane  string
	key   string   // with marks
	meta  []string // values of o.metaNames, with marks
	tag   string
	text  []byte // formatted events, not yet compressed
	plain int64  // bytes of formatted events
	count int
	ended []output.Ended
	first event.Time // the oldest event
	zip   zipper
	spool *spool
	begun bool     // the compressor writes to the spool
	done  bool     // the object is complete
	noted *note    // how the lane's next object was made before a kill
	most  int      // events, of an object that may be there already; 0: no limit
	sent  *attempt // was accepted, and is not settled yet
	err   error
}

// Request implements output.Output.
func (o *Output) Request() output.Request { return &request{o: o, spool: newSpool(o.spoolDir)} }

// Reset implements output.Request.
func (r *request) Reset(lane string) {
	r.lane = lane
	r.key, r.meta = r.o.laneParts(lane, r.meta[:0])
	r.tag, r.plain, r.count, r.first = "", 0, 0, 0
	r.text, r.ended = r.text[:0], r.ended[:0]
	if cap(r.text) > 1<<20 {
		r.text = nil
	}
	r.begun, r.done, r.err = false, false, nil
	r.noted, r.sent = r.o.underway.of(lane), nil
	r.most = r.o.attempts.unsure(lane)
	r.spool.reset()
}

// SetTag implements output.TagTaker.
func (r *request) SetTag(tag string) { r.tag = tag }

// Add implements output.Request: it formats entries until the object is as large as it
// should get.
func (r *request) Add(b []byte, limit int) (entries, size int, full bool) {
	for size < len(b) && entries < limit {
		if r.full() {
			return entries, size, true
		}
		e, n, err := event.Next(b[size:])
		if err != nil { // cannot happen to checked entries; never stands in the way of what follows
			r.ended = append(r.ended, output.Ended{First: r.count, Count: limit - entries, Fate: ledger.Invalid.Fate()})
			r.count += limit - entries
			return limit, len(b), true
		}
		if r.count == 0 || e.Time < r.first {
			r.first = e.Time
		}
		before := len(r.text)
		r.text = r.o.formatter.Append(r.text, r.tag, e.Time, e.Record)
		r.plain += int64(len(r.text) - before)
		r.count++
		entries++
		size += n
		if len(r.text) >= batch {
			r.flush()
		}
	}
	return entries, size, r.full()
}

func (r *request) full() bool {
	return r.count > 0 && (r.plain >= int64(r.o.limit) || r.noted != nil && r.count >= r.noted.Events ||
		r.most > 0 && r.count >= r.most || r.err != nil || r.spool.crowded())
}

// Fill implements output.Request.
func (r *request) Fill() float64 { return min(1, float64(r.plain)/float64(r.o.limit)) }

// flush compresses what is formatted. An error is kept for Send.
func (r *request) flush() {
	if r.err != nil || r.done {
		return
	}
	if r.zip == nil && r.o.store.name != "text" {
		if r.zip, r.err = newZipper(r.o.store, r.o.level); r.err != nil {
			return
		}
	}
	if r.zip == nil {
		_, r.err = r.spool.Write(r.text)
	} else {
		if !r.begun {
			r.zip.Reset(r.spool)
			r.begun = true
		}
		_, r.err = r.zip.Write(r.text)
	}
	r.text = r.text[:0]
}

// finish completes the object, once.
func (r *request) finish() error {
	if r.done || r.err != nil {
		return r.err
	}
	r.flush()
	if r.err == nil && r.begun {
		r.err = r.zip.Close()
	}
	if r.err == nil {
		r.spool.finish()
		r.done = true
	}
	return r.err
}

// Send implements output.Request: it puts the object under a key that is free.
func (r *request) Send(ctx context.Context) output.Result {
	dead := 0
	for _, e := range r.ended {
		dead += e.Count
	}
	if r.count == dead {
		return output.Result{Ended: r.ended}
	}
	if err := ctx.Err(); err != nil {
		return output.Result{Err: &output.Error{Kind: output.Unavailable, Op: r.what(), Err: err}}
	}
	if err := r.finish(); err != nil {
		return output.Result{Err: &output.Error{Kind: output.Unavailable, Op: r.what(), Hint: "free some space, or write another spool_path", Err: err}}
	}
	r.o.noteDisk(r.spool.none)
	a, again := r.o.attempts.take(r)
	err := r.o.place(ctx, r, a)
	res := output.Result{Err: err, Bytes: int(r.spool.size), Resent: again}
	if err != nil {
		res.Resent = again || a.unsure
		r.o.attempts.keep(r, a)
		return res
	}
	r.spool.release()
	res.Ended, r.sent = r.ended, a
	r.o.delayed(r, a)
	return res
}

// Settled implements output.Settler.
func (r *request) Settled() {
	if r.sent != nil {
		r.sent.erase()
		r.sent = nil
	}
}

// what says what is being done.
func (r *request) what() string {
	return fmt.Sprintf("put %d events to s3://%s/%s", r.count, r.o.bucket, r.o.key.pattern(r.key))
}
