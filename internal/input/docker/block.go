package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
	"weir/internal/ledger"
)

// compose gives the frames of raw to package lines, whose events land in d, and returns how
// many bytes are done with. The beginning of a frame at the end stays for the next look;
// with final it is lost.
func (s *session) compose(d *draft, raw []byte, final bool, c *Counts) (at int) {
	s.draft = d
	now := time.Now().UnixNano()
	largest := min(maxBlock, s.pipe.size) - os.Getpagesize()
	for at < len(raw) && !d.full() {
		e, n, state := frame.Next(raw, at)
		if state == frame.Whole {
			c.Frames++
			if e.Partial {
				c.Partials++
			}
			s.reads = event.Time(e.TimeNano)
			s.lines.Add(now, &e)
			at += n
			continue
		}
		if state == frame.More && !final && n <= largest {
			break
		}
		skip, ok := frame.Resync(raw[at:])
		if final && !ok {
			skip = len(raw) - at
		}
		if skip <= 0 {
			break
		}
		d.lose(0, 1, uint64(skip), wireTime(s.around(raw, at+skip, now)))
		c.Lost++
		c.LostBytes += uint64(skip)
		at += skip
		if !ok {
			break // what is left is too short to tell
		}
	}
	c.Bytes += uint64(at)
	return at
}

// around is a time for what is lost in front of raw[at:]: that of the frame before, or of the
// one behind, or now.
func (s *session) around(raw []byte, at int, now int64) int64 {
	if s.reads != 0 {
		return int64(s.reads)
	}
	if e, _, state := frame.Next(raw, at); state == frame.Whole {
		return e.TimeNano
	}
	return now
}

// put gives the spool what a draft says.
func (s *session) put(d *draft, c *Counts) {
	from := -1
	for i := range d.steps {
		st := &d.steps[i]
		if st.events == 0 {
			c.Events += uint64(st.count)
			if from < 0 {
				from = i
			}
			if i+1 < len(d.steps) && d.steps[i+1].events == 0 && d.steps[i+1].batch == st.batch+1 {
				continue
			}
			s.putBatches(d.ready[d.steps[from].batch : st.batch+1])
			from = -1
			continue
		}
		s.spool.Miss(st.id, d.tags[st.tag], ledger.WireLoss, st.events, st.bytes, st.first, st.last)
	}
}

func (s *session) putBatches(b []event.Batch) {
	err := s.spool.Put(context.Background(), b)
	s.puts.note(s.log, "the spool of a container does not store: its events would be lost if weir were killed",
		"the spool of a container stores again", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Fault = ""
	if err != nil {
		s.stats.Fault = err.Error()
	}
}

// hold stores what package lines holds, if there is something or was before, and what is
// given to the spool right after.
func (s *session) hold(block event.Chunk, pending []event.Batch) {
	something := s.lines.Held() || len(pending) > 0
	if !something && !s.onDisk {
		return
	}
	s.last = held{gen: s.last.gen + 1, block: block, pending: pending}
	if s.lines.Held() {
		s.state = s.lines.AppendState(s.state[:0])
		s.last.state = s.state
	}
	var err error
	s.buf, err = s.p.store.saveHeld(s.key, &s.last, s.buf)
	s.last.state, s.last.pending = nil, nil
	if cap(s.buf)+cap(s.state) > minBlock {
		s.buf, s.state = nil, nil
	}
	s.onDisk = something
	s.holds.note(s.log, "what is held of events that are not complete cannot be stored: it would be lost if weir were killed",
		"what is held is stored again", err)
}

// tick gives out what was held long enough. Call it when the pipe was read.
func (s *session) tick() error {
	due, now := s.lines.Due(), time.Now()
	if due == lines.Never {
		s.due = due
		return nil
	}
	if due != s.due {
		s.dueIn(due, now)
	}
	if due != 0 && now.Before(s.dueAt) {
		return nil
	}
	err := s.flush(func() { s.lines.Flush(now.UnixNano()) })
	s.dueIn(s.lines.Due(), now)
	return err
}

// dueIn notes what lines.Due said. When the clock is set the wait stays as long as it was.
func (s *session) dueIn(due int64, now time.Time) {
	s.due = due
	if due != lines.Never {
		s.dueAt = now.Add(max(time.Duration(due-now.UnixNano()), pace))
	}
}

// flush stores what give makes package lines give out. No bytes in the pipe stand for it, so
// it is written down before it is put: the next process sees by the ids in the spool whether
// that has happened.
func (s *session) flush(give func()) error {
	d := s.p.takeDraft(s.tags)
	defer s.p.returnDraft(d)
	s.draft = d
	give()
	sum := s.namer.flush(s.last.gen + 1)
	d.finish(0, &sum)
	if len(d.steps) == 0 {
		return nil
	}
	s.hold(event.Chunk{}, d.ready)
	if s.p.killedAt(s, stageFlushing) {
		return errKilled
	}
	var c Counts
	s.put(d, &c)
	s.count(&c)
	if s.p.killedAt(s, stageFlushed) {
		return errKilled
	}
	s.hold(event.Chunk{}, nil)
	if s.p.killedAt(s, stageFlushHeld) {
		return errKilled
	}
	return nil
}

// end gives out all that is held and removes the session.
func (s *session) end() error {
	if err := s.flush(s.lines.Close); err != nil {
		return err
	}
	err := s.p.store.forget(s.key)
	if !s.halted() {
		// Docker was killed or restarted without a word; nobody else removes the pipe.
		err = errors.Join(err, removePipe(s.saved.File))
	}
	s.p.forgets.note(s.p.o.Log, "what belonged to a container that has ended cannot be removed", "it can be removed again", err)
	s.log.Debug("session ended", "pipe", s.saved.File)
	return nil
}

// removePipe removes a file if it is a named pipe.
func removePipe(path string) error {
	st, err := os.Lstat(path)
	if err == nil && st.Mode().Type() == os.ModeNamedPipe {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a pipe that has ended: %w", err)
	}
	return nil
}
