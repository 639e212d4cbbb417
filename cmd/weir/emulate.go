package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"weir/internal/emulator"
)

const emulateHelp = `weir emulate [flags]

Serves a CloudWatch Logs endpoint on this machine: the real limits and errors, and a
page to read the logs on. Clients need any credentials and this endpoint:

  export AWS_ENDPOINT_URL_CLOUDWATCH_LOGS=http://127.0.0.1:4586
  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
  aws logs describe-log-groups

Open the same address in a browser for the page. Everything is in memory unless --dir
is given. docs/emulator.md describes fault scripts and the differences from the service.
`

// runEmulate serves the local endpoint until SIGINT or SIGTERM.
func runEmulate(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("weir emulate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var (
		opt       emulator.Options
		addr      = fs.String("addr", "127.0.0.1:4586", "`address` to listen on; port 0 takes any free one")
		faults    = fs.String("faults", "", "`file` with a fault script (JSON); it can also be set later: POST /_weir/faults")
		useTLS    = fs.Bool("tls", false, "speak TLS with a certificate made at start")
		certFile  = fs.String("tls-cert-out", "", "with --tls: write the certificate (PEM) to this `file`, for AWS_CA_BUNDLE")
		maxMiB    = fs.Int64("max-memory", 512, "memory for events in `MiB`; beyond it the oldest are forgotten")
		secret    = fs.String("secret", "", "verify signatures made with access key AWS_ACCESS_KEY_ID and this `secret` (- takes AWS_SECRET_ACCESS_KEY)")
		logFormat = fs.String("log-format", "text", "text or json")
		logLevel  = fs.String("log-level", "info", "debug, info, warn or error")
	)
	fs.StringVar(&opt.Dir, "dir", "", "keep groups, streams and events in this `directory`; they survive a restart")
	fs.BoolVar(&opt.StrictTokens, "strict-tokens", false, "enforce sequence tokens as the service did before 2023")
	fs.BoolVar(&opt.Quotas, "quotas", false, "enforce the default request rates of an account (ThrottlingException)")
	fs.BoolVar(&opt.Discard, "discard", false, "count events but keep none, for benchmarks")
	if code, ok := parse(fs, args, stdout, emulateHelp); !ok {
		return code
	}
	usage := func(format string, a ...any) int {
		fmt.Fprintf(stderr, "weir emulate: "+format+"\nTry \"weir emulate -h\".\n", a...)
		return exitUsage
	}
	log, err := newLogger(stderr, *logFormat, *logLevel)
	switch {
	case err != nil:
		return usage("%v", err)
	case fs.NArg() > 0:
		return usage("%q is not a flag; flags begin with --", fs.Arg(0))
	case opt.Discard && opt.Dir != "":
		return usage("--discard keeps no events and --dir keeps them: take one of the two")
	case *maxMiB <= 0:
		return usage("--max-memory must be at least 1")
	case *certFile != "" && !*useTLS:
		return usage("--tls-cert-out needs --tls")
	}
	opt.Log, opt.MaxBytes = log, *maxMiB<<20
	if *secret == "-" {
		*secret = os.Getenv("AWS_SECRET_ACCESS_KEY")
	}
	if *secret != "" {
		key := os.Getenv("AWS_ACCESS_KEY_ID")
		if key == "" {
			return usage("--secret needs the access key in AWS_ACCESS_KEY_ID")
		}
		opt.Secrets = map[string]string{key: *secret}
	}
	if opt.Faults, err = readFaults(*faults); err != nil {
		fmt.Fprintf(stderr, "weir emulate: %v\n", err)
		return exitFault
	}
	cert, err := emulateCert(*useTLS, *addr, *certFile)
	if err != nil {
		fmt.Fprintf(stderr, "weir emulate: %v\n", err)
		return exitFault
	}
	return serveEmulator(opt, *addr, cert, stdout, stderr, log)
}

// serveEmulator runs until a signal; a second signal ends it at once.
func serveEmulator(opt emulator.Options, addr string, cert *tls.Certificate, stdout, stderr io.Writer, log *slog.Logger) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := emulator.New(opt)
	if err == nil {
		if err = s.Listen(addr, cert); err != nil {
			_ = s.Close() // the first error counts
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "weir emulate: %v\n", err)
		return exitFault
	}
	where := "in memory"
	if opt.Dir != "" {
		where = "in " + opt.Dir
	}
	if opt.Discard {
		where = "nowhere: --discard"
	}
	fmt.Fprintf(stdout, "CloudWatch Logs endpoint and page: %s (events are kept %s)\n", s.URL(), where)
	<-ctx.Done()
	stop()
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		log.Error("stopping the endpoint", "err", err)
		return exitFault
	}
	st := s.Stats()
	fmt.Fprintf(stdout, "stopped; %d events accepted since the start\n", st.Events)
	return exitOK
}

func readFaults(file string) (*emulator.FaultScript, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the fault script: %w", err)
	}
	defer f.Close()
	script, err := emulator.ParseFaults(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return script, nil
}

// emulateCert makes a certificate for the address when TLS is wanted.
func emulateCert(on bool, addr, file string) (*tls.Certificate, error) {
	if !on {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reading the address: %w", err)
	}
	cert, pem, err := emulator.SelfSigned(host)
	if err != nil {
		return nil, err
	}
	if file != "" {
		if err := os.WriteFile(file, pem, 0o644); err != nil {
			return nil, fmt.Errorf("writing the certificate: %w", err)
		}
	}
	return cert, nil
}
