package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"weir/internal/app"
	"weir/internal/config"
)

func runRun(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir run", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var flags fluentFlags
	flags.register(fs)
	addr := fs.String("http", "", "`address` of the status page, metrics and health (default "+app.DefaultHTTP+"; \"off\" for none)")
	format := fs.String("log-format", "", "`form` of log lines: text or json (default: that of <log> in <system>, or text)")
	level := fs.String("log-level", "", "least log `level`: trace, debug, info, warn, error (default: log_level of <system>, or info)")
	args = expand(fs, environment(args, os.LookupEnv))
	if code, ok := parse(fs, args, stdout, `weir run -c FILE

Runs a configuration file until SIGTERM or SIGINT: then inputs stop, what waits is sent
for as long as shutdown_grace in <system> allows (25 s), and the rest stays in file
buffers. SIGHUP and SIGUSR2 read the file again, all or nothing. SIGUSR1 sends what waits at once
and opens the log file again. Fluentd's flags are accepted; FLUENTD_OPT may hold more.
`); !ok {
		return code
	}
	if flags.version {
		return runVersion(nil, stdout, stderr)
	}
	if flags.file == "" && fs.NArg() == 1 {
		flags.file = fs.Arg(0)
	}
	if err := flags.finish(os.LookupEnv, os.Stdin); err != nil {
		fmt.Fprintln(stderr, "weir run:", err)
		return exitUsage
	}
	if flags.file == "" {
		fmt.Fprintln(stderr, "weir run: which file? Write: weir run -c FILE, or try: weir demo")
		return exitUsage
	}
	env := app.Env{Flags: flags.app}
	if flags.dryRun {
		return check(flags.file, env, false, stdout)
	}
	env.Fetch = app.Fetch
	plan, d := app.Load(flags.file, env, false)
	if len(d.Errors) > 0 {
		for _, e := range d.Errors {
			fmt.Fprintln(stderr, e)
		}
		fmt.Fprintf(stderr, "weir run: %s has %d error(s), nothing was started\n", flags.file, len(d.Errors))
		return exitFault
	}
	if err := setUmask(flags.umask, plan.System.Umask); err != nil {
		fmt.Fprintln(stderr, "weir run:", err)
		return exitUsage
	}
	age, size := plan.LogRotation()
	if flags.size > 0 {
		size = flags.size
	}
	w, file, err := openLog(firstOf(flags.log, plan.LogPath()), newRotation(firstOf(flags.age, age), size), stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "weir run:", err)
		return exitFault
	}
	defer file.close()
	log, err := newLogger(w, firstOf(*format, plan.LogFormat(), "text"), firstOf(*level, flags.level(), plan.System.LogLevel, "info"))
	if err != nil {
		fmt.Fprintln(stderr, "weir run:", err)
		return exitUsage
	}
	flags.tell(log)
	tell(log, d)
	return serve(&setup{file: flags.file, env: env, log: file}, plan, app.Options{Log: log, Version: versionText(), HTTP: *addr})
}

// setup is what serving needs besides the plan.
type setup struct {
	file string
	env  app.Env
	log  *logFile // nil unless the log goes to a file
}

// tell logs what is good to know about a configuration, and its warnings.
func tell(log *slog.Logger, d *config.Diagnostics) {
	for _, e := range d.Notes {
		log.Info(e.Error())
	}
	for _, e := range d.Warnings {
		log.Warn(e.Error())
	}
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// heapGrowth is GOGC unless the environment sets it. Events cause next to no garbage, so
// that collecting twice as often as Go's default costs nothing that can be measured, and
// with ten thousand streams it takes a quarter of the memory away (docs/performance.md).
const heapGrowth = 50

// serve runs a plan until a signal ends it.
func serve(s *setup, plan *app.Plan, o app.Options) int {
	boundMemory(plan)
	a, err := app.New(plan, o)
	if err != nil {
		o.Log.Error("weir cannot be set up", "error", err)
		return exitFault
	}
	// Signals from here on are for us: one that arrives during the start is not lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := a.Start(); err != nil {
		o.Log.Error("weir cannot start", "error", err)
		return exitFault
	}
	shrink()
	quiet := newQuiet(a)
	defer quiet.tick.Stop()
	for {
		select {
		case <-quiet.tick.C:
			quiet.look()
		case <-a.Done():
			a.Stop(context.Background())
			return exitOK
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP, syscall.SIGUSR2: // to Fluentd the latter is the graceful one; here both are
				reload(a, s, o.Log)
			case syscall.SIGUSR1:
				if s.log != nil {
					if err := s.log.reopen(); err != nil {
						o.Log.Error("the log file could not be opened again, the old one goes on", "error", err)
					}
				}
				o.Log.Info("sending what waits now")
				a.Flush()
			default:
				o.Log.Info("stopping", "signal", sig.String())
				a.Stop(interruptible(signals))
				return exitOK
			}
		}
	}
}

// interruptible is a context that a second SIGINT or SIGTERM ends: whoever asks twice does
// not want to wait for the grace.
func interruptible(signals <-chan os.Signal) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for sig := range signals {
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				cancel()
				return
			}
		}
	}()
	return ctx
}

// reload reads the file again: all or nothing.
func reload(a *app.App, s *setup, log *slog.Logger) {
	file := s.file
	plan, d := app.Load(file, s.env, false)
	tell(log, d)
	if len(d.Errors) > 0 {
		for _, e := range d.Errors {
			log.Error(e.Error())
		}
		log.Error("the configuration has errors, the running one goes on unchanged", "file", file, "errors", len(d.Errors))
		return
	}
	if err := a.Reload(plan); err != nil {
		log.Error("reloading failed, the running configuration goes on unchanged", "file", file, "error", err)
		return
	}
	log.Info("configuration reloaded", "file", file)
}
