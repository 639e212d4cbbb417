package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// TestServiceFaults has containers whose streams meet one trouble each, beside one that has
// none and must not notice.
func TestServiceFaults(t *testing.T) {
	together(t, emulator.Options{}, func(t *testing.T, r *rig) {
		weirtest.Faults(t, r.emu,
			emulator.FaultRule{Kind: emulator.FaultAccessDenied, Stream: "denied"},
			emulator.FaultRule{Kind: emulator.FaultLostAnswer, Stream: "lost", Count: 2},
			emulator.FaultRule{Kind: emulator.Fault500, Stream: "shaky", Probability: 0.5},
		)
		lines := func(name string, options ...string) {
			r.run(container{name: name, driver: options, steps: []string{"lines:n=0,id=" + name + ",rate=100"}})
		}
		// With awslogs such a container could never be stopped.
		lines("missing", "awslogs-group=later", "awslogs-create-group=false", "mode=non-blocking")
		lines("nostream", "awslogs-create-stream=false")
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
		r.quick(append([]string{"stop"}, r.names("missing", "nostream", "denied", "lost", "shaky", "deleted", "good")...)...)
		whole(t, r.emu, "good", "good", 0, 1)
		weirtest.Call(t, r.emu, "CreateLogGroup", map[string]any{"logGroupName": "later"})
		weirtest.Call(t, r.emu, "CreateLogStream", map[string]any{"logGroupName": group, "logStreamName": "nostream"})
		weirtest.Faults(t, r.emu)
		whole(t, r.emu, "nostream", "nostream", 0, 1)
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
// service takes only the new ones. For a managed plugin it is in the directory that it is
// given.
func TestCredentialsRotated(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
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
		env := map[kind][]string{managed: {"aws.source=" + dir}, v1: {"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SHARED_CREDENTIALS_FILE=" + file}}[k]
		r := newRig(t, k, rigOptions{emulator: emulator.Options{Secrets: map[string]string{"AKIDOLD": "old"}}, env: env})
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
	})
}
