package ledger

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestNumbersOnDisk: buffers that exist have these numbers in them. A new class or reason is
// added at the end of these lists; a change of anything else makes weir misread old buffers.
func TestNumbersOnDisk(t *testing.T) {
	wantClasses := []string{"delivered", "filtered", "dropped", "rejected", "moved"}
	wantReasons := []string{
		"", "buffer_full", "disk_full", "damaged", "retry_limit", "throttle_limit", "no_target", "filter_failed", "shutdown", "unmatched",
		"empty", "oversize", "no_name", "bad_name", "too_old", "too_new", "expired", "refused", "invalid", "wire_loss",
	}
	if int(classes) != len(wantClasses) || int(reasons) != len(wantReasons) {
		t.Fatalf("%d classes and %d reasons; this test knows %d and %d: add the new ones at the end", classes, reasons, len(wantClasses), len(wantReasons))
	}
	if reasons > 1<<6 {
		t.Errorf("%d reasons: the record of a gap has six bits for one", reasons)
	}
	for i, want := range wantClasses {
		if got := Class(i).String(); got != want {
			t.Errorf("class %d is %s, in buffers that exist it is %s", i, got, want)
		}
	}
	for i, want := range wantReasons {
		if got := Reason(i).String(); got != want {
			t.Errorf("reason %d is %s, in buffers that exist it is %s", i, got, want)
		}
	}
	doc, err := os.ReadFile("../../docs/buffer-format.md")
	if err != nil {
		t.Fatal(err)
	}
	wantReasons[0] = "none"
	for _, list := range [][]string{wantClasses, wantReasons} {
		var items []string
		for i, word := range list {
			items = append(items, fmt.Sprintf("%d %s", i, word))
		}
		if text := strings.Join(items, ", "); !strings.Contains(strings.Join(strings.Fields(string(doc)), " "), text) {
			t.Errorf("docs/buffer-format.md does not say: %s", text)
		}
	}
}

// TestEveryReasonIsCounted: what is in no list of ReasonsOf has no metric, and events that
// end with it would be missing from every sum.
func TestEveryReasonIsCounted(t *testing.T) {
	var s Sheet
	for r := None + 1; r < reasons; r++ {
		s.Add(r.Fate(), 1)
		if r.String() == "" || s.Count(r.Fate()) != 1 {
			t.Errorf("reason %d is %q of class %s and cannot be booked", r, r, r.Fate().Class)
		}
	}
	listed := 0
	for _, c := range []Class{Dropped, Rejected} {
		for _, r := range ReasonsOf(c) {
			listed++
			if r.Fate() != (Fate{c, r}) {
				t.Errorf("%s is among the reasons of %s and has the fate %v", r, c, r.Fate())
			}
		}
	}
	if want := int(reasons) - 1; listed != want || s.Ended() != uint64(want) {
		t.Errorf("%d reasons are listed and %d booked, of %d", listed, s.Ended(), want)
	}
}
