package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/emulator"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// eventSize is the largest event of Docker's awslogs driver.
const eventSize = 262_144 - 26

// pieces cuts a message as the driver must.
func pieces(s string) []string {
	var out []string
	for ; len(s) > eventSize; s = s[eventSize:] {
		out = append(out, s[:eventSize])
	}
	return append(out, s)
}

// sample is a container and what has to arrive of it.
type sample struct {
	container
	want []string
	// differs says why the engine's own driver does something else; "": it does the same.
	differs string
}

// samples has a container for each kind of output.
func samples() []sample {
	var traces []string
	for i := range 9 {
		traces = append(traces, written.Trace("x", i)+"\n")
	}
	c := func(name string, steps ...string) container { return container{name: name, steps: steps} }
	with := func(c container, options ...string) container {
		c.driver = options
		return c
	}
	const younger = "this engine does not know the option"
	return []sample{
		{c("plain", `text:"first\n\n  second  \nthird\r\n"`), []string{"first", "  second  ", "third\r"}, ""},
		{c("no-newline", `text:"first\nsecond"`), []string{"first", "second"}, ""},
		{c("nothing"), nil, ""},
		{c("stderr", `err:"oops\n"`), []string{"oops"}, ""},
		{c("just-16k", "long:n=16384", `text:"next\n"`), []string{written.Long(16384), "next"}, ""},
		{c("twice-16k", "long:n=32768", `text:"next\n"`), []string{written.Long(32768), "next"}, ""},
		{c("over-16k", "long:n=16385", `text:"next\n"`), []string{written.Long(16385), "next"}, ""},
		{c("long-no-newline", "long:n=40000,nl=0"), []string{written.Long(40000)}, ""},
		{c("just-16k-no-newline", "long:n=16384,nl=0"), []string{written.Long(16384)}, ""},
		{c("event-size", fmt.Sprintf("long:n=%d", eventSize)), []string{written.Long(eventSize)}, ""},
		{c("over-event-size", fmt.Sprintf("long:n=%d", eventSize+27)), pieces(written.Long(eventSize + 27)), ""},
		{c("megabyte", "long:n=1000000", `text:"next\n"`), append(pieces(written.Long(1_000_000)), "next"), ""},
		{c("binary", "binary:n=5000,seed=7"), []string{written.Repaired(written.Binary(5000, 7))}, "the client of this engine puts the bytes into JSON as they are"},
		{c("lengths", "long:n=16384", "long:n=32768", "long:n=16385", fmt.Sprintf("long:n=%d", eventSize), fmt.Sprintf("long:n=%d", eventSize+27), "json:n=1,id=x", "long:n=16384,nl=0"),
			append(append([]string{written.Long(16384), written.Long(32768), written.Long(16385), written.Long(eventSize)}, pieces(written.Long(eventSize+27))...), written.JSON("x", 0), written.Long(16384)), ""},
		{c("json", "json:n=3,id=x"), []string{written.JSON("x", 0), written.JSON("x", 1), written.JSON("x", 2)}, ""},
		{with(c("emf", "json:n=2,id=x"), "awslogs-format=json/emf"), []string{written.JSON("x", 0), written.JSON("x", 1)}, younger},
		{with(c("pattern", "trace:n=9,id=x"), `awslogs-multiline-pattern=^\d{4}-`), traces, ""},
		{with(c("datetime", "trace:n=9,id=x"), "awslogs-datetime-format=%Y-%m-%d %H:%M:%S"), traces, ""},
		{with(c("non-blocking", `text:"first\n"`), "mode=non-blocking", "max-buffer-size=4m"), []string{"first"}, ""},
		{with(c("no-cache", `text:"first\n"`), "cache-disabled=true"), []string{"first"}, ""},
	}
}

