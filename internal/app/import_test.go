package app

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/internal/event"
)

// leftovers writes directories as Fluentd's file buffer leaves them.
type leftovers struct {
	t   *testing.T
	dir string
	n   int
}

// chunk writes one chunk of events from first on, with their own tag if tagged, and
// returns its file.
func (l *leftovers) chunk(state, tag string, tagged bool, first, count int) string {
	l.n++
	var data []byte
	for i := range count {
		record := event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "message"), fmt.Sprint("left ", first+i))
		if tagged {
			data = event.AppendStr(event.AppendArrayHeader(data, 3), tag)
			data = append(event.AppendInt(data, time.Now().Unix()), record...)
		} else {
			data = event.AppendEntry(data, event.FromTime(time.Now()), record)
		}
	}
	b := event.AppendMapHeader(nil, 4)
	b = event.AppendStr(event.AppendStr(b, "tag"), tag)
	b = event.AppendStr(event.AppendStr(b, "id"), "0123456789abcdef")
	b = event.AppendInt(event.AppendStr(b, "c"), 1000)
	b = event.AppendInt(event.AppendStr(b, "m"), int64(1000+l.n))
	return l.write(state, data, append(binary.BigEndian.AppendUint32([]byte{0xc1, 0}, uint32(len(b))), b...))
}

func (l *leftovers) write(state string, data, meta []byte) string {
	path := filepath.Join(l.dir, fmt.Sprintf("buffer.%s5f0a1b2c3d4e5f60718293a4b5c6%04x.log", state, l.n))
	err := errors.Join(os.MkdirAll(l.dir, 0o755), os.WriteFile(path, data, 0o644), os.WriteFile(path+".meta", meta, 0o644))
	if err != nil {
		l.t.Fatal(err)
	}
	return path
}

// names lists a directory without the files of weir's buffer.
func (l *leftovers) names(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		if Beside(e.Name()) && e.Name() != ParkedDir || dir != l.dir {
			names = append(names, e.Name())
		}
	}
	return names
}

// messages are those of a stream, in order.
func messages(s *emulator.Server, stream string) (got []string) {
	for _, e := range s.Events("group", stream) {
		got = append(got, e.Message)
	}
	return got
}

func numbers(prefix string, first, count int) (want []string) {
	for i := range count {
		want = append(want, fmt.Sprint(prefix, " ", first+i))
	}
	return want
}

// TestLeftByFluentdIsDeliveredFirst starts over a directory of Fluentd: what is there comes
// out once, in order, before what is sent.
func TestLeftByFluentdIsDeliveredFirst(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	l := &leftovers{t: t, dir: filepath.Join(t.TempDir(), "buf")}
	l.chunk("q", "app", true, 0, 100)
	l.chunk("q", "app", false, 100, 50)
	l.chunk("b", "app", false, 150, 50)
	r := start(t, forwardIn+cloudMatch(s.URL(), l.dir, ""))
	mustSend(t, r.addr(0), "app", "left", 200, 10)
	eventually(t, "the chunks are removed", func() bool { return len(l.names(l.dir)) == 0 })
	r.stop(10 * time.Second)
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 210)) {
		t.Errorf("%d events: %q", len(got), got)
	}
	log := r.log.String()
	if !strings.Contains(log, "chunks=3 events=200") || strings.Contains(log, "left alone") {
		t.Error("the log does not say what was taken over, or warns about it")
	}
}

