package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/internal/app"
	"weir/internal/buffer"
	"weir/internal/event"
	"weir/internal/fluentbuffer"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

const bufferHelp = `weir buffer ls|verify|dump|drain|import [flags] DIR

Looks into the directory of a file buffer.

  ls      what is in it: segments, and events that wait; works while weir runs
  verify  the same, with every checksum verified; exit code 1 if anything is damaged
  dump    the events in its files as JSON lines, delivered ones that are still there
          included unless --pending, parked ones with the lane in which they wait; changes
          nothing
  drain   takes out the events that wait: with -c FILE they are delivered through the output
          of that configuration which has this buffer (or through --output ID), without it
          they are written as JSON lines to standard output. weir must not be running on it.
  import  DIR is what a file buffer of Fluentd has left: a directory, or a pattern with one *.
          With -c FILE its events are stored in the buffer of the output of that
          configuration which has this path (or of --output ID) and delivered, without it
          they are written as JSON lines. Chunks move to fluentd-imported, and are removed
          once delivered. Neither weir nor Fluentd may be running on it. Exit code 1 if
          anything is left.
`

func runBuffer(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, "Usage: ", bufferHelp)
		return exitUsage
	}
	verb := args[0]
	fs := flag.NewFlagSet("weir buffer "+verb, flag.ContinueOnError)
	fs.SetOutput(stderr)
	c := bufferCommand{out: stdout, err: stderr}
	switch verb {
	case "ls", "verify":
		fs.BoolVar(&c.json, "json", false, "write JSON")
	case "dump":
		fs.BoolVar(&c.pending, "pending", false, "leave out batches that have ended")
	case "drain", "import":
		fs.StringVar(&c.config, "c", "", "configuration `file` with the output to deliver through")
		fs.StringVar(&c.output, "output", "", "`id` of the output, if the directory is not its own buffer")
		fs.DurationVar(&c.grace, "for", 10*time.Minute, "give up after this long")
	case "-h", "--help", "-help":
		fmt.Fprint(stdout, "Usage: ", bufferHelp)
		return exitOK
	default:
		fmt.Fprintf(stderr, "weir buffer: there is no %q\n\nUsage: %s", verb, bufferHelp)
		return exitUsage
	}
	if code, ok := parse(fs, args[1:], stdout, bufferHelp); !ok {
		return code
	}
	if fs.NArg() != 1 {
		fmt.Fprintf(stderr, "weir buffer %s: which directory? Write: weir buffer %s DIR\n", verb, verb)
		return exitUsage
	}
	c.dir = fs.Arg(0)
	var err error
	ok := true
	switch err = c.check(verb); {
	case err != nil:
	case verb == "dump":
		err = c.dump()
	case verb == "drain":
		ok, err = c.drain()
	case verb == "import":
		ok, err = c.importLeft()
	default:
		ok, err = c.inspect(verb == "verify")
	}
	if err != nil {
		fmt.Fprintf(stderr, "weir buffer %s: %v\n", verb, err)
	}
	if err != nil || !ok {
		return exitFault
	}
	return exitOK
}

type bufferCommand struct {
	out, err       io.Writer
	dir            string
	json, pending  bool
	config, output string
	grace          time.Duration
}

// check refuses a directory that is no buffer: drain would make one of it.
func (c *bufferCommand) check(verb string) error {
	entries, err := os.ReadDir(c.dir)
	if verb == "import" || verb == "ls" && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return fluentbuffer.IsFile(e.Name()) }) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(app.Buffers(c.dir)) == 0 {
		return fmt.Errorf("%s is not the directory of a buffer: it has neither a checkpoint nor segments", c.dir)
	}
	return nil
}

// inspect lists the directory; ok is false if something is damaged.
func (c *bufferCommand) inspect(payloads bool) (ok bool, err error) {
	info, err := buffer.Inspect(vfs.OS{}, c.dir, payloads)
	if err != nil {
		return false, err
	}
	if c.json {
		enc := json.NewEncoder(c.out)
		enc.SetIndent("", "  ")
		return len(info.Problems) == 0, enc.Encode(info)
	}
	var bytes int64
	for _, s := range info.Segments {
		bytes += s.Bytes
		fmt.Fprintf(c.out, "%s  %9d bytes  %5d frames  %7d batches  %8d events  accepted %s\n", s.Name, s.Bytes, s.Frames, s.Batches, s.Events,
			s.Accepted.Local().Format("2006-01-02 15:04:05"))
		if s.Unfinished > 0 {
			fmt.Fprintf(c.out, "  %d bytes behind the last whole frame: a write under way, or one cut off by a crash\n", s.Unfinished)
		}
	}
	fmt.Fprintf(c.out, "%d segments, %d bytes, %d events wait (batches %d to %d)\n", len(info.Segments), bytes, info.Pending, info.Mark+1, info.Stored)
	s := info.Sheet
	var dropped, rejected uint64
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		dropped += s.Dropped[r]
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		rejected += s.Rejected[r]
	}
	fmt.Fprintf(c.out, "ended so far: delivered %d, dropped %d, rejected %d, parked %d\n", s.Delivered, dropped, rejected, s.Moved)
	for _, p := range info.Problems {
		fmt.Fprintln(c.out, "damaged:", p)
	}
	if info.Aside > 0 {
		fmt.Fprintf(c.out, "%d damaged pieces are kept aside in *.damaged files\n", info.Aside)
	}
	lot, backlog, fluentd := false, false, 0
	for _, u := range info.Unknown {
		if u == app.ParkedDir {
			lot = true
			continue
		}
		backlog = backlog || u == app.BacklogDir
		if fluentbuffer.IsFile(u) {
			fluentd++
		}
		if !app.Beside(u) {
			fmt.Fprintln(c.out, "not a file of the buffer:", u)
		}
	}
	if fluentd > 0 {
		fmt.Fprintf(c.out, "%d files are of a buffer that Fluentd left: weir run takes them over, or weir buffer import\n", fluentd)
	}
	if payloads && len(info.Problems) == 0 {
		fmt.Fprintln(c.out, "every checksum is right")
	}
	ok = len(info.Problems) == 0
	innerOK, err := c.inspectInner(payloads, lot, backlog)
	return ok && innerOK, err
}

