package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// stream sends messages of 20 events at a steady pace until stop is called, which returns
// when all are acknowledged.
func stream(t *testing.T, s *weirtest.Sender) (stop func()) {
	t.Helper()
	pace, end := context.WithCancel(context.Background())
	limit, give := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := weirtest.Pace(pace, 100, func() error { return s.Send(limit) })
		if err == nil {
			err = s.Flush(limit)
		}
		if err != nil {
			t.Errorf("sender of %s: %v", s.Tag, err)
		}
	}()
	t.Cleanup(give)
	return func() {
		end()
		late := time.AfterFunc(weirtest.Patience, give)
		<-done
		late.Stop()
	}
}

// reload puts a configuration in place and waits until weir has taken or refused it. The two
// signals mean the same and take turns.
func reload(t *testing.T, w *weirtest.Weir, config, line string) {
	t.Helper()
	before := len(w.Lines("", line))
	w.SetConfig(config)
	w.Signal([]syscall.Signal{syscall.SIGHUP, syscall.SIGUSR2}[before%2])
	weirtest.Eventually(t, "the log says: "+line, func() (string, bool) {
		n := len(w.Lines("", line))
		return fmt.Sprint(n-before, " new lines"), n > before
	})
}

const (
	reloaded = `"msg":"configuration reloaded"`
	unloaded = "the running configuration goes on unchanged"
	refused  = "the running one goes on unchanged"
)

// extra is a second output for tags of its own.
const extra = `<match extra.**>
  @type cloudwatch_logs
  @id second
  log_group_name second
  use_tag_as_stream true
  auto_create_stream true
  message_keys log
  <buffer tag>
    @type file
    path $DIR/second
    flush_interval 0.1
  </buffer>
</match>`

// TestReload changes the configuration under load again and again: no connection is lost,
// no event is lost or doubled, and a file that cannot be used changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	c := weirtest.Config{Buffer: impatient}
	w := weirtest.Start(t, e, c.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 20, Window: 8}
	x := &weirtest.Sender{Addr: w.Addr(), Tag: "extra.a", Mode: forwardclient.Packed, Events: 20, Window: 8, First: 50_000_000}
	defer s.Close()
	defer x.Close()
	stopS, stopX := stream(t, s), stream(t, x)
	arrive := func(group string) {
		t.Helper()
		have := func() int { return len(weirtest.Arrivals(t, e, weirtest.Target{Group: group, Stream: "a"}).Order) }
		from := have()
		weirtest.Eventually(t, "events arrive in group "+group, func() (string, bool) {
			n := have()
			return fmt.Sprint(n), n > from
		})
	}
	for round := range 3 {
		c.Group, c.Flush = fmt.Sprintf("g%d", round), "0.3"
		reload(t, w, c.String(), reloaded) // another group
		arrive(c.Group)
		c.Flush = "0.05"
		reload(t, w, c.String(), reloaded) // another interval
		c.More = extra
		reload(t, w, c.String(), reloaded) // one output more
		reload(t, w, strings.Replace(c.String(), "log_group_name", "log_group_nom", 1), refused)
		reload(t, w, "<source>\n", refused)
		// A port that is taken is found out only when it is opened.
		taken := strings.Replace(c.String(), "<match **>", fmt.Sprintf("<source>\n  @type forward\n  @id more\n  bind 127.0.0.1\n  port %s\n</source>\n<match **>", portOf(w.HTTP)), 1)
		reload(t, w, taken, unloaded)
		arrive(c.Group)
		c.More = ""
		reload(t, w, c.String(), reloaded) // and one less
		arrive(c.Group)
		w.Balanced()
	}
	stopS()
	stopX()
	w.Drained()
	for _, s := range []*weirtest.Sender{s, x} {
		var all []uint64
		for _, g := range e.Groups() {
			to := weirtest.Target{Group: g.Name, Stream: s.Tag}
			a := weirtest.Arrivals(t, e, to)
			weirtest.InOrder(t, to, a.Order, s.IDs())
			if a.Repeats > 0 {
				t.Errorf("stream %s: %d repeats", to, a.Repeats)
			}
			all = append(all, a.Order...)
		}
		weirtest.SameSet(t, weirtest.Target{Group: "all groups", Stream: s.Tag}, all, s.IDs())
		if s.Dials() != 1 {
			t.Errorf("sender of %s had to connect %d times, want once", s.Tag, s.Dials())
		}
	}
	if len(e.Streams("second")) != 1 {
		t.Error("the second output was never used: the test says nothing")
	}
	w.Stop(15 * time.Second)
}

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// TestReloadSource changes the source itself: it keeps its port, and nothing is lost or
// doubled.
func TestReloadSource(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 20, Window: 8}
	defer s.Close()
	stop := stream(t, s)
	for i := range 4 {
		before := s.Acked()
		reload(t, w, weirtest.Config{Source: fmt.Sprintf("chunk_size_limit %dm", 64+i)}.String(), reloaded)
		weirtest.Eventually(t, "messages are acknowledged after the reload", func() (string, bool) {
			n := s.Acked()
			return fmt.Sprint(n), n > before+10
		})
	}
	stop()
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "a"}, s.IDs())
	w.LogAtMost(0, 0)
}

// TestReloadDuringOutage changes the group while nothing can be delivered: what waits goes
// to the new group, once.
func TestReloadDuringOutage(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	weirtest.Faults(t, e, emulator.FaultRule{Kind: emulator.Fault503})
	w := weirtest.Start(t, e, weirtest.Config{Buffer: impatient}.String())
	s := &weirtest.Sender{Addr: w.Addr(), Tag: "a", Mode: forwardclient.Packed, Events: 20, Window: 8}
	defer s.Close()
	s.SendAll(t, 50)
	reload(t, w, weirtest.Config{Group: "new", Buffer: impatient}.String(), reloaded)
	s.SendAll(t, 50)
	w.Balanced()
	weirtest.Faults(t, e)
	w.Drained()
	weirtest.Exactly(t, e, weirtest.Target{Group: "new", Stream: "a"}, s.IDs())
	w.Ends("out", 2000, nil)
}
