package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// slowScan is what scanPut has to agree with, made of encoding/json and maps
// (whose keys, unlike struct fields, match exactly).
func slowScan(b []byte) (group, stream, token *string, events []slowEvent, err error) {
	var m map[string]json.RawMessage
	if err = json.Unmarshal(b, &m); err != nil {
		return
	}
	if m == nil {
		return nil, nil, nil, nil, errJSON
	}
	str := func(raw json.RawMessage) (s *string) {
		if raw != nil && err == nil {
			err = json.Unmarshal(raw, &s)
		}
		return s
	}
	group, stream, token = str(m["logGroupName"]), str(m["logStreamName"]), str(m["sequenceToken"])
	var list []json.RawMessage
	if raw := m["logEvents"]; raw != nil && err == nil {
		err = json.Unmarshal(raw, &list)
	}
	for _, raw := range list {
		var e map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(raw, &e)
		}
		ev := slowEvent{Message: str(e["message"])}
		if ts := e["timestamp"]; ts != nil && err == nil {
			err = json.Unmarshal(ts, &ev.TS)
		}
		events = append(events, ev)
	}
	return
}

type slowEvent struct {
	TS      *int64
	Message *string
}

// fastEvents brings the result of scanPut into the same form.
// message returns the i-th message, borrowed from data.
func (q *putRequest) message(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = q.ends[i-1]
	}
	return q.data[start:q.ends[i]]
}

func fastEvents(q *putRequest) []slowEvent {
	var out []slowEvent
	for i, ts := range q.ts {
		m := string(q.message(i))
		out = append(out, slowEvent{&ts, &m})
	}
	for _, miss := range q.missing {
		if miss.message {
			out[miss.event].Message = nil
		} else {
			out[miss.event].TS = nil
		}
	}
	return out
}

func scanSeeds() []string {
	return []string{
		`{"logGroupName":"g","logStreamName":"s","logEvents":[{"timestamp":1,"message":"m"},{"message":"\u00e9\ud83d\ude00\ud83d x\\\"\/\b\f\n\r\t","timestamp":2}]}`,
		` { "logEvents" : [ ] , "x" : [1, -0.5e+3, {"a":[true,false,null,"\u0041"]}] } `,
		`{"logEvents":null,"sequenceToken":null}`,
		`{"logEvents":[null,{},{"message":null}]}`,
		`{"logEvents":[{"message":"a","message":"b"}],"logEvents":[{"message":"c"}]}`,
		`{"log\u0047roupName":"g"}`,
		`{"logEvents":[{"timestamp":01}]}`, `{"logEvents":[{"timestamp":1e3}]}`, `{"logEvents":{}}`,
		`{"a":1}x`, `{"a":"` + "\x01" + `"}`, `[]`, `null`, ``, `{"a":1,}`, `{"a" 1}`, `{"a":tru}`,
		`{"logEvents":[{"message":"0123456789012345` + `\"` + `678901234567\\"}]}`,
		`{"logEvents":[{"timestamp":999999999999999999},{"timestamp":-999999999999999999}]}`,
	}
}

func checkScan(t *testing.T, b []byte) {
	t.Helper()
	var q putRequest
	err := scanPut(b, &q)
	if errors.Is(err, errTooDeep) {
		return
	}
	if !utf8.Valid(b) {
		if err == nil {
			t.Fatalf("invalid UTF-8 was accepted: %q", b)
		}
		return
	}
	group, stream, token, events, slowErr := slowScan(b)
	if (err == nil) != (slowErr == nil) {
		if err != nil && hasLongNumber(events) {
			return // integers of 19 digits: encoding/json takes some, the service's years end before
		}
		t.Fatalf("%q: scanPut says %v, encoding/json %v", b, err, slowErr)
	}
	if err != nil {
		return
	}
	opt := func(s string, set bool) *string {
		if !set {
			return nil
		}
		return &s
	}
	got := []any{opt(q.group, q.hasGroup), opt(q.stream, q.hasStream), opt(q.token, q.hasToken), fastEvents(&q)}
	if d := cmp.Diff([]any{group, stream, token, events}, got); d != "" {
		t.Fatalf("%q (-encoding/json +scanPut):\n%s", b, d)
	}
}

func hasLongNumber(events []slowEvent) bool {
	for _, e := range events {
		if e.TS != nil && (*e.TS > 999999999999999999 || *e.TS < -999999999999999999) {
			return true
		}
	}
	return false
}

func TestScanAgreesWithEncodingJSON(t *testing.T) {
	for _, s := range scanSeeds() {
		checkScan(t, []byte(s))
	}
}

func FuzzScanPut(f *testing.F) {
	for _, s := range scanSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkScan(t, b) })
}

func TestScanBoundsNesting(t *testing.T) {
	var q putRequest
	deep := `{"x":` + strings.Repeat("[", 1<<20)
	if err := scanPut([]byte(deep), &q); !errors.Is(err, errTooDeep) {
		t.Errorf("got %v", err)
	}
}

func TestSpecial(t *testing.T) {
	for _, c := range []byte{'"', '\\', 0, 0x1f, '\n'} {
		for n := range 40 {
			b := append(bytes.Repeat([]byte{0xff, ' ', '!', '#', '[', ']', 0x80, 0x7f}, 5)[:n], c, '"', '\\', 'x', 'x', 'x', 'x', 'x', 'x')
			if got := special(b, 0); got != n {
				t.Fatalf("special(%q): %d, want %d", b, got, n)
			}
		}
	}
	if got := special([]byte("plain text of some length"), 3); got != 25 {
		t.Errorf("no special byte: %d", got)
	}
}
