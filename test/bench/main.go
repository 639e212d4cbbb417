// Command bench measures weir from end to end and prints a table. Client, weir and the
// service are three processes: this program starts itself again as the client and as a
// TLS endpoint that only counts, and runs weir as it runs in production, from a
// configuration file with a file buffer on a real directory.
//
// The figure that can be compared between machines and on shared cores is records per CPU
// second of the weir process. docs/performance.md explains the cases and the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	weir     string
	fluent   string
	cases    string
	measures string
	runs     int
	events   int
	seconds  float64
	dir      string
	profile  string
	streams  int
	outage   time.Duration
	keep     bool
	docker   string
	lines    int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sink" {
		exit(runSink(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "pipes" {
		exit(runPipes(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "client" {
		exit(runClient(os.Stdin, os.Stdout))
	}
	var o options
	flag.StringVar(&o.weir, "weir", "build/weir", "weir `binaries`, comma-separated: several are measured in turn, to compare before and after in one run")
	flag.StringVar(&o.fluent, "fluent-bit", "auto", "fluent-bit `binary` to measure beside weir; auto takes the one on the PATH, off none")
	flag.StringVar(&o.cases, "case", "all", "cases by `name`, comma-separated, or all, or none: "+caseNames())
	flag.StringVar(&o.measures, "also", "", "further `measurements`, comma-separated, or all: "+measureNames())
	flag.IntVar(&o.runs, "runs", 5, "runs of each case; the table has the medians")
	flag.IntVar(&o.events, "events", 0, "events a run; 0: about --seconds long")
	flag.Float64Var(&o.seconds, "seconds", 5, "about how many CPU seconds a run takes")
	flag.StringVar(&o.dir, "dir", "", "`directory` for buffers and profiles, on a real disk (default: a temporary one)")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of each case to this `directory`; weir is built with a profiler then")
	flag.IntVar(&o.streams, "streams", 10_000, "streams of the measurement \"streams\"")
	flag.DurationVar(&o.outage, "outage", 10*time.Minute, "how long the endpoint is down in the measurement \"outage\"")
	flag.BoolVar(&o.keep, "keep", false, "keep logs and configurations of the runs")
	flag.StringVar(&o.docker, "docker", "all", "Docker driver: `parts`, comma-separated, or all, or none: "+strings.Join(dockerParts(), ", "))
	flag.IntVar(&o.lines, "lines", 2_000_000, "lines of a run of the Docker driver; a real engine gets a quarter")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, &o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run does what the command line asks for.
func run(ctx context.Context, o *options) error {
	cases, err := selectCases(o.cases)
	if err != nil {
		return err
	}
	also, err := selectMeasures(o.measures)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
			return err
		}
		if !o.keep {
			defer os.RemoveAll(o.dir)
		}
	} else if err = os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	subjects, err := o.subjects(ctx)
	if err != nil {
		return err
	}
	sink, err := startSink(ctx, o.dir)
	if err != nil {
		return err
	}
	defer sink.stop()
	b := &bench{o: o, sink: sink}
	fmt.Printf("machine: %s; %s\n", machine(), time.Now().UTC().Format("2006-01-02 15:04 MST"))
	for _, s := range subjects {
		fmt.Printf("subject: %s\n", s.version)
	}
	fmt.Println()
	if err := b.table(ctx, cases, subjects); err != nil {
		return err
	}
	if err := b.docker(ctx, subjects); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	for _, m := range also {
		for _, s := range subjects {
			if s.fluent && !m.fluent {
				continue
			}
			fmt.Printf("%-10s %-12s ", m.name, s.name)
			text, err := m.run(ctx, b, s)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			fmt.Println(text)
		}
	}
	return nil
}

// subjects are the programs to measure.
func (o *options) subjects(ctx context.Context) ([]*subject, error) {
	var all []*subject
	for i, path := range strings.Split(o.weir, ",") {
		s := &subject{path: path, name: "weir"}
		if i > 0 {
			s.name = fmt.Sprintf("weir(%d)", i+1)
		}
		if o.profile != "" && i == 0 {
			if err := os.MkdirAll(o.profile, 0o700); err != nil {
				return nil, err
			}
			s.path = filepath.Join(o.dir, "weir-profiled")
			if err := buildProfiled(ctx, o.dir, s.path); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	if path := findFluentBit(o.fluent); path != "" {
		all = append(all, &subject{path: path, name: "fluent-bit", fluent: true})
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.readVersion(ctx))
	}
	return all, errors.Join(errs...)
}
