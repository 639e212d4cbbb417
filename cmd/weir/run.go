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
	"syscall"

	"weir/internal/app"
)

func runRun(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir run", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var file string
	fs.StringVar(&file, "c", "", "configuration `file`")
	fs.StringVar(&file, "config", "", "the same as -c")
	addr := fs.String("http", "", "`address` of the status page, metrics and health (default "+app.DefaultHTTP+"; \"off\" for none)")
	format := fs.String("log-format", "", "`form` of log lines: text or json (default: that of <log> in <system>, or text)")
	level := fs.String("log-level", "", "least log `level`: trace, debug, info, warn, error (default: log_level of <system>, or info)")
	if code, ok := parse(fs, args, stdout, `weir run -c FILE

Runs a configuration file until SIGTERM or SIGINT: then inputs stop, what waits is sent
for as long as shutdown_grace in <system> allows (25 s), and the rest stays in file
buffers. SIGHUP reads the file again, all or nothing. SIGUSR1 sends what waits at once.
`); !ok {
		return code
	}
	if file == "" {
		fmt.Fprintln(stderr, "weir run: which file? Write: weir run -c FILE, or try: weir demo")
		return exitUsage
	}
	plan, d := app.Load(file, app.Env{}, false)
	if len(d.Errors) > 0 {
		for _, e := range d.Errors {
			fmt.Fprintln(stderr, e)
		}
		fmt.Fprintf(stderr, "weir run: %s has %d error(s), nothing was started\n", file, len(d.Errors))
		return exitFault
	}
	log, err := newLogger(stderr, firstOf(*format, plan.LogFormat(), "text"), firstOf(*level, plan.System.LogLevel, "info"))
	if err != nil {
		fmt.Fprintln(stderr, "weir run:", err)
		return exitUsage
	}
	for _, e := range d.Warnings {
		log.Warn(e.Error())
	}
	return serve(file, plan, app.Options{Log: log, Version: versionText(), HTTP: *addr})
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
func serve(file string, plan *app.Plan, o app.Options) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	a, err := app.New(plan, o)
	if err != nil {
		o.Log.Error("weir cannot be set up", "error", err)
		return exitFault
	}
	// Signals from here on are for us: one that arrives during the start is not lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Stop(signals)
	if err := a.Start(); err != nil {
		o.Log.Error("weir cannot start", "error", err)
		return exitFault
	}
	debug.FreeOSMemory() // what starting took is not needed again
	for {
		select {
		case <-a.Done():
			a.Stop(context.Background())
			return exitOK
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				reload(a, file, o.Log)
			case syscall.SIGUSR1:
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
func reload(a *app.App, file string, log *slog.Logger) {
	plan, d := app.Load(file, app.Env{}, false)
	for _, e := range d.Warnings {
		log.Warn(e.Error())
	}
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
