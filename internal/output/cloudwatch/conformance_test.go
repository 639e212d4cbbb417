package cloudwatch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/internal/event"
	"weir/internal/output"
	"weir/internal/output/outputtest"
)

func TestConformance(t *testing.T) {
	var s *service
	record := func(m string, g string) []byte {
		b := event.AppendMapHeader(nil, 2)
		b = event.AppendStr(event.AppendStr(b, "m"), m)
		return event.AppendStr(event.AppendStr(b, "g"), g)
	}
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint("strict=", strict), func(t *testing.T) {
			outputtest.Run(t, outputtest.Subject{
				New: func(t *testing.T) output.Output {
					s = newService(t)
					s.strict = strict
					s.stream("/app/g", "s")
					return s.open(Params{GroupNameKey: "g"})
				},
				Tag:     "app",
				Record:  func(i int) []byte { return record(fmt.Sprint("event ", i), "/app/g") },
				Poison:  record("", "/app/g"),
				Unnamed: record("x", ""),
				Received: func() (out []int) {
					s.mu.Lock()
					defer s.mu.Unlock()
					for _, text := range texts(s.groups["/app/g"].streams["s"]) {
						if strings.HasPrefix(text, "weir: ") {
							continue
						}
						var n int
						fmt.Sscanf(text, "event %d", &n)
						out = append(out, n)
					}
					return out
				},
				Fail: func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					failed := false
					s.script = func(w http.ResponseWriter, _ *http.Request, _ string, _ []byte) bool {
						if failed {
							return false
						}
						failed = true
						fail(w, 500, "InternalFailure", "")
						return true
					}
				},
				Full: 4 << 20,
			})
		})
	}
}
