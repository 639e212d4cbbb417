package deliver

import (
	"errors"
	"fmt"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

var errNoLane = errors.New("the secondary has no place for the event")

// toSecondary hands a flight's events to the <secondary> output and settles what became of
// them there. An error means that it failed too: what it has taken is settled, and f has
// the rest. Without one it returns what the lane is to be told of: notices are of a lane,
// and not for the secondary.
func (d *Deliverer) toSecondary(f *flight) (o *loss, err error) {
	s := &second{d: d, split: d.o.Secondary.Splitter(), req: d.o.Secondary.Request()}
	var marks []piece
	defer func() {
		if err != nil {
			f.pieces = append(marks, f.pieces...)
		}
	}()
	for len(f.pieces) > 0 {
		if isMark(f.pieces[0]) {
			marks = append(marks, f.pieces[0])
			f.pieces = f.pieces[1:]
			continue
		}
		v, err := d.view(f, 0)
		if err != nil {
			return nil, err
		}
		if v.Bytes == nil { // given up: leaves f by itself
			continue
		}
		p := &f.pieces[0]
		s.piece, s.parts, s.err = p, f.parts[:0], nil
		s.count, s.size = 0, 0
		count, first, last, _, _ := event.Check(v.Bytes)
		b := event.Batch{Tag: p.tag, Entries: v.Bytes, Count: count, First: first, Last: last}
		s.entries = b.Entries
		s.split.Split(b, s.add)
		v.Release()
		f.parts = s.parts
		if s.count > 0 {
			var lost *loss
			if f.parts, lost = d.withhold([]piece{*p}, f.parts); lost != nil {
				m := piece{due: p.due, loss: lost}
				m.Seq, m.First = p.Seq, p.First
				marks = append(marks, m)
			}
			d.settle(f.lane.key, f.parts)
			f.events -= s.count
			*p = p.cut(s.count, s.size)
		}
		if s.err != nil {
			return nil, fmt.Errorf("send to the secondary: %w", s.err)
		}
		f.pieces = f.pieces[1:]
	}
	return marked(marks), nil
}

// second sends the runs of one piece, each once.
type second struct {
	d       *Deliverer
	split   output.Splitter
	req     output.Request
	piece   *piece
	entries []byte
	count   int // entries that have ended
	size    int // their bytes
	parts   []buffer.Part
	err     error
}

func (s *second) add(lane []byte, r output.Run) {
	if s.err != nil {
		return
	}
	if lane == nil {
		if r.Fate.Class == ledger.Delivered {
			s.err = errNoLane
			return
		}
		s.end(r.Count, r.Len, []output.Ended{{Count: r.Count, Fate: r.Fate}})
		return
	}
	const all = int(^uint(0) >> 1)
	for entries := s.entries[r.Off : r.Off+r.Len]; len(entries) > 0; {
		s.req.Reset(string(lane))
		if t, ok := s.req.(output.TagTaker); ok {
			t.SetTag(s.piece.tag)
		}
		n, size, _ := s.req.Add(entries, all)
		if n == 0 {
			s.err = errNoLane
			return
		}
		res := s.req.Send(s.d.ctx)
		if res.Err != nil {
			s.err = res.Err
			return
		}
		s.end(n, size, res.Ended)
		entries = entries[size:]
	}
}

// end notes what became of the next n entries.
func (s *second) end(n, size int, ended []output.Ended) {
	one := *s.piece
	one.First += uint32(s.count)
	one.Count = uint32(n)
	s.parts = appendParts(s.parts, []piece{one}, ended)
	s.count += n
	s.size += size
}
