package app

import (
	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
)

// dockerLosses sums what was lost while there was no queue, per lane and reason.
type dockerLosses struct{ of map[dockerLoss]buffer.Loss }

type dockerLoss struct {
	tag    string
	reason ledger.Reason
}

func (l *dockerLosses) empty() bool { return len(l.of) == 0 }

func (l *dockerLosses) add(tag string, reason ledger.Reason, n buffer.Loss) {
	if l.of == nil {
		l.of = map[dockerLoss]buffer.Loss{}
	}
	k := dockerLoss{tag, reason}
	sum, ok := l.of[k]
	if !ok {
		l.of[k] = n
		return
	}
	sum.Events += n.Events
	sum.Bytes += n.Bytes
	sum.First, sum.Last = earlier(sum.First, n.First), max(sum.Last, n.Last)
	l.of[k] = sum
}

// earlier is the earlier of two times, of which zero stands for none.
func earlier(a, b event.Time) event.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// settle hands the losses to a queue, whose book has them from now on.
func (l *dockerLosses) settle(q *dockerQueue) {
	for k, n := range l.of {
		q.miss(event.Chunk{}, k.tag, k.reason, n)
	}
	l.of = nil
}
