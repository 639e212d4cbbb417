package app

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrowd: what many containers say at once is one line, and another that counts them.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logs{}
		c := newCrowd(slog.NewTextHandler(out, nil))
		log := slog.New(c)
		take := func() string {
			s := out.String()
			*out = logs{}
			return s
		}
		for range 5 {
			log.With("container", "a").Error("fails")
		}
		log.Info("other")
		log.Debug("never")
		if s := take(); strings.Count(s, "msg=fails") != 1 || !strings.Contains(s, "msg=other") || strings.Contains(s, "never") {
			t.Error(s)
		}
		c.flush(false)
		if s := take(); s != "" {
			t.Error("too early: ", s)
		}
		time.Sleep(crowdEvery)
		c.flush(false)
		if s := take(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "text=fails times=4") {
			t.Error(s)
		}
		log.Error("fails")
		log.Error("fails")
		c.flush(true)
		if s := take(); strings.Count(s, "msg=fails") != 1 || !strings.Contains(s, "times=1") {
			t.Error(s)
		}
	})
}
