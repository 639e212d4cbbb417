package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"weir/internal/emulator"
	"weir/internal/event"
	"weir/internal/input/docker"
	"weir/internal/input/docker/awslogs"
)

// dockerTest is a Docker without a plugin: tests use it as the plugin does.
type dockerTest struct {
	*Docker
	log *logs
}

func openDocker(t *testing.T, o DockerOptions) *dockerTest {
	t.Helper()
	d := &dockerTest{log: &logs{}}
	o.Log = slog.New(slog.NewTextHandler(d.log, nil))
	if o.Grace == 0 {
		o.Grace = 300 * time.Millisecond
	}
	if o.MinFree == 0 {
		o.MinFree = 1
	}
	d.Docker = NewDocker(o)
	var undo cleanups
	if _, err := d.openSpool(&undo); err != nil {
		undo.run()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Stop(context.Background())
		if t.Failed() {
			t.Log(d.log.String())
		}
	})
	return d
}

// testContainer is a container with a number. change may alter its options.
func testContainer(url string, n int, change func(*awslogs.Options)) *docker.Container {
	o := &awslogs.Options{
		Group: "group", Stream: fmt.Sprint("s", n), Region: "us-east-1", Endpoint: url, CreateGroup: true, CreateStream: true,
		FlushInterval: 50 * time.Millisecond, BufferSize: 256 << 20, EventSize: 262118,
	}
	if change != nil {
		change(o)
	}
	return &docker.Container{ID: fmt.Sprintf("%012x%052x", n, n), Name: fmt.Sprint("c", n), Options: o}
}

// lineBatch holds count events "PREFIX first" and so on, padded to size bytes.
func lineBatch(c *docker.Container, prefix string, first, count, size int) event.Batch {
	b := event.Batch{Tag: c.Options.Group + "\x00" + c.Options.Stream, Count: count, First: event.FromTime(time.Now())}
	b.Last = b.First
	for i := range count {
		text := fmt.Sprintf("%s %d", prefix, first+i)
		if n := size - len(text) - 1; n > 0 {
			text += " " + strings.Repeat("x", n)
		}
		rec := msgp.AppendMapHeader(nil, 1)
		rec = msgp.AppendString(rec, messageKey)
		rec = msgp.AppendString(rec, text)
		b.Entries = event.AppendEntry(b.Entries, b.First, rec)
	}
	return b
}

