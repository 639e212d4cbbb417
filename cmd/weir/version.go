package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the Makefile at link time.
var version = ""

// versionText is the version as far as it is known: the release, or the commit.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "dev-" + s.Value[:12]
			}
		}
	}
	return "dev"
}

func runVersion(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir version", flag.ContinueOnError)
	fs.SetOutput(stderr)
	if code, ok := parse(fs, args, stdout, "weir version\n\nPrints version, Go version and platform.\n"); !ok {
		return code
	}
	fmt.Fprintf(stdout, "weir %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
