package docker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/docker/player"
	"weir/test/docker/written"
	"weir/test/weirtest"
)

// TestAnything lets whatever may happen to containers, plugin and service happen in any order.
// In the end each line was delivered, or a notice in its stream has counted it, and neither twice.
func TestAnything(t *testing.T) {
	t.Parallel()
	seeds := 2
	if full {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			a := &anything{stage: newStage(t, emulator.Options{}, "--min-free", "1m"), r: rand.New(rand.NewPCG(uint64(seed), 1))}
			a.play()
		})
	}
}

// anything is a stage with some containers, and what has happened so far.
type anything struct {
	*stage
	r    *rand.Rand
	all  []*scribe
	log  []string
	open bool // the endpoint answers
}

// scribe is a container.
type scribe struct {
	name, id string
	stream   string
	errs     string // of stderr, which has the odd lines; "": there is none
	options  []string
	live     bool // not in order
	session  *player.Session
	next     int // line
	torn     int // frames
}

// lineSize is that of most lines, in bytes; longSize that of lines in several frames.
const (
	lineSize = 200
	longSize = 40_000
)

// hire makes four containers of different kinds.
func (a *anything) hire() {
	kinds := []scribe{
		{options: []string{"weir-loss-notice=text"}},
		{options: []string{"weir-loss-notice=text", "awslogs-format=json/emf"}},
		{options: []string{"weir-overflow=drop-newest"}},
		{options: []string{"weir-buffer-size=16m", "weir-drain-order=live-first"}, live: true},
		{options: []string{"weir-stderr-stream={{.Stream}}-err"}, errs: "-err"},
		{options: []string{"awslogs-multiline-pattern=^line"}},
		{stream: "shared"},
		{options: []string{"weir-buffer-size=5m"}, stream: "shared"},
	}
	a.r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i := range kinds[:4] {
		c := &kinds[i]
		c.name, c.id = fmt.Sprint("c", i), player.ContainerID()
		if c.stream == "" {
			c.stream = c.name
		}
		if c.errs != "" {
			c.errs = c.stream + c.errs
		}
		c.options = append([]string{"weir-loss-notice=json", "weir-buffer-size=4m"}, c.options...) // the last one counts
		a.begin(c)
		a.note("%s writes to %s with %v", c.name, c.stream, c.options)
		a.all = append(a.all, c)
	}
}

func (a *anything) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

func (a *anything) begin(c *scribe) {
	a.t.Helper()
	var err error
	if c.session, err = a.e.Start(c.id, c.name, a.options(c.stream, c.options...)); err != nil {
		a.t.Fatal(err)
	}
}

// send writes frames.
func (a *anything) send(c *scribe, frames []byte) {
	a.t.Helper()
	_ = c.session.Full(time.Now().Add(weirtest.Patience))
	if err := c.session.Write(frames); err != nil {
		a.t.Fatalf("%s is not read: %v\n%s", c.name, err, strings.Join(a.log, "\n"))
	}
}

// lines writes lines that the engine has read some time ago.
func (a *anything) lines(c *scribe, n int, ago time.Duration) {
	a.note("%s writes %d lines from %d, %s old", c.name, n, c.next, ago)
	for n > 0 {
		var b []byte
		for at := time.Now().Add(-ago); n > 0 && len(b) < 100_000; n-- {
			b = player.AppendFrame(b, c.source(), at, []byte(written.Line(c.name, c.next, lineSize)), nil)
			c.next++
		}
		a.send(c, b)
	}
}

// long writes a line in several frames.
func (a *anything) long(c *scribe) {
	a.note("%s writes line %d, a long one", c.name, c.next)
	id, at, line, source := player.ContainerID(), time.Now(), written.Line(c.name, c.next, longSize), c.source()
	var b []byte
	for i := 1; line != ""; i++ {
		n := min(len(line), 16<<10)
		b = player.AppendFrame(b, source, at, []byte(line[:n]), &player.Part{ID: id, Ordinal: i, Last: n == len(line)})
		line = line[n:]
	}
	c.next++
	a.send(c, b)
}

func (c *scribe) source() string {
	if c.errs != "" && c.next%2 == 1 {
		return player.Stderr
	}
	return player.Stdout
}

