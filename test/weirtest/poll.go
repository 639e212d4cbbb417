package weirtest

import (
	"testing"
	"time"
)

// Patience is how long Eventually waits where a test says nothing else. It is generous:
// the machine may be busy, and a test that succeeds does not use it up.
const Patience = 90 * time.Second

// Eventually polls ok until it is true. When Patience ends it fails the test with what.
// ok gives what it saw, for that message.
func Eventually(t testing.TB, what string, ok func() (seen string, done bool)) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within is Eventually with another deadline.
func Within(t testing.TB, patience time.Duration, what string, ok func() (seen string, done bool)) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		seen, done := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s\nlast seen: %s", patience, what, seen)
		}
		time.Sleep(10 * time.Millisecond) // between two looks; the condition decides
	}
}

// Holds fails the test if ok turns false within the time: for what must not happen.
func Holds(t testing.TB, during time.Duration, what string, ok func() (seen string, holds bool)) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if seen, holds := ok(); !holds {
			t.Fatalf("should have stayed true: %s\nseen: %s", what, seen)
		}
	}
}