// inspectInner lists the buffers that are within that of an output.
func (c *bufferCommand) inspectInner(payloads, lot, backlog bool) (ok bool, err error) {
	ok = true
	for _, inner := range []struct {
		there       bool
		name, title string
	}{{lot, app.ParkedDir, "parked (streams that have failed for long)"}, {backlog, app.BacklogDir, "backlog (of drain_order live_first)"}} {
		if !inner.there {
			continue
		}
		fmt.Fprintf(c.out, "\n%s:\n", inner.title)
		in := *c
		in.dir = filepath.Join(c.dir, inner.name)
		innerOK, err := in.inspect(payloads)
		if err != nil {
			return false, err
		}
		ok = ok && innerOK
	}
	return ok, nil
}

// dump writes events as JSON lines.
func (c *bufferCommand) dump() error {
	w := bufio.NewWriterSize(c.out, 1<<16)
	var err error
	for _, dir := range app.Buffers(c.dir) {
		err = errors.Join(err, c.dumpOne(w, dir))
	}
	return errors.Join(err, w.Flush())
}

func (c *bufferCommand) dumpOne(w io.Writer, dir string) error {
	from := buffer.Seq(0)
	if c.pending {
		info, err := buffer.Inspect(vfs.OS{}, dir, false)
		if err != nil {
			return err
		}
		from = info.Mark + 1
	}
	return buffer.Dump(vfs.OS{}, dir, from, func(_ buffer.Seq, b event.Batch) error { return writeLines(w, dir, b.Tag, b) })
}

// writeLines writes each event of the buffer in dir as {"tag":…,"time":…,"record":…}. In a
// parking lot the tag may not be kept, and "lane" says where the event was to go.
func writeLines(w io.Writer, dir, tag string, b event.Batch) error {
	var line []byte
	lane := ""
	if filepath.Base(dir) == app.ParkedDir {
		lane, tag = app.ParkedTag(tag)
	}
	for rest := b.Entries; len(rest) > 0; {
		e, n, err := event.Next(rest)
		if err != nil {
			return fmt.Errorf("read an event of tag %q: %w", tag, err)
		}
		rest = rest[n:]
		line = append(line[:0], `{"tag":`...)
		line = event.AppendJSON(line, event.AppendStr(nil, tag), event.Yajl)
		if lane != "" {
			line = append(line, `,"lane":`...)
			line = event.AppendJSON(line, event.AppendStr(nil, strings.ReplaceAll(lane, "\x00", " ")), event.Yajl)
		}
		line = append(line, `,"time":"`...)
		line = e.Time.Time().AppendFormat(line, time.RFC3339Nano)
		line = append(line, `","record":`...)
		line = event.AppendJSON(line, e.Record, event.Yajl)
		line = append(line, '}', '\n')
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

// drain delivers what waits, or writes it to standard output; ok is false if some is left.
func (c *bufferCommand) drain() (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.grace)
	defer cancel()
	log := slog.New(slog.NewTextHandler(c.err, nil))
	if c.config == "" {
		for _, dir := range app.Buffers(c.dir) {
			if err := c.drainToStdout(ctx, log, dir); err != nil {
				return true, err
			}
		}
		return true, nil
	}
	plan, err := c.plan()
	if err != nil {
		return false, err
	}
	left, err := app.Drain(ctx, plan, app.Options{Log: log}, c.dir, c.output)
	if err == nil {
		fmt.Fprintf(c.out, "%d events are left\n", left)
	}
	return left == 0, err
}

func (c *bufferCommand) plan() (*app.Plan, error) {
	plan, d := app.Load(c.config, app.Env{Fetch: app.Fetch, Flags: app.Flags{IncludeDir: includeDir(os.LookupEnv)}}, false)
	for _, e := range d.Errors {
		fmt.Fprintln(c.err, e)
	}
	if len(d.Errors) > 0 {
		return nil, fmt.Errorf("%s has %d error(s)", c.config, len(d.Errors))
	}
	return plan, nil
}

func (c *bufferCommand) drainToStdout(ctx context.Context, log *slog.Logger, dir string) (err error) {
	b, err := buffer.Open(buffer.Options{FS: vfs.OS{}, Dir: dir, Book: &ledger.Book{}, Log: log, Limit: 1 << 40, Beside: app.Beside})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := b.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	if err := b.Seal(ctx); err != nil {
		return err
	}
	// Each batch is flushed before it is settled: what was not written is not taken out.
	w := bufio.NewWriterSize(c.out, 1<<16)
	return app.EachPending(ctx, b, func(tag string, b event.Batch) error {
		if err := writeLines(w, dir, tag, b); err != nil {
			return err
		}
		return w.Flush()
	}, ledger.Fate{Class: ledger.Delivered})
}
