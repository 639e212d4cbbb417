package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"

	"weir/internal/event"
)

// A recorded page is what Fluentd 1.19, fluent-plugin-prometheus 2.2.2 and monitor_agent
// answered after some events. The files in testdata/pages are like those of recorded cases:
//
//	=== NAME [VARIABLE=VALUE]...
//	the configuration; $PORT, $METRICS and $AGENT stand for ports, $DIR for a directory
//	--- events
//	{"tag": …, "record": …}, or "records": […]
//	--- get metrics PATH [METHOD], or agent PATH
//	--- result
//	{"get": …, "status": …, "header": …, "body": …} or {"refused": …}
//
// A part weir stands for the result where weir differs on purpose.
type recordedPages struct {
	name, conf string
	events     []string
	want, weir []recordedPage
}

type recordedPage struct {
	Get     string            `json:"get"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header"`
	Body    string            `json:"body"`
	Refused string            `json:"refused"`
}

func readPages(t *testing.T, name string) (cases []*recordedPages) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	part := ""
	var c *recordedPages
	for l := range strings.Lines(string(data)) {
		switch f := strings.Fields(l); {
		case strings.HasPrefix(l, "=== "):
			c, part = &recordedPages{name: f[1]}, "conf"
			cases = append(cases, c)
		case strings.HasPrefix(l, "--- "):
			part = f[1]
		case part == "conf":
			c.conf += l
		case part == "events":
			c.events = append(c.events, l)
		default:
			var p recordedPage
			if err := json.Unmarshal([]byte(l), &p); err != nil {
				t.Fatalf("%s: %s: %v", name, c.name, err)
			}
			if part == "weir" {
				c.weir = append(c.weir, p)
			} else {
				c.want = append(c.want, p)
			}
		}
	}
	return cases
}

