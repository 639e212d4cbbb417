package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // a managed plugin has no zones of its own

	"weir/internal/app"
)

const dockerHelp = `weir docker-plugin [flags]

Serves Docker's logging driver "weir": the options of the awslogs driver, a bounded spool
on disk for each container, and delivery to CloudWatch Logs when the network allows it.
It runs until SIGTERM or SIGINT. Containers do not notice when it is restarted.

As a managed plugin (docker plugin enable) it gets its settings from "docker plugin set":
every flag has an environment variable, WEIR_ and its name in capitals, such as
WEIR_SPOOL_LIMIT=8g. A flag counts before its variable. AWS credentials, region and
endpoint come from the usual AWS_... variables, files and the metadata service.

Beside dockerd, without a plugin, run it from systemd before docker.service; then
"docker run --log-driver weir" finds its socket. docs/docker.md tells more.

The status page, /metrics, /healthz, /readyz and /api/status are on the unix socket
status.sock in the spool: curl --unix-socket DIR/status.sock http://weir/api/status
`

// Where the spool is unless told otherwise. Docker keeps the pipes directory of a managed
// plugin over upgrades; on a host it would be lost at a reboot.
const (
	managedSpool = "/run/docker/logging/spool"
	hostSpool    = "/var/lib/weir/docker"
	dockerSocket = "/run/docker/plugins/weir.sock"
)

// dockerFlags are the flags of docker-plugin.
type dockerFlags struct {
	app.DockerOptions
	limit, minFree sizeFlag
	format, level  string
	memory         sizeFlag
}

func (f *dockerFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.Socket, "socket", dockerSocket, "`path` of the plugin's socket")
	fs.StringVar(&f.Spool, "spool", "", "`directory` of sessions and events that wait (default "+hostSpool+"; managed "+managedSpool+")")
	fs.Var(&f.limit, "spool-limit", "`size` that the spools of all containers may take together (default 4g, or half of what is free at the start if that is less)")
	fs.Var(&f.minFree, "min-free", "`size` that stays free on the spool's disk (default 1g, or a quarter of what is free at the start if that is less)")
	fs.StringVar(&f.HTTP, "http", "", "TCP `address` of the status page, for example 127.0.0.1:24281 (default: only the unix socket)")
	fs.BoolVar(&f.Managed, "managed", false, "it runs as a managed plugin: the pipes directory is its own")
	fs.StringVar(&f.Pipes, "pipes", "", "`directory` of the containers' pipes (default /run/docker/logging)")
	fs.StringVar(&f.Hostname, "hostname", "", "`name` of the host for {{.Hostname}} in names (default: the system's)")
	fs.DurationVar(&f.Grace, "grace", 4*time.Second, "how `long` a stop may take to send what waits; dockerd kills after 10s")
	fs.IntVar(&f.InFlight, "in-flight", 4, "`requests` under way at once, for each set of service settings")
	fs.Var(&f.memory, "memory", "`size` that the heap is held to (default 36m, and 256k for each container above a hundred)")
	fs.StringVar(&f.format, "log-format", "text", "`form` of log lines: text or json")
	fs.StringVar(&f.level, "log-level", "info", "least log `level`: debug, info, warn, error")
}

func runDockerPlugin(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir docker-plugin", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var f dockerFlags
	f.register(fs)
	if code, ok := parse(fs, args, stdout, dockerHelp); !ok {
		return code
	}
	if err := fromEnvironment(fs, os.LookupEnv); err != nil {
		fmt.Fprintln(stderr, "weir docker-plugin:", err)
		return exitUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "weir docker-plugin: %q is not a flag; flags begin with --\n", fs.Arg(0))
		return exitUsage
	}
	out, errs := newAsideWriter(stdout), newAsideWriter(stderr)
	defer out.close()
	defer errs.close()
	log, err := dockerLogger(out, errs, f.format, f.level)
	if err != nil {
		fmt.Fprintln(stderr, "weir docker-plugin:", err)
		return exitUsage
	}
	if err := f.check(); err != nil {
		fmt.Fprintln(stderr, "weir docker-plugin:", err)
		return exitUsage
	}
	f.finish()
	warnZone(log, os.Getenv("TZ"))
	f.Log, f.Version = log, versionText()
	return serveDocker(&f)
}

// minSpool is the least size of one container's spool, and so of all together.
const minSpool = 4 << 20

