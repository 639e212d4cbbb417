package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"weir/internal/event"
)

// A recorded case is a configuration, events, and what Fluentd 1.19.0 and its plug-ins made
// of them. The files in testdata/recorded hold them, one after another:
//
//	=== NAME [VARIABLE=VALUE]...
//	the configuration; $PORT and $DIR stand for the port and a directory of its own, $S3 for the address of S3
//	--- file PATH
//	another file below $DIR
//	--- events
//	{"tag": …, "time": 1700000000.000000001, "record": …}, or "entries": [[time, record], …]
//	--- result
//	{"stdout": …}, {"file": …, "text": …}, {"link": …, "to": …}, {"call": …}, {"object": …, "text": …}
//	or {"refused": …}; what is compressed is recorded as it was before
//
// A configuration without a source has the one of recordedSource, without a match one that
// writes to the standard output, and without @ERROR one that shows what failed. The local
// zone is Asia/Tokyo. With YAML=1 it is in that form, with RAW=1 nothing is added. "weir" results stand for Fluentd's where weir differs on purpose.
type recordedCase struct {
	name, conf string
	env        map[string]string
	files      map[string]string
	events     string
	want, weir []recordedResult
}

type recordedResult struct {
	Stdout  string            `json:"stdout,omitempty"`
	File    string            `json:"file,omitempty"`
	Text    string            `json:"text,omitempty"`
	Base64  []byte            `json:"base64,omitempty"`
	Link    string            `json:"link,omitempty"`
	Object  string            `json:"object,omitempty"` // of S3
	Meta    map[string]string `json:"meta,omitempty"`   // its headers
	To      string            `json:"to,omitempty"`
	Call    json.RawMessage   `json:"call,omitempty"`
	Refused string            `json:"refused,omitempty"`
	Closed  *int              `json:"closed,omitempty"`
}

const recordedSource = "<source>\n  @type forward\n  port $PORT\n  bind 127.0.0.1\n  blocking_timeout 0.1\n</source>\n"

func readRecorded(t *testing.T, name string) (cases []*recordedCase) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var c *recordedCase
	part, file := "", ""
	for l := range strings.Lines(string(data)) {
		switch f := strings.Fields(l); {
		case strings.HasPrefix(l, "=== "):
			c = &recordedCase{name: f[1], env: map[string]string{}, files: map[string]string{}}
			for _, v := range f[2:] {
				k, v, _ := strings.Cut(v, "=")
				c.env[k] = v
			}
			cases, part = append(cases, c), "conf"
		case strings.HasPrefix(l, "--- file "):
			part, file = "file", f[2]
			c.files[file] = ""
		case strings.HasPrefix(l, "--- "):
			part = f[1]
		case part == "conf":
			c.conf += l
		case part == "file":
			c.files[file] += l
		case part == "events":
			c.events += l
		default:
			var r recordedResult
			if err := json.Unmarshal([]byte(l), &r); err != nil {
				t.Fatalf("%s: %s: %v", name, c.name, err)
			}
			if part == "weir" {
				c.weir = append(c.weir, r)
			} else {
				c.want = append(c.want, r)
			}
		}
	}
	return cases
}

// complete adds what the configuration leaves to the recorder.
func (c *recordedCase) complete() string {
	conf := c.conf
	if c.env["RAW"]+c.env["YAML"] != "" || strings.Contains(conf, "<source") {
		return conf
	}
	conf = recordedSource + conf
	if !regexp.MustCompile(`(?m)^<match`).MatchString(conf) {
		conf += "<match **>\n  @type stdout\n</match>\n"
	}
	if !strings.Contains(conf, "@ERROR") {
		conf += "<label @ERROR>\n  <match **>\n    @type stdout\n    <inject>\n      tag_key failed\n    </inject>\n  </match>\n</label>\n"
	}
	return conf
}

