package weirtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
)

// Weir is one configuration of weir and the process that runs it, which may be killed and
// started again. Its methods are for one goroutine, except where they say otherwise.
type Weir struct {
	t    testing.TB
	Dir  string // of its own, for buffers and files; kept over restarts
	Port int    // for <source> @type forward
	HTTP string // host:port of the status page
	Env  []string
	Args []string // more flags of `weir run`
	// Stdin is the standard input of the next process; nil is an empty one.
	Stdin io.Reader

	config string
	cmd    *exec.Cmd
	exited chan struct{}
	code   int
	log    logBook
}

// New prepares weir with a configuration against an endpoint; nothing is started. In the
// text, $PORT stands for the forward port, $DIR for the directory and $URL for the
// endpoint's address.
func New(t testing.TB, endpoint *emulator.Server, config string) *Weir {
	t.Helper()
	w := &Weir{t: t, Dir: Dir(t), Port: Port(t)}
	w.HTTP = fmt.Sprintf("127.0.0.1:%d", Port(t))
	if endpoint != nil {
		w.Env = []string{"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS=" + endpoint.URL()}
	}
	w.SetConfig(config)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of weir's log:\n%s", w.log.tail(40))
		}
		if w.cmd != nil {
			if t.Failed() {
				w.goroutines()
			}
			_ = w.cmd.Process.Kill() // it may have ended already
			<-w.exited
		}
	})
	return w
}

// Start prepares and starts weir, and waits until it is ready.
func Start(t testing.TB, endpoint *emulator.Server, config string) *Weir {
	t.Helper()
	w := New(t, endpoint, config)
	w.Start()
	return w
}

// goroutines puts what the process is doing into the directory that WEIR_TEST_DUMP names, if
// it is still running when its test has failed.
func (w *Weir) goroutines() {
	dir := os.Getenv("WEIR_TEST_DUMP")
	if dir == "" || w.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return
	}
	select {
	case <-w.exited:
	case <-time.After(5 * time.Second):
	}
	name := filepath.Join(dir, fmt.Sprintf("weir-%d.goroutines", w.cmd.Process.Pid))
	if err := os.WriteFile(name, []byte(w.log.tail(5000)), 0o600); err == nil {
		w.t.Logf("what weir was doing: %s", name)
	}
}

// Dir is a directory for a test. A failed test keeps it if WEIR_TEST_KEEP is set.
func Dir(t testing.TB) string {
	if os.Getenv("WEIR_TEST_KEEP") == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "weir-kept-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("kept:", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// ConfigFile is the path of the configuration.
func (w *Weir) ConfigFile() string { return filepath.Join(w.Dir, "weir.conf") }

// SetConfig writes the configuration file; a running weir reads it on SIGHUP.
func (w *Weir) SetConfig(config string) {
	w.t.Helper()
	w.config = strings.NewReplacer("$PORT", fmt.Sprint(w.Port), "$DIR", w.Dir).Replace(config)
	if err := os.WriteFile(w.ConfigFile(), []byte(w.config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Start starts the process and waits until /readyz says that it takes events.
func (w *Weir) Start() {
	w.t.Helper()
	w.Launch()
	Eventually(w.t, "weir is ready", func() (string, bool) {
		select {
		case <-w.exited:
			w.t.Fatalf("weir ended with code %d instead of running:\n%s", w.code, w.log.tail(20))
		default:
		}
		code, body := w.Get("/readyz")
		return fmt.Sprint(code, " ", body), code == http.StatusOK
	})
}

// Launch starts the process and does not wait.
func (w *Weir) Launch() {
	w.t.Helper()
	args := append([]string{"run", "-c", w.ConfigFile(), "--http", w.HTTP, "--log-format", "json"}, w.Args...)
	w.cmd = exec.Command(Binary(), args...)
	w.cmd.Env = append(CleanEnv(), w.Env...)
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.cmd.Stdout, w.cmd.Stdin = &w.log, w.Stdin
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		w.log.read(stderr)
		err := cmd.Wait()
		w.code = 0
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			w.code = e.ExitCode()
		}
		close(exited)
	}(w.cmd, w.exited)
}

// CleanEnv is the environment for programs under test: nothing of the caller's AWS set-up,
// and some credentials.
func CleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(strings.ToUpper(strings.SplitN(v, "=", 2)[0]), "HTTP_PROXY") &&
			!strings.HasPrefix(strings.ToUpper(v), "HTTPS_PROXY=") {
			env = append(env, v)
		}
	}
	return append(env, "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=127.0.0.1")
}

