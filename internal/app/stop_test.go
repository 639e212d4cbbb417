package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// TestStopWithADiskThatFails: a buffer that cannot store its last events does not keep weir
// from ending when the grace is over, and the log does not say that they are there.
func TestStopWithADiskThatFails(t *testing.T) {
	s := cloud(t)
	dir := filepath.Join(t.TempDir(), "buf")
	r := start(t, strings.Replace(forwardIn, "shutdown_grace 5s", "shutdown_grace 0.3", 1)+cloudMatch(s.URL(), dir, ""))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	sn, err := dial(r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer sn.c.Close()
	m := msgp.AppendArrayHeader(nil, 3)
	m = msgp.AppendString(m, "app")
	m = msgp.AppendInt(m, 1)
	m = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(m, 1), "message"), "x")
	if _, err := sn.c.Write(m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the buffer cannot write", func() bool { return strings.Contains(r.log.String(), "buffer cannot write") })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.stop(time.Minute)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("weir has not ended, with a grace of 300 ms")
	}
	log := r.log.String()
	if !strings.Contains(log, "store the last 1 events") || strings.Contains(log, "they wait in") || strings.Contains(log, "everything was delivered") {
		t.Errorf("the log says\n%s", log)
	}
}