func (d *dockerTest) spool(t *testing.T, c *docker.Container) docker.Spool {
	t.Helper()
	s, err := d.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s docker.Spool, b ...event.Batch) {
	t.Helper()
	if err := s.Put(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// checkLines fails unless a stream has "PREFIX 0" to "PREFIX n-1" in order.
func checkLines(t *testing.T, s *emulator.Server, stream, prefix string, n int) {
	t.Helper()
	got := s.Events("group", stream)
	if len(got) != n {
		t.Errorf("stream %s has %d events, want %d", stream, len(got), n)
	}
	for i, e := range got {
		if want := fmt.Sprintf("%s %d", prefix, i); e.Message != want {
			t.Fatalf("stream %s: event %d is %q, want %q", stream, i, e.Message, want)
		}
	}
}

func TestDockerDelivers(t *testing.T) {
	s := cloud(t)
	dir := t.TempDir()
	d := openDocker(t, DockerOptions{Spool: dir})
	c := testContainer(s.URL(), 1, nil)
	sp := d.spool(t, c)
	containers := filepath.Join(dir, dockerContainers)
	if left, _ := os.ReadDir(containers); len(left) > 0 {
		t.Error("there is a trace before the first event")
	}
	for i := range 10 {
		put(t, sp, lineBatch(c, "n", i*10, 10, 0))
	}
	eventually(t, "100 events delivered", func() bool { return len(s.Events("group", "s1")) == 100 })
	checkLines(t, s, "s1", "n", 100)
	if _, err := os.Stat(filepath.Join(containers, c.ID, containerFileName)); err != nil {
		t.Error(err)
	}
	sp.Release()
	eventually(t, "the directory is removed", func() bool {
		left, err := os.ReadDir(containers)
		return err == nil && len(left) == 0
	})
	if sum := d.Totals(); sum.Delivered != 100 || sum.Pending() != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestDockerRestartWithBacklog(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	outage := &emulator.FaultScript{Rules: []emulator.FaultRule{{Kind: emulator.Fault503}}}
	if err := s.SetFaults(outage); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := openDocker(t, DockerOptions{Spool: dir})
	const n = 20
	for i := range n {
		c := testContainer(s.URL(), i, nil)
		sp := d.spool(t, c)
		put(t, sp, lineBatch(c, "n", 0, 50, 0))
		sp.Release()
	}
	began := time.Now()
	d.Stop(context.Background())
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("stopping took %v during an outage", took)
	}
	if !strings.Contains(d.log.String(), "events wait in the spool") {
		t.Error("the log does not say what was left")
	}
	if err := s.SetFaults(nil); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(dir, dockerContainers, strings.Repeat("f", 64))
	if err := os.MkdirAll(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(strange, "note"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	d = openDocker(t, DockerOptions{Spool: dir})
	eventually(t, "all is delivered and removed", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, dockerContainers))
		return err == nil && len(left) == 1
	})
	for i := range n {
		checkLines(t, s, fmt.Sprint("s", i), "n", 50)
	}
	if _, err := os.Stat(filepath.Join(strange, "note")); err != nil || strings.Count(d.log.String(), "left alone") != 1 {
		t.Errorf("a foreign directory: %v\n%s", err, d.log.String())
	}
}

func TestDockerWithoutARegion(t *testing.T) {
	s := cloud(t)
	asked := make(chan struct{}, 10)
	known := make(chan string, 1)
	ask := func(ctx context.Context) (string, error) {
		asked <- struct{}{}
		select {
		case r := <-known:
			return r, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), regions: []func(context.Context) (string, error){ask}})
	c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.Region = "" })
	began := time.Now()
	sp := d.spool(t, c)
	put(t, sp, lineBatch(c, "n", 0, 5, 0))
	if took := time.Since(began); took > regionLimit/2 {
		t.Errorf("a container waited %v for the region", took)
	}
	<-asked
	known <- "eu-west-1"
	eventually(t, "delivery", func() bool { return len(s.Events("group", "s1")) == 5 })
	sp.Release()
}

// TestDockerLiveFirst: after an outage new events arrive before the backlog, which arrives
// in order, over a restart too.
func TestDockerLiveFirst(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	setFaults := func(rules ...emulator.FaultRule) {
		if err := s.SetFaults(&emulator.FaultScript{Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	setFaults(emulator.FaultRule{Kind: emulator.Fault503})
	o := DockerOptions{Spool: t.TempDir(), turnAfter: 100 * time.Millisecond}
	d := openDocker(t, o)
	c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.LiveFirst = true })
	sp := d.spool(t, c)
	put(t, sp, lineBatch(c, "first", 0, 10, 0))
	turned := func() bool {
		k := d.containers[c.ID]
		k.mu.Lock()
		defer k.mu.Unlock()
		k.direct(time.Now())
		return k.turn.away
	}
	eventually(t, "new events go to the backlog", turned)
	for i := range 8 {
		put(t, sp, lineBatch(c, "backlog", i*100, 100, 5000))
	}
	sp.Release()
	d.Stop(context.Background())

	d = openDocker(t, o)
	sp = d.spool(t, c)
	setFaults()
	eventually(t, "the live queue works", func() bool { return len(s.Events("group", "s1")) > 0 && !turned() })
	put(t, sp, lineBatch(c, "live", 0, 10, 0))
	sp.Release()
	eventually(t, "all events", func() bool { return len(s.Events("group", "s1")) >= 820 })
	next := map[string]int{}
	at := map[string]int{}
	for i, e := range s.Events("group", "s1") {
		var prefix string
		var n int
		if _, err := fmt.Sscanf(e.Message, "%s %d", &prefix, &n); err != nil {
			t.Fatal(err)
		}
		if n != next[prefix] {
			t.Fatalf("event %d is %s %d, want %d", i, prefix, n, next[prefix])
		}
		next[prefix]++
		at[prefix] = i
	}
	if next["first"] != 10 || next["backlog"] != 800 || next["live"] != 10 {
		t.Fatalf("arrived: %v", next)
	}
	if at["live"] > at["backlog"] {
		t.Errorf("the last live event is number %d, the last of the backlog %d", at["live"], at["backlog"])
	}
}

// TestDockerManyContainers: what 200 containers take while they write, and that they share
// one output.
func TestDockerManyContainers(t *testing.T) {
	s := cloud(t)
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), Grace: 5 * time.Second})
	const n, rounds, per = 200, 10, 50
	before := memoryInUse()
	var containers []*docker.Container
	var spools []docker.Spool
	for i := range n {
		c := testContainer(s.URL(), i, nil)
		containers, spools = append(containers, c), append(spools, d.spool(t, c))
	}
	most := uint64(0)
	for round := range rounds {
		for i, sp := range spools {
			put(t, sp, lineBatch(containers[i], "n", round*per, per, 0))
		}
		most = max(most, memoryInUse()-before)
	}
	eventually(t, "all delivered", func() bool { sum := d.Totals(); return sum.Delivered == n*rounds*per })
	for i := range n {
		checkLines(t, s, fmt.Sprint("s", i), "n", rounds*per)
	}
	most = max(most, memoryInUse()-before)
	t.Logf("%d KiB for each container", most/1024/n)
	if out := d.outputs.list(); len(out) != 1 || out[0].users != n {
		t.Errorf("%d outputs for containers of the same settings", len(out))
	}
	for _, sp := range spools {
		sp.Release()
	}
	eventually(t, "all are gone", func() bool { return len(d.list()) == 0 })
}

