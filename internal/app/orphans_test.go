package app

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// park puts an event for a stream into the parking lot of the buffer in dir.
func park(t *testing.T, dir, lane string) {
	t.Helper()
	for _, d := range []string{dir, filepath.Join(dir, ParkedDir)} {
		b, err := buffer.Open(buffer.Options{FS: vfs.OS{}, Dir: d, Book: &ledger.Book{}, Log: quiet(t), Limit: 1 << 20, Durability: buffer.OS})
		if err != nil {
			t.Fatal(err)
		}
		if d != dir {
			now := event.FromTime(time.Now())
			entries := event.AppendEntry(nil, now, []byte("\x81\xa7message\xa8parked 0"))
			if _, err := b.Append(context.Background(), event.Batch{Tag: lane, Entries: entries, Count: 1, First: now, Last: now}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOrphanWithParkedEvents: what is parked in a directory that no output has any more is
// reported, and a drain through another output says that it stays.
func TestOrphanWithParkedEvents(t *testing.T) {
	s := cloud(t)
	root := t.TempDir()
	old := filepath.Join(root, "old")
	park(t, old, "group\x00app")
	conf := forwardIn + cloudMatch(s.URL(), filepath.Join(root, "new"), "")
	r := start(t, conf)
	if log := r.log.String(); !strings.Contains(log, "dir="+old+" events=1") {
		t.Error("the orphan is not reported")
	}
	r.stop(10 * time.Second)
	if left, err := Drain(context.Background(), r.load(conf), Options{Log: quiet(t)}, old, "cw"); err != nil || left != 1 {
		t.Errorf("%d events are left, want 1 (%v)", left, err)
	}
	// The output itself delivers them.
	own := forwardIn + cloudMatch(s.URL(), old, "")
	if left, err := Drain(context.Background(), r.load(own), Options{Log: quiet(t)}, old, ""); err != nil || left != 0 {
		t.Errorf("%d events are left, want none (%v)", left, err)
	}
	checkSequence(t, s, "app", "parked", 1)
}

// TestParkingSwitchedOff: what was parked before is delivered.
func TestParkingSwitchedOff(t *testing.T) {
	s := cloud(t)
	dir := filepath.Join(t.TempDir(), "buf")
	park(t, dir, "group\x00app")
	r := start(t, forwardIn+strings.Replace(cloudMatch(s.URL(), dir, ""), "durability os", "durability os\nparking_limit_size 0", 1))
	eventually(t, "what was parked is delivered", func() bool { return len(s.Events("group", "app")) == 1 })
	checkSequence(t, s, "app", "parked", 1)
	r.status(t)
}