// TestLeftByFluentdBroken keeps and reports what cannot be delivered.
func TestLeftByFluentdBroken(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	l := &leftovers{t: t, dir: filepath.Join(t.TempDir(), "buf")}
	cut := l.chunk("q", "app", true, 0, 3)
	b, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, b[:len(b)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	text := l.chunk("q", "x", true, 0, 1)
	if err := os.WriteFile(text, []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	meta := l.chunk("b", "x", true, 0, 1)
	if err := os.WriteFile(meta+".meta", []byte("?"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.chunk("b", "app", true, 2, 1)
	for range 2 {
		r := start(t, forwardIn+cloudMatch(s.URL(), l.dir, ""))
		eventually(t, "all are delivered", func() bool { return len(messages(s, "app")) == 3 })
		r.stop(10 * time.Second)
		for _, path := range []string{text, meta} {
			if n := strings.Count(r.log.String(), "file="+path); n != 1 {
				t.Errorf("%s is reported %d times", path, n)
			}
		}
		base := filepath.Base(cut)
		if got := l.names(filepath.Join(l.dir, ImportedDir)); !slices.Equal(got, []string{"kept-" + base, "kept-" + base + ".meta"}) {
			t.Errorf("kept %q", got)
		}
		kept, err := os.ReadFile(filepath.Join(l.dir, ImportedDir, "kept-"+base))
		if err != nil || string(kept) != string(b[:len(b)-1]) {
			t.Errorf("the kept file has changed: %v", err)
		}
		if got := l.names(l.dir); len(got) != 5 {
			t.Errorf("in the directory: %q", got)
		}
	}
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 3)) {
		t.Errorf("%q", got)
	}
}

// TestLeftByFluentdOutage cannot deliver: the chunks stay, the next start neither takes
// them twice nor forgets to remove them.
func TestLeftByFluentdOutage(t *testing.T) {
	t.Parallel()
	l := &leftovers{t: t, dir: filepath.Join(t.TempDir(), "buf")}
	for i := range 5 {
		l.chunk("q", "app", true, 10*i, 10)
	}
	r := start(t, forwardIn+cloudMatch("http://127.0.0.1:1", l.dir, ""))
	eventually(t, "they are stored", func() bool { return len(l.names(filepath.Join(l.dir, ImportedDir))) == 10 })
	r.stop(100 * time.Millisecond)
	if got := l.names(filepath.Join(l.dir, ImportedDir)); len(got) != 10 || !strings.HasPrefix(got[0], "0000000000000001-buffer.q") {
		t.Fatalf("after the first run: %q", got)
	}
	s := cloud(t)
	r = start(t, forwardIn+cloudMatch(s.URL(), l.dir, ""))
	eventually(t, "the chunks are removed", func() bool { return len(l.names(l.dir)) == 0 })
	r.stop(10 * time.Second)
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 50)) {
		t.Errorf("%d events: %q", len(got), got)
	}
}

// TestLeftByFluentdKilled finds the states that a kill can leave: a chunk that is stored but
// not moved, and one whose metadata did not follow.
func TestLeftByFluentdKilled(t *testing.T) {
	t.Parallel()
	l := &leftovers{t: t, dir: filepath.Join(t.TempDir(), "buf")}
	first := l.chunk("q", "app", true, 0, 10)
	second := l.chunk("q", "app", true, 10, 10)
	imported := filepath.Join(l.dir, ImportedDir)
	r := start(t, forwardIn+cloudMatch("http://127.0.0.1:1", l.dir, ""))
	eventually(t, "they are stored", func() bool { return len(l.names(imported)) == 4 })
	r.stop(100 * time.Millisecond)
	one, two := filepath.Join(imported, "0000000000000001-"+filepath.Base(first)), filepath.Join(imported, "0000000000000002-"+filepath.Base(second))
	if err := errors.Join(os.Rename(one+".meta", first+".meta"), os.Rename(two, second), os.Rename(two+".meta", second+".meta")); err != nil {
		t.Fatal(err)
	}
	l.chunk("b", "app", true, 20, 10) // not begun
	s := cloud(t)
	r = start(t, forwardIn+cloudMatch(s.URL(), l.dir, ""))
	eventually(t, "the chunks are removed", func() bool { return len(l.names(l.dir)) == 0 })
	r.stop(10 * time.Second)
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 30)) {
		t.Errorf("%d events: %q", len(got), got)
	}
}