// TestRecorded runs every recorded case and wants exactly what Fluentd made of it.
func TestRecorded(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Skip(err)
	}
	local := time.Local
	time.Local = tokyo
	defer func() { time.Local = local }()
	defer regexp2.StopTimeoutClock() // it would look like a leak
	names, err := filepath.Glob("testdata/recorded/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no recorded cases", err)
	}
	for _, name := range names {
		for i, c := range readRecorded(t, name) {
			if testing.Short() && i%4 != 0 { // the race detector's run: what events become has been compared
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txt")+"/"+c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c *recordedCase) run(t *testing.T) {
	want := c.want
	if len(c.weir) > 0 {
		want = c.weir
	}
	refused := ""
	for _, r := range want {
		refused += r.Refused
	}
	dir := t.TempDir()
	for k, v := range map[string]string{"TZ": "Asia/Tokyo", "FLUENT_CONF_INCLUDE_DIR": "", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(k, v)
	}
	for k, v := range c.env {
		t.Setenv(k, v)
	}
	t.Chdir(dir)
	for n, text := range c.files {
		if err := os.MkdirAll(filepath.Dir(n), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects := s3mem.New()
	store := httptest.NewServer(gofakes3.New(objects, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer store.Close()
	if err := objects.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	conf := strings.NewReplacer("$PORT", "0", "$DIR", dir, "$S3", store.URL).Replace(c.complete())
	main := "fluent.conf"
	if c.env["YAML"] != "" {
		main = "fluent.yaml"
	}
	if err := os.WriteFile(main, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cloud := &recordedLogs{}
	server := cloud.serve(t)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", server)

	out := &logs{}
	p, d := Load(filepath.Join(dir, main), Env{Stdout: out}, false)
	if len(d.Errors) > 0 {
		if refused == "" {
			t.Fatalf("Fluentd takes it, weir does not: %v", d.Errors)
		}
		return
	}
	a, err := New(p, Options{Log: quiet(t), HTTP: "127.0.0.1:0", Stdout: out})
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		if refused == "" {
			t.Fatalf("Fluentd runs it, weir does not: %v", err)
		}
		return
	}
	if refused != "" {
		a.Stop(context.Background())
		t.Fatalf("weir takes it, Fluentd says: %s", refused)
	}
	closed := c.send(t, a)
	allInLanes(a)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a.Stop(ctx)
	http.DefaultClient.CloseIdleConnections()
	c.compare(t, want, out.String(), dir, cloud, closed)
	compareRecordedObjects(t, want, objects)
}

// allInLanes waits until what was sent is in lanes, so that the stop makes one chunk of what
// is one in Fluentd.
func allInLanes(a *App) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting := uint64(0)
		for _, r := range a.gen.order {
			if r.del == nil {
				continue
			}
			waiting += r.buf.Stats().PendingEvents
			for _, l := range r.del.Lanes(1 << 16) {
				waiting -= min(waiting, uint64(l.Events))
			}
		}
		if waiting == 0 {
			return
		}
	}
}

// send sends the events, each acknowledged before the next; it gives the numbers of those
// after which the connection was closed instead.
func (c *recordedCase) send(t *testing.T, a *App) (closed []int) {
	t.Helper()
	if c.events == "" {
		return nil
	}
	addr := a.inputs[0].forward.Addr().String()
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	n := -1
	for l := range strings.Lines(c.events) {
		n++
		if strings.TrimSpace(l) == "" {
			continue
		}
		if conn == nil {
			var err error
			if conn, err = net.Dial("tcp", addr); err != nil {
				t.Fatal(err)
			}
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(recordedMessage(t, l, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			closed = append(closed, n)
			conn.Close()
			conn = nil
		}
	}
	return closed
}

func recordedMessage(t *testing.T, line string, n int) []byte {
	t.Helper()
	var e struct {
		Tag     string               `json:"tag"`
		Time    json.Number          `json:"time"`
		Record  json.RawMessage      `json:"record"`
		Entries [][2]json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if e.Time == "" {
		e.Time = "1700000000"
	}
	var m []byte
	if e.Entries != nil {
		m = event.AppendStr([]byte{0x93}, e.Tag)
		m = append(m, 0x90|byte(len(e.Entries)))
		for _, entry := range e.Entries {
			m = appendRecordedTime(append(m, 0x92), string(entry[0]))
			m = appendRecorded(t, m, entry[1])
		}
	} else {
		m = event.AppendStr([]byte{0x94}, e.Tag)
		m = appendRecordedTime(m, string(e.Time))
		m = appendRecorded(t, m, e.Record)
	}
	m = event.AppendStr(append(m, 0x81), "chunk")
	return event.AppendStr(m, fmt.Sprintf("c%d", n))
}

func appendRecordedTime(dst []byte, text string) []byte {
	sec, frac, ns := strings.Cut(text, ".")
	var s, n int64
	fmt.Sscan(sec, &s)
	if !ns {
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(s))
	}
	fmt.Sscan("1"+(frac + "000000000")[:9], &n)
	dst = binary.BigEndian.AppendUint32(append(dst, 0xd7, 0), uint32(s))
	return binary.BigEndian.AppendUint32(dst, uint32(n-1e9))
}

var recordedSpecial = regexp.MustCompile(`\{\s*"\$(str|bin|time)":\s*"?([0-9a-f.]*)"?\s*\}`)

// appendRecorded makes msgpack of a record; {"$str": HEX} is a string of those bytes,
// {"$bin": HEX} binary data and {"$time": 1.5} an event time.
func appendRecorded(t *testing.T, dst, text []byte) []byte {
	t.Helper()
	type raw struct{ stand, bytes []byte }
	var raws []raw
	text = recordedSpecial.ReplaceAllFunc(text, func(m []byte) []byte {
		f := recordedSpecial.FindSubmatch(m)
		var b []byte
		if string(f[1]) == "time" {
			b = appendRecordedTime(nil, string(f[2]))
		} else {
			h, err := hex.DecodeString(string(f[2]))
			if err != nil {
				t.Fatal(err)
			}
			if string(f[1]) == "bin" {
				b = event.AppendBin(nil, h)
			} else {
				b = event.AppendStr(nil, string(h))
			}
		}
		name := fmt.Sprintf("special %d", len(raws))
		raws = append(raws, raw{event.AppendStr(nil, name), b})
		return fmt.Appendf(nil, "%q", name)
	})
	rec, _, err := event.AppendFromJSON(nil, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, r := range raws {
		rec = bytes.Replace(rec, r.stand, r.bytes, 1)
	}
	return append(dst, rec...)
}

func (c *recordedCase) compare(t *testing.T, want []recordedResult, stdout, dir string, cloud *recordedLogs, closed []int) {
	t.Helper()
	wantOut, wantCalls := "", &recordedLogs{}
	wantFiles := map[string]string{}
	var wantClosed []int
	for _, r := range want {
		switch {
		case r.File != "":
			wantFiles[r.File] = r.Text + string(r.Base64)
		case r.Object != "":
		case r.Link != "":
			wantFiles[r.Link] = "-> " + r.To
		case r.Call != nil:
			wantCalls.add(t, r.Call)
		case r.Closed != nil:
			wantClosed = append(wantClosed, *r.Closed)
		default:
			wantOut += r.Stdout + valid(r.Base64)
		}
	}
	// Where a parser has no time Fluentd takes that of now, weir leaves the event's.
	wantOut = strings.ReplaceAll(wantOut, "NOW", "2023-11-15 07:13:20.000000000 +0900")
	wantOut = strings.ReplaceAll(wantOut, "YEAR", fmt.Sprint(time.Now().Year()))
	if strings.Count(c.complete(), "stdout") > 1 { // each output is in order by itself
		stdout, wantOut = sortedLines(stdout), sortedLines(wantOut)
	}
	if out := os.Getenv("WEIR_RECORDED_OUT"); out != "" && stdout != wantOut { // for a "weir" part
		var b strings.Builder
		for l := range strings.Lines(stdout) {
			j, _ := json.Marshal(recordedResult{Stdout: l})
			b.Write(append(j, '\n'))
		}
		if err := os.WriteFile(filepath.Join(out, strings.ReplaceAll(t.Name(), "/", " ")), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if stdout != wantOut {
		t.Errorf("stdout\n%s", lineDiff(stdout, wantOut))
	}
	if got, want := cloud.String(), wantCalls.String(); got != want {
		t.Errorf("CloudWatch\n%s", lineDiff(got, want))
	}
	got := recordedFiles(t, dir)
	for n, text := range wantFiles {
		if strings.HasPrefix(n, "out/") && got[n] != text {
			t.Errorf("file %s\n got %q\nwant %q", n, got[n], text)
		}
	}
	for n := range got {
		if _, ok := wantFiles[n]; !ok {
			t.Errorf("file %s: Fluentd writes none", n)
		}
	}
	if !slices.Equal(closed, wantClosed) {
		t.Errorf("connection closed at %v, by Fluentd at %v", closed, wantClosed)
	}
}

// recordedFiles are the files below out, unpacked.
func recordedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "out"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		name, _ := filepath.Rel(dir, path)
		if e.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			got[name] = "-> " + strings.ReplaceAll(to, dir, "$DIR")
			return err
		}
		data, err := os.ReadFile(path)
		if strings.HasSuffix(name, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return err
			}
			if data, err = io.ReadAll(z); err != nil {
				return err
			}
		}
		got[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// valid replaces what is not UTF-8: weir's formatters do, Fluentd's write it as it is.
func valid(b []byte) string { return string(event.AppendText(nil, event.AppendStr(nil, string(b)))) }

func sortedLines(text string) string {
	l := slices.Collect(strings.Lines(text))
	slices.Sort(l)
	return strings.Join(l, "")
}

// lineDiff shows the lines of got and want that the other lacks; none if only their order
// or number differs.
func lineDiff(got, want string) string {
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	var b strings.Builder
	for _, x := range g {
		if !slices.Contains(w, x) {
			fmt.Fprintf(&b, " got %q\n", x)
		}
	}
	for _, y := range w {
		if !slices.Contains(g, y) {
			fmt.Fprintf(&b, "want %q\n", y)
		}
	}
	return b.String()
}
