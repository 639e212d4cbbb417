package s3

import (
	"fmt"
	"net/http"
	"testing"

	"weir/internal/event"
	"weir/internal/output"
	"weir/internal/output/outputtest"
)

func TestConformance(t *testing.T) {
	var s *service
	for name, text := range map[string]string{
		"index": "s3_object_key_format %{path}%{time_slice}_%{index}.%{file_extension}\n",
		"uuid":  "s3_object_key_format a/%{index}_%{uuid_flush}.%{file_extension}\n",
	} {
		t.Run(name, func(t *testing.T) {
			outputtest.Run(t, outputtest.Subject{
				New: func(t *testing.T) output.Output {
					s = newService(t, "logs")
					o := open(t, text+"path x/\ns3_bucket logs\ns3_endpoint "+s.url+"\n<format>\n@type json\n</format>\n<buffer time>\ntimekey 1d\nchunk_limit_size 1m\n</buffer>\n", nil)
					return noClose{o}
				},
				Tag: "app",
				Record: func(i int) []byte {
					return event.AppendStr(event.AppendStr(event.AppendMapHeader(nil, 1), "m"), fmt.Sprint("event ", i))
				},
				Received: func() (out []int) {
					for _, k := range s.putOrder("logs") {
						for _, l := range s.lines("logs", k) {
							var n int
							fmt.Sscanf(jsonField(t, l, "m"), "event %d", &n)
							out = append(out, n)
						}
					}
					return out
				},
				Fail: func() {
					failed := false
					s.set(func() {
						s.fault = func(w http.ResponseWriter, r *http.Request) bool {
							if failed || r.Method != http.MethodPut {
								return false
							}
							failed = true
							apiError(w, 500, "InternalError")
							return true
						}
					})
				},
				Full: 2 << 20,
			})
		})
	}
}

// noClose leaves closing to open's cleanup.
type noClose struct{ *Output }

func (noClose) Close() error { return nil }
