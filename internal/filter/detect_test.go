package filter

import (
	"slices"
	"strings"
	"testing"
)

// TestDetectAsRecorded replays what fluent-plugin-detect-exceptions 0.0.16 was given, with
// what it made of it.
func TestDetectAsRecorded(t *testing.T) {
	joined := 0
	recordings(t, "testdata/detect.jsonl", func(name string, r *recording) {
		conf := r.conf("detect_exceptions")
		h, _ := buildHolder(t, conf)
		got, want := byWay(r.replay(t, h)), byWay(r.want())
		joined += len(r.Steps) - len(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s\n%s\ngot  %s\nwant %s", name, conf, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	})
	if joined < 100 {
		t.Errorf("%d lines were joined", joined)
	}
}
