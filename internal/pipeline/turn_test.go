package pipeline

import (
	"slices"
	"testing"
)

func TestTurn(t *testing.T) {
	for _, c := range []struct{ weights, want []int }{
		{[]int{1}, []int{0, 0}},
		{[]int{1, 1, 1}, []int{0, 1, 2, 0, 1, 2}},
		{[]int{4, 2}, []int{0, 1, 0, 0, 1, 0}},
		{[]int{3, 0, 1}, []int{0, 0, 2, 0, 0, 0, 2, 0}},
	} {
		turn := NewTurn(c.weights)
		var got []int
		for range c.want {
			got = append(got, turn.pick())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.weights, got, c.want)
		}
	}
	for _, w := range [][]int{nil, {0, 0}, {maxTurn, 1}} {
		if NewTurn(w) != nil {
			t.Errorf("%v: a turn", w)
		}
	}
}
