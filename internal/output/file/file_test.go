package file

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// plain prints tag and the field n.
type plain struct{}

func (plain) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	v, _ := event.FindKey(record, "n")
	dst = append(append(dst, tag...), ' ')
	return append(event.AppendText(dst, v), '\n')
}

const start = 1_700_000_000 // 2023-11-14 22:13:20 UTC

// ev is one event: seconds after start, and the record {"n": n, "app": app}.
type ev struct {
	sec int
	app string
}

func batch(tag string, evs ...ev) event.Batch {
	b := event.Batch{Tag: tag, Count: len(evs)}
	for i, e := range evs {
		r := event.AppendMapHeader(nil, 2)
		r = event.AppendInt(event.AppendStr(r, "n"), int64(i))
		r = event.AppendStr(event.AppendStr(r, "app"), e.app)
		at := event.Unix(start+int64(e.sec), 0)
		b.Entries = event.AppendEntry(b.Entries, at, r)
		if i == 0 || at < b.First {
			b.First = at
		}
		if i == 0 || at > b.Last {
			b.Last = at
		}
	}
	return b
}

func newOutput(t testing.TB, p Params, names placeholder.Options, fsys FS) *Output {
	t.Helper()
	if p.Suffix == "" {
		p.Suffix = ".log"
	}
	o, err := New(Options{Params: p, Names: names, Formatter: plain{}, Log: slog.New(slog.DiscardHandler), FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// send delivers a batch and returns the first failure.
func send(t testing.TB, o *Output, b event.Batch) (rejected int, failure *output.Error) {
	t.Helper()
	req := o.Request()
	covered := 0
	o.Splitter().Split(b, func(lane []byte, r output.Run) {
		if r.Off != covered {
			t.Errorf("run at %d, want %d", r.Off, covered)
		}
		covered += r.Len
		if lane == nil {
			if r.Fate != ledger.BadName.Fate() {
				t.Errorf("fate %v", r.Fate)
			}
			rejected += r.Count
			return
		}
		req.Reset(string(lane))
		req.(output.TagTaker).SetTag(b.Tag)
		n, size, _ := req.Add(b.Entries[r.Off:r.Off+r.Len], r.Count)
		if n != r.Count || size != r.Len {
			t.Errorf("Add took %d of %d, %d of %d bytes", n, r.Count, size, r.Len)
		}
		if res := req.Send(context.Background()); failure == nil {
			failure = res.Err
		}
	})
	if covered != len(b.Entries) {
		t.Errorf("runs cover %d of %d bytes", covered, len(b.Entries))
	}
	return rejected, failure
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantFiles(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := files(t, dir)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s holds %q, want %q", name, got[name], text)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("unexpected file %s", name)
	}
}

func hourly(keys ...string) placeholder.Options {
	return placeholder.Options{ChunkKeys: append(keys, "time"), Timekey: time.Hour}
}

func TestPaths(t *testing.T) {
	byTag := placeholder.Options{ChunkKeys: []string{"tag"}}
	for _, c := range []struct {
		name  string
		p     Params
		names placeholder.Options
		want  map[string]string
	}{
		{"time is added", Params{Path: "a", AddSuffix: true}, hourly(), map[string]string{
			"a.2023111422_0.log": "x.y 0\nx.y 1\n", "a.2023111423_0.log": "x.y 2\n"}},
		{"append", Params{Path: "a", AddSuffix: true, Append: true}, hourly(), map[string]string{
			"a.2023111422.log": "x.y 0\nx.y 1\n", "a.2023111423.log": "x.y 2\n"}},
		{"time in the path", Params{Path: "%Y/%m/%d/a.%H"}, hourly(), map[string]string{
			"2023/11/14/a.22_0": "x.y 0\nx.y 1\n", "2023/11/14/a.23_0": "x.y 2\n"}},
		{"star", Params{Path: "a.*.data", AddSuffix: true}, hourly(), map[string]string{
			"a.2023111422_0.data": "x.y 0\nx.y 1\n", "a.2023111423_0.data": "x.y 2\n"}},
		{"star, append", Params{Path: "a.*.data", Append: true}, hourly(), map[string]string{
			"a.2023111422.data": "x.y 0\nx.y 1\n", "a.2023111423.data": "x.y 2\n"}},
		{"star in a directory", Params{Path: "d*/a"}, hourly(), map[string]string{
			"d2023111422_0/a": "x.y 0\nx.y 1\n", "d2023111423_0/a": "x.y 2\n"}},
		{"slice format", Params{Path: "a", SliceFormat: "%Y-%m-%dT%H"}, hourly(), map[string]string{
			"a.2023-11-14T22_0": "x.y 0\nx.y 1\n", "a.2023-11-14T23_0": "x.y 2\n"}},
		{"tag", Params{Path: "${tag[1]}/${tag}", Append: true, AddSuffix: true}, byTag, map[string]string{
			"y/x.y.log": "x.y 0\nx.y 1\nx.y 2\n"}},
		{"percent without time stays", Params{Path: "100%${tag}", Append: true}, byTag, map[string]string{
			"100%x.y": "x.y 0\nx.y 1\nx.y 2\n"}},
		{"field", Params{Path: "${app}", Append: true}, placeholder.Options{ChunkKeys: []string{"app"}}, map[string]string{
			"web": "x.y 0\nx.y 2\n", "db": "x.y 1\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.p.Path = dir + "/" + c.p.Path
			o := newOutput(t, c.p, c.names, nil)
			rejected, failure := send(t, o, batch("x.y", ev{0, "web"}, ev{1, "db"}, ev{3600, "web"}))
			if rejected != 0 || failure != nil {
				t.Fatalf("rejected %d, %v", rejected, failure)
			}
			wantFiles(t, dir, c.want)
		})
	}
}

func TestConfigurationMistakes(t *testing.T) {
	for _, c := range []struct {
		p     Params
		names placeholder.Options
		want  string
	}{
		{Params{Path: ""}, placeholder.Options{}, "path is empty"},
		{Params{Path: "a*"}, placeholder.Options{}, "time is no chunk key"},
		{Params{Path: "a%Y"}, hourly(), "shows a part of the time, but not %m%d%H"},
		{Params{Path: "a.${tag}"}, hourly(), "tag is no chunk key"},
		{Params{Path: "a"}, hourly("tag"), "has no ${tag}"},
		{Params{Path: "a\x00"}, placeholder.Options{}, "zero byte"},
		{Params{Path: "a.${hostname}"}, placeholder.Options{}, "#{hostname}"},
		{Params{Path: "a", SliceFormat: "%Y"}, hourly(), "does not tell windows"},
	} {
		_, err := New(Options{Params: c.p, Names: c.names, Formatter: plain{}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.p.Path, err, c.want)
		}
	}
}

func TestNumberedFilesGoOnUntilTheLimit(t *testing.T) {
	dir := t.TempDir()
	p := Params{Path: dir + "/a"}
	o := newOutput(t, p, placeholder.Options{}, nil)
	o.o.Limit = 6
	b := batch("t", ev{})
	for range 4 {
		if _, err := send(t, o, b); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(t, dir, map[string]string{"a_0": "t 0\nt 0\n", "a_1": "t 0\nt 0\n"})
	again := newOutput(t, p, placeholder.Options{}, nil) // a restart takes the next number
	if _, err := send(t, again, b); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/a_2"); err != nil { // somebody takes the file away
		t.Fatal(err)
	}
	if _, err := send(t, again, b); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"a_0": "t 0\nt 0\n", "a_1": "t 0\nt 0\n", "a_2": "t 0\n"})
}

func TestHostileNamesAreRejectedAndTheirNeighboursGoOn(t *testing.T) {
	dir := t.TempDir()
	names := placeholder.Options{ChunkKeys: []string{"app"}}
	o := newOutput(t, Params{Path: dir + "/in/${app}", Append: true}, names, nil)
	rejected, failure := send(t, o, batch("t", ev{0, "ok"}, ev{0, "../x"}, ev{0, "/etc/x"}, ev{0, "a/../../x"}, ev{0, "a\x00b"}, ev{0, "ok"}))
	if rejected != 4 || failure != nil {
		t.Errorf("rejected %d, %v", rejected, failure)
	}
	wantFiles(t, dir, map[string]string{"in/ok": "t 0\nt 5\n"})

	byTag := newOutput(t, Params{Path: dir + "/in/${tag}/x", Append: true}, placeholder.Options{ChunkKeys: []string{"tag"}}, nil)
	if rejected, _ := send(t, byTag, batch("..", ev{})); rejected != 1 {
		t.Errorf("tag ..: rejected %d", rejected)
	}
	wantFiles(t, dir, map[string]string{"in/ok": "t 0\nt 5\n"})
}

func TestGzipMembers(t *testing.T) {
	dir := t.TempDir()
	o := newOutput(t, Params{Path: dir + "/a", Append: true, AddSuffix: true, Compress: "gz"}, placeholder.Options{}, nil)
	for range 2 {
		if _, err := send(t, o, batch("t", ev{}, ev{})); err != nil {
			t.Fatal(err)
		}
	}
	z, err := gzip.NewReader(strings.NewReader(files(t, dir)["a.log.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || string(text) != "t 0\nt 1\nt 0\nt 1\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestRequestIsFull(t *testing.T) {
	o := newOutput(t, Params{Path: "a", Append: true}, placeholder.Options{}, nil)
	r := o.Request()
	r.Reset("a")
	r.(output.TagTaker).SetTag(strings.Repeat("t", full/2))
	b := batch("t", ev{}, ev{}, ev{})
	n, size, isFull := r.Add(b.Entries, 3)
	if n != 2 || !isFull || r.Fill() != 1 {
		t.Errorf("took %d entries, full %v, fill %v", n, isFull, r.Fill())
	}
	r.Reset("a")
	r.(output.TagTaker).SetTag("t")
	if n, _, isFull = r.Add(b.Entries[size:], 3); n != 1 || isFull || r.Fill() > 0.01 {
		t.Errorf("took %d entries, full %v, fill %v", n, isFull, r.Fill())
	}
}

func TestDamagedEntriesEndAsInvalid(t *testing.T) {
	invalid := ledger.Invalid.Fate()
	o := newOutput(t, Params{Path: "${app}", Append: true}, placeholder.Options{ChunkKeys: []string{"app"}}, nil)
	b := batch("t", ev{0, "a"})
	good := len(b.Entries)
	b.Entries, b.Count = append(b.Entries, 0xc1, 0xc1), 3
	var runs []output.Run
	o.Splitter().Split(b, func(lane []byte, r output.Run) { runs = append(runs, r) })
	if want := []output.Run{{Len: good, Count: 1}, {Off: good, Len: 2, Count: 2, Fate: invalid}}; !slices.Equal(runs, want) {
		t.Errorf("runs %+v, want %+v", runs, want)
	}

	dir := t.TempDir()
	r := newOutput(t, Params{Path: dir + "/a", Append: true}, placeholder.Options{}, nil).Request()
	r.Reset(dir + "/a")
	r.(output.TagTaker).SetTag("t")
	if n, size, isFull := r.Add(b.Entries, 3); n != 3 || size != len(b.Entries) || !isFull {
		t.Errorf("took %d, %d, %v", n, size, isFull)
	}
	if res := r.Send(context.Background()); res.Err != nil || !slices.Equal(res.Ended, []output.Ended{{First: 1, Count: 2, Fate: invalid}}) {
		t.Errorf("Send: %+v", res)
	}
	wantFiles(t, dir, map[string]string{"a": "t 0\n"})
}

func TestFailuresLeaveNothingBehind(t *testing.T) {
	noSpace := &os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}
	for _, c := range []struct {
		name string
		set  func(f *faultyFS)
		kind output.Kind
	}{
		{"open", func(f *faultyFS) { f.open = &os.PathError{Op: "open", Path: "a", Err: syscall.EACCES} }, output.Denied},
		{"write", func(f *faultyFS) { f.write = noSpace }, output.Unavailable},
		{"sync", func(f *faultyFS) { f.sync = errors.New("I/O error") }, output.Unavailable},
		{"sync directory", func(f *faultyFS) { f.syncDir = errors.New("I/O error") }, output.Unavailable},
	} {
		for _, appending := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s append %v", c.name, appending), func(t *testing.T) {
				dir := t.TempDir()
				f := &faultyFS{}
				c.set(f)
				o := newOutput(t, Params{Path: dir + "/d/a", Append: appending}, placeholder.Options{}, f)
				b := batch("t", ev{}, ev{})
				req := o.Request()
				o.Splitter().Split(b, func(lane []byte, r output.Run) { req.Reset(string(lane)) })
				req.(output.TagTaker).SetTag(b.Tag)
				req.Add(b.Entries, b.Count)
				res := req.Send(context.Background())
				if res.Err == nil || res.Err.Kind != c.kind {
					t.Fatalf("Send: %+v, want kind %v", res.Err, c.kind)
				}
				for name, text := range files(t, dir) {
					if text != "" {
						t.Errorf("%s holds %q after a failure", name, text)
					}
				}
				if res := req.Send(context.Background()); res.Err != nil {
					t.Fatalf("second Send: %v", res.Err)
				}
				name := "d/a"
				if !appending {
					name = "d/a_0"
				}
				wantFiles(t, dir, map[string]string{name: "t 0\nt 1\n"})
				if f.handles != 0 || f.synced == 0 {
					t.Errorf("%d files left open, %d syncs", f.handles, f.synced)
				}
			})
		}
	}
}

func TestBadPathsAreTheLanesTrouble(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/plain", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := newOutput(t, Params{Path: dir + "/${app}", Append: true}, placeholder.Options{ChunkKeys: []string{"app"}}, nil)
	for _, app := range []string{"plain/x", strings.Repeat("n", 300), ""} {
		if _, err := send(t, o, batch("t", ev{0, app})); err == nil || err.Kind != output.Denied {
			t.Errorf("%q: %v", app, err)
		}
	}
}

func TestTornLineIsEnded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("t 0\nt "), 0o600); err != nil {
		t.Fatal(err)
	}
	o := newOutput(t, Params{Path: dir + "/a", Append: true}, placeholder.Options{}, nil)
	for range 2 {
		if _, err := send(t, o, batch("t", ev{})); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(t, dir, map[string]string{"a": "t 0\nt \nt 0\nt 0\n"})
}

