package weirtest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"weir/internal/emulator"
	"weir/test/forwardclient"

	"github.com/tinylib/msgp/msgp"
)

// Record makes records {"log": "id=000000000042 …"} whose message, with message_keys log,
// is Message(id).
func Record(dst []byte, id uint64) ([]byte, int) {
	dst = msgp.AppendMapHeader(dst, 2)
	dst = msgp.AppendString(msgp.AppendString(dst, "host"), "node-1")
	dst = msgp.AppendString(dst, "log")
	m := Message(id)
	dst = msgp.AppendString(dst, m)
	return dst, len(dst) - len(m) + len("id=")
}

// Message is the message of the event with this id. Its text depends on the id, so that a
// mixed-up message is noticed.
func Message(id uint64) string {
	return fmt.Sprintf("id=%012d café %s", id, strings.Repeat("=", int(id*7919%97)))
}

// ID reads the id out of a message and checks that the message is whole.
func ID(message string) (uint64, error) {
	const n = len("id=") + forwardclient.IDLen
	if len(message) < n || !strings.HasPrefix(message, "id=") {
		return 0, fmt.Errorf("%q is no message of the test", message)
	}
	id, err := strconv.ParseUint(message[3:n], 10, 64)
	if err != nil || message != Message(id) {
		return 0, fmt.Errorf("message %q is not what was sent", message)
	}
	return id, nil
}

// Target is a log group and a log stream.
type Target struct{ Group, Stream string }

func (t Target) String() string { return t.Group + " " + t.Stream }

// Arrived is what the endpoint has accepted for one stream.
type Arrived struct {
	Order   []uint64       // ids by their first arrival
	Times   map[uint64]int // how often each arrived
	Repeats int            // events beyond the first of their id
}

// Arrivals reads a stream at the endpoint. A message that was not sent fails the test.
func Arrivals(t testing.TB, e *emulator.Server, to Target) *Arrived {
	t.Helper()
	a := &Arrived{Times: map[uint64]int{}}
	bad := 0
	e.Walk(to.Group, to.Stream, func(ev emulator.Event) bool {
		id, err := ID(ev.Message)
		if err != nil {
			if bad++; bad <= 5 {
				t.Errorf("stream %s: %v", to, err)
			}
			return true
		}
		if a.Times[id]++; a.Times[id] == 1 {
			a.Order = append(a.Order, id)
		} else {
			a.Repeats++
		}
		return true
	})
	return a
}

// Compare checks a stream: exactly the ids sent, the first arrivals in the order sent. The
// repeats are returned, since only the test knows how many there may be.
func Compare(t testing.TB, e *emulator.Server, to Target, sent []uint64) (repeats int) {
	t.Helper()
	a := Arrivals(t, e, to)
	want := make(map[uint64]bool, len(sent))
	missing := 0
	for _, id := range sent {
		want[id] = true
		if a.Times[id] == 0 {
			if missing++; missing <= 5 {
				t.Errorf("stream %s: event %d is missing", to, id)
			}
		}
	}
	foreign := 0
	for _, id := range a.Order {
		if !want[id] {
			if foreign++; foreign <= 5 {
				t.Errorf("stream %s: event %d was not sent there", to, id)
			}
		}
	}
	if missing+foreign > 0 {
		t.Errorf("stream %s: of %d events sent %d are missing, %d were not sent", to, len(sent), missing, foreign)
		return a.Repeats
	}
	InOrder(t, to, a.Order, sent)
	return a.Repeats
}

// InOrder checks that the ids of got come in the order in which they stand in sent; sent
// may have more.
func InOrder(t testing.TB, to Target, got, sent []uint64) {
	t.Helper()
	place := make(map[uint64]int, len(sent))
	for i, id := range sent {
		place[id] = i
	}
	last, wrong := -1, 0
	for i, id := range got {
		p, ok := place[id]
		if !ok {
			continue
		}
		if p < last {
			if wrong++; wrong <= 3 {
				t.Errorf("stream %s: event %d (number %d sent) arrived as number %d, behind number %d sent", to, id, p, i, last)
			}
			continue
		}
		last = p
	}
	if wrong > 3 {
		t.Errorf("stream %s: %d events out of order", to, wrong)
	}
}

// Exactly checks a stream as Compare does, and that nothing arrived twice.
func Exactly(t testing.TB, e *emulator.Server, to Target, sent []uint64) {
	t.Helper()
	if n := Compare(t, e, to, sent); n > 0 {
		t.Errorf("stream %s: %d repeats, want none", to, n)
	}
}

// Endpoint starts a CloudWatch Logs endpoint in this process.
func Endpoint(t testing.TB, o emulator.Options) *emulator.Server {
	t.Helper()
	s, err := emulator.New(o)
	if err == nil {
		err = s.Listen("127.0.0.1:0", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Faults sets the rules in force at an endpoint; none ends all faults.
func Faults(t testing.TB, e *emulator.Server, rules ...emulator.FaultRule) {
	t.Helper()
	if err := e.SetFaults(&emulator.FaultScript{Seed: 1, Rules: rules}); err != nil {
		t.Fatal(err)
	}
}

// Struck is how often the rules in force have struck.
func Struck(e *emulator.Server) int64 {
	n := int64(0)
	for _, f := range e.Faults() {
		n += f.Struck
	}
	return n
}

// SameSet checks that got and want hold the same ids, in whatever order.
func SameSet(t testing.TB, to Target, got, want []uint64) {
	t.Helper()
	left := make(map[uint64]bool, len(want))
	for _, id := range want {
		left[id] = true
	}
	foreign := 0
	for _, id := range got {
		if !left[id] {
			foreign++
		}
		delete(left, id)
	}
	if foreign > 0 || len(left) > 0 {
		t.Errorf("stream %s: of %d events %d are missing, %d were not expected", to, len(want), len(left), foreign)
	}
}
