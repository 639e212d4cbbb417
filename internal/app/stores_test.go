package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/pipeline"
)

// TestRoundRobinTakesTurns sends through a running weir: batches go to stores by weight.
func TestRoundRobinTakesTurns(t *testing.T) {
	p := plan(t, `
<source>
  @type forward
</source>
<match **>
  @type roundrobin
  <store>
    @type null
    @id two
    weight 2
  </store>
  <store>
    @type relabel
    @label @ONE
  </store>
</match>
<label @ONE>
  <match **>
    @type null
    @id one
  </match>
</label>
`)
	targets := map[*outputPlan]*pipeline.Target{}
	for _, o := range p.Outputs {
		targets[o] = &pipeline.Target{ID: o.id}
	}
	r := newResolver(p, targets, &ledger.Book{}, slog.New(slog.DiscardHandler))
	a, b := r.from("").Route("a"), r.from("").Route("b")
	if a.Turn == nil || a.Turn != b.Turn || len(a.Ends) != 2 {
		t.Fatalf("nodes %+v, %+v: all tags take one turn", a, b)
	}
	if a.Ends[0].Target.ID != "two" || a.Ends[1].Next.Ends[0].Target.ID != "one" {
		t.Errorf("ends %+v", a.Ends)
	}
	if got := p.Summary(); !strings.Contains(got, "one of 2 stores in turn") {
		t.Errorf("summary\n%s", got)
	}
}

// TestSecondaryFileTakesWhatThePrimaryGivesUp has a primary that can never write.
func TestSecondaryFileTakesWhatThePrimaryGivesUp(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, forwardIn+`
<match **>
  @type file
  path `+dir+`/file/below/${tag}
  append true
  <format>
    @type single_value
  </format>
  <buffer tag>
    flush_mode immediate
    retry_max_times 0
    retry_wait 0.01s
  </buffer>
  <secondary>
    @type secondary_file
    directory `+dir+`/given-up
    basename ${tag}.txt
    append true
  </secondary>
</match>
`)
	mustSend(t, r.addr(0), "app.x", "line", 1, 2)
	eventually(t, "the secondary has written", func() bool { s := r.Totals(); return s.Admitted == 2 && s.Pending() == 0 })
	text, err := os.ReadFile(dir + "/given-up/app.x.txt")
	if err != nil || string(text) != "line 1\nline 2\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSecondaryNullIsFiltered has a <secondary> that throws away: the books say so.
func TestSecondaryNullIsFiltered(t *testing.T) {
	p := plan(t, "<source>\n@type forward\n</source>\n<match **>\n@type stdout\n<secondary>\n@type null\n</secondary>\n</match>")
	out, err := p.Outputs[0].secondary.build(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	b := event.Batch{Tag: "t", Entries: event.AppendEntry(nil, event.Unix(1, 0), []byte{0x80}), Count: 1}
	out.Splitter().Split(b, func(lane []byte, r output.Run) {
		calls++
		if lane != nil || r.Count != 1 || r.Len == 0 || r.Fate.Class != ledger.Filtered {
			t.Errorf("lane %q, %+v", lane, r)
		}
	})
	if calls != 1 {
		t.Errorf("%d runs", calls)
	}
}

// TestOlderFormats has formats named without a section: the lines are what counts.
func TestOlderFormats(t *testing.T) {
	p := plan(t, `
<source>
  @type forward
</source>
<match a>
  @type stdout
  format json
  include_tag_key true
  tag_key from
</match>
<match b>
  @type stdout
  format ltsv
</match>
<match c>
  @type file
  path /c
  format single_value
  message_key n
</match>
<match d>
  @type stdout
  format json
  <format>
    @type ltsv
  </format>
</match>
`)
	record := event.AppendInt(event.AppendStr(event.AppendMapHeader(nil, 1), "n"), 7)
	for i, want := range []string{`{"n":7,"from":"x"}`, "n:7", "7", "n:7"} {
		if got := strings.TrimSpace(string(p.Outputs[i].lines.Append(nil, "x", event.Unix(1, 0), record))); got != want {
			t.Errorf("output %d writes %q, want %q", i, got, want)
		}
	}
}
