package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// load is several senders, each with a tag, thus a stream, of its own.
type load []*weirtest.Sender

// newLoad makes n senders with tags such as "prefix.3".
func newLoad(w *weirtest.Weir, prefix string, n, events int) load {
	var l load
	for i := range n {
		l = append(l, &weirtest.Sender{Addr: w.Addr(), Tag: fmt.Sprintf("%s.%d", prefix, i), Mode: forwardclient.Packed,
			Events: events, Window: 16, First: uint64(i+1) * 10_000_000})
	}
	return l
}

// sendAll sends messages with every sender at once and waits for all acknowledgements.
func (l load) sendAll(t *testing.T, messages int) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range l {
		wg.Go(func() { s.SendAll(t, messages) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (l load) close() {
	for _, s := range l {
		s.Close()
	}
}

// events is how many were sent by all.
func (l load) events() int {
	n := 0
	for _, s := range l {
		n += len(s.IDs())
	}
	return n
}

// exactly checks every stream: what was sent, in order, once.
func (l load) exactly(t *testing.T, e *emulator.Server, group string) {
	t.Helper()
	for _, s := range l {
		weirtest.Exactly(t, e, weirtest.Target{Group: group, Stream: s.Tag}, s.IDs())
	}
}

// removeLine takes one line out of a configuration.
func removeLine(config, line string) string {
	return strings.Replace(config, line+"\n", "\n", 1)
}
