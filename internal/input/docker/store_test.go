package docker

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/input/docker/frame"
	"weir/internal/input/docker/lines"
	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

func example() held {
	return held{gen: 7, block: event.Chunk{1, 2, 3}, state: []byte("state"), pending: []event.Batch{
		{Tag: "g\x00s", Entries: []byte("entries"), Count: 1, First: 5, Last: 6, Chunk: event.Chunk{9}},
		{Tag: "", Entries: []byte{}, Count: 0},
	}}
}

func TestHeldRoundTrip(t *testing.T) {
	st := store{vfstest.New(), "d"}
	key := keyOf("/run/x")
	if h := st.loadHeld(key); h.gen != 0 {
		t.Errorf("held of nothing: %+v", h)
	}
	for gen := range uint64(5) {
		h := example()
		h.gen = gen + 1
		if gen == 2 {
			h.pending, h.state = nil, []byte{}
		}
		if _, err := st.saveHeld(key, &h, nil); err != nil {
			t.Fatal(err)
		}
		if got := st.loadHeld(key); !reflect.DeepEqual(got, h) {
			t.Errorf("got %+v, want %+v", got, h)
		}
	}
	// A write that was torn leaves the one before.
	st.fs.(*vfstest.FS).Damage("d/"+key+".b", appendHeld(nil, &held{gen: 99})[:20])
	if got := st.loadHeld(key); got.gen != 4 {
		t.Errorf("after a torn write: generation %d", got.gen)
	}
}

func TestLoadSweeps(t *testing.T) {
	fs := vfstest.New()
	st := store{fs, "d"}
	sv := &saved{File: "/run/docker/logging/" + id64('a'), ID: "c", Options: &awslogs.Options{Group: "g"}}
	if err := st.save(sv); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{id64('b') + ".a", id64('b') + ".b", id64('c') + ".tmp", "lock", "notes.txt"} {
		if err := st.write(st.path(name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for key, blank := range map[string]string{id64('e'): "", id64('f'): strings.Repeat("\x00", 4096)} { // as file systems do it
		for _, suffix := range []string{".json", ".a"} {
			if err := st.write(st.path(key+suffix), []byte(blank)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, bad := range []string{`{"Format":`, `{}`, `{"Format":9}`, `{"Format":1,"File":"/other","ID":"c","Options":{}}`, `{"Format":1,"File":"` + id64('d') + `"}`} {
		fs.Damage("d/"+id64('d')+".json", []byte(bad))
		if err := st.write(st.path(id64('d')+".json"), []byte(bad)); err != nil {
			t.Fatal(err)
		}
		all, damaged, err := st.load()
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], sv) || len(damaged) != 1 || damaged[0].key != id64('d') {
			t.Errorf("%s: %+v, %v, %v", bad, all, damaged, err)
		}
	}
	names, _ := fs.List("d")
	if want := []string{id64('a') + ".json", id64('d') + ".damaged", "lock", "notes.txt"}; !reflect.DeepEqual(names, want) {
		t.Errorf("left: %q", names)
	}
	if err := st.forget(id64('a')); err != nil {
		t.Error(err)
	}
}

// What a container's options are may be large, and the directory may have been removed.
func TestSaveLargeAndAfterRemoval(t *testing.T) {
	st := store{vfs.OS{}, filepath.Join(t.TempDir(), "sessions")}
	sv := &saved{File: "/run/docker/logging/" + id64('a'), ID: "c", Options: &awslogs.Options{Group: "g", MultilinePattern: strings.Repeat("<", 2<<20)}}
	if err := st.save(sv); err != nil {
		t.Fatal(err)
	}
	all, damaged, err := st.load()
	if err != nil || len(damaged) != 0 || len(all) != 1 || !reflect.DeepEqual(all[0], sv) {
		t.Errorf("%d sessions, %v, %v", len(all), damaged, err)
	}
}

func id64(c byte) string {
	b := make([]byte, 64)
	for i := range b {
		b[i] = c
	}
	return string(b)
}

func FuzzHeld(f *testing.F) {
	h := example()
	f.Add(appendHeld(nil, &h))
	f.Add(appendHeld(nil, &held{gen: 1}))
	f.Add([]byte("wdh1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := decodeHeld(b)
		if !ok {
			return
		}
		again, ok := decodeHeld(appendHeld(nil, &h))
		if !ok || again.gen != h.gen || len(again.pending) != len(h.pending) {
			t.Errorf("%+v became %+v", h, again)
		}
	})
}

func FuzzSaved(f *testing.F) {
	f.Add([]byte(`{"Format":1,"File":"/run/docker/logging/` + id64('a') + `","ID":"c","Options":{"Group":"g"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeSaved(id64('a'), b); err == nil && (s.Options == nil || keyOf(s.File) != id64('a')) {
			t.Errorf("accepted %+v", s)
		}
	})
}

// FuzzCompose reads foreign bytes as a pipe: it always goes on, and the batches are whole.
func FuzzCompose(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x11\x0a\x06stdout\x10\x01\x1a\x03abc"), false)
	f.Add([]byte("\x00\x00\x00\x11\x0a\x06stderr\x10\x01\x1a\x03abc\x00\x00"), true)
	f.Add([]byte("garbage"), true)
	f.Fuzz(func(t *testing.T, raw []byte, final bool) {
		raw = raw[:min(len(raw), maxBlock)]
		d := &draft{}
		tags := []string{"a", "b"}
		d.reset(tags)
		s := &session{pipe: &pipe{size: maxBlock}, tags: tags}
		s.lines = lines.New(lines.Options{Emit: d.emit})
		var c Counts
		at := s.compose(d, raw, final, &c)
		if final && at != len(raw) && !d.full() {
			t.Fatalf("%d of %d bytes at the end", at, len(raw))
		}
		if at == 0 && len(raw) > 0 {
			if _, _, state := frame.Next(raw, 0); state != frame.More {
				t.Fatalf("no progress: %v", state)
			}
		}
		var sum digest
		d.finish(at, &sum)
		for _, b := range d.ready {
			count := 0
			for rest := b.Entries; len(rest) > 0; count++ {
				_, n, err := event.Next(rest)
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if count != b.Count || count == 0 {
				t.Fatalf("batch of %d has %d", b.Count, count)
			}
		}
	})
}