// TestRecordedPages wants the pages that Fluentd's monitoring plug-ins gave.
func TestRecordedPages(t *testing.T) {
	defer regexp2.StopTimeoutClock() // it would look like a leak
	names, err := filepath.Glob("testdata/pages/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no recorded pages", err)
	}
	for _, name := range names {
		for _, c := range readPages(t, name) {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txt")+"/"+c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c *recordedPages) run(t *testing.T) {
	want := c.want
	if len(c.weir) > 0 {
		want = c.weir
	}
	refused := len(want) > 0 && want[0].Refused != ""
	dir := t.TempDir()
	t.Setenv("FLUENT_CONF_INCLUDE_DIR", "")
	conf := strings.NewReplacer("$PORT", "0", "$METRICS", "0", "$AGENT", "0", "$DIR", dir).Replace(c.conf)
	if err := os.WriteFile(filepath.Join(dir, "fluent.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	p, d := Load(filepath.Join(dir, "fluent.conf"), Env{Stdout: io.Discard, Hostname: "$HOST"}, false)
	if len(d.Errors) > 0 || refused {
		if len(d.Errors) == 0 {
			t.Fatalf("weir takes it, Fluentd says: %s", want[0].Refused)
		} else if !refused {
			t.Fatalf("Fluentd takes it, weir does not: %v", d.Errors)
		}
		return
	}
	a, err := New(p, Options{Log: quiet(t), HTTP: "off", Stdout: io.Discard})
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop(context.Background())
	defer http.DefaultClient.CloseIdleConnections()
	c.send(t, a)
	for _, p := range want {
		got := fetchPage(t, a, p.Get)
		got.Body = strings.ReplaceAll(got.Body, dir, "$DIR")
		if got.Status != p.Status || got.Header["content-type"] != p.Header["content-type"] {
			t.Errorf("%s: status %d, %s; want %d, %s", p.Get, got.Status, got.Header["content-type"], p.Status, p.Header["content-type"])
		}
		if g, w := comparable(got.Body, p.Get), comparable(p.Body, p.Get); g != w {
			t.Errorf("%s:\n%s", p.Get, onlyOne(w, g))
		}
	}
}

// send sends the events, each acknowledged before the next.
func (c *recordedPages) send(t *testing.T, a *App) {
	t.Helper()
	if len(c.events) == 0 {
		return
	}
	conn, err := net.Dial("tcp", a.inputs[0].forward.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	for i, l := range c.events {
		var e struct {
			Tag     string
			Record  json.RawMessage
			Records []json.RawMessage
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		if e.Record != nil {
			e.Records = append(e.Records, e.Record)
		}
		m := event.AppendStr([]byte{0x93}, e.Tag)
		m = event.AppendArrayHeader(m, len(e.Records))
		for _, r := range e.Records {
			m = appendRecordedTime(append(m, 0x92), "1700000000")
			m = appendRecorded(t, m, r)
		}
		m = event.AppendStr(append(m, 0x81), "chunk")
		if _, err := conn.Write(event.AppendStr(m, fmt.Sprint("c", i))); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
}

func fetchPage(t *testing.T, a *App, get string) (p recordedPage) {
	t.Helper()
	f := strings.Fields(get)
	method := "GET"
	if len(f) > 2 {
		method = f[2]
	}
	for _, in := range a.inputs {
		if in.plan.metrics != nil && f[0] == "metrics" || in.plan.agent != nil && f[0] == "agent" {
			req, err := http.NewRequest(method, "http://"+in.page.Addr().String()+f[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return recordedPage{Status: resp.StatusCode, Body: string(body), Header: map[string]string{"content-type": resp.Header.Get("Content-Type")}}
		}
	}
	t.Fatalf("nothing serves %s", get)
	return p
}

var (
	// What differs by nature: sizes, times, how often something is flushed, and the own log.
	volatileJSON = regexp.MustCompile(`("?(?:pid|ppid|emit_size|flush_time_count|write_count|buffer_[a-z]+_byte_size|buffer_total_queued_size|buffer_[a-z]+_length)"?): ?[0-9]+`)
	volatileText = regexp.MustCompile(`("?(?:version|port|plugin_dirs)"?): ?(?:"[^"]*"|\[[^]]*\]|[0-9.a-z/]*)`)
	ownOutput    = regexp.MustCompile(`(plugin_id"?:"?own\b.*?emit_records"?:)[0-9]+(.*?emit_count"?:)[0-9]+`)
	ownSeries    = regexp.MustCompile(`(?m)(\{.*plugin_id="own".*\}) .*`)
	timekeys     = regexp.MustCompile(`(?m)^fluentd_.*_timekey\{.*\n|[,\t]"?buffer_(?:timekeys|oldest_timekey|newest_timekey)"?:(?:\[[0-9,]*\]|[0-9]*(?:,[0-9]+)*)`)
	flushes      = regexp.MustCompile(`(?m)^(fluentd_(?:output_)?status_(?:buffer_[a-z]*_?(?:bytes|byte_size|length)|write_count|flush_time_count)\{.*\}) .*`)
)

// comparable is a page without what differs by nature. The order of metrics does not count.
func comparable(body, get string) string {
	body = timekeys.ReplaceAllString(body, "") // Fluentd looks at them now and then
	if strings.HasPrefix(get, "agent") {
		body = volatileJSON.ReplaceAllString(body, "$1:N")
		body = volatileText.ReplaceAllString(body, "$1:TEXT")
		return ownOutput.ReplaceAllString(strings.ReplaceAll(body, "},{", "},\n{"), "${1}N${2}N")
	}
	body = ownSeries.ReplaceAllString(body, "$1 N")
	body = flushes.ReplaceAllString(body, "$1 N")
	lines := slices.Collect(strings.Lines(body))
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// onlyOne shows the lines that only one of two texts has.
func onlyOne(want, got string) string {
	var b strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, l := range w {
		if !slices.Contains(g, l) {
			b.WriteString("- " + l + "\n")
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			b.WriteString("+ " + l + "\n")
		}
	}
	return b.String()
}
