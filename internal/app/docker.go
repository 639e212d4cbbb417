package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/input/docker"
	"weir/internal/output/cloudwatch"
	"weir/internal/vfs"
)

// DockerOptions configures a Docker. Log and Spool are required.
type DockerOptions struct {
	Log     *slog.Logger
	Version string

	Spool   string // directory of sessions and events; made if missing
	Limit   int64  // bytes that the spools of all containers may take; 0: see DockerLimits
	MinFree int64  // bytes that stay free on the disk; 0: see DockerLimits

	Socket   string // of the plugin
	Pipes    string // directory of the containers' pipes; "" is Docker's
	Managed  bool   // the pipes directory is this plugin's alone
	Hostname string // of Docker's host, for templates

	HTTP  string        // TCP address of the status page; "" for none besides the unix socket
	Grace time.Duration // how long a stop may take to deliver what waits; default 4 s

	InFlight int // requests in flight for each set of service settings; default 4

	regions     []func(context.Context) (string, error) // further places to ask for a region; nil: the metadata service
	awake       int                                     // default dockerAwake
	turn        time.Duration                           // default dockerTurn
	turnAfter   time.Duration                           // for live-first; default turnAfter
	credentials string                                  // where awslogs-credentials-endpoint is asked; "" is the address that Docker's driver uses
}

// Names in the spool directory.
const (
	dockerContainers = "containers"
	dockerSessions   = "sessions"
	// DockerStatus is the unix socket of the status page.
	DockerStatus = "status.sock"
)

// Docker is a running logging-driver plug-in. It implements docker.Host: a buffer and a
// delivery for each container, an output for each set of service settings.
type Docker struct {
	o       DockerOptions
	log     *slog.Logger
	crowd   *crowd
	started time.Time
	lock    io.Closer
	plugin  *docker.Plugin
	web     *dockerWeb
	outputs dockerOutputs
	limits  *dockerLimits

	mu         sync.Mutex // guards what follows
	containers map[string]*dockerContainer
	ready      bool
	stopping   bool
	gone       dockerTotals    // of containers that are no more
	shared     map[string]bool // streams, see noteShared
	kept       int             // how often counters of a container were moved to its output's

	done    chan struct{} // closed when the plugin has ended by itself
	kick    chan struct{}
	disk    chan struct{} // holds a token for each spool that is being opened or closed
	end     context.CancelFunc
	running sync.WaitGroup
	opening sync.WaitGroup // of spools, and closing
}

// dockerDisk is how many spools are opened and closed at once: the work is the disk's, and each
// takes a thread while it waits. Thousands of containers may end, or begin, in one moment.
const dockerDisk = 16

// NewDocker prepares a Docker. Nothing is opened.
func NewDocker(o DockerOptions) *Docker {
	if o.Grace <= 0 {
		o.Grace = 4 * time.Second
	}
	if o.turnAfter <= 0 {
		o.turnAfter = turnAfter
	}
	if o.awake <= 0 {
		o.awake = dockerAwake
	}
	if o.turn <= 0 {
		o.turn = dockerTurn
	}
	if o.InFlight <= 0 {
		o.InFlight = 4
	}
	d := &Docker{o: o, containers: map[string]*dockerContainer{}, shared: map[string]bool{}, done: make(chan struct{}), kick: make(chan struct{}, 1), disk: make(chan struct{}, dockerDisk)}
	d.crowd = newCrowd(o.Log.Handler())
	d.log = slog.New(d.crowd)
	d.outputs = dockerOutputs{d: d, all: map[serviceKey]*dockerOutput{}, tokens: cloudwatch.NewTokens()}
	return d
}

// Start takes the spool, goes on with what an earlier process left there, and then listens
// for Docker. An error leaves nothing behind.
func (d *Docker) Start() error {
	var undo cleanups
	err := d.start(&undo)
	if err != nil {
		undo.run()
	}
	return err
}

func (d *Docker) start(undo *cleanups) error {
	ctx, err := d.openSpool(undo)
	if err != nil {
		return err
	}
	d.plugin = docker.New(docker.Options{
		Socket: d.o.Socket, State: filepath.Join(d.o.Spool, dockerSessions), Pipes: d.o.Pipes, Managed: d.o.Managed,
		Hostname: d.o.Hostname, Local: time.Local, Host: d, Log: d.o.Log,
	})
	d.web = startDockerWeb(d)
	undo.add(d.web.close)
	if err := d.plugin.Open(); err != nil {
		return fmt.Errorf("open the plugin: %w", err)
	}
	d.running.Go(func() {
		defer close(d.done)
		if err := d.plugin.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			d.o.Log.Error("the plugin has ended", "error", err)
		}
	})
	d.mu.Lock()
	d.ready = true
	left := len(d.containers)
	d.mu.Unlock()
	d.o.Log.Info("the logging driver is ready", "version", d.o.Version, "socket", d.o.Socket, "spool", d.o.Spool, "containers", left,
		"spool_limit", mib(d.limits.limit), "min_free", mib(d.limits.minFree), "status", strings.Join(d.web.addresses(), " "))
	return nil
}

