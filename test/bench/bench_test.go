package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/test/docker/player"
	"weir/test/docker/written"
	fc "weir/test/forwardclient"
)

// TestSinkCounts sends a body whose messages look like events themselves.
func TestSinkCounts(t *testing.T) {
	c := &counter{streams: map[string]struct{}{}, timed: true}
	body := `{"logGroupName":"g","logStreamName":"s","logEvents":[` +
		`{"timestamp":1,"message":"{\"timestamp\":5}"},{"timestamp":2,"message":"{\\\"timestamp\\\":5}"},{"timestamp":3,"message":"x"}]}`
	for _, op := range []string{"PutLogEvents", "PutLogEvents", "CreateLogStream"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("X-Amz-Target", "Logs_20140328."+op)
		c.ServeHTTP(httptest.NewRecorder(), r)
	}
	if c.t.Events != 6 || c.t.Puts != 2 || c.t.Other != 1 || len(c.streams) != 1 || len(c.delays) != 6 {
		t.Errorf("counted %+v, %d streams, %d delays", c.t, len(c.streams), len(c.delays))
	}
}

// TestCaseNames makes sure that a wrong name does not measure nothing.
func TestCaseNames(t *testing.T) {
	if _, err := selectCases("kubernetes,nonsense"); err == nil {
		t.Error("case nonsense was accepted")
	}
	if _, err := selectMeasures("nonsense"); err == nil {
		t.Error("measurement nonsense was accepted")
	}
	if got, err := selectCases("all"); err != nil || len(got) != len(cases()) {
		t.Errorf("%d cases, %v", len(got), err)
	}
}

// TestJobShares checks that what a job claims to send is what its payloads hold.
func TestJobShares(t *testing.T) {
	for _, c := range cases() {
		j := c.job
		j.defaults()
		p := j.payload(0)
		want := 1
		if j.Mode == fc.Message {
			want = j.PerMessage
		}
		if p.Events != j.PerMessage || p.Messages() != want || j.Window < p.Messages() {
			t.Errorf("%s: %d events in %d messages, window %d", c.name, p.Events, p.Messages(), j.Window)
		}
	}
}

// TestFrameBlock checks that frames with a changed time are those of that time.
func TestFrameBlock(t *testing.T) {
	b := newFrameBlock(dockerLine)
	for _, n := range []int{perBlock, 3} {
		at := time.Now().Add(time.Hour)
		var want []byte
		for i := range n {
			want = player.AppendFrame(want, player.Stdout, at.Add(time.Duration(i)), written.AppendLine(nil, "bench", i, dockerLine), nil)
		}
		if got := b.frames(n, at); !bytes.Equal(got, want) {
			t.Errorf("%d frames: %q, want %q", n, got, want)
		}
	}
}
