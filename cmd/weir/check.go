package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"weir/internal/app"
)

func runCheck(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var flags fluentFlags
	flags.register(fs)
	strict := fs.Bool("strict", false, "treat unknown parameters as errors")
	if code, ok := parse(fs, expand(fs, args), stdout, `weir check -c FILE

Reads a configuration file and reports every mistake at once, each with its place and
what to write instead, then shows where events go. It touches neither the network nor a
buffer. Exit code 1 if there are errors. The flags of weir run are accepted.
`); !ok {
		return code
	}
	if flags.file == "" && fs.NArg() == 1 {
		flags.file = fs.Arg(0)
	}
	if err := flags.finish(os.LookupEnv, os.Stdin); err != nil {
		fmt.Fprintln(stderr, "weir check:", err)
		return exitUsage
	}
	if flags.file == "" {
		fmt.Fprintln(stderr, "weir check: which file? Write: weir check -c FILE")
		return exitUsage
	}
	return check(flags.file, app.Env{Flags: flags.app}, *strict, stdout)
}

// check reads a configuration and writes what there is to say about it.
func check(file string, env app.Env, strict bool, stdout io.Writer) int {
	plan, d := app.Load(file, env, strict)
	for _, e := range d.Notes {
		fmt.Fprintf(stdout, "%v (note)\n", e)
	}
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
	if len(d.Warnings)+len(d.Notes) > 0 {
		fmt.Fprintln(stdout)
	}
	fmt.Fprintf(stdout, "%s is good. Routes:\n%s", file, plan.Summary())
	return exitOK
}
