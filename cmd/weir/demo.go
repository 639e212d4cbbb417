package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"weir/internal/app"
	"weir/internal/emulator"
	"weir/internal/ledger"
)

// demoConfig is what the demo runs: the parts of a real configuration.
const demoConfig = `<source>
  @type stdin
  tag demo
  <parse>
    @type %s
  </parse>
</source>
<match **>
  @type cloudwatch_logs
  @id demo
  region us-east-1
  endpoint %s
  aws_key_id demo
  aws_sec_key demo
  log_group_name /weir/demo
  log_stream_name %s
  fallback_log_stream_name other
  auto_create_stream true
  <buffer>
    @type file
    path %s
    total_limit_size 256m
    min_free_space 0
    flush_interval 0.2
    flush_thread_count 4
    overflow_action block
  </buffer>
</match>
`

func runDemo(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir demo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	d := demo{out: stdout}
	fs.DurationVar(&d.lasts, "for", 10*time.Second, "how long the sample runs")
	fs.IntVar(&d.events, "events", 0, "end the sample after this `number` of events instead; it runs as fast as it can")
	rate := fs.Int("rate", 2000, "events a second of the sample")
	if code, ok := parse(fs, args, stdout, `weir demo [--for 10s] [--events N]

Shows the whole path in one process, without configuration, AWS account, network or root:
a source, a file buffer in a temporary directory, and a local CloudWatch Logs endpoint with
a page to read the logs on. Lines come from standard input if something is piped into it,
else from a lively sample. At the end it prints the balance. At a terminal the page stays
until Ctrl-C.
`); !ok {
		return code
	}
	if fs.NArg() > 0 || *rate <= 0 || d.lasts <= 0 || d.events < 0 {
		fmt.Fprintln(stderr, "weir demo: it takes no arguments, and numbers above 0; try \"weir demo -h\"")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	balanced, err := d.run(ctx, os.Stdin, *rate)
	if err != nil {
		fmt.Fprintln(stderr, "weir demo:", err)
		return exitFault
	}
	if !balanced {
		return exitFault
	}
	return exitOK
}

type demo struct {
	out    io.Writer
	lasts  time.Duration
	events int
	app    *app.App
}

// run shows the path until the sample or ctx ends, and says whether every event arrived.
func (d *demo) run(ctx context.Context, stdin *os.File, rate int) (balanced bool, err error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return false, fmt.Errorf("make a directory for the buffer: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	endpoint, err := demoEndpoint()
	if err != nil {
		return false, err
	}
	defer endpoint.Close()

	piped := !isTerminal(stdin)
	if st, serr := stdin.Stat(); serr == nil && st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 && !st.Mode().IsRegular() {
		piped = false // /dev/null and the like
	}
	var in io.Reader = newSample(ctx, d.lasts, d.events, rate)
	parser, stream := "json", "${service}"
	if piped {
		in, parser, stream = untilDone(ctx, stdin), "none", "lines"
	}
	config := fmt.Sprintf(demoConfig, parser, endpoint.URL(), stream, filepath.Join(dir, "buffer"))
	if err := d.start(config, in); err != nil {
		return false, err
	}
	fmt.Fprintf(d.out, "logs   %s\nstatus %s\n\n", endpoint.URL(), d.app.StatusURL())
	d.watch(ctx)
	d.app.Stop(context.Background())
	balanced = d.balance(endpoint)
	if isTerminal(os.Stdin) && ctx.Err() == nil {
		fmt.Fprintf(d.out, "\nThe logs stay on %s until Ctrl-C.\n", endpoint.URL())
		<-ctx.Done()
	}
	return balanced, nil
}

// demoEndpoint starts the local endpoint at its usual address, or anywhere if that is taken.
func demoEndpoint() (*emulator.Server, error) {
	s, err := emulator.New(emulator.Options{})
	if err != nil {
		return nil, fmt.Errorf("start the local endpoint: %w", err)
	}
	if s.Listen("127.0.0.1:4586", nil) == nil {
		return s, nil
	}
	if s, err = emulator.New(emulator.Options{}); err == nil {
		err = s.Listen("127.0.0.1:0", nil)
	}
	if err != nil {
		return nil, fmt.Errorf("start the local endpoint: %w", err)
	}
	return s, nil
}

func (d *demo) start(config string, in io.Reader) error {
	env := app.Env{ReadFile: func(string) ([]byte, error) { return []byte(config), nil }}
	plan, diag := app.Load("demo.conf", env, true)
	if len(diag.Errors) > 0 {
		return fmt.Errorf("the built-in configuration: %w", diag.Errors[0])
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a, err := app.New(plan, app.Options{Log: log, Version: versionText(), HTTP: "127.0.0.1:0", Stdin: in})
	if err != nil {
		return err
	}
	d.app = a
	return a.Start()
}

// watch prints the live line until the input ends or ctx does.
func (d *demo) watch(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	live := false
	if f, ok := d.out.(*os.File); ok {
		live = isTerminal(f)
	}
	var last uint64
	at := time.Now()
	for n := 1; ; n++ {
		end := false
		select {
		case <-tick.C:
		case <-ctx.Done():
			end = true
		case <-d.app.Done():
			end = true
		}
		s := d.app.Totals()
		rate := float64(s.Admitted-last) / max(time.Since(at).Seconds(), 0.001)
		last, at = s.Admitted, time.Now()
		line := fmt.Sprintf("in %d  delivered %d  pending %d  %.0f/s", s.Admitted, s.Delivered, s.Pending(), rate)
		switch {
		case live:
			fmt.Fprintf(d.out, "\r\033[K%s", line)
		case n%4 == 0 || end:
			fmt.Fprintln(d.out, line)
		}
		if end {
			if live {
				fmt.Fprintln(d.out)
			}
			return
		}
	}
}

// balance prints the books beside what the endpoint has.
func (d *demo) balance(endpoint *emulator.Server) bool {
	s := d.app.Totals()
	stored := int64(0)
	for _, g := range endpoint.Groups() {
		stored += g.Events
	}
	var dropped, rejected uint64
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		dropped += s.Dropped[r]
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		rejected += s.Rejected[r]
	}
	fmt.Fprintf(d.out, `
balance
  admitted   %d
  delivered  %d   (the endpoint has %d)
  filtered   %d
  dropped    %d
  rejected   %d
  pending    %d
`, s.Admitted, s.Delivered, stored, s.Filtered, dropped, rejected, s.Pending())
	ok := s.Pending() == 0 && uint64(stored) == s.Delivered && s.Admitted == s.Ended()
	if ok {
		fmt.Fprintln(d.out, "  the books balance, every event is accounted for")
	} else {
		fmt.Fprintln(d.out, "  THE BOOKS DO NOT BALANCE")
	}
	return ok
}