// check refuses what is no size or time for its flag.
func (f *dockerFlags) check() error {
	switch {
	case f.InFlight < 1:
		return fmt.Errorf("--in-flight (WEIR_IN_FLIGHT) is %d and must be at least 1", f.InFlight)
	case f.limit > 0 && f.limit < minSpool:
		return fmt.Errorf("--spool-limit (WEIR_SPOOL_LIMIT) is %d bytes and must be at least 4m, which is the least of one container", f.limit)
	case f.Grace <= 0:
		return fmt.Errorf("--grace (WEIR_GRACE) is %s and must be more than 0, for example 4s", f.Grace)
	}
	return nil
}

// warnZone says so when the zone is not known: Go takes UTC then without a word.
func warnZone(log *slog.Logger, zone string) {
	zone = strings.TrimPrefix(zone, ":")
	if zone == "" || strings.HasPrefix(zone, "/") {
		return
	}
	if _, err := time.LoadLocation(zone); err != nil {
		log.Warn("the variable TZ names no time zone; awslogs-datetime-timezone=local is UTC", "TZ", zone, "error", err)
	}
}

// finish fills in what depends on the place and on other flags.
func (f *dockerFlags) finish() {
	f.Limit, f.MinFree = int64(f.limit), int64(f.minFree)
	if f.Spool == "" {
		f.Spool = hostSpool
		if f.Managed {
			f.Spool = managedSpool
		}
	}
	if f.Hostname == "" {
		f.Hostname, _ = os.Hostname() // a plugin's is that of the host
	}
	if home := os.Getenv("HOME"); f.Managed && (home == "" || home == "/") {
		_ = os.Setenv("HOME", "/root") // where the credentials are mounted
	}
}

// serveDocker runs the plugin until a signal ends it.
func serveDocker(f *dockerFlags) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	debug.SetMemoryLimit(f.heap(0))
	d := app.NewDocker(f.DockerOptions)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP) // whoever read the log, or started this, may go
	if err := d.Start(); err != nil {
		f.Log.Error("the logging driver cannot start", "error", err)
		return exitFault
	}
	shrink()
	quiet := newQuiet(d)
	defer quiet.tick.Stop()
	grow := time.NewTicker(2 * time.Second)
	defer grow.Stop()
	for {
		select {
		case <-quiet.tick.C:
			quiet.look()
		case <-grow.C:
			debug.SetMemoryLimit(f.heap(d.Containers()))
		case sig := <-signals:
			f.Log.Info("stopping", "signal", sig.String())
			d.Stop(interruptible(signals))
			return exitOK
		case <-d.Done():
			d.Stop(context.Background())
			return exitFault
		}
	}
}

// heap is what the heap is held to with so many containers: what they need beside each
// other, so that the collector is not kept busy in vain.
func (f *dockerFlags) heap(containers int) int64 {
	switch {
	case os.Getenv("GOMEMLIMIT") != "":
		return -1 // as it is
	case f.memory > 0:
		return int64(f.memory)
	}
	return 36<<20 + 256<<10*int64(max(containers-100, 0))
}

// dockerLogger writes warnings and worse to stderr and the rest to stdout: dockerd logs the
// one as errors and the other as information. Whoever reads it, dockerd or systemd, adds the
// time.
func dockerLogger(stdout, stderr io.Writer, format, level string) (*slog.Logger, error) {
	low, err := newLogger(stdout, format, level)
	if err != nil {
		return nil, err
	}
	high, err := newLogger(stderr, format, level)
	if err != nil {
		return nil, err
	}
	return slog.New(&byLevel{low.Handler(), high.Handler()}), nil
}

// byLevel divides records, without their time, between two handlers.
type byLevel struct{ low, high slog.Handler }

func (h *byLevel) of(l slog.Level) slog.Handler {
	if l >= slog.LevelWarn {
		return h.high
	}
	return h.low
}

// Enabled implements slog.Handler.
func (h *byLevel) Enabled(ctx context.Context, l slog.Level) bool { return h.of(l).Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *byLevel) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{}
	return h.of(r.Level).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *byLevel) WithAttrs(a []slog.Attr) slog.Handler {
	return &byLevel{h.low.WithAttrs(a), h.high.WithAttrs(a)}
}

// WithGroup implements slog.Handler.
func (h *byLevel) WithGroup(name string) slog.Handler {
	return &byLevel{h.low.WithGroup(name), h.high.WithGroup(name)}
}
