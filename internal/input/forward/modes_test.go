package forward

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/config"
)

// The clock of a synctest bubble starts here.
const now = "946684800.000000000"

// shape builds a message of one event in some mode.
type shape func(tag string, t, record any, option kv) []byte

func messageOf(tag string, t, record any, option kv) []byte {
	m := arr{tag, t, record}
	if option != nil {
		m = append(m, option)
	}
	return pack(m)
}

func forwardOf(tag string, t, record any, option kv) []byte {
	m := arr{tag, arr{arr{t, record}}}
	if option != nil {
		m = append(m, option)
	}
	return pack(m)
}

func packedAs(body func(string) any, compress func(...string) string, name string) shape {
	return func(tag string, t, record any, option kv) []byte {
		e := entries(arr{t, record})
		if compress != nil {
			e = compress(e)
			option = append(kv{"compressed", name}, option...)
		}
		m := arr{tag, body(e)}
		if option != nil {
			m = append(m, option)
		}
		return pack(m)
	}
}

// gzipOf compresses each part into a member of its own.
func gzipOf(parts ...string) string {
	var out bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(p))
		_ = w.Close()
	}
	return out.String()
}

func zstdOf(parts ...string) string {
	var out bytes.Buffer
	for _, p := range parts {
		w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		_, _ = w.Write([]byte(p))
		_ = w.Close()
	}
	return out.String()
}

var shapes = map[string]shape{
	"message":    messageOf,
	"forward":    forwardOf,
	"packed bin": packedAs(func(s string) any { return bin(s) }, nil, ""),
	"packed str": packedAs(func(s string) any { return big4(s) }, nil, ""),
	"gzip":       packedAs(func(s string) any { return bin(s) }, gzipOf, "gzip"),
	"zstd":       packedAs(func(s string) any { return bin(s) }, zstdOf, "zstd"),
}

// TestModesAndTimes sends one event in every mode with every form of time, with and
// without options.
func TestModesAndTimes(t *testing.T) {
	times := []struct {
		name  string
		value any
		want  string // "" = dropped
	}{
		{"fixext EventTime", et{1700000000, 123456789}, "1700000000.123456789"},
		{"ext8 EventTime", et8{1700000000, 5}, "1700000000.000000005"},
		{"integer", 1700000000, "1700000000.000000000"},
		{"small integer", 5, "5.000000000"},
		{"negative integer", -5, "-5.000000000"},
		{"zero integer", 0, now},
		{"zero EventTime", et{}, now},
		{"nil", nil, now},
		{"metadata", arr{et{1700000000, 7}, kv{}}, "1700000000.000000007"},
		{"metadata with content", arr{1700000000, kv{"k", kv{"a", arr{1, 2}}}}, "1700000000.000000000"},
		{"metadata with time zero", arr{et{}, kv{}}, now},
		{"float", 1700000000.5, ""},
		{"string", "1700000000", ""},
		{"other ext", raw("\xd7\x01\x00\x00\x00\x01\x00\x00\x00\x01"), ""},
		{"short ext8", raw("\xc7\x01\x00\x00"), ""},
		{"bool", true, ""},
		{"far future", raw("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), ""},
	}
	options := map[string]kv{
		"none":    nil,
		"chunk":   {"chunk", "p8n9gmxTQVC8/nh2wlKKeQ==\n"},
		"all":     {"size", 1, "chunk", bin("\x00\xff"), "unknown", arr{1}, "fluent_signal", 0},
		"no ack":  {"size", 1},
		"nil ack": {"chunk", nil},
	}
	acks := map[string]string{
		"chunk": string(pack(kv{"ack", "p8n9gmxTQVC8/nh2wlKKeQ==\n"})),
		"all":   string(pack(kv{"ack", bin("\x00\xff")})),
	}
	for mode, shape := range shapes {
		for _, tt := range times {
			for name, option := range options {
				if tt.name == "string" && mode == "message" {
					continue // that is a packed message
				}
				t.Run(fmt.Sprintf("%s/%s/%s", mode, tt.name, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						_, got, answers := talk(t, defaults(), shape("a.b", tt.value, kv{"k", "v"}, option), 0)
						var want []string
						if tt.want != "" {
							want = []string{"a.b " + tt.want + ` {"k":"v"}`}
						}
						if d := cmp.Diff(got, want); d != "" {
							t.Errorf("events, got- want+\n%s", d)
						}
						if answers != acks[name] {
							t.Errorf("answers %q, want %q", answers, acks[name])
						}
					})
				})
			}
		}
	}
}

