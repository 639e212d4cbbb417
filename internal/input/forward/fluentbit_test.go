package forward

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestSenders sends byte streams with the exact shapes of well-known senders.
func TestSenders(t *testing.T) {
	const record = "\x82\xa3log\xa5hello\xa6stream\xa6stdout"
	const want = ` {"log":"hello","stream":"stdout"}`
	const at = "\xd7\x00\x65\x53\xf1\x00\x00\x00\x00\x7b" // 1700000000.000000123
	entry := "\x92\x92" + at + "\x80" + record
	old := "\x92" + at + record
	hash := strings.Repeat("0af9", 8)
	ruby := "\xd9\x19X9eVn3kSQrS3wEvGZ4mAUQ==\n"
	for _, tt := range []struct {
		name, stream string
		want         []string
		answers      string
	}{
		{ // Fluent Bit 2 and newer: metadata beside the time, a list, size and chunk as options.
			"Fluent Bit 2+ with acknowledgements",
			"\x93\xa7kube.io\x92" + entry + entry + "\x83\xa4size\x02\xa5chunk\xd9\x20" + hash + "\xadfluent_signal\x00",
			[]string{"kube.io 1700000000.000000123" + want, "kube.io 1700000000.000000123" + want},
			"\x81\xa3ack\xd9\x20" + hash,
		},
		{ // Its packed form: a bin with the entries.
			"Fluent Bit, packed", "\x93\xa7kube.io\xc5\x00" + string(rune(len(entry))) + entry + "\x82\xa4size\x01\xadfluent_signal\x00",
			[]string{"kube.io 1700000000.000000123" + want}, "",
		},
		{ // Compressed, in one gzip member.
			"Fluent Bit, gzip", "\x93\xa7kube.io" + string(pack(bin(gzipOf(entry+entry)))) + "\x83\xa4size\x02\xaacompressed\xa4gzip\xadfluent_signal\x00",
			[]string{"kube.io 1700000000.000000123" + want, "kube.io 1700000000.000000123" + want}, "",
		},
		{ // Fluent Bit 1: no metadata.
			"Fluent Bit 1", "\x92\xa7kube.io\x91" + old,
			[]string{"kube.io 1700000000.000000123" + want}, "",
		},
		{ // Ruby's out_forward: str32 bodies, base64 ids with a line end.
			"Fluentd out_forward", "\x93\xa3app\xdb\x00\x00\x00" + string(rune(len(old))) + old + "\x83\xa4size\x01\xaacompressed\xa4text\xa5chunk" + ruby,
			[]string{"app 1700000000.000000123" + want}, "\x81\xa3ack" + ruby,
		},
		{ // Docker's driver: one event a message, seconds as uint32, no option.
			"Docker", "\x93\xa3app\xce\x65\x53\xf1\x00" + record + "\x93\xa3app\xd2\x65\x53\xf1\x00" + record,
			[]string{"app 1700000000.000000000" + want, "app 1700000000.000000000" + want}, "",
		},
		{ // fluent-logger for Ruby and Python: an option that is nil or empty.
			"fluent-logger", "\x94\xa3app\xce\x65\x53\xf1\x00" + record + "\xc0\x94\xa3app\xce\x65\x53\xf1\x00" + record + "\x80",
			[]string{"app 1700000000.000000000" + want, "app 1700000000.000000000" + want}, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, got, answers := talk(t, defaults(), []byte(tt.stream), 0)
				if d := cmp.Diff(got, tt.want); d != "" {
					t.Errorf("events, got- want+\n%s", d)
				}
				if answers != tt.answers {
					t.Errorf("answers %q, want %q", answers, tt.answers)
				}
				if log := s.log.String(); log != "" {
					t.Errorf("log %q", log)
				}
			})
		})
	}
}
