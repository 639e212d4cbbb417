package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func get(t *testing.T, s *Server, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

const nasty = `</span><script>alert(1)</script>'"><img src=x onerror=alert(2)>{{.}}`

func TestPagesEscapeEverything(t *testing.T) {
	s := newServer(t, Options{Faults: &FaultScript{Rules: []FaultRule{{Kind: FaultThrottle, Name: nasty, Operations: []string{"UntagResource"}}}}})
	mustOK(t, s, "CreateLogGroup", obj{"logGroupName": "g", "kmsKeyId": nasty, "tags": obj{"k": "v"}})
	stream := strings.ReplaceAll(nasty, ":", "")
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": stream})
	record, _ := json.Marshal(obj{nasty: nasty})
	mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": stream, "logEvents": []obj{
		event(noon, nasty), event(noon, string(record)), event(noon, `{"a":"`+`</pre><script>x</script>`+`"}`)}})
	q := url.QueryEscape
	for _, target := range []string{
		"/", "/?q=" + q(nasty), "/group?group=g", "/group?group=g&q=" + q(nasty), "/group?group=" + q(nasty),
		"/events?group=g", "/events?group=g&stream=" + q(stream), "/events?group=g&q=" + q(nasty), "/events?group=g&q=" + q(`"`+nasty+`"`),
		"/events?group=g&before=" + q(nasty), "/events?group=g&stream=" + q(nasty+"x"), "/_weir/rows?group=g&after=" + q(nasty), "/" + q(nasty),
	} {
		w := get(t, s, target)
		if w.Code >= 500 {
			t.Errorf("%s: status %d", target, w.Code)
		}
		page := w.Body.String()
		for _, bad := range []string{"<script>", "<img src=x", `'">`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page contains %s", target, bad)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", target, csp)
		}
		if strings.Contains(page, "http://") && !strings.Contains(page, "No log groups") && strings.Contains(page, `src="http`) {
			t.Errorf("%s: the page loads something from outside", target)
		}
	}
}

var messageCell = regexp.MustCompile(`<span class="message">([^<]*)</span>`)

func shown(w *httptest.ResponseRecorder) (out []string) {
	for _, m := range messageCell.FindAllStringSubmatch(w.Body.String(), -1) {
		out = append(out, m[1])
	}
	return out
}

func TestEventsPage(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	for i := range 450 {
		put(t, s, event(noon.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("m", i)))
	}
	seq := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint("m", i))
		}
		return out
	}
	for _, base := range []string{"/events?group=g&stream=s", "/events?group=g"} {
		w := get(t, s, base)
		if d := cmp.Diff(seq(250, 450), shown(w)); d != "" {
			t.Errorf("%s: latest: %s", base, d)
		}
		older := regexp.MustCompile(`href="([^"]*before=[^"]*)">Older`)
		m := older.FindStringSubmatch(w.Body.String())
		if m == nil {
			t.Fatalf("%s: no link to older events", base)
		}
		w = get(t, s, strings.ReplaceAll(m[1], "&amp;", "&"))
		if d := cmp.Diff(seq(50, 250), shown(w)); d != "" {
			t.Errorf("%s: older: %s", base, d)
		}
		w = get(t, s, strings.ReplaceAll(older.FindStringSubmatch(w.Body.String())[1], "&amp;", "&"))
		if d := cmp.Diff(seq(0, 50), shown(w)); d != "" {
			t.Errorf("%s: oldest: %s", base, d)
		}
		if older.MatchString(w.Body.String()) {
			t.Errorf("%s: a link to older events at the oldest", base)
		}
		last := get(t, s, base).Header().Get("X-Weir-Last")
		rows := strings.Replace(base, "/events?", "/_weir/rows?", 1)
		if w := get(t, s, rows+"&after="+last); len(shown(w)) != 0 || w.Header().Get("X-Weir-Last") != last {
			t.Errorf("%s: rows behind the last: %v", rows, shown(w))
		}
	}
	mustOK(t, s, "CreateLogStream", obj{"logGroupName": "g", "logStreamName": "full"})
	var page []obj
	for i := range pageRows {
		page = append(page, event(noon.Add(-time.Hour), fmt.Sprint("p", i)))
	}
	mustOK(t, s, "PutLogEvents", obj{"logGroupName": "g", "logStreamName": "full", "logEvents": page})
	if w := get(t, s, "/events?group=g&stream=full"); len(shown(w)) != 200 || strings.Contains(w.Body.String(), "Older") {
		t.Error("a stream of exactly one page has no older events")
	}
	last := get(t, s, "/events?group=g").Header().Get("X-Weir-Last")
	put(t, s, event(noon.Add(time.Second), "fresh"), event(noon.Add(time.Second), "stale"))
	if d := cmp.Diff([]string{"fresh"}, shown(get(t, s, "/_weir/rows?group=g&q=-stale&after="+last))); d != "" {
		t.Errorf("following with a filter: %s", d)
	}
	if d := cmp.Diff([]string{"m417"}, shown(get(t, s, "/events?group=g&stream=s&q=m417"))); d != "" {
		t.Errorf("searching: %s", d)
	}
	if w := get(t, s, "/events?group=g&q=a/b"); !strings.Contains(w.Body.String(), "Invalid character(s) in term") {
		t.Error("a bad pattern must be explained on the page")
	}
	if w := get(t, s, "/events?group=g&follow=1"); !strings.Contains(w.Body.String(), `http-equiv="refresh"`) {
		t.Error("following must work without JavaScript")
	}
}

func TestOtherAddresses(t *testing.T) {
	s := newServer(t, Options{})
	prepare(t, s)
	for target, want := range map[string]int{
		"/": 200, "/group?group=g": 200, "/group?group=x": 404, "/events?group=x": 404, "/events?group=g&stream=x": 404,
		"/nothing": 404, "/_weir/style.css": 200, "/_weir/app.js": 200, "/_weir/stats": 200, "/_weir/faults": 200, "/_weir/layout.html": 404,
	} {
		if w := get(t, s, target); w.Code != want {
			t.Errorf("%s: status %d, want %d", target, w.Code, want)
		}
	}
	var st Stats
	if err := json.Unmarshal(get(t, s, "/_weir/stats").Body.Bytes(), &st); err != nil || st.Requests["CreateLogGroup"]["ok"] != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE /: %d", w.Code)
	}
}

func TestHumanForms(t *testing.T) {
	for in, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567"} {
		if got := humanCount(in); got != want {
			t.Errorf("%d: %q", in, got)
		}
	}
	for in, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := humanBytes(in); got != want {
			t.Errorf("%d: %q", in, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "just now", 5 * time.Second: "5 s ago", 3 * time.Minute: "3 min ago", 3 * time.Hour: "3 h ago", 72 * time.Hour: "3 days ago"} {
		if got := ago(noon, noon.Add(-d)); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
	if got := ago(noon, time.Time{}); got != "never" {
		t.Error(got)
	}
}
