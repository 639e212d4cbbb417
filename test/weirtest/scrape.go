package weirtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Status is what the tests read of /api/status.
type Status struct {
	Ready    bool
	NotReady []string `json:"not_ready"`
	Inputs   []Input
	Outputs  []Output
	// Unmatched are events without a <match>.
	Unmatched uint64 `json:"unmatched_events"`
}

// Input is a source.
type Input struct {
	ID          string
	Connections int64
	Events      uint64
	Refused     uint64 `json:"refused_messages"`
	Lost        uint64 `json:"lost_events"`
	Malformed   uint64
	Acks        uint64
	Repeats     uint64
	Ack         Mean `json:"ack_seconds"`
}

// Mean is what the tests read of a distribution; in seconds.
type Mean struct{ Mean float64 }

// Output is a destination with its books.
type Output struct {
	ID      string
	Ledger  Book
	Buffer  Buffer
	Parking *struct {
		Ledger Book
		Buffer Buffer
	}
	Requests    map[string]uint64
	Retries     map[string]uint64
	Resent      uint64                 `json:"resent_requests"`
	LaneCount   int                    `json:"lanes"`
	LanesParked int                    `json:"lanes_parked"`
	Throttled   uint64                 `json:"throttled_requests"`
	Latency     Mean                   `json:"request_seconds"`
	LastError   *struct{ Text string } `json:"last_error"`
}

// Book is a page of the ledger.
type Book struct {
	Admitted, Delivered, Filtered, Parked uint64
	Dropped, Rejected                     map[string]uint64
	Pending, Balance                      int64
}

// Buffer is the state of a buffer.
type Buffer struct {
	Kind     string
	Bytes    int64
	Limit    int64 `json:"limit_bytes"`
	Segments int
	Pending  uint64 `json:"pending_events"`
}

// Lost is how many events were dropped or rejected.
func (b Book) Lost() uint64 { return sum(b.Dropped) + sum(b.Rejected) }

func sum(m map[string]uint64) uint64 {
	n := uint64(0)
	for _, v := range m {
		n += v
	}
	return n
}

// String gives the book without its zeros.
func (b Book) String() string {
	s := fmt.Sprintf("admitted %d delivered %d filtered %d parked %d pending %d balance %d", b.Admitted, b.Delivered, b.Filtered, b.Parked, b.Pending, b.Balance)
	for name, m := range map[string]map[string]uint64{"dropped": b.Dropped, "rejected": b.Rejected} {
		for reason, n := range m {
			if n > 0 {
				s += fmt.Sprintf(" %s{%s} %d", name, reason, n)
			}
		}
	}
	return s
}

// TryStatus asks for the status; ok is false when the process does not answer.
func (w *Weir) TryStatus() (s Status, ok bool) {
	code, body := w.Get("/api/status")
	if code != http.StatusOK {
		return s, false
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		w.t.Fatalf("/api/status is not as expected: %v\n%s", err, body)
	}
	return s, true
}

// Status asks for the status.
func (w *Weir) Status() Status {
	w.t.Helper()
	s, ok := w.TryStatus()
	if !ok {
		w.t.Fatal("/api/status does not answer")
	}
	return s
}

// Output gives an output's status.
func (w *Weir) Output(id string) Output {
	w.t.Helper()
	s := w.Status()
	for _, o := range s.Outputs {
		if o.ID == id {
			return o
		}
	}
	w.t.Fatalf("there is no output %q in %+v", id, s.Outputs)
	return Output{}
}

// Input gives the status of the only source.
func (w *Weir) Input() Input {
	w.t.Helper()
	s := w.Status()
	if len(s.Inputs) != 1 {
		w.t.Fatalf("%d inputs", len(s.Inputs))
	}
	return s.Inputs[0]
}

// Metrics reads /metrics: values by name with labels, as printed there.
func (w *Weir) Metrics() map[string]float64 {
	w.t.Helper()
	code, body := w.Get("/metrics")
	if code != http.StatusOK {
		w.t.Fatalf("/metrics: %d %s", code, body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			w.t.Fatalf("/metrics: line %q: %v", line, err)
		}
		out[line[:at]] = v
	}
	return out
}

// Balanced checks promise P1 on all outputs: the balance is 0 in the status and as a
// metric, and each book adds up by itself.
func (w *Weir) Balanced() {
	w.t.Helper()
	for _, o := range w.Status().Outputs {
		checkBook(w.t, o.ID, o.Ledger)
		if o.Parking != nil {
			checkBook(w.t, o.ID+" (parking lot)", o.Parking.Ledger)
		}
	}
	balances := 0
	for name, v := range w.Metrics() {
		if strings.HasPrefix(name, "weir_output_balance_events{") {
			balances++
			if v != 0 {
				w.t.Errorf("metric %s is %v, want 0", name, v)
			}
		}
	}
	if balances == 0 {
		w.t.Error("there is no metric weir_output_balance_events")
	}
}

func checkBook(t testing.TB, id string, b Book) {
	t.Helper()
	if b.Balance != 0 {
		t.Errorf("output %s: the books do not balance: %s", id, b)
	}
	if ended := b.Delivered + b.Filtered + b.Parked + b.Lost(); int64(b.Admitted)-int64(ended) != b.Pending || b.Pending < 0 {
		t.Errorf("output %s: the book does not add up: %s", id, b)
	}
}

// Drained waits until nothing is pending in any output, and checks the books.
func (w *Weir) Drained() {
	w.t.Helper()
	Within(w.t, 2*Patience, "nothing is pending", func() (string, bool) {
		s := w.Status()
		seen, done := "", true
		for _, o := range s.Outputs {
			seen += o.ID + ": " + o.Ledger.String() + "; "
			done = done && o.Ledger.Pending == 0 && (o.Parking == nil || o.Parking.Ledger.Pending == 0)
			if o.LastError != nil {
				seen += o.LastError.Text + "; "
			}
		}
		return seen, done
	})
	w.Balanced()
}

// Ends checks how the events of an output have ended: delivered, and dropped or rejected by
// reason; a reason that is not named must be 0. Parked events count where they ended.
func (w *Weir) Ends(id string, delivered int, lost map[string]int) {
	w.t.Helper()
	o := w.Output(id)
	d := o.Ledger.Delivered
	all := map[string]uint64{}
	add := func(b Book) {
		for _, m := range []map[string]uint64{b.Dropped, b.Rejected} {
			for r, n := range m {
				all[r] += n
			}
		}
	}
	add(o.Ledger)
	if o.Parking != nil {
		d += o.Parking.Ledger.Delivered
		add(o.Parking.Ledger)
	}
	if d != uint64(delivered) {
		w.t.Errorf("output %s: delivered %d, want %d (%s)", id, d, delivered, o.Ledger)
	}
	for r, n := range all {
		if n != uint64(lost[r]) {
			w.t.Errorf("output %s: lost as %s: %d, want %d", id, r, n, lost[r])
		}
		delete(lost, r)
	}
	for r := range lost {
		w.t.Errorf("output %s: there is no reason %q", id, r)
	}
}

// RSS is the resident memory of the process in bytes.
func (w *Weir) RSS() int64 {
	w.t.Helper()
	return int64(w.Metrics()["process_resident_memory_bytes"])
}
