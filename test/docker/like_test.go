package docker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// pair is a container that runs with the engine's own awslogs driver and with the plugin: the
// streams have to be the same, or the error.
type pair struct {
	options []string
	steps   []string
}

// pairs are containers with all that the options say about lines and names.
func pairs() (all []pair) {
	text := func(lines ...string) string { return fmt.Sprintf("text:%q", strings.Join(lines, "\n")+"\n") }
	datetime := func(format string, lines ...string) {
		all = append(all, pair{[]string{"awslogs-datetime-format=" + format}, []string{text(append([]string{"first", "second"}, lines...)...)}})
	}
	for verb, digits := range map[string]int{"d": 2, "m": 2, "y": 2, "H": 2, "I": 2, "M": 2, "S": 2, "p": 2, "w": 1, "j": 3} {
		lines := []string{"x,5x", "x1,x", "x3,x", "x,,x", "xAMx", "xPMx", "x,Mx", "xamx", "", "x", "x٣٤x"}
		for i := range map[int]int{1: 10, 2: 100, 3: 400}[digits] {
			lines = append(lines, fmt.Sprintf("x%0*dx", digits, i), fmt.Sprintf("x%dx", i))
		}
		datetime("x%"+verb+"x", lines...)
	}
	datetime("x%Yx", "x2026x", "x202x", "x20260x", "x0000x")
	datetime("x%fx", "x123456x", "x12345x", "x1234567x")
	datetime("x%Lx", "x.123x", "x123x", "x,123x", "x.1234x")
	datetime("x%zx", "x+0000x", "x-1200x", "xZx", "x+00:00x", "x0000x")
	datetime("x%Zx", "xESTx", "xTx", "xUTCx", "xNZDTx", "xABCDTx", "xABCDETx", "xATx", "xestx")
	names := []string{"January", "Jan", "JAN", "jan", "May", "Septembe", "December", "Dec", "Monday", "Mon", "MON", "Tues", "Sunday", "xSatx"}
	for _, verb := range []string{"a", "A", "b", "B"} {
		datetime("%"+verb, names...)
	}
	for verb := range strings.SplitSeq("FTsekhlDRPUWcxXGVun%", "") {
		datetime("a%"+verb+"b", "ab", "a b", "a%"+verb+"b", "2026-11-30", "axb")
	}
	datetime("[%Y]", "[2026]", "7", "d", "{")
	datetime(`\[%Y-%m-%dT%H:%M:%S%L %z\]`, "[2026-11-30T10:00:00.123 +0000] a", "\tat b", "2026-11-30T10:00:00.123 +0000")
	datetime("^%H:%M", "10:00 a", " 10:00", "24:00")
	datetime("a%", "a%", "a")

	pattern := func(pattern string, steps ...string) {
		all = append(all, pair{[]string{"awslogs-multiline-pattern=" + pattern}, steps})
	}
	pattern("^X", text("pre", "X1", "a", "", "b", "X2", "", "X3"))
	pattern("^X", `text:"X1\r\na\r\nX2\nb"`)
	pattern("^$", text("a", "", "b", "", ""))
	pattern("end$", text("a", "b end", "c", "d end"))
	pattern("^X", text("", "X1", ""), "long:n=200000", "long:n=100000", text("X2"))
	pattern("^X", `text:"X1\n"`, "sleep:ms=300", `err:"e1\n"`, "sleep:ms=300", `text:"o2\n"`, "sleep:ms=300", `err:"X e2\n"`)
	pattern("(?!x)", text("a"))
	pattern("(a{1001})", text("a"))
	for _, n := range []int{eventSize, eventSize + 1, eventSize + 26, 2 * eventSize, 2*eventSize + 1} {
		all = append(all, pair{nil, []string{fmt.Sprintf("long:n=%d", n), text("next")}})
	}
	all = append(all, pair{nil, []string{`text:"\x00a\x01\x1b[31mred\ttab\v\f\u2028\u2029 <&> \\ \" \x7f\n \n\t\n\r\n\n\x00\n"`}})

	for _, tag := range []string{"{{.ID}}", "{{.FullID}}", "{{.Name}}", "{{.ContainerName}}", "{{.ImageName}}", "{{.DaemonName}}", "{{.Hostname}}", "{{.ContainerEnv}}", "{{.LogPath}}x",
		"{{.ContainerCreated.Year}}", `{{index .ContainerLabels "svc"}}`, `{{index .ContainerLabels "none"}}x`, "{{.ContainerLabels.svc}}", "{{join (split `a,b` `,`) `/`}}", "{{title .DaemonName}}",
		"{{upper .DaemonName}}", "{{lower `ABC`}}", "{{pad .DaemonName 1 2}}x", "{{truncate .FullID 5}}", "{{len .FullID}}", `{{printf "%.3s-%05d" .DaemonName 7}}`, "{{json .ContainerEntrypoint}}",
		`{{range .ContainerEnv}}{{if eq . "STAGE=prod"}}{{.}}{{end}}{{end}}`, " ü€😃 ", "{{- .ID -}}", "{{html `<a>`}}", "{{.Nope}}", "{{", "{{nofunc}}", "{{index .ContainerArgs 99}}", "{{json}}", "{{end}}"} {
		all = append(all, pair{[]string{"-awslogs-stream", "tag=" + tag}, []string{text("hello")}})
	}
	for _, options := range []string{"awslogs-group=", "awslogs-create-group=yes", "awslogs-create-group=TRUE", "awslogs-force-flush-interval-seconds=0", "awslogs-force-flush-interval-seconds=+1",
		"awslogs-force-flush-interval-seconds=1.5", "awslogs-max-buffered-events=x", "awslogs-max-buffered-events=10", "awslogs-multiline-pattern=|awslogs-datetime-format=", "awslogs-multiline-pattern=",
		"mode=fast", "mode=non-blocking|max-buffer-size=x", "mode=non-blocking|max-buffer-size=1.5k", "max-buffer-size=1m", "cache-disabled=maybe", "labels=a", "env=a", "nonsense=1"} {
		all = append(all, pair{strings.Split(options, "|"), []string{text("hello")}})
	}
	return all
}

