package e2e

import (
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// TestNoExpressionStallsAConnection has a regular expression that explodes on most of the
// messages and a Ruby expression that runs into its bounds on all: their connections go on,
// slowly, and a neighbour notices nothing. With the limit of a single match for each
// event, five messages would take minutes.
func TestNoExpressionStallsAConnection(t *testing.T) {
	t.Parallel()
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{More: `
<filter regexp.**>
  @type grep
  <exclude>
    key log
    pattern /^(?:(\S+)\s?)+\1!$/
  </exclude>
</filter>
<filter ruby.**>
  @type record_transformer
  enable_ruby true
  on_error pass
  <record>
    deep ${x = record["log"] * 1000; x.chars.map { |c| x.chars.map { |d| c + d }.join }.join.length}
  </record>
</filter>
`}.String())
	const messages, events = 5, 1000
	for _, tag := range []string{"regexp.a", "ruby.a"} {
		slow := &weirtest.Sender{Addr: w.Addr(), Tag: tag, Mode: forwardclient.Packed, Events: events, Window: 4}
		defer slow.Close()
		start := time.Now()
		sent := slow.Background(t, messages)
		good := &weirtest.Sender{Addr: w.Addr(), Tag: "good." + tag, Mode: forwardclient.Packed, Events: 20, Window: 1}
		defer good.Close()
		good.SendAll(t, 20)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: twenty messages of a neighbour took %v", tag, took)
		}
		<-sent
		t.Logf("%s: %d events took %v", tag, messages*events, time.Since(start).Round(time.Millisecond))
		if took := time.Since(start); took > weirtest.Patience {
			t.Errorf("%s: %d events took %v", tag, messages*events, took)
		}
		w.Drained()
		weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: "good." + tag}, good.IDs())
		weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: tag}, slow.IDs())
	}
}
