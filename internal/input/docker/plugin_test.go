//go:build linux

package docker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/internal/input/docker/dockertest"
)

func TestProtocol(t *testing.T) {
	w := newWorld(t)
	w.start()
	for _, tt := range []struct {
		method string
		body   any
		status int
		answer string
	}{
		{"Plugin.Activate", nil, 200, `{"Implements":["LogDriver"]}`},
		{"LogDriver.Capabilities", nil, 200, `{"Cap":{"ReadLogs":false}}`},
		{"LogDriver.StartLogging", nil, 400, `{"Err":"the request has no body: Docker repeated one whose answer was lost"}`},
		{"LogDriver.StopLogging", nil, 400, `{"Err":"the request has no body: Docker repeated one whose answer was lost"}`},
		{"LogDriver.StartLogging", map[string]any{"File": "/x"}, 400, `{"Err":"StartLogging needs File and Info.ContainerID"}`},
		{"LogDriver.StartLogging", []int{1}, 400, `read the request`},
		{"LogDriver.StartLogging", map[string]any{"File": strings.Repeat("x", maxBody)}, 400, `too large`},
		{"LogDriver.StopLogging", map[string]any{}, 400, `{"Err":"StopLogging needs File"}`},
		{"LogDriver.StopLogging", map[string]any{"File": "/unknown"}, 200, `{"Err":""}`},
		{"LogDriver.ReadLogs", map[string]any{"Info": info(1)}, 501, `does not read logs back`},
		{"VolumeDriver.List", nil, 404, `{"Err":"weir does not know /VolumeDriver.List"}`},
	} {
		status, answer, err := w.engine.Call(tt.method, tt.body)
		if err != nil || status != tt.status || !strings.Contains(string(answer), tt.answer) {
			t.Errorf("%s: %d %s %v, want %d %s", tt.method, status, answer, err, tt.status, tt.answer)
		}
		if !json.Valid(answer) {
			t.Errorf("%s: no JSON: %s", tt.method, answer)
		}
	}
}

func TestSocket(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	st, err := os.Stat(w.socket())
	must(t, err)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v", st.Mode())
	}
	second := New(Options{Socket: w.socket(), State: "other", Host: p, Log: p.o.Log, fs: w.disk})
	if err := second.Open(); err == nil || !strings.Contains(err.Error(), "another process does") {
		t.Errorf("second plugin on one socket: %v", err)
	}
	third := New(Options{Socket: w.socket() + "2", State: "sessions", Host: p, Log: p.o.Log, fs: w.disk})
	if err := third.Open(); err == nil || !strings.Contains(err.Error(), "is another weir docker-plugin running") {
		t.Errorf("second plugin on one directory: %v", err)
	}
	long := filepath.Join(w.dir, strings.Repeat("s", maxSocket))
	if _, err := listen(long); err == nil || !strings.Contains(err.Error(), "choose a shorter one") {
		t.Errorf("a path that is too long for a socket: %v", err)
	}
	l, err := listen(long[:maxSocket])
	must(t, err)
	must(t, l.Close())
	p.stop()
	if _, err := os.Stat(w.socket()); !os.IsNotExist(err) {
		t.Errorf("socket after the end: %v", err)
	}
	// A killed process leaves its socket.
	must(t, os.WriteFile(w.socket(), nil, 0o600))
	if err := New(Options{Socket: w.socket(), State: "sessions", Host: p, Log: p.o.Log, fs: w.disk}).Open(); err == nil {
		t.Error("a file that is no socket was replaced")
	}
	must(t, os.Remove(w.socket()))
	l, err = listen(w.socket())
	must(t, err)
	l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
	must(t, l.Close())
	w.start()
	if status, _, err := w.engine.Call("Plugin.Activate", nil); err != nil || status != http.StatusOK {
		t.Errorf("after a stale socket: %d %v", status, err)
	}
}

func TestOptionsAreRequired(t *testing.T) {
	if err := New(Options{}).Open(); err == nil {
		t.Error("no error without options")
	}
}

