package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"weir/internal/app"
	"weir/internal/event"
)

// importLeft delivers what Fluentd left, or writes it to standard output; ok is false if
// some of it is left.
func (c *bufferCommand) importLeft() (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.grace)
	defer cancel()
	log := slog.New(slog.NewTextHandler(c.err, nil))
	var done app.Imported
	if c.config == "" {
		w := bufio.NewWriterSize(c.out, 1<<16)
		done, err = app.ImportTo(ctx, c.dir, log, func(tag string, b event.Batch) error {
			if err := writeLines(w, "", tag, b); err != nil {
				return err
			}
			return w.Flush()
		})
		fmt.Fprintf(c.err, "%s\n", sayImported(&done))
		return done.Left+done.Damaged == 0, err
	}
	plan, err := c.plan()
	if err != nil {
		return false, err
	}
	done, left, err := app.Import(ctx, plan, app.Options{Log: log}, c.dir, c.output)
	if err == nil {
		fmt.Fprintf(c.out, "%s; %d events are left in the buffer\n", sayImported(&done), left)
	}
	return left == 0 && done.Left+done.Damaged == 0, err
}

func sayImported(d *app.Imported) string {
	s := fmt.Sprintf("%d chunks with %d events were taken over", d.Chunks, d.Events)
	if d.Damaged > 0 {
		s += fmt.Sprintf(", %d of them damaged", d.Damaged)
	}
	if d.Left > 0 {
		s += fmt.Sprintf(", %d stay where they are", d.Left)
	}
	return s
}