// TestLikeAwslogs compares the plugin with the engine's own driver.
func TestLikeAwslogs(t *testing.T) {
	if !full {
		t.Skip("two hundred containers: WEIR_DOCKER_FULL=1")
	}
	needEngine(t)
	t.Parallel()
	all := pairs()
	kinds := []kind{builtin, managed}
	seen := map[kind][]string{}
	var wg sync.WaitGroup
	for _, k := range kinds {
		r, out := lent.rig(t, k, emulator.Options{}), make([]string, len(all))
		seen[k] = out
		for worker := range 2 {
			wg.Go(func() {
				for i := worker; i < len(all); i += 2 {
					out[i] = r.outcome(fmt.Sprintf("p%03d", i), all[i])
				}
			})
		}
	}
	wg.Wait()
	for i, p := range all {
		if a, b := seen[builtin][i], seen[managed][i]; a != b {
			t.Errorf("%q %s\nawslogs: %s\nweir:    %s", p.options, clip(p.steps[0]), a, b)
		}
	}
}

// outcome runs a container and gives its streams, or the error, without what is of this driver.
func (r *rig) outcome(name string, p pair) string {
	own := name + "-group" // so that its streams are known from those of others
	c := container{name: name, driver: append([]string{"awslogs-group=" + own}, p.options...), steps: p.steps,
		flags: []string{"--label", "svc=shop", "-e", "STAGE=prod"}}
	if i := slices.IndexFunc(p.options, func(o string) bool { return strings.HasPrefix(o, "awslogs-group=") }); i >= 0 {
		c.driver = p.options
	}
	out, err := r.tryDocker(weirtest.Patience, append([]string{"run", "-d"}, r.args(c)...)...)
	if err != nil {
		_, out, _ = strings.Cut(out, "Error response from daemon: ")
		out, _, _ = strings.Cut(out, "\n")
		out, _, _ = strings.Cut(strings.TrimSuffix(out, "."), " (") // what is meant
		out = strings.NewReplacer("failed to initialize logging driver: ", "", "error creating logger: ", "", "weir log driver", "awslogs log driver", "key <nil>", "key").Replace(out)
		if before, after, ok := strings.Cut(out, `pattern key "`); ok { // later engines lost it
			_, after, _ = strings.Cut(after, `": `)
			out = before + "pattern key: " + after
		}
		return "error " + out
	}
	id := out
	r.wait(name)
	const last = "the engine's driver has sent the last event when its container has ended, or a little later"
	var s string
	steady := 0
	weirtest.Eventually(r.t, last, func() (string, bool) {
		var b strings.Builder
		for _, stream := range r.emu.Streams(own) {
			if m := messagesOf(r.emu, own, stream.Name); len(m) > 0 {
				n := strings.NewReplacer(id, "ID", id[:12], "ID12", id[:5], "ID5", r.prefix, "").Replace(stream.Name)
				fmt.Fprintf(&b, "stream %q\n", n)
				for _, text := range m {
					fmt.Fprintf(&b, "  %s\n", clip(text))
				}
			}
		}
		if steady++; b.String() != s {
			s, steady = b.String(), 0
		}
		return s, s != "" && steady > 150
	})
	return s
}