func TestLines(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Write(line(1, "one"), errLine(2, "two"), line(3, strings.Repeat("x", 300)), line(4, strings.Repeat("y", 16000))))
	eventually(t, "four events", func() bool { return len(w.events(id(1))) == 4 })
	got := w.events(id(1))
	for i, want := range []string{"one", "two", strings.Repeat("x", 300), strings.Repeat("y", 16000)} {
		if got[i].message != want || got[i].tag != "g\x00s" || int64(got[i].time) != base+int64(i+1)*1000 {
			t.Errorf("event %d is %.20q, %q, %d", i, got[i].message, got[i].tag, got[i].time)
		}
	}
	eventually(t, "the pipe to be empty", func() bool { return l.Waiting() == 0 })
	eventually(t, "the counts", func() bool { return p.Totals().Frames == 4 })
	s := p.Sessions()
	if len(s) != 1 || s[0].Events != 4 || s[0].File != l.File || s[0].Container.Name != "c1" || s[0].Last.IsZero() || s[0].Stopping {
		t.Errorf("sessions %+v", s)
	}
	must(t, l.Write(line(5, "last"), dockertest.Frame{Source: "stdout", Time: base, Line: []byte("no newline"), Partial: true, ID: "a", Ordinal: 1}))
	must(t, l.Stop())
	if got := w.messages(id(1)); len(got) != 6 || got[4] != "last" || got[5] != "no newline" {
		t.Errorf("after StopLogging: %q", got[4:])
	}
	eventually(t, "no sessions", func() bool { return len(p.Sessions()) == 0 })
	if names, _ := w.disk.List("sessions"); len(names) > 0 {
		t.Errorf("files that are left: %v", names)
	}
	if c := p.Totals(); c.Frames != 6 || c.Events != 6 || c.Partials != 1 || c.Bytes == 0 {
		t.Errorf("totals %+v", c)
	}
	if s := w.spool(id(1)); s.opens != 1 || s.released != 1 {
		t.Errorf("%d opens, %d releases", s.opens, s.released)
	}
}

func TestErrorsOfOptionsReachTheUser(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	_, err := w.engine.Start(id(100), info(1, "awslogs-create-group=maybe", "unknown=1"))
	if err == nil || !strings.Contains(err.Error(), "awslogs-create-group") || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("bad options: %v", err)
	}
	p.mu.Lock()
	p.open = errDisk
	p.mu.Unlock()
	if _, err := w.engine.Start(id(101), info(1)); err == nil || !strings.Contains(err.Error(), errDisk.Error()) {
		t.Errorf("no spool: %v", err)
	}
	status, answer, err := w.engine.Call("LogDriver.StartLogging", map[string]any{"File": filepath.Join(w.dir, "nothing"), "Info": info(1)})
	if err != nil || status != 200 || !strings.Contains(string(answer), "open the pipe of the container") {
		t.Errorf("no pipe: %d %s %v", status, answer, err)
	}
	must(t, os.WriteFile(filepath.Join(w.dir, "file"), []byte("x"), 0o600))
	_, answer, _ = w.engine.Call("LogDriver.StartLogging", map[string]any{"File": filepath.Join(w.dir, "file"), "Info": info(1)})
	if !strings.Contains(string(answer), "is no named pipe") {
		t.Errorf("a file instead of a pipe: %s", answer)
	}
	if n := len(p.Sessions()); n != 0 {
		t.Errorf("%d sessions", n)
	}
	if strings.Contains(w.log(), "level=WARN") || strings.Contains(w.log(), "level=ERROR") {
		t.Errorf("what was returned was logged too:\n%s", w.log())
	}
}

func TestStartIsRepeated(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Announce(info(1)))
	if n := len(p.Sessions()); n != 1 {
		t.Errorf("%d sessions for one pipe", n)
	}
	must(t, l.Write(line(1, "a")))
	must(t, l.Stop())
	must(t, func() error {
		_, _, err := w.engine.Call("LogDriver.StopLogging", map[string]any{"File": l.File})
		return err
	}())
	if got := w.messages(id(1)); len(got) != 1 {
		t.Errorf("events %q", got)
	}
}

