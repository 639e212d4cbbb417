package docker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/frame"
	"weir/internal/ledger"
)

// attach makes the session ready to read. It fails only if the plugin stops meanwhile.
func (s *session) attach() error {
	if s.prev != nil {
		t := time.NewTimer(turnWait)
		defer t.Stop()
		select {
		case <-s.prev.done:
		case <-s.stop: // nothing was written, or it waits in the pipe
		case <-t.C:
		case <-s.p.leave:
			return errLeave
		}
		s.prev = nil
	}
	if !s.old {
		return nil
	}
	if err := s.openOld(); err != nil {
		return err
	}
	if err := s.openSpool(); err != nil {
		return err
	}
	return s.takeOver()
}

// openOld opens the pipe of a session that an earlier process began, if it is still there
// and not open yet.
func (s *session) openOld() error {
	var t trouble
	for s.pipe == nil {
		from, err := openPipe(s.saved.File)
		if errors.Is(err, errNoPipe) {
			return nil
		}
		t.note(s.log, "the pipe of a running container cannot be opened: it may have to wait", "the pipe of a running container is open", err)
		if err == nil {
			s.p.grow(from)
			s.mu.Lock()
			s.pipe = from
			s.mu.Unlock()
			break
		}
		select {
		case <-time.After(spoolWait):
		case <-s.p.leave:
			return errLeave
		}
	}
	return nil
}

// openSpool opens the spool of a session that an earlier process began, and tries again
// until that succeeds. A container must not stop meanwhile, so what does not fit into its
// pipe is lost, and booked.
func (s *session) openSpool() error {
	var lost Counts
	var t trouble
	again := time.NewTicker(s.p.o.pace)
	defer again.Stop()
	for next := time.Now(); s.spool == nil; {
		if !time.Now().Before(next) {
			spool, err := s.p.o.Host.Open(s.container())
			t.note(s.log, "the spool of a running container cannot be opened; what does not fit into its pipe is lost",
				"the spool of a running container is open", err)
			if err == nil {
				s.spool = spool
				break
			}
			next = time.Now().Add(spoolWait)
		}
		select {
		case <-again.C:
		case <-s.p.leave:
			return errLeave
		}
		if err := s.discard(&lost); err != nil && !errors.Is(err, errEmpty) && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if lost.Bytes > 0 {
		s.count(&Counts{Lost: 1, LostBytes: lost.Bytes})
		now := event.FromTime(time.Now())
		s.spool.Miss(event.Chunk{}, s.tags[0], ledger.WireLoss, max(lost.Frames, 1), lost.Bytes, now, now)
		s.log.Warn("log lines were lost while the spool could not be opened", "lines", lost.Frames, "bytes", lost.Bytes)
	}
	return nil
}

// discard empties the pipe if it is more than half full.
func (s *session) discard(lost *Counts) error {
	for s.pipe != nil && s.pipe.waiting() > s.pipe.size/2 {
		if _, err := s.p.discard(s.pipe, lost); err != nil {
			return err
		}
	}
	return nil
}

// discard takes whole frames out of a pipe, or if there is none all that is there. It fails
// as pipe.look does.
func (p *Plugin) discard(from *pipe, lost *Counts) (took int, err error) {
	b, err := p.takeViewer()
	if err != nil {
		return 0, err
	}
	defer p.returnViewer(b)
	n, err := from.look(b, len(b.raw))
	if err != nil {
		return 0, err
	}
	for took < n {
		_, size, state := frame.Next(b.raw[:n], took)
		if state != frame.Whole {
			break
		}
		lost.Frames++
		took += size
	}
	if took == 0 {
		took = n
	}
	lost.Bytes += uint64(took)
	return took, from.take(b.raw[:took])
}

// takeOver restores what the earlier process held, and stores what it was about to store.
func (s *session) takeOver() error {
	h := s.p.store.loadHeld(s.key)
	s.known = map[event.Chunk]struct{}{}
	for _, c := range s.spool.Chunks() {
		s.known[c] = struct{}{}
	}
	if len(h.state) > 0 {
		if err := s.lines.Restore(h.state); err != nil {
			s.log.Warn("what an earlier process held of incomplete events cannot be read and is lost", "error", err)
			now := event.FromTime(time.Now())
			s.spool.Miss(event.Chunk{}, s.tags[0], ledger.WireLoss, 1, uint64(len(h.state)), now, now)
		}
	}
	var missing []event.Batch
	for _, b := range h.pending {
		if _, ok := s.known[b.Chunk]; !ok {
			missing = append(missing, b)
		}
	}
	s.last = held{gen: h.gen, block: h.block}
	s.onDisk = len(h.state) > 0 || len(h.pending) > 0
	if len(missing) > 0 {
		s.putBatches(missing)
		if s.p.killedAt(s, stageFlushed) {
			return errKilled
		}
	}
	if len(h.pending) > 0 {
		s.hold(event.Chunk{}, nil)
	}
	return nil
}

// again finds out what of the first look after a restart the earlier process had stored. It
// returns the bytes to go on with: nil if it has taken them out of the pipe, since all that
// they say is stored and held.
func (s *session) again(raw []byte) ([]byte, error) {
	if size := sizeOf(s.last.block); size > 0 && size <= len(raw) {
		if sum := s.namer.sum(raw[:size]); chunkOf(size, &sum, wholeBlock) == s.last.block {
			c := Counts{Repeats: countFrames(raw[:size])}
			if err := s.pipe.take(raw[:size]); err != nil {
				return nil, fmt.Errorf("take what was stored before: %w", err)
			}
			s.known = nil
			s.count(&c)
			return nil, nil
		}
	}
	if size := s.namer.find(raw, s.known); size > 0 {
		c := Counts{Repeats: countFrames(raw[:size])}
		s.count(&c)
		return raw[:size], nil
	}
	s.known = nil
	return raw, nil
}

func countFrames(raw []byte) (count uint64) {
	for at := 0; at < len(raw); count++ {
		_, n, state := frame.Next(raw, at)
		if state != frame.Whole {
			break
		}
		at += n
	}
	return count
}
