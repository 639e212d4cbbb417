package file

import (
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

func newSecondary(t *testing.T, p SecondaryParams, binary bool, names placeholder.Options) *Output {
	t.Helper()
	o, err := NewSecondary(p, binary, Options{Names: names, Formatter: plain{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSecondaryFiles(t *testing.T) {
	byTag := placeholder.Options{ChunkKeys: []string{"tag"}}
	for _, c := range []struct {
		name  string
		p     SecondaryParams
		names placeholder.Options
		want  map[string]string
	}{
		{"numbered", SecondaryParams{Basename: "dump.bin"}, byTag, map[string]string{"dump.bin.0": "x.y 0\nx.y 1\n"}},
		{"append", SecondaryParams{Basename: "dump", Append: true}, byTag, map[string]string{"dump": "x.y 0\nx.y 1\n"}},
		{"placeholders", SecondaryParams{Basename: "${tag[1]}.%H"}, hourly("tag"), map[string]string{"y.22.0": "x.y 0\n", "y.23.0": "x.y 1\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Directory = t.TempDir()
			o := newSecondary(t, c.p, false, c.names)
			if rejected, failure := send(t, o, batch("x.y", ev{0, "a"}, ev{3600, "a"})); rejected != 0 || failure != nil {
				t.Fatalf("rejected %d, %v", rejected, failure)
			}
			wantFiles(t, c.p.Directory, c.want)
		})
	}
}

func TestSecondaryGzip(t *testing.T) {
	dir := t.TempDir()
	o := newSecondary(t, SecondaryParams{Directory: dir, Basename: "a", Compress: "gzip"}, false, placeholder.Options{})
	if _, err := send(t, o, batch("t", ev{})); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(strings.NewReader(files(t, dir)["a.0.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "t 0\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSecondaryBytesStay appends to a file whose last byte is no line end, as msgpack has it.
func TestSecondaryBytesStay(t *testing.T) {
	dir := t.TempDir()
	p := SecondaryParams{Directory: dir, Basename: "a", Append: true}
	for range 2 {
		o, err := NewSecondary(p, true, Options{Formatter: Messages{}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		b := batch("t", ev{})
		b.Entries = event.AppendEntry(nil, event.Unix(start, 5), event.AppendInt(event.AppendStr(event.AppendMapHeader(nil, 1), "n"), '\n'))
		if _, err := send(t, o, b); err != nil {
			t.Fatal(err)
		}
	}
	one := "\x93\xa1t\xd7\x00\x65\x53\xf1\x00\x00\x00\x00\x05\x81\xa1n\x0a"
	wantFiles(t, dir, map[string]string{"a": one + one})
}

func TestSecondaryMistakes(t *testing.T) {
	for _, c := range []struct {
		p     SecondaryParams
		names placeholder.Options
		want  string
	}{
		{SecondaryParams{Directory: "/d", Basename: "a/b"}, placeholder.Options{}, "must not contain a slash"},
		{SecondaryParams{Directory: "/d/%Y", Basename: "a"}, placeholder.Options{}, "time is no chunk key of the primary"},
		{SecondaryParams{Directory: "/d", Basename: "${tag}"}, placeholder.Options{ChunkKeys: []string{"time"}, Timekey: time.Hour}, "tag"},
		{SecondaryParams{Directory: "/d/${app}", Basename: "a"}, placeholder.Options{ChunkKeys: []string{"tag"}}, "app"},
		{SecondaryParams{Directory: "/d", Basename: "a"}, hourly("tag", "app"), ""},
	} {
		var d config.Diagnostics
		c.p.Check(&fluentconf.Section{}, c.names, &d)
		if c.want == "" && len(d.Errors) > 0 || c.want != "" && (len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Text, c.want)) {
			t.Errorf("%+v: %v, want %q", c.p, d.Errors, c.want)
		}
	}
}

func TestRelativeLink(t *testing.T) {
	dir := t.TempDir()
	o := newOutput(t, Params{Path: dir + "/a/b/file", Append: true, SymlinkPath: dir + "/links/newest", RelativeLink: true}, placeholder.Options{}, nil)
	if _, err := send(t, o, batch("t", ev{})); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(dir + "/links/newest"); err != nil || target != "../a/b/file" {
		t.Errorf("%q, %v", target, err)
	}
	if text, err := os.ReadFile(dir + "/links/newest"); err != nil || string(text) != "t 0\n" {
		t.Errorf("%q, %v", text, err)
	}
}
