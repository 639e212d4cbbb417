package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOwnLogBecomesEvents has lines of several levels go to the label @FLUENT_LOG.
func TestOwnLogBecomesEvents(t *testing.T) {
	r := start(t, forwardIn+`
<match app.**>
  @type null
</match>
<label @FLUENT_LOG>
  <match fluent.{warn,error}>
    @type stdout
    <format>
      @type json
    </format>
    <inject>
      tag_key tag
    </inject>
  </match>
</label>
`)
	mustSend(t, r.addr(0), "other", "x", 1, 1) // a warning: no match
	log := r.o.Log.With("a", 1).WithGroup("g").With("b", "two")
	log.Error("it broke", "error", errors.New("why"), "wait", time.Second, slog.Group("in", "c", true))
	log.Info("not wanted")
	r.stop(10 * time.Second)
	got := map[string]map[string]any{}
	for _, line := range r.lines() {
		var rec map[string]any
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got[rec["tag"].(string)] = rec
		delete(rec, "tag")
	}
	if len(r.lines()) != 2 {
		t.Fatalf("lines %q", r.lines())
	}
	if m, _ := got["fluent.warn"]["message"].(string); !strings.HasPrefix(m, `no <match> takes this tag, its events are dropped tag="other" times=1`) || got["fluent.warn"]["times"] != 1.0 {
		t.Errorf("warning %v", got["fluent.warn"])
	}
	want := map[string]any{"a": 1.0, "g.b": "two", "g.error": "why", "g.wait": "1s", "g.in.c": true,
		"message": `it broke a=1 g.b="two" g.error="why" g.wait="1s" g.in.c=true`}
	if !maps.Equal(got["fluent.error"], want) {
		t.Errorf("error %v\nwant  %v", got["fluent.error"], want)
	}
	if !strings.Contains(r.log.String(), "it broke") || !strings.Contains(r.log.String(), "g.b=two") {
		t.Error("the log itself lacks the line")
	}
}

// TestOwnLogIsNoLoop sends the log to an output that fails and says so.
func TestOwnLogIsNoLoop(t *testing.T) {
	r := start(t, strings.Replace(forwardIn, "5s", "0.3", 1)+`
<match app.**>
  @type file
  @id other
  path /proc/nowhere/other
  <buffer time>
    flush_mode immediate
    retry_wait 0.01s
  </buffer>
</match>
<label @FLUENT_LOG>
  <filter **>
    @type concat
    key message
    n_lines 1
  </filter>
  <match **>
    @type relabel
    @label @SHARED
  </match>
</label>
<label @SHARED>
  <match **>
    @type copy
    <store>
      @type stdout
    </store>
    <store>
      @type file
      @id shared
      path /proc/nowhere/x
      <buffer time>
        flush_mode immediate
        retry_max_times 0
        retry_wait 0.01s
      </buffer>
    </store>
  </match>
</label>
`)
	mustSend(t, r.addr(0), "app.x", "x", 1, 1)
	eventually(t, "both outputs have failed", func() bool {
		log := r.log.String()
		return strings.Contains(log, "output=shared") && strings.Contains(log, "output=other")
	})
	r.stop(10 * time.Second)
	if out := r.out.String(); !strings.Contains(out, `output=\"other\"`) || strings.Contains(out, `output=\"shared\"`) {
		t.Errorf("events of the log:\n%s", out)
	}
}

// TestOwnLogReach says who gets events of the log.
func TestOwnLogReach(t *testing.T) {
	source := "<source>\n@type forward\n</source>\n"
	for _, c := range []struct{ text, outputs string }{
		{"<match **>\n@type stdout\n</match>", "nobody"},
		{"<match fluent.**>\n@type stdout\n</match>\n<match **>\n@type null\n</match>", "stdout"},
		{"<match fluent.**>\n@type null\n</match>\n<match **>\n@type stdout\n</match>", "nobody"},
		{"<match **>\n@type stdout\n</match>\n<label @FLUENT_LOG>\n<match **>\n@type relabel\n@label @X\n</match>\n</label>\n<label @X>\n<match **>\n@type stdout\n</match>\n</label>", "stdout.2"},
		{"<match **>\n@type null\n</match>\n<label @FLUENT_LOG>\n<match **>\n@type rewrite_tag_filter\n<rule>\nkey message\npattern /./\ntag x\nlabel @X\n</rule>\n</match>\n</label>\n<label @X>\n<match **>\n@type copy\n<store>\n@type stdout\n</store>\n<store>\n@type null\n</store>\n</match>\n</label>", "null.2 stdout"},
		{"<match **>\n@type null\n</match>\n<label @FLUENT_LOG>\n<match **>\n@type stdout\n</match>\n</label>\n<label @ERROR>\n<match **>\n@type file\npath /x\n</match>\n</label>", "file stdout"},
	} {
		got := "nobody"
		if r := plan(t, source+c.text).logReach(); r != nil {
			got = strings.Join(slices.Sorted(maps.Keys(r.outputs)), " ")
		}
		if got != c.outputs {
			t.Errorf("%s\n%s, want %s", c.text, got, c.outputs)
		}
	}
}

// TestReloadTurnsTheOwnLogOn adds and removes the label.
func TestReloadTurnsTheOwnLogOn(t *testing.T) {
	without := forwardIn + "<match **>\n@type null\n</match>\n"
	with := without + "<label @FLUENT_LOG>\n<match **>\n@type stdout\n<format>\n@type single_value\n</format>\n</match>\n</label>\n"
	r := start(t, without)
	for i, text := range []string{with, without, with} {
		r.o.Log.Info("line", "n", i)
		if err := r.Reload(r.load(text)); err != nil {
			t.Fatal(err)
		}
	}
	r.o.Log.Info("last")
	r.stop(10 * time.Second)
	out := r.out.String()
	if strings.Contains(out, "n=0") || !strings.Contains(out, "line n=1\n") || strings.Contains(out, "n=2") || !strings.Contains(out, "last\n") {
		t.Errorf("events of the log:\n%s", out)
	}
}
