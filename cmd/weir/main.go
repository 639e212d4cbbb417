// Command weir carries logs to AWS CloudWatch Logs and accounts for every event.
package main

import (
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // timekey_zone takes Region/City names, also where no zone files are installed
)

// Exit codes of every sub-command.
const (
	exitOK    = 0
	exitFault = 1 // it did not work
	exitUsage = 2 // the command line was wrong
)

// command is one sub-command. It parses its own flags out of args.
type command struct {
	name, summary string
	run           func(args []string, stdout, stderr io.Writer) int
}

// commands lists them in the order of the help text.
func commands() []command {
	return []command{
		{"run", "run a configuration file", runRun},
		{"check", "check a configuration file and show its routes", runCheck},
		{"docker-plugin", "serve Docker's logging driver", runDockerPlugin},
		{"demo", "show the whole path on this machine, without configuration or AWS", runDemo},
		{"emulate", "serve a local CloudWatch Logs endpoint", runEmulate},
		{"buffer", "look into a buffer directory: ls, verify, dump, drain, import", runBuffer},
		{"version", "print the version", runVersion},
	}
}

func main() { os.Exit(dispatch(os.Args[1:], os.Stdout, os.Stderr)) }

func dispatch(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	switch args[0] {
	case "-h", "--help", "-help", "help":
		if len(args) > 1 {
			return dispatch([]string{args[1], "-h"}, stdout, stderr)
		}
		usage(stdout)
		return exitOK
	case "-v", "--version", "-version":
		return runVersion(nil, stdout, stderr)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "weir: there is no command %q\n\n", args[0])
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, `weir carries logs to AWS CloudWatch Logs, keeps their order, survives outages and
crashes, and accounts for every event.

Usage: weir COMMAND [flags]

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-13s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
"weir COMMAND -h" tells the flags of a command. Begin with "weir demo".
`)
}