// memoryInUse is heap and stacks after a collection.
func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestDockerLeftIsNotForgotten: what an earlier process left stays on the list until it is
// opened and delivered, however long that takes.
func TestDockerLeftIsNotForgotten(t *testing.T) {
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	c := newDockerContainer(d.Docker, testContainer("http://127.0.0.1:1", 1, nil))
	c.stored = true
	c.look()
	if c.gone {
		t.Error("forgotten before it was opened")
	}
}

// TestDockerCredentialsEndpoint: awslogs-credentials-endpoint counts before the environment,
// and containers with another one have another output.
func TestDockerCredentialsEndpoint(t *testing.T) {
	s, err := emulator.New(emulator.Options{Secrets: map[string]string{"AKFROMENDPOINT": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	paths := make(chan string, 10)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		fmt.Fprintf(w, `{"AccessKeyId":"AKFROMENDPOINT","SecretAccessKey":"secret","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	}))
	t.Cleanup(agent.Close)
	d := openDocker(t, DockerOptions{Spool: t.TempDir(), credentials: agent.URL})
	c := testContainer(s.URL(), 1, func(o *awslogs.Options) { o.HasCredentials, o.CredentialsEndpoint = true, "/v2/credentials/1" })
	sp := d.spool(t, c)
	put(t, sp, lineBatch(c, "n", 0, 5, 0))
	eventually(t, "delivery", func() bool { return len(s.Events("group", "s1")) == 5 })
	if p := <-paths; p != "/v2/credentials/1" {
		t.Error(p)
	}
	other := testContainer(s.URL(), 2, nil) // with the environment's keys, which this endpoint refuses
	sp2 := d.spool(t, other)
	put(t, sp2, lineBatch(other, "n", 0, 5, 0))
	eventually(t, "the other fails alone", func() bool {
		for _, k := range d.Status().Containers {
			if k.Name == "c2" {
				return strings.Contains(k.LastError, "UnrecognizedClient") && len(d.outputs.list()) == 2
			}
		}
		return false
	})
	sp.Release()
	sp2.Release()
}

// TestDockerDoesNotWaitForCompany: what waits for the flush interval is sent when the
// container ends, and when the plugin stops.
func TestDockerDoesNotWaitForCompany(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := DockerOptions{Spool: t.TempDir(), Grace: 2 * time.Minute}
	d := openDocker(t, o)
	long := func(o *awslogs.Options) { o.FlushInterval = time.Hour }
	one, two := testContainer(s.URL(), 1, long), testContainer(s.URL(), 2, long)
	sp := d.spool(t, one)
	put(t, sp, lineBatch(one, "n", 0, 5, 0))
	sp.Release()
	eventually(t, "the ended container's events", func() bool { return len(s.Events("group", "s1")) == 5 })
	sp = d.spool(t, two)
	put(t, sp, lineBatch(two, "n", 0, 5, 0))
	began := time.Now()
	d.Stop(context.Background())
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("stopping took %v", took)
	}
	checkLines(t, s, "s2", "n", 5)
	if !strings.Contains(d.log.String(), "everything was delivered") {
		t.Error(d.log.String())
	}
}