func TestSymlink(t *testing.T) {
	dir := t.TempDir()
	p := Params{Path: dir + "/a", SymlinkPath: dir + "/links/newest"}
	o := newOutput(t, p, placeholder.Options{}, nil)
	o.o.Limit = 1
	for n := range 2 {
		if _, err := send(t, o, batch("t", ev{})); err != nil {
			t.Fatal(err)
		}
		target, err := os.Readlink(p.SymlinkPath)
		if want := fmt.Sprintf("%s/a_%d", dir, n); err != nil || target != want {
			t.Errorf("the link leads to %q, %v; want %q", target, err, want)
		}
	}
	// It never replaces a file, and its failure holds up nothing.
	if err := os.Remove(p.SymlinkPath); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.SymlinkPath, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := send(t, o, batch("t", ev{})); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(p.SymlinkPath); string(b) != "mine" || !strings.Contains(log.String(), "symlink_path") {
		t.Errorf("the file holds %q, log: %s", b, log.String())
	}
}

func TestManyLanesOfOneFile(t *testing.T) {
	dir := t.TempDir()
	f := &faultyFS{}
	o := newOutput(t, Params{Path: dir + "/a", Append: true}, placeholder.Options{}, f)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := send(t, o, batch(fmt.Sprint("tag", i), ev{}, ev{}, ev{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSuffix(files(t, dir)["a"], "\n"), "\n")
	if len(lines) != 8*20*3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i := 0; i < len(lines); i += 3 { // requests are whole
		tag, _, _ := strings.Cut(lines[i], " ")
		if want := []string{tag + " 0", tag + " 1", tag + " 2"}; !slices.Equal(lines[i:i+3], want) {
			t.Fatalf("lines %d: %q", i, lines[i:i+3])
		}
	}
	if f.dirSyncs != 1 || f.handles != 0 {
		t.Errorf("%d syncs of the directory, %d open files", f.dirSyncs, f.handles)
	}
}

func TestPathsAreForgotten(t *testing.T) {
	o := newOutput(t, Params{Path: "a"}, placeholder.Options{}, nil)
	held := o.take("held")
	for i := range 2 * maxPaths {
		o.give(o.take(fmt.Sprint(i)))
	}
	if len(o.paths) > maxPaths {
		t.Errorf("%d paths remembered", len(o.paths))
	}
	if o.paths["held"] != held {
		t.Error("a path in use was forgotten")
	}
}

func BenchmarkSplit(b *testing.B) {
	evs := make([]ev, 1000)
	for i := range evs {
		evs[i] = ev{i, "web"}
	}
	in := batch("app.web", evs...)
	for name, o := range map[string]*Output{
		"tag":  newOutput(b, Params{Path: "${tag}", Append: true}, placeholder.Options{ChunkKeys: []string{"tag"}}, nil),
		"time": newOutput(b, Params{Path: "a"}, placeholder.Options{ChunkKeys: []string{"time"}, Timekey: time.Minute}, nil),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := o.Splitter()
			for b.Loop() {
				s.Split(in, func([]byte, output.Run) {})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
		})
	}
}

func TestCheckPointsAtThePath(t *testing.T) {
	at := fluentconf.Pos{File: "f", Line: 3, Column: 8}
	s := &fluentconf.Section{Name: "match", Pos: fluentconf.Pos{File: "f", Line: 2, Column: 1}, Params: []fluentconf.Param{
		{Key: "path", Value: fluentconf.Value{Text: "a.%Y%m%d%H%M", Pos: at}},
		{Key: "recompress", Value: fluentconf.Value{Text: "true"}},
		{Key: "symlink_path", Value: fluentconf.Value{}},
	}}
	var d config.Diagnostics
	var p Params
	config.Decode(s, &p, &d)
	p.Check(s, placeholder.Options{ChunkKeys: []string{"time", "tag"}, Timekey: time.Hour}, &d)
	if len(d.Errors) != 2 || len(d.Warnings) != 2 {
		t.Fatalf("errors %v, warnings %v", d.Errors, d.Warnings)
	}
	if e := d.Errors[0]; e.Pos != at || !strings.Contains(e.Text, `"a.%Y%m%d%H%M_N.log" has no ${tag}`) {
		t.Errorf("error %v", e)
	}
	if w := d.Warnings[0]; !strings.Contains(w.Text, "shows the minute") {
		t.Errorf("warning %v", w)
	}
}
