package pipeline

import "sync/atomic"

// Turn decides which end of a node a batch goes to: one after the other, by their weights.
// It may be used from any goroutine.
type Turn struct {
	order []int // indices of ends
	next  atomic.Uint64
}

// maxTurn bounds the length of the sequence of one Turn.
const maxTurn = 4096

// NewTurn makes a Turn over ends with these weights, which are not negative. Within one
// round the ends of large weights are spread among the others. All zero, or a round of more
// than 4096 batches, gives nil.
func NewTurn(weights []int) *Turn {
	step := 0
	for _, w := range weights {
		step = gcd(step, w)
	}
	if step == 0 {
		return nil
	}
	total := 0
	for _, w := range weights {
		if total += w / step; total > maxTurn || total < 0 {
			return nil
		}
	}
	t := &Turn{}
	credit := make([]int, len(weights))
	for range total {
		best := -1
		for i, w := range weights {
			if w == 0 {
				continue
			}
			if credit[i] += w / step; best < 0 || credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		t.order = append(t.order, best)
	}
	return t
}

// pick gives the end of the next batch.
func (t *Turn) pick() int { return t.order[(t.next.Add(1)-1)%uint64(len(t.order))] }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
