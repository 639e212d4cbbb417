package rx

import (
	"strings"
	"testing"
	"time"
)

// explodes takes exponential time on a row of a with another letter behind it. The
// back-reference keeps it from the linear engine.
func explodes(t *testing.T) *Regexp {
	t.Helper()
	re, err := Compile(`^(a+)+\1$`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if re.Linear() {
		t.Fatal("the linear engine takes it: the test needs another expression")
	}
	return re
}

// TestTextsThatExplodeHoldNobodyUp: ten thousand of them, a few messages of a client, take
// seconds at most; with the limit of a single match each they would take a quarter of an
// hour.
func TestTextsThatExplodeHoldNobodyUp(t *testing.T) {
	re := explodes(t)
	bad := []byte(strings.Repeat("a", 40) + "b")
	start := time.Now()
	for range 10_000 {
		if re.Match(bad) {
			t.Fatal("it matches")
		}
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("10 000 texts took %v", took)
	}
	if n := re.Timeouts(); n != 10_000 {
		t.Errorf("%d texts count as given up, want all", n)
	}
	good := []byte(strings.Repeat("a", 8))
	if !re.Match(good) {
		t.Error("a short text is given up too")
	}
	if !re.Match([]byte(strings.Repeat("a", 64))) {
		t.Error("a long text that matches at once is given up although the last one ended well")
	}
}

// TestTextsBetweenThoseThatExplodeAreMatched: an event is not judged by its neighbours.
func TestTextsBetweenThoseThatExplodeAreMatched(t *testing.T) {
	re := explodes(t)
	bad, good := []byte(strings.Repeat("a", 40)+"b"), []byte(strings.Repeat("a", 50))
	start, missed := time.Now(), 0
	for range 600 {
		if re.Match(bad) {
			t.Fatal("it matches")
		}
		if !re.Match(good) {
			missed++
		}
	}
	// On a machine that stands still for a moment one may be given up; judged by the text
	// before, all would be.
	if missed > 60 {
		t.Errorf("%d of 600 good ones are given up", missed)
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("600 texts took %v", took)
	}
}
