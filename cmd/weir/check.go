package main

import (
	"flag"
	"fmt"
	"io"

	"weir/internal/app"
)

func runCheck(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var file string
	fs.StringVar(&file, "c", "", "configuration `file`")
	fs.StringVar(&file, "config", "", "the same as -c")
	strict := fs.Bool("strict", false, "treat unknown parameters as errors")
	if code, ok := parse(fs, args, stdout, `weir check -c FILE

Reads a configuration file and reports every mistake at once, each with its place and
what to write instead, then shows where events go. It touches neither the network nor a
buffer. Exit code 1 if there are errors.
`); !ok {
		return code
	}
	if file == "" && fs.NArg() == 1 {
		file = fs.Arg(0)
	}
	if file == "" {
		fmt.Fprintln(stderr, "weir check: which file? Write: weir check -c FILE")
		return exitUsage
	}
	plan, d := app.Load(file, app.Env{}, *strict)
	for _, e := range d.Warnings {
		fmt.Fprintf(stdout, "%v (warning)\n", e)
	}
	for _, e := range d.Errors {
		fmt.Fprintf(stdout, "%v\n", e)
	}
	if len(d.Errors) > 0 {
		fmt.Fprintf(stdout, "\n%s: %d error(s), %d warning(s)\n", file, len(d.Errors), len(d.Warnings))
		return exitFault
	}
	if len(d.Warnings) > 0 {
		fmt.Fprintln(stdout)
	}
	fmt.Fprintf(stdout, "%s is good. Routes:\n%s", file, plan.Summary())
	return exitOK
}
