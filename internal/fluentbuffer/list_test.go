package fluentbuffer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestListDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(tag string, m int64) []byte { return meta{tag: tag, created: m - 5, modified: m}.bytes() }
	id := func(n string) string { return "5f0a1b2c3d4e5f60718293a4b5c6d7" + n }
	data := entries(1, 1)
	write(t, dir, map[string][]byte{
		"buffer.b" + id("01") + ".log":              data,
		"buffer.b" + id("01") + ".log.meta":         at("staged", 100),
		"buffer.q" + id("02") + ".log":              data,
		"buffer.q" + id("02") + ".log.meta":         at("late", 300),
		"worker1/buffer.q" + id("03") + ".log":      data,
		"worker1/buffer.q" + id("03") + ".log.meta": meta{tag: "old", created: 1, modified: 200, old: true}.bytes(),
		// Killed between the two renames.
		"buffer.q" + id("04") + ".log":          data,
		"buffer.b" + id("04") + ".log.meta":     at("between", 250),
		"buffer.q" + id("05") + ".log":          data,
		"buffer.q" + id("05") + ".log.meta":     meta{tag: "longer before", created: 1, modified: 260, trailing: "rest of longer metadata"}.bytes(),
		"buffer.q" + id("06") + ".log":          data,
		"buffer.q" + id("06") + ".log.meta":     at("cut", 1)[:20],
		"buffer.q" + id("07") + ".log":          data,
		"buffer.q" + id("07") + ".log.meta":     meta{modified: 1, created: 1, noID: true}.bytes(),
		"buffer.b" + id("08") + ".log":          data,
		"buffer.b" + id("08") + ".log.meta":     meta{noTimes: true}.bytes(),
		"buffer.b" + id("09") + ".log":          {},
		"buffer.b" + id("09") + ".log.meta":     at("x", 1),
		"buffer.b" + id("0a") + ".log.meta":     at("x", 1),
		"buffer.b" + id("0b") + ".log":          data,
		"buffer.b" + id("0b") + ".log.meta":     {},
		"buffer.app.web.b5f0a1b2c3d4e5f.log":    data, // v0.12
		"fsb.kube.a%2Fb.q" + id("0c") + ".buf":  data,
		"other.q" + id("0d") + ".log":           data,
		"fluentd-imported/buffer.q" + id("0e"):  data,
		"0000000000000001.seg":                  data,
		"lock":                                  {},
		"buffer.q" + id("0f") + "x.log":         data,
		"workers/buffer.q" + id("10") + ".log":  data,
		"worker1/other.b" + id("11") + ".lo.gz": data,
	})
	for name, s := range map[string]int64{"buffer.app.web.b5f0a1b2c3d4e5f.log": 50, "fsb.kube.a%2Fb.q" + id("0c") + ".buf": 60} {
		when := time.Unix(s, 0)
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	l, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, c := range l.Chunks {
		tags = append(tags, c.Tag)
	}
	if want := []string{"app.web", "kube.a/b", "old", "between", "longer before", "late", "staged"}; !slices.Equal(tags, want) {
		t.Errorf("order %q, want %q", tags, want)
	}
	if c := l.Chunks[3]; !c.Queued || filepath.Base(c.Meta) != "buffer.b"+id("04")+".log.meta" || c.Created.Unix() != 245 {
		t.Errorf("%+v", c)
	}
	if c := l.Chunks[6]; c.Queued || c.ID != id("01") || c.Size != int64(len(data)) {
		t.Errorf("%+v", c)
	}
	broken := map[string]error{"06.log": ErrMeta, "07.log": ErrMeta, "08.log": ErrMeta, "09.log": ErrEmpty, "0b.log": ErrMeta, "0a.log.meta": ErrNoData}
	for _, b := range l.Broken {
		found := false
		for end, want := range broken {
			if name := filepath.Base(b.Path); name[len(name)-len(end):] == end && errors.Is(b.Err, want) {
				delete(broken, end)
				found = true
			}
		}
		if !found {
			t.Errorf("%s is broken: %v", b.Path, b.Err)
		}
	}
	if len(broken) > 0 {
		t.Errorf("not found broken: %v", broken)
	}
	all, err := ListAll(dir)
	if err != nil || len(all.Chunks) != len(l.Chunks)+2 {
		t.Errorf("%d chunks whatever their prefix, %v", len(all.Chunks), err)
	}
}

func TestListPattern(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"cwl.b" + idA + ".buffer":      entries(1, 1),
		"cwl.b" + idA + ".buffer.meta": meta{tag: "a", created: 1, modified: 1}.bytes(),
		"cwl.q" + idB + ".buffer":      entries(1, 1),
		"s3.q" + idB + ".buffer":       []byte("text\n"),
	})
	for _, pattern := range []string{"/cwl.*.buffer", "/cwl.*"} {
		l, err := List(dir + pattern)
		if err != nil || len(l.Chunks) != 2 || !l.Chunks[0].Queued || l.Chunks[1].Tag != "a" || len(l.Broken) != 0 {
			t.Errorf("%s: %+v, %v", pattern, l, err)
		}
	}
	if l, err := List(dir + "/none/x.*.log"); err != nil || len(l.Chunks) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := List(dir + "/none"); err != nil || len(l.Chunks) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"buffer.q" + idA + ".log": entries(1, 1)})
	l, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &l.Chunks[0]
	if err := c.Unchanged(); err != nil {
		t.Error(err)
	}
	write(t, dir, map[string][]byte{"buffer.q" + idA + ".log": entries(1, 2)})
	if err := c.Unchanged(); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for base, want := range map[string]name{
		"buffer.b" + idA + ".log":               {key: "buffer", id: idA},
		"a.q5f0a1b2c3d4e5f.x.y":                 {key: "a", id: "5f0a1b2c3d4e5f", queued: true},
		"buffer.q0123456789abcd.b" + idA + ".l": {key: "buffer.q0123456789abcd", id: idA},
		"buffer.b123.log":                       {},
		"b" + idA + ".log":                      {},
		"buffer.b" + idA:                        {},
		"buffer.b" + idA + ".log.meta":          {},
		"":                                      {},
	} {
		n, ok := parseName(base)
		n.state = 0
		if n != want || ok != (want.id != "") {
			t.Errorf("%s: %+v, %v", base, n, ok)
		}
	}
	if !IsFile("buffer.b"+idA+".log.meta") || IsFile("checkpoint") || IsFile("0000000000000001.seg") {
		t.Error("a file of weir's buffer must not count as Fluentd's")
	}
}