// play lets things happen.
func (a *anything) play() {
	a.hire()
	a.open = true
	for range 14 {
		c := a.all[a.r.IntN(len(a.all))]
		switch a.r.IntN(12) {
		case 0, 1, 2, 3:
			a.lines(c, 1000+a.r.IntN(30_000), 0)
		case 4:
			a.lines(c, 1+a.r.IntN(5000), 20*24*time.Hour)
		case 5:
			a.long(c)
			a.torn(c)
		case 6:
			a.shut()
		case 7:
			a.note("the endpoint is open")
			a.gate.open()
			a.open = true
		case 8, 9:
			a.die(c)
		case 10:
			fault := []string{emulator.Fault500, emulator.FaultThrottle, emulator.FaultAccessDenied}[a.r.IntN(3)]
			a.note("the service fails with %s", fault)
			weirtest.Faults(a.t, a.emu, emulator.FaultRule{Kind: fault, Probability: 0.5, Count: 5})
		case 11:
			a.note("%s stops and starts", c.name)
			a.stop(c.session)
			a.begin(c)
		}
	}
	for _, c := range a.all {
		a.stop(c.session)
	}
	a.gate.open()
	a.audit()
}

// torn writes the end of a frame, which counts as an event that is lost.
func (a *anything) torn(c *scribe) {
	a.note("%s has a torn frame", c.name)
	b := player.AppendFrame(nil, player.Stdout, time.Now(), []byte(strings.Repeat("t", 300)), nil)
	a.send(c, b[100:])
	c.torn++
	a.lines(c, 2, 0)
}

// shut shuts the endpoint when nothing is under way: what is cut off would be sent again.
func (a *anything) shut() {
	if a.open {
		a.note("the endpoint refuses")
		a.gate.refuse()
		a.open = false
		time.Sleep(300 * time.Millisecond) // the last answer is booked; from outside nothing shows that
	}
}

// die kills the plugin, and lets c write meanwhile.
func (a *anything) die(c *scribe) {
	a.shut()
	a.note("the plugin is killed")
	a.kill()
	a.lines(c, 50, 0)
	a.start()
}

// audit is the end of it all.
func (a *anything) audit() {
	t := a.t
	t.Helper()
	want, live := map[string]int{}, map[string]bool{}
	for _, c := range a.all {
		live[c.stream] = live[c.stream] || c.live
		if want[c.stream] += c.next + c.torn; c.errs != "" {
			want[c.stream] -= c.next / 2
			want[c.errs] += c.next / 2
		}
	}
	for stream, n := range want {
		var s account
		weirtest.Eventually(t, stream+" adds up\n"+strings.Join(a.log, "\n"), func() (string, bool) {
			s = a.read(stream)
			return fmt.Sprintf("%+v, want %d", s, n), s.lines+s.told >= n
		})
		if s.lines+s.told != n || s.twice+len(s.other) > 0 || s.disorder > 0 && !live[stream] {
			t.Errorf("%s: %+v, want %d\n%s", stream, s, n, strings.Join(a.log, "\n"))
		}
		t.Logf("%s: %+v", stream, s)
	}
}

// account is what a stream has.
type account struct {
	lines, told, notices, twice, disorder int
	other                                 []string
}

// read reads a stream of several containers.
func (a *anything) read(stream string) (s account) {
	seen, last := map[string]bool{}, map[string]int{}
	for _, m := range messages(a.emu, stream) {
		if n, ok := parseNotice(m); ok {
			s.notices++
			s.told += told(a.t, []notice{n})
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(m, "\n"), "\n") {
			_, name, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, " ")
			i, ok := written.Number(line, name, lineSize)
			if !ok {
				i, ok = written.Number(line, name, longSize)
			}
			key := fmt.Sprint(name, i)
			switch {
			case !ok:
				s.other = append(s.other, clip(line))
			case seen[key]:
				s.twice++
			default:
				s.lines++
				if i < last[name] {
					s.disorder++
				}
				last[name] = max(last[name], i)
			}
			seen[key] = ok || seen[key]
		}
	}
	return s
}
