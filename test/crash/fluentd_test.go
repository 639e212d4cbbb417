package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"weir/internal/emulator"
	"weir/internal/event"
	"weir/test/weirtest"
)

// TestKillWhileFluentdsBufferIsTakenOver starts weir over a directory that Fluentd left and
// kills it again and again: everything arrives, in order, and no file is removed too early.
func TestKillWhileFluentdsBufferIsTakenOver(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.New(t, e, weirtest.Config{Buffer: impatient}.String())
	const chunks, events = 300, 200
	dir := filepath.Join(w.Dir, "buffer")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range chunks {
		leave(t, dir, i, events)
	}
	to := weirtest.Target{Group: "g", Stream: "a"}
	kills := 0
	for kills < 40 && len(left(t, dir)) > 0 {
		w.Launch()
		pause(r, 10*time.Millisecond, 60*time.Millisecond)
		w.Kill()
		kills++
	}
	begun := len(left(t, dir))
	w.Start()
	weirtest.Eventually(t, "all chunks are removed", func() (string, bool) {
		n := len(left(t, dir))
		return fmt.Sprint(n, " files are left"), n == 0
	})
	w.Drained()
	repeats := weirtest.Compare(t, e, to, weirtest.IDs(0, chunks*events))
	t.Logf("%d kills, then %d files were left; %d of %d events came twice", kills, begun, repeats, chunks*events)
	// A request under way at a kill may be repeated; what was taken over is not taken again.
	if b := w.Output("out").Ledger; b.Lost() > 0 || b.Admitted != chunks*events {
		t.Errorf("book %s: %d events were left by Fluentd", b, chunks*events)
	}
	if kills < 3 {
		t.Errorf("all was over after %d kills: this tests nothing", kills)
	}
}

// leave writes the ith chunk as Fluentd's file buffer does; every third is gzip.
func leave(t *testing.T, dir string, i, events int) {
	t.Helper()
	var data []byte
	for n := range events {
		data = event.AppendStr(event.AppendArrayHeader(data, 3), "a")
		data = event.AppendInt(data, time.Now().Unix())
		data, _ = weirtest.Record(data, uint64(i*events+n))
	}
	if i%3 == 0 {
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, _ = g.Write(data)
		_ = g.Close()
		data = z.Bytes()
	}
	m := event.AppendMapHeader(nil, 4)
	m = event.AppendStr(event.AppendStr(m, "tag"), "a")
	m = event.AppendBin(event.AppendStr(m, "id"), make([]byte, 16))
	m = event.AppendInt(event.AppendStr(m, "c"), 1_700_000_000)
	m = event.AppendInt(event.AppendStr(m, "m"), int64(1_700_000_000+i/10))
	path := filepath.Join(dir, fmt.Sprintf("buffer.q%032x.log", 0x5f0a1b2c3d4e<<12+i))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	m = append(binary.BigEndian.AppendUint32([]byte{0xc1, 0}, uint32(len(m))), m...)
	if err := os.WriteFile(path+".meta", m, 0o644); err != nil {
		t.Fatal(err)
	}
}

// left lists what there is of Fluentd's files, taken over or not.
func left(t *testing.T, dir string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"buffer.*", "fluentd-imported/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}
