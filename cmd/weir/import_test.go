package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/app"
)

// TestImportRecorded writes out a directory that Fluentd's own code has left.
func TestImportRecorded(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../internal/fluentbuffer/testdata/fluentd")); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := runBuffer([]string{"import", dir}, &out, &errs); code != exitFault {
		t.Errorf("exit code %d: one chunk is cut off\n%s", code, &errs)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 18 || !strings.HasPrefix(lines[0], `{"tag":"std.queued","time":"2023-11-14T22:13:20.123456789Z","record":{"n":1,`) {
		t.Errorf("%d lines\n%s", len(lines), &out)
	}
	if !strings.Contains(errs.String(), "8 chunks with 18 events were taken over, 1 of them damaged") {
		t.Errorf("said %s", &errs)
	}
	kept, err := filepath.Glob(filepath.Join(dir, app.ImportedDir, "kept-*"))
	if err != nil || len(kept) != 15 {
		t.Errorf("kept %q, %v", kept, err)
	}
	out.Reset()
	errs.Reset()
	if code := runBuffer([]string{"import", dir}, &out, &errs); code != exitOK || out.Len() > 0 {
		t.Errorf("again: exit code %d, %s", code, &out)
	}
	if code := runBuffer([]string{"import", dir + "/none"}, &out, &errs); code != exitFault {
		t.Errorf("of nothing: exit code %d", code)
	}
	if code := runBuffer([]string{"import"}, &out, &errs); code != exitUsage {
		t.Errorf("without a directory: exit code %d", code)
	}
}

// TestImportDelivers sends it through the output of a configuration.
func TestImportDelivers(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir+"/old", os.DirFS("../../internal/fluentbuffer/testdata/fluentd")); err != nil {
		t.Fatal(err)
	}
	conf := dir + "/weir.conf"
	if err := os.WriteFile(conf, []byte(`
<source>
  @type forward
</source>
<match **>
  @type file
  @id out
  path `+dir+`/out/${tag}
  append true
  <format>
    @type json
  </format>
  <buffer tag>
    @type file
    path `+dir+`/new
    flush_mode immediate
    min_free_space 0
  </buffer>
</match>
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := runBuffer([]string{"import", "-c", conf, dir + "/old"}, &out, &errs); code != exitFault || !strings.Contains(errs.String(), "name the output") {
		t.Errorf("without --output: exit code %d\n%s", code, &errs)
	}
	if code := runBuffer([]string{"import", "-c", conf, "--output", "out", dir + "/old"}, &out, &errs); code != exitFault {
		t.Errorf("exit code %d: one chunk is cut off", code)
	}
	if want := "8 chunks with 18 events were taken over, 1 of them damaged; 0 events are left in the buffer\n"; out.String() != want {
		t.Errorf("said %q, want %q\n%s", &out, want, &errs)
	}
	b, err := os.ReadFile(dir + "/out/own.staged.log")
	if err != nil || string(b) != "{\"n\":7}\n{\"n\":8}\n{\"n\":9}\n" {
		t.Errorf("%q, %v", b, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "new", app.ImportedDir, "*"))
	if err != nil || len(kept) != 2 || !strings.HasPrefix(filepath.Base(kept[0]), "kept-") {
		t.Errorf("kept %q, %v", kept, err)
	}
}