// openSpool takes the spool and begins to deliver what is in it. ctx ends when Stop begins.
func (d *Docker) openSpool(undo *cleanups) (ctx context.Context, err error) {
	d.started = time.Now()
	if err := os.MkdirAll(filepath.Join(d.o.Spool, dockerContainers), 0o700); err != nil {
		return nil, fmt.Errorf("make the spool: %w", err)
	}
	if d.lock, err = (vfs.OS{}).Lock(d.o.Spool); err != nil {
		return nil, fmt.Errorf("take the spool %s (does another weir use it?): %w", d.o.Spool, err)
	}
	undo.add(func() { _ = d.lock.Close() })
	if d.limits, err = newDockerLimits(d); err != nil {
		return nil, err
	}
	ctx, d.end = context.WithCancel(context.Background())
	undo.add(func() { d.stopWork(context.Background()) })
	d.outputs.ctx = ctx
	left := d.restore()
	d.running.Go(func() { d.resume(ctx, left) })
	d.running.Go(func() { d.look(ctx) })
	return ctx, nil
}

// Done is closed when Docker is served no more, before Stop only after a fault.
func (d *Docker) Done() <-chan struct{} { return d.done }

// Stop ends in good order: sessions are kept for the next process, what waits is sent for
// as long as DockerOptions.Grace or ctx allows, and the rest stays in the spool.
func (d *Docker) Stop(ctx context.Context) {
	d.mu.Lock()
	again := d.stopping
	d.ready, d.stopping = false, true // from now on no directory is removed: the next process looks for it
	d.mu.Unlock()
	if again {
		return
	}
	d.stopWork(ctx)
	d.logLeft()
	if d.web != nil {
		d.web.close()
	}
	_ = d.lock.Close()
}

func (d *Docker) stopWork(ctx context.Context) {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d.o.Grace)
	defer cancel()
	d.end()
	waitOrDone(ctx, &d.running)
	var wg sync.WaitGroup
	for _, c := range d.list() {
		wg.Go(func() { c.stop(ctx) })
	}
	wg.Wait()
	waitOrDone(ctx, &d.opening)
	d.outputs.close()
	d.crowd.flush(true)
}

// logLeft says what waits for the next start.
func (d *Docker) logLeft() {
	left, where := uint64(0), 0
	for _, c := range d.list() {
		if c.left > 0 {
			left, where = left+c.left, where+1
		}
	}
	if left > 0 {
		d.o.Log.Info("stopped; events wait in the spool for the next start", "events", left, "containers", where, "spool", d.o.Spool)
		return
	}
	d.o.Log.Info("stopped, everything was delivered")
}

// Containers is how many containers there are, those included that have ended and whose
// events wait.
func (d *Docker) Containers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.containers)
}

// list gives the containers by id.
func (d *Docker) list() []*dockerContainer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sorted()
}

// sorted is list for those who hold mu.
func (d *Docker) sorted() []*dockerContainer {
	all := make([]*dockerContainer, 0, len(d.containers))
	for _, c := range d.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *dockerContainer) int { return strings.Compare(a.info.ID, b.info.ID) })
	return all
}

// lookPause is between two looks: many containers that end at once cost a few.
const lookPause = 50 * time.Millisecond

// look does what is done every second, and when somebody calls wake: containers that have ended
// are closed, others are woken in their place, live-first delivery is directed, and what the log
// left out is summed up.
func (d *Docker) look(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.crowd.flush(false)
			d.outputs.nudge(d.list())
		case <-d.kick:
		}
		for _, c := range d.list() {
			c.look()
		}
		d.rest()
		d.limits.relieve()
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookPause):
		}
	}
}

// wake makes look come at once.
func (d *Docker) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Open implements docker.Host.
func (d *Docker) Open(info *docker.Container) (docker.Spool, error) {
	if !spoolName(info.ID) {
		return nil, fmt.Errorf("container id %q cannot name a directory", info.ID)
	}
	if info.Options == nil {
		return nil, fmt.Errorf("container %s has no options", info.ID)
	}
	for {
		d.mu.Lock()
		c := d.containers[info.ID]
		if c == nil {
			c = newDockerContainer(d, info)
			d.containers[info.ID] = c
		}
		d.mu.Unlock()
		if s, err := c.use(); s != nil || err != nil {
			if err == nil {
				d.noteShared(c)
			}
			return s, err
		}
		// It was being closed, and is out of the map now.
	}
}

// remove takes a closed container off the list. mu is held.
func (d *Docker) remove(c *dockerContainer) {
	if d.containers[c.info.ID] == c {
		delete(d.containers, c.info.ID)
	}
}

// spoolName says whether a container's id can be the name of its directory.
func spoolName(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, r := range id {
		if !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '-') {
			return false
		}
	}
	return true
}

// shortID is the id as Docker shows it.
func shortID(id string) string { return id[:min(len(id), 12)] }
