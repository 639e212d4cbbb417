package pipeline

import (
	"runtime"
	"testing"
)

// TestHoldEndsWheneverItIsTold stops holds at every moment of their loop: one that misses
// the end of its context would keep weir from stopping.
func TestHoldEndsWheneverItIsTold(t *testing.T) {
	for i := range 3000 {
		holds := NewHolds()
		h := NewHold(HoldOptions{ID: "c", Holder: holder(t, byStart), Log: quiet()})
		holds.Add(h)
		holds.Start()
		for range i % 8 {
			runtime.Gosched()
		}
		holds.Flush() // its goroutines are on their way through the loop
		holds.stop()
		holds.running.Wait()
	}
}
