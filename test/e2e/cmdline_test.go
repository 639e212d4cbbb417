package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/test/weirtest"
)

// TestUnitFileOfFluentd starts weir as a unit file starts Fluentd: the configuration named by
// the environment, in YAML, flags that have no meaning here, a log file that is rotated.
func TestUnitFileOfFluentd(t *testing.T) {
	dir := weirtest.Dir(t)
	conf, log := filepath.Join(dir, "fluent.yaml"), filepath.Join(dir, "fluentd.log")
	text := "system: {workers: 2}\nconfig:\n- source: {$type: forward, bind: 127.0.0.1, port: !fluent/s \"#{ENV['PORT']}\"}\n- match: {$tag: '**', $type: 'null'}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(weirtest.Binary(), "run", "--log", log, "--no-supervisor", "-p", "/plugins", "--umask", "077", "--http", "off")
	cmd.Env = append(weirtest.CleanEnv(), "FLUENT_CONF="+conf, "FLUENT_CONF_INCLUDE_DIR=", "FLUENTD_OPT=-vv --log-rotate-age 5 -r helper", "PORT="+strconv.Itoa(weirtest.Port(t)))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	holds := func(file, want string) func() (string, bool) {
		return func() (string, bool) {
			text, err := os.ReadFile(file)
			if err != nil {
				return err.Error(), false
			}
			return string(text), strings.Contains(string(text), want)
		}
	}
	weirtest.Eventually(t, "weir runs", holds(log, "weir is running"))
	for _, want := range []string{"one process that uses all cores", "-p /plugins (", "-r helper ("} {
		if text, ok := holds(log, want)(); !ok {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the log %v, %v, want 0600 by the umask", info.Mode(), err)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	weirtest.Eventually(t, "the log is opened again", holds(log, "sending what waits"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("exit: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("weir does not stop")
	}
}