// TestLeftByFluentdWithoutRoom has more than the buffer takes: the sources start, nothing
// is lost.
func TestLeftByFluentdWithoutRoom(t *testing.T) {
	t.Parallel()
	l := &leftovers{t: t, dir: filepath.Join(t.TempDir(), "buf")}
	for i := range 40 {
		l.chunk("q", "app", true, 100*i, 100)
	}
	limited := func(url string) string {
		return strings.Replace(cloudMatch(url, l.dir, ""), "durability os", "durability os\n total_limit_size 64k\n overflow_action drop_oldest_chunk", 1)
	}
	r := start(t, forwardIn+limited("http://127.0.0.1:1"))
	r.stop(100 * time.Millisecond)
	if n := len(l.names(l.dir)); n < 20 {
		t.Fatalf("%d files are left: the buffer has room for few", n)
	}
	s := cloud(t)
	r = start(t, forwardIn+limited(s.URL()))
	eventually(t, "the chunks are removed", func() bool { return len(l.names(l.dir)) == 0 })
	r.stop(10 * time.Second)
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 4000)) {
		t.Errorf("%d events", len(got))
	}
}

// TestLeftByFluentdPattern has the older path, and one per worker under root_dir.
func TestLeftByFluentdPattern(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := cloud(t)
	l := &leftovers{t: t, dir: filepath.Join(root, "bufs")}
	l.chunk("q", "app", true, 0, 2)
	r := start(t, forwardIn+cloudMatch(s.URL(), l.dir+"/buffer.*.log", ""))
	eventually(t, "the chunks are removed", func() bool { return len(l.names(l.dir)) == 0 })
	r.stop(10 * time.Second)
	for i := range 2 {
		w := &leftovers{t: t, dir: filepath.Join(root, fmt.Sprint("worker", i), "cw", "buffer")}
		w.chunk("b", "app", true, 2+i, 1)
	}
	conf := strings.Replace(forwardIn, "<system>", "<system>\nroot_dir "+root, 1) + strings.Replace(cloudMatch(s.URL(), "X", ""), "path X", "", 1)
	r = start(t, conf)
	eventually(t, "all are delivered", func() bool { return len(messages(s, "app")) == 4 })
	r.stop(10 * time.Second)
}

func TestImport(t *testing.T) {
	s := cloud(t)
	dir := t.TempDir()
	l := &leftovers{t: t, dir: filepath.Join(dir, "old")}
	l.chunk("q", "app", true, 0, 10)
	l.chunk("b", "app", false, 10, 10)
	r := &running{t: t, log: &logs{}, out: &logs{}}
	load := func() *Plan { return r.load(forwardIn + cloudMatch(s.URL(), dir+"/new", "")) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Log: quiet(t)}
	for id, want := range map[string]string{"none": "no output with the id", "": "name the output"} {
		if _, _, err := Import(ctx, load(), o, l.dir, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("through %q: %v", id, err)
		}
	}
	done, left, err := Import(ctx, load(), o, l.dir, "cw")
	if want := (Imported{Chunks: 2, Events: 20}); done != want || left != 0 || err != nil {
		t.Errorf("%+v, %d left, %v", done, left, err)
	}
	if got := messages(s, "app"); !slices.Equal(got, numbers("left", 0, 20)) {
		t.Errorf("%q", got)
	}
	if got := append(l.names(l.dir), l.names(dir+"/new/"+ImportedDir)...); len(got) != 0 {
		t.Errorf("not removed: %q", got)
	}
	if _, _, err := Import(ctx, load(), o, dir+"/nowhere", "cw"); err == nil {
		t.Error("a directory that is not there was imported")
	}
}

// TestImportTo writes chunks once; their files are kept.
func TestImportTo(t *testing.T) {
	l := &leftovers{t: t, dir: t.TempDir()}
	l.chunk("q", "app", true, 0, 10)
	l.chunk("b", "app", false, 10, 10)
	for _, want := range []int{20, 0} {
		events := 0
		if _, err := ImportTo(t.Context(), l.dir, quiet(t), func(tag string, b event.Batch) error {
			events += b.Count
			return nil
		}); err != nil || events != want {
			t.Errorf("%d events, %v, want %d", events, err, want)
		}
	}
	if got := l.names(filepath.Join(l.dir, ImportedDir)); len(got) != 4 {
		t.Errorf("%q", got)
	}
}

func TestMoveByCopy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(dir + "/b"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if err := copyFile(dir+"/a", dir+"/none/b"); err == nil {
		t.Error("copied to nowhere")
	}
	if err := moveFile(dir+"/none", dir+"/c"); err == nil {
		t.Error("moved nothing")
	}
}