// Pid is the process id.
func (w *Weir) Pid() int { return w.cmd.Process.Pid }

// Addr is the forward address.
func (w *Weir) Addr() string { return fmt.Sprintf("127.0.0.1:%d", w.Port) }

// Signal sends a signal. It may be called from any goroutine.
func (w *Weir) Signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Errorf("signal %s: %v", s, err)
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (w *Weir) Kill() {
	w.t.Helper()
	w.Signal(syscall.SIGKILL)
	<-w.exited
}

// Stop sends SIGTERM and wants exit code 0 in the time.
func (w *Weir) Stop(patience time.Duration) {
	w.t.Helper()
	w.Signal(syscall.SIGTERM)
	if code := w.Exit(patience); code != 0 {
		w.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// Exit waits for the end of the process and gives its exit code.
func (w *Weir) Exit(patience time.Duration) int {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(patience):
		w.t.Fatalf("weir has not ended within %s", patience)
	}
	return w.code
}

// Exited is closed when the process has ended.
func (w *Weir) Exited() <-chan struct{} { return w.exited }

// Get asks the status server; code 0 means no answer.
func (w *Weir) Get(path string) (code int, body string) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + w.HTTP + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// Command runs another sub-command of weir to its end.
func Command(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(Binary(), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = CleanEnv(), &out, &errOut
	err := cmd.Run()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// Line is one line of weir's log.
type Line struct {
	Level, Msg string
	Text       string // the whole line
}

// logBook collects log lines.
type logBook struct {
	mu    sync.Mutex
	lines []Line
}

func (l *logBook) read(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		l.add(s.Text())
	}
}

func (l *logBook) add(text string) {
	line := Line{Text: text}
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		line.Level, line.Msg = "NONE", text // not a log line: a panic, the race detector
	}
	line.Text = text
	l.mu.Lock()
	l.lines = append(l.lines, line)
	l.mu.Unlock()
}

// Write takes the process's standard output, which a running weir does not use.
func (l *logBook) Write(b []byte) (int, error) {
	l.add("stdout: " + string(b))
	return len(b), nil
}

func (l *logBook) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, line := range l.lines[max(0, len(l.lines)-n):] {
		b.WriteString(line.Text + "\n")
	}
	return b.String()
}

// Lines gives the lines of a level so far, over all processes, that contain text. An empty
// level is any.
func (w *Weir) Lines(level, text string) []Line {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	var out []Line
	for _, l := range w.log.lines {
		if (level == "" || l.Level == level) && strings.Contains(l.Text, text) {
			out = append(out, l)
		}
	}
	return out
}

// LogAtMost bounds how much weir may have said: lines at level ERROR, and lines at WARN. Lines
// that are no log lines at all, such as a panic, always fail.
func (w *Weir) LogAtMost(errorLines, warnLines int) {
	w.t.Helper()
	for level, limit := range map[string]int{"ERROR": errorLines, "WARN": warnLines, "NONE": 0} {
		if got := w.Lines(level, ""); len(got) > limit {
			w.t.Errorf("%d log lines of level %s, want at most %d:", len(got), level, limit)
			for i, l := range got {
				if i == 12 {
					w.t.Log("…")
					break
				}
				w.t.Log(l.Text)
			}
		}
	}
}
