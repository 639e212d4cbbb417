package app

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const routed = forwardIn + `
<match app.**>
  @type route
  remove_tag_prefix app
  add_tag_prefix out
  <route out.*.audit>
    @label @AUDIT
    copy
  </route>
  <route out.web.**>
    remove_tag_prefix out
  </route>
  <route out.loop>
    remove_tag_prefix out
    add_tag_prefix app
  </route>
</match>
<match web.**>
  @type stdout
</match>
<label @AUDIT>
  <match **>
    @type stdout
    <format>
      @type out_file
      output_time false
    </format>
  </match>
</label>
`

// TestRoute sends events whose tags decide where they go and how they are called there.
func TestRoute(t *testing.T) {
	r := start(t, routed)
	mustSend(t, r.addr(0), "app.web.audit", "both", 1, 1)
	mustSend(t, r.addr(0), "app.web", "one", 1, 1)
	mustSend(t, r.addr(0), "app.db.audit", "copy only", 1, 1)
	mustSend(t, r.addr(0), "app.nobody", "none", 1, 1)
	mustSend(t, r.addr(0), "app.loop", "round", 1, 1)
	r.stop(10 * time.Second)
	var got []string
	for line := range strings.Lines(r.out.String()) {
		line = strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(line, "+0000 "); ok {
			line = rest
		} else if at := strings.Index(line, "web"); at > 0 && !strings.HasPrefix(line, "out.") {
			line = line[at:]
		}
		got = append(got, strings.Join(strings.Fields(strings.ReplaceAll(line, ": {", " {")), " "))
	}
	slices.Sort(got)
	want := []string{`out.db.audit {"message":"copy only 1"}`, `out.web.audit {"message":"both 1"}`, `web {"message":"one 1"}`, `web.audit {"message":"both 1"}`}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := r.unmatchedEvents(); n != 2 {
		t.Errorf("%d events without a match, want 2", n)
	}
	if !strings.Contains(r.log.String(), "in a circle") {
		t.Errorf("the loop is not reported:\n%s", r.log.String())
	}
}

// TestRouteThatGrowsEnds has a route that makes tags longer and longer.
func TestRouteThatGrowsEnds(t *testing.T) {
	r := start(t, forwardIn+"<match **>\n@type route\n<route **>\nadd_tag_prefix more\n</route>\n</match>\n<label @X>\n<match **>\n@type null\n</match>\n</label>")
	mustSend(t, r.addr(0), "a", "x", 1, 3)
	r.stop(10 * time.Second)
	if n := r.unmatchedEvents(); n != 3 || !strings.Contains(r.log.String(), "a route sends events back to itself") {
		t.Errorf("%d events without a match, want 3\n%s", n, r.log.String())
	}
}

// TestPrometheusAsAnOutput counts events in a store: they end there, and go on in the others.
func TestPrometheusAsAnOutput(t *testing.T) {
	const metric = "<metric>\nname seen_%s\ntype counter\ndesc d\n<labels>\ntag ${tag}\nmessage $.message\n</labels>\n</metric>\n"
	r := start(t, forwardIn+"<source>\n@type prometheus\nport 0\n</source>\n<match a>\n@type copy\n<store>\n@type prometheus\n@id count\n"+fmt.Sprintf(metric, "copied")+"</store>\n<store>\n@type stdout\n</store>\n</match>\n"+
		"<match **>\n@type prometheus\n"+fmt.Sprintf(metric, "alone")+"</match>\n")
	mustSend(t, r.addr(0), "a", "x", 1, 3)
	mustSend(t, r.addr(0), "b", "y", 1, 2)
	resp, err := http.Get("http://" + r.inputs[1].page.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	r.stop(10 * time.Second)
	for _, want := range []string{`seen_copied{tag="a",message="x 2"} 1.0`, `seen_alone{tag="b",message="y 1"} 1.0`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if n := strings.Count(r.out.String(), "x "); n != 3 {
		t.Errorf("%d events went on, want 3", n)
	}
	if s := r.gen.order[0].book.Sheet(); s.Admitted != 3 || s.Filtered != 3 || s.Pending() != 0 {
		t.Errorf("the books of the counting store: %+v", s)
	}
}
