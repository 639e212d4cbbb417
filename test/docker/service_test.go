package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// TestServiceFaults has containers whose streams meet one trouble each, beside one that has
// none and must not notice.
func TestServiceFaults(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		r := newRig(t, k, rigOptions{})
		weirtest.Faults(t, r.emu,
			emulator.FaultRule{Kind: emulator.FaultAccessDenied, Stream: "denied"},
			emulator.FaultRule{Kind: emulator.FaultLostAnswer, Stream: "lost", Count: 2},
			emulator.FaultRule{Kind: emulator.Fault500, Stream: "shaky", Probability: 0.5},
		)
		lines := func(name string, options ...string) {
			r.run(container{name: name, driver: options, steps: []string{"lines:n=0,id=" + name + ",rate=100"}})
		}
		lines("missing", "awslogs-group=later", "awslogs-create-group=false")
		lines("denied")
		lines("lost")
		lines("shaky")
		lines("deleted")
		lines("good")
		r.flowing("good")
		r.flowing("deleted")
		r.flowing("shaky")
		before := messages(r.emu, "deleted")
		weirtest.Call(t, r.emu, "DeleteLogStream", map[string]any{"logGroupName": group, "logStreamName": "deleted"})
		r.flowing("deleted")
		r.quick("stop", "missing", "denied", "lost", "shaky", "deleted", "good")
		whole(t, r.emu, "good", "good", 0, 1)
		weirtest.Call(t, r.emu, "CreateLogGroup", map[string]any{"logGroupName": "later"})
		weirtest.Faults(t, r.emu)
		whole(t, r.emu, "denied", "denied", 0, 1)
		whole(t, r.emu, "shaky", "shaky", 0, 1)
		if a := ended(t, r.emu, "lost", "lost", 0, 1); a.missing+a.disorder > 0 || a.lines != a.written {
			t.Errorf("lost: %s", a)
		}
		// What had been accepted is gone with the stream; the rest has come.
		a := ended(t, r.emu, "deleted", "deleted", 0, 1)
		if a.lines+len(before) < a.written || a.twice+a.disorder > 0 || len(a.gaps) > 1 {
			t.Errorf("deleted, after %d lines: %s", len(before), a)
		}
		weirtest.Eventually(t, "the stream in the group that came later is whole", func() (string, bool) {
			m := messagesOf(r.emu, "later", "missing")
			if len(m) == 0 {
				return "nothing", false
			}
			n, _, ok := written.ParseEnd(m[len(m)-1], "missing")
			for i := range m[:len(m)-1] {
				if m[i] != written.Line("missing", i, 0) {
					t.Fatalf("event %d is %s", i, clip(m[i]))
				}
			}
			return fmt.Sprint(len(m)), ok && len(m) == n+1
		})
		r.settled()
	})
}

// TestCredentialsRotated changes the shared file of credentials under the plugin while the
// service takes only the new ones.
func TestCredentialsRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "credentials")
	write := func(key, secret string) {
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key, secret)
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("AKIDOLD", "old")
	r := newRig(t, v1, rigOptions{emulator: emulator.Options{Secrets: map[string]string{"AKIDOLD": "old"}},
		env: []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SHARED_CREDENTIALS_FILE=" + file}})
	r.run(container{name: "aa", steps: []string{"lines:n=0,id=aa,rate=100"}})
	r.flowing("aa")
	second := weirtest.Endpoint(t, emulator.Options{Secrets: map[string]string{"AKIDNEW": "new"}})
	r.gate.lead(second.Addr())
	weirtest.Eventually(t, "the old credentials are refused", func() (string, bool) {
		s := fmt.Sprint(second.Stats().Requests)
		return s, strings.Contains(s, "UnrecognizedClient")
	})
	write("AKIDNEW", "new")
	r.quick("stop", "aa")
	a := ended(t, second, "aa", "aa", 0, 1)
	first := count(r.emu, "aa", "aa", 0, 1)
	if first.lines+a.lines != a.written || a.twice+a.disorder+first.missing > 0 {
		t.Errorf("with the old credentials %s, with the new %s", first, a)
	}
}

// TestDiskFull has the spool on a file system that is full long before the writers end: it
// meets the floor of free space, or there is no floor and writes fail.
func TestDiskFull(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for name, floor := range map[string]string{"floor": "3m", "no-space-left": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small, err := os.MkdirTemp("", "wds")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(small) })
			if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=12m"); err != nil {
				t.Skip("no tmpfs can be mounted: ", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
			diskFull(t, newRig(t, v1, rigOptions{spool: small, env: append(slices.Clone(credentials), "WEIR_MIN_FREE="+floor, "WEIR_SPOOL_LIMIT=1g")}))
			out, _ := exec.Command("df", small).CombinedOutput()
			t.Logf("at the end: %s", out)
		})
	}
}

func diskFull(t *testing.T, r *rig) {
	r.gate.refuse()
	const n, size = 100_000, 200
	for _, name := range []string{"aa", "bb"} {
		r.run(container{name: name, driver: []string{"weir-loss-notice=json"},
			steps: []string{fmt.Sprintf("lines:n=%d,id=%s,size=%d,burst=20,rate=40000", n, name, size), `text:"last\n"`}})
	}
	r.quick("inspect", "aa")
	r.wait("aa", "bb")
	r.quick("rm", "aa")
	// A new container starts although there is no room.
	r.quick(append([]string{"run", "-d"}, r.args(container{name: "late", steps: []string{`text:"hello\n"`}})...)...)
	r.quick("wait", "late")
	r.kill()
	r.gate.open()
	for _, name := range []string{"aa", "bb"} {
		a := r.sum(name, n+2, size)
		if a.lines == 0 {
			t.Errorf("%s: nothing was kept", name)
		}
		if a.slowest > blocked {
			t.Errorf("%s was held up for %s", name, a.slowest)
		}
	}
}

// sum waits until what was delivered of a stream and what its notices tell are all.
func (r *rig) sum(name string, all, size int) *tally {
	r.t.Helper()
	var a *tally
	sum := func() int {
		a = count(r.emu, name, name, size, 1)
		s := a.lines + len(a.other) + told(r.t, a.notices)
		if a.written >= 0 {
			s++
		}
		return s
	}
	weirtest.Within(r.t, 2*weirtest.Patience, name+" adds up", func() (string, bool) { return fmt.Sprint(sum(), " ", a), sum() >= all })
	time.Sleep(200 * time.Millisecond) // nothing more may come
	if s := sum(); s != all || a.twice+a.disorder > 0 {
		r.t.Errorf("%s: delivered and told are %d, written were %d: %s", name, s, all, a)
	}
	r.t.Logf("%s: %s", name, a)
	return a
}
