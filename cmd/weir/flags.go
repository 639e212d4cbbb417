package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// parse parses a sub-command's flags. ok is false when the command ends here: after -h, or
// because the command line is wrong; code is the exit code then.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer, help string) (code int, ok bool) {
	errOut := fs.Output()
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case err == nil:
		return exitOK, true
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, "Usage: ", help)
		fs.SetOutput(stdout)
		any := false
		fs.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprint(stdout, "\nFlags:\n")
			fs.PrintDefaults()
		}
		return exitOK, false
	}
	fmt.Fprintf(errOut, "%s: %v\nTry \"%s -h\".\n", fs.Name(), err, fs.Name())
	return exitUsage, false
}

// newLogger makes weir's own log on w. level is a name that slog knows, or one of
// Fluentd's: trace, fatal.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	switch level {
	case "trace":
		l = slog.LevelDebug - 4
	case "fatal":
		l = slog.LevelError + 4
	default:
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("log level %q does not exist: write trace, debug, info, warn or error", level)
		}
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("log format %q does not exist: write text or json", format)
}

// isTerminal says whether f is a terminal rather than a file, a pipe or the null device.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(st, null)
}