// TestNothingWritten is `docker logs` on a container that has ended.
func TestNothingWritten(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	for range 50 {
		l, err := w.engine.Start(id(100), info(1))
		must(t, err)
		must(t, l.Stop())
	}
	if n := len(p.Sessions()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	if s := w.spool(id(1)); len(s.chunks) != 0 || s.released != s.opens {
		t.Errorf("spool %+v", s)
	}
	for l := range strings.Lines(w.log()) {
		if !strings.Contains(l, "level=DEBUG") {
			t.Errorf("logged: %s", l)
		}
	}
	if names, _ := w.disk.List("sessions"); len(names) != 0 {
		t.Errorf("files that are left: %v", names)
	}
}

func TestStopDrainsWhatIsUnread(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Write(line(0, "first"))) // the next look comes a little later
	eventually(t, "the first event", func() bool { return len(w.events(id(1))) == 1 })
	const n = 3000
	for i := range n {
		must(t, l.Write(line(i, fmt.Sprintf("%d %s", i, strings.Repeat(".", 100)))))
	}
	must(t, l.Stop())
	got := len(w.events(id(1)))
	if got != n+1 && !strings.Contains(w.log(), "not all stored yet") { // on a machine that is very slow
		t.Errorf("%d events after StopLogging, want %d", got, n+1)
	}
	eventually(t, "all events", func() bool { return len(w.events(id(1))) == n+1 })
}

// TestEngineVanishes is live-restore: the pipe ends without a word, and the container comes
// back with another one.
func TestEngineVanishes(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	old, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, old.Write(line(1, "a"), dockertest.Frame{Source: "stdout", Time: base, Line: []byte("open"), Partial: true, ID: "x", Ordinal: 1}))
	must(t, old.WriteRaw([]byte{0, 0, 0, 30, 0x0a, 6})) // torn
	must(t, old.Vanish())
	next, err := w.engine.Start(id(101), info(1))
	must(t, err)
	must(t, next.Write(line(2, "b")))
	eventually(t, "all events", func() bool { return len(w.events(id(1))) == 4 })
	if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"a", "<1 lost>", "open", "b"}) {
		t.Errorf("events %q", got)
	}
	if _, err := os.Stat(old.File); !os.IsNotExist(err) {
		t.Errorf("the old pipe: %v", err)
	}
	if s := p.Sessions(); len(s) != 1 || s[0].File != next.File {
		t.Errorf("sessions %+v", s)
	}
	if status, answer, err := w.engine.Call("LogDriver.StopLogging", map[string]any{"File": old.File}); status != 200 || err != nil {
		t.Errorf("a late StopLogging: %d %s %v", status, answer, err)
	}
	must(t, next.Stop())
}

func TestGarbage(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	must(t, l.Write(line(1, "a")))
	must(t, l.WriteRaw([]byte(strings.Repeat("garbage ", 50))))
	must(t, l.Write(line(2, "b"), line(3, "c")))
	whole := dockertest.Frame{Source: "stdout", Time: base, Line: []byte(strings.Repeat("z", 3000))}
	must(t, l.WriteRaw(whole.Bytes()[:12])) // the writer died in the middle
	must(t, l.Write(line(4, "d"), line(5, "e"), line(6, "f")))
	must(t, l.Write(line(7, strings.Repeat("g", 4000)), line(8, "h")))
	must(t, l.Stop())
	got := w.messages(id(1))
	want := []string{"a", "<1 lost>", "b", "c", "<1 lost>", "d", "e", "f", strings.Repeat("g", 4000), "h"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events %.100q", got)
	}
	if c := p.Totals(); c.Lost != 2 || c.LostBytes < 412 || c.Frames != 8 {
		t.Errorf("totals %+v", c)
	}
}