// TestStreams looks at whole streams: what becomes of them, what is answered, what is
// logged.
func TestStreams(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	deep := strings.Repeat("\x91", 100) + "\x01"
	prefix := "pre"
	empty := kv{}
	warn, limit := config.Size(100), config.Size(150)
	e := func(s string) string { return "t 5.000000000 " + s }
	for _, tt := range []struct {
		name    string
		params  func(p *Params)
		stream  []byte
		want    []string
		answers string
		log     string // part of the log; "" = nothing is logged
	}{
		{name: "pipelined", stream: cat(messageOf("t", 5, kv{"n", 1}, nil), forwardOf("t", 5, kv{"n", 2}, nil), messageOf("t", 5, kv{"n", 3}, nil)),
			want: []string{e(`{"n":1}`), e(`{"n":2}`), e(`{"n":3}`)}},
		{name: "acks in order", stream: cat(messageOf("t", 5, kv{"n", 1}, kv{"chunk", "a"}), pack(arr{"t", bin(entries(arr{5, kv{"n", 2}})), kv{"chunk", "b"}}), messageOf("u", 5, kv{"n", 3}, kv{"chunk", "c"})),
			want:    []string{e(`{"n":1}`), e(`{"n":2}`), `u 5.000000000 {"n":3}`},
			answers: entries(kv{"ack", "a"}, kv{"ack", "b"}, kv{"ack", "c"})},
		{name: "nil is a heartbeat", stream: cat(pack(nil), messageOf("t", 5, empty, nil), pack(nil)), want: []string{e(`{}`)}},
		{name: "other values are ignored", stream: cat(pack("what"), pack(7), messageOf("t", 5, empty, nil), pack(kv{"a", 1})),
			want: []string{e(`{}`)}, log: "ignored something that is no message"},
		{name: "empty array", stream: cat(pack(arr{}), pack(arr{"t"}), messageOf("t", 5, empty, nil)), want: []string{e(`{}`)}, log: "ignored a message"},
		{name: "tag is no string", stream: cat(pack(arr{7, 5, kv{"a", 1}, kv{"chunk", "c"}}), messageOf("t", 5, empty, nil)),
			want: []string{e(`{}`)}, answers: entries(kv{"ack", "c"}), log: "ignored a message"},
		{name: "no record", stream: cat(pack(arr{"t", 5}), messageOf("t", 5, empty, nil)), want: []string{e(`{}`)}, log: "ignored a message"},
		{name: "more elements than known", stream: pack(arr{"t", 5, empty, kv{"chunk", "c"}, arr{1, 2}, "x"}), want: []string{e(`{}`)}, answers: entries(kv{"ack", "c"})},
		{name: "option is no map", stream: cat(pack(arr{"t", 5, empty, "x"}), pack(arr{"t", 5, empty, nil})), want: []string{e(`{}`), e(`{}`)}},
		{name: "option with odd keys", stream: pack(arr{"t", 5, empty, kv{1, 2, nil, 3, "chunk", 17}}), want: []string{e(`{}`)}, answers: entries(kv{"ack", 17})},
		{name: "empty lists are acknowledged", stream: cat(pack(arr{"t", arr{}, kv{"chunk", "a"}}), pack(arr{"t", bin(""), kv{"chunk", "b"}})),
			answers: entries(kv{"ack", "a"}, kv{"ack", "b"})},
		{name: "invalid events among good ones", stream: pack(arr{"t", bin(entries(arr{5, kv{"n", 1}}, arr{1.5, empty}, 7, arr{5}, arr{5, "x"}, arr{5, nil}, arr{5, kv{"n", 2}}, arr{5, kv{"n", 3}, 9})), kv{"chunk", "c"}}),
			want: []string{e(`{"n":1}`), e(`{"n":2}`), e(`{"n":3}`)}, answers: entries(kv{"ack", "c"}), log: "dropped invalid events"},
		{name: "invalid events in a list", stream: pack(arr{"t", arr{arr{5, kv{"n", 1}}, 7, arr{5, arr{}}, arr{nil, kv{"n", 2}}[:0], arr{5, kv{"n", 3}}}}),
			want: []string{e(`{"n":1}`), e(`{"n":3}`)}, log: "dropped invalid events"},
		{name: "too deep", stream: cat(pack(arr{"t", 5, kv{"a", raw(deep)}, kv{"chunk", "c"}}), pack(arr{"t", bin(entries(arr{5, kv{"n", 1}}, arr{5, kv{"a", raw(deep)}}))})),
			want: []string{e(`{"n":1}`)}, answers: entries(kv{"ack", "c"}), log: "dropped invalid events"},
		{name: "entries cut off", stream: pack(arr{"t", bin(entries(arr{5, kv{"n", 1}}, raw("\x92\x05\x81"))), kv{"chunk", "c"}}),
			want: []string{e(`{"n":1}`)}, answers: entries(kv{"ack", "c"}), log: "cut off"},
		{name: "message mode with metadata", stream: pack(arr{"t", arr{et{5, 0}, empty}, kv{"n", 1}, kv{"chunk", "c"}}), want: []string{e(`{"n":1}`)}, answers: entries(kv{"ack", "c"})},
		{name: "two entries are no metadata", stream: pack(arr{"t", arr{arr{5, kv{"n", 1}}, arr{5, kv{"n", 2}}}, empty}), want: []string{e(`{"n":1}`), e(`{"n":2}`)}},
		{name: "odd records", stream: pack(arr{"t", 5, kv{7, nil, bin("\xff"), "\xc3", "a", kv{}}}), want: []string{e(`{"7":null,"` + "\uFFFD" + `":"` + "\uFFFD" + `","a":{}}`)}},
		{name: "gzip in members", stream: pack(arr{"t", bin(gzipOf(entries(arr{5, kv{"n", 1}}), entries(arr{5, kv{"n", 2}}))), kv{"compressed", "gzip"}}), want: []string{e(`{"n":1}`), e(`{"n":2}`)}},
		{name: "zstd in frames", stream: pack(arr{"t", bin(zstdOf(entries(arr{5, kv{"n", 1}}), entries(arr{5, kv{"n", 2}}))), kv{"compressed", "zstd"}}), want: []string{e(`{"n":1}`), e(`{"n":2}`)}},
		{name: "compressed text", stream: pack(arr{"t", bin(entries(arr{5, empty})), kv{"compressed", "text"}}), want: []string{e(`{}`)}},
		{name: "unknown compression", stream: pack(arr{"t", bin("x"), kv{"compressed", "lz4", "chunk", "c"}}), log: "neither text, gzip nor zstd"},
		{name: "broken gzip", stream: cat(messageOf("t", 5, empty, kv{"chunk", "a"}), pack(arr{"t", bin("xxxxxxxxxxxxxxxxxxxxx"), kv{"compressed", "gzip", "chunk", "c"}}), messageOf("t", 5, empty, nil)),
			want: []string{e(`{}`)}, answers: entries(kv{"ack", "a"}), log: "cannot decompress"},
		{name: "cut gzip", stream: pack(arr{"t", bin(gzipOf(entries(arr{5, kv{"n", long}}))[:50]), kv{"compressed", "gzip"}}), log: "cannot decompress"},
		{name: "decompression limit", params: func(p *Params) { p.DecompressionLimit = 19_000 },
			stream: pack(arr{"t", bin(gzipOf(entries(arr{5, kv{"n", long}}))), kv{"compressed", "gzip"}}), log: "decompression_size_limit"},
		{name: "decompression limit zstd", params: func(p *Params) { p.DecompressionLimit = 19_000 },
			stream: pack(arr{"t", bin(zstdOf(entries(arr{5, kv{"n", long}}))), kv{"compressed", "zstd"}}), log: "cannot decompress"},
		{name: "tag", params: func(p *Params) { p.Tag = "fixed" }, stream: messageOf("t", 5, empty, nil), want: []string{`fixed 5.000000000 {}`}},
		{name: "prefix", params: func(p *Params) { p.AddTagPrefix = &prefix }, stream: cat(messageOf("t", 5, empty, nil), messageOf("u", 5, empty, nil), messageOf("t", 5, empty, nil)),
			want: []string{`pre.t 5.000000000 {}`, `pre.u 5.000000000 {}`, `pre.t 5.000000000 {}`}},
		{name: "tag and prefix", params: func(p *Params) { p.Tag, p.AddTagPrefix = "fixed", &prefix }, stream: messageOf("t", 5, empty, nil), want: []string{`pre.fixed 5.000000000 {}`}},
		{name: "source address", params: func(p *Params) { p.SourceAddressKey = "ip" },
			stream: cat(messageOf("t", 5, kv{"a", 1}, nil), pack(arr{"t", bin(entries(arr{5, kv{"ip", "forged", "a", 2}}, arr{5, kv{bin("ip"), 3}}))})),
			want:   []string{e(`{"a":1,"ip":"192.0.2.7"}`), e(`{"ip":"192.0.2.7","a":2}`), e(`{"ip":"192.0.2.7"}`)}},
		{name: "skip_invalid_event false keeps zero in packed events", params: func(p *Params) { p.SkipInvalidEvent = false },
			stream: cat(pack(arr{"t", bin(entries(arr{0, empty}))}), pack(arr{"t", bin(entries(arr{0, empty}, 7))})), want: []string{"t 0.000000000 {}", "t 0.000000000 {}"}, log: "invalid"},
		{name: "chunk_size_warn_limit", params: func(p *Params) { p.ChunkSizeWarnLimit = &warn }, stream: messageOf("t", 5, kv{"a", strings.Repeat("y", 100)}, nil),
			want: []string{e(`{"a":"` + strings.Repeat("y", 100) + `"}`)}, log: "chunk_size_warn_limit"},
		{name: "chunk_size_limit", params: func(p *Params) { p.ChunkSizeLimit = &limit },
			stream: cat(messageOf("t", 5, kv{"n", 1}, nil), pack(arr{"t", bin(entries(arr{5, kv{"a", long}})), kv{"chunk", "lost"}}), pack(arr{"t", arr{arr{5, kv{"a", arr{long, long}}}}, empty}), messageOf("t", 5, kv{"n", 2}, kv{"chunk", "c"})),
			want:   []string{e(`{"n":1}`), e(`{"n":2}`)}, answers: entries(kv{"ack", "c"}), log: "larger than chunk_size_limit"},
		{name: "malformed", stream: cat(messageOf("t", 5, kv{"n", 1}, kv{"chunk", "a"}), []byte("\x93\xa1t\x05\xc1"), messageOf("t", 5, kv{"n", 2}, nil)),
			want: []string{e(`{"n":1}`)}, answers: entries(kv{"ack", "a"}), log: "offset=21"},
		{name: "malformed among entries", stream: pack(arr{"t", bin("\x92\x05\x81\xa1a\xc1"), kv{"chunk", "a"}}), log: "malformed msgpack among the events"},
		{name: "chunk id too long", stream: messageOf("t", 5, empty, kv{"chunk", long}), log: "not a forward message"},
		{name: "HTTP", stream: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), log: "this is HTTP"},
		{name: "TLS", stream: []byte("\x16\x03\x01\x02\x00\x01\x00"), log: "TLS client on a plain port"},
		{name: "some other protocol", stream: []byte(strings.Repeat("<13>Nov 30 host app: hello\n", 9)), log: "not the forward protocol"},
		{name: "JSON", stream: []byte(`["t",5,{"a":"b\n","c":[1,{"d":null}]}]` + "\n" + `["t",[[5,{"n":1}],[5,{"n":1,"n":2}]],{"chunk":"a/+=="}] ["t",1.5,{"f":1}]["t",5,{}]`),
			want:    []string{e(`{"a":"b\n","c":[1,{"d":null}]}`), e(`{"n":1}`), e(`{"n":2}`), e(`{}`)},
			answers: `{"ack":"a/+=="}`, log: "dropped invalid events"},
		{name: "JSON object", stream: []byte(`{"a":"]"}["t",5,{}]`), want: []string{e(`{}`)}, log: "ignored something"},
		{name: "malformed JSON", stream: []byte(`["t",5,{}]["t",05,{}]["t",5,{}]`), want: []string{e(`{}`)}, log: "malformed JSON"},
		{name: "malformed JSON between", stream: []byte(`["t",5,{}],["t",5,{}]`), want: []string{e(`{}`)}, log: "malformed JSON"},
	} {
		for _, piece := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, piece), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := defaults()
					if tt.params != nil {
						tt.params(&p)
					}
					s, got, answers := talk(t, p, tt.stream, piece)
					if d := cmp.Diff(got, tt.want); d != "" {
						t.Errorf("events, got- want+\n%s", d)
					}
					if answers != tt.answers {
						t.Errorf("answers %q, want %q", answers, tt.answers)
					}
					if log := s.log.String(); (tt.log == "") != (log == "") || !strings.Contains(log, tt.log) {
						t.Errorf("log %q, want %q in it", log, tt.log)
					}
				})
			})
		}
	}
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