// TestWhatContainersWrite has the samples all at the same time, also with the engine's own
// driver: what it does with these lines is what is wanted.
func TestWhatContainersWrite(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for _, k := range []kind{builtin, managed, v1} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			r := lent.rig(t, k, emulator.Options{})
			all := samples()
			all = slices.DeleteFunc(all, func(s sample) bool {
				// How the plugin is run makes no difference here: some samples will do.
				return k == builtin && s.differs != "" || k == v1 && !full &&
					!slices.Contains([]string{"plain", "megabyte", "lengths", "binary", "pattern", "datetime", "stderr", "no-newline"}, s.name)
			})
			for _, s := range all {
				r.run(s.container)
			}
			for _, s := range all {
				arrive(t, r.emu, s.name, s.want...)
				if s.name == "no-cache" || s.name == "binary" || len(s.want) == 0 {
					continue
				}
				// Docker's own copy is not weir's work, but it must not suffer.
				if got := r.docker("logs", r.name(s.name)); !strings.Contains(got, strings.TrimSpace(s.want[0])) {
					t.Errorf("docker logs %s: %s", s.name, clip(got))
				}
			}
			if k == builtin {
				return
			}
			r.run(container{name: "woven", steps: []string{"weave:n=50000"}})
			r.run(container{name: "both", steps: []string{"lines:n=2000,id=x,to=both,rate=4000"}})
			whole(t, r.emu, "both", "x", 0, 2)
			arrive(t, r.emu, "woven", written.Long(50000), written.Long(50000))
			for _, s := range r.emu.Streams(group) {
				if s.Name == "nothing" {
					t.Error("a container that wrote nothing has a stream")
				}
			}
			r.refusals()
		})
	}
}

// refusals checks that bad options are refused when the container starts, all at once.
func (r *rig) refusals() {
	r.t.Helper()
	out, err := r.tryDocker(weirtest.Patience, append([]string{"run"}, r.args(container{name: "bad", driver: []string{
		"-awslogs-group", "awslogs-create-group=yes", "awslogs-nonsense=1", "weir-overflow=sometimes"}})...)...)
	if err == nil {
		r.t.Fatalf("a container with bad options runs: %s", out)
	}
	for _, want := range []string{
		"must specify a value for log opt 'awslogs-group'",
		`must specify valid value for log opt 'awslogs-create-group': strconv.ParseBool: parsing "yes": invalid syntax`,
		"unknown log opt 'awslogs-nonsense'",
		"weir-overflow",
	} {
		if !strings.Contains(out, want) {
			r.t.Errorf("the refusal does not say %q: %s", want, out)
		}
	}
}

// TestNames has names that come from the container.
func TestNames(t *testing.T) {
	together(t, emulator.Options{}, func(t *testing.T, r *rig) {
		r.do(container{name: "c1", driver: []string{"-awslogs-stream", "tag={{.Name}}/{{.ImageName}}/{{index .ContainerLabels \"service\"}}"},
			flags: []string{"--label", "service=shop"}, steps: []string{`text:"first\n"`}})
		arrive(t, r.emu, r.name("c1")+"/writer/shop", "first")
		r.do(container{name: "c2", driver: []string{"-awslogs-stream"}, steps: []string{`text:"first\n"`}})
		arrive(t, r.emu, r.docker("inspect", "-f", "{{.Id}}", r.name("c2")), "first")
		r.do(container{name: "c4", driver: []string{"weir-stderr-stream={{.Stream}}/{{.Source}}"}, steps: []string{`text:"first\n"`, `err:"oops\n"`}})
		arrive(t, r.emu, "c4", "first")
		arrive(t, r.emu, "c4/stderr", "oops")
		r.do(container{name: "c3", driver: []string{"awslogs-stream=a:b*c"}, steps: []string{`text:"first\n"`}})
		weirtest.Eventually(t, "the name was made legal", func() (string, bool) {
			var names []string
			for _, s := range r.emu.Streams(group) {
				names = append(names, s.Name)
			}
			return fmt.Sprint(names), len(names) == 5 && slices.Contains(names, "a_b_c")
		})
	})
}