// TestTooLarge is a length that can never be complete in the pipe.
func TestTooLarge(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	b := (&dockertest.Frame{Source: "stdout", Time: base, Line: []byte("x")}).Bytes()
	b[1] = 0x0f // 983 040 bytes and a few
	must(t, l.WriteRaw(b))
	must(t, l.Write(line(1, "a"), line(2, "b")))
	eventually(t, "what follows", func() bool { return len(w.events(id(1))) == 3 })
	if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"<1 lost>", "a", "b"}) {
		t.Errorf("events %q", got)
	}
	must(t, l.Stop())
}

func TestTwoStreams(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1, "weir-stderr-stream=e"))
	must(t, err)
	for i := range 100 {
		must(t, l.Write(line(i, "o"), errLine(i, "e")))
	}
	must(t, l.Stop())
	count := map[string]int{}
	for _, e := range w.events(id(1)) {
		count[e.tag+" "+e.message]++
	}
	if count["g\x00s o"] != 100 || count["g\x00e e"] != 100 || len(count) != 2 {
		t.Errorf("events %v", count)
	}
}

func TestMultilineIsFlushedInTime(t *testing.T) {
	w := newWorld(t)
	w.start()
	l, err := w.engine.Start(id(100), info(1, "awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=1"))
	must(t, err)
	must(t, l.Write(line(1, "!a"), line(2, "b")))
	eventually(t, "a look", func() bool { return l.Waiting() == 0 })
	if got := w.events(id(1)); len(got) != 0 {
		t.Errorf("an event that is not complete: %v", got)
	}
	eventually(t, "the event", func() bool { return len(w.events(id(1))) == 1 })
	must(t, l.Write(line(3, "!c"), line(4, "!d")))
	must(t, l.Stop())
	if got := w.messages(id(1)); !reflect.DeepEqual(got, []string{"!a\nb\n", "!c\n", "!d\n"}) {
		t.Errorf("events %q", got)
	}
}

func TestSpoolFaultIsLoggedOnce(t *testing.T) {
	w := newWorld(t)
	p := w.start()
	set := func(err error) { p.mu.Lock(); p.putErr = err; p.mu.Unlock() }
	set(errDisk)
	l, err := w.engine.Start(id(100), info(1))
	must(t, err)
	for i := range 5 {
		must(t, l.Write(line(i, "a")))
		eventually(t, "an event", func() bool { return len(w.events(id(1))) == i+1 && p.Totals().Frames == uint64(i+1) })
	}
	if s := p.Sessions(); len(s) != 1 || s[0].Fault != errDisk.Error() {
		t.Errorf("sessions %+v", s)
	}
	set(nil)
	must(t, l.Write(line(9, "a")))
	must(t, l.Stop())
	if n := strings.Count(w.log(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, w.log())
	}
	if !strings.Contains(w.log(), "failures=5") {
		t.Errorf("the end of the fault is not told:\n%s", w.log())
	}
}

// TestManyLooksAtOnce: where many sessions look at their pipes each of them sees less, but a frame that
// is longer is read as well, and nothing held is given out while the rest of it is in the pipe.
func TestManyLooksAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.start(fast)
	p.looks.Add(1000)
	l, err := w.engine.Start(id(100), info(1, "awslogs-multiline-pattern=^!", "awslogs-force-flush-interval-seconds=1", "weir-event-size=1000000"))
	must(t, err)
	long := "!" + strings.Repeat("x", 100_000)
	frames := []dockertest.Frame{line(0, long), line(1, "!a")}
	want := []string{long + "\n", "!a\n"}
	for i := range 3000 {
		text := fmt.Sprintf("%d %s", i, strings.Repeat(".", 100))
		frames = append(frames, line(i+2, text))
		want[1] += text + "\n"
	}
	must(t, l.Write(frames...))
	must(t, l.Stop())
	eventually(t, "both events", func() bool { return slices.Equal(w.messages(id(1)), want) })
}
