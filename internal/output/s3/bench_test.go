package s3

import (
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/output"
)

// kubernetes is an entry with something random of about 450 bytes of JSON.
func kubernetes() []byte {
	r := event.AppendMapHeader(nil, 3)
	r = event.AppendStr(event.AppendStr(r, "log"), `2026-11-30T12:34:56.789Z INFO request handled method=GET path=/api/v1/orders/4711 status=200 bytes=5120 duration=12ms trace=`+hexRandom(newFresh().chunk, 32))
	r = event.AppendStr(event.AppendStr(r, "stream"), "stdout")
	r = event.AppendMapHeader(event.AppendStr(r, "kubernetes"), 5)
	for _, kv := range [][2]string{
		{"pod_name", "checkout-7d9f8b6c5d-x2x9q"}, {"namespace_name", "shop"}, {"container_name", "checkout"},
		{"pod_id", "6f0c9a52-4d0e-4f0b-9d6e-2f1f3f1f9b11"}, {"host", "ip-10-0-12-34.eu-west-1.compute.internal"},
	} {
		r = event.AppendStr(event.AppendStr(r, kv[0]), kv[1])
	}
	return event.AppendEntry(nil, event.FromTime(noon), r)
}

// BenchmarkAdd fills objects of 8 MiB; one operation is one event.
func BenchmarkAdd(b *testing.B) {
	for _, store := range []string{"text", "gzip", "zstd"} {
		b.Run(store, func(b *testing.B) {
			o := open(b, "s3_bucket logs\nstore_as "+store+"\n<format>\n@type json\n</format>\n<buffer tag,time>\ntimekey 1h\n</buffer>", nil)
			var entries []byte
			const n = 2000
			for range n {
				entries = append(entries, kubernetes()...)
			}
			lane := laneOf(b, o, batchOf("a", entries))
			r := o.Request().(*request)
			r.Reset(lane)
			defer r.Reset("")
			b.ReportAllocs()
			b.SetBytes(int64(len(entries) / n))
			start := time.Now()
			for i := 0; i < b.N; i += n {
				if _, _, full := r.Add(entries, n); full {
					if err := r.finish(); err != nil {
						b.Fatal(err)
					}
					r.Reset(lane)
				}
			}
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "events/s")
		})
	}
}

// BenchmarkSplit finds the lanes of batches of 100 events; one operation is a batch.
func BenchmarkSplit(b *testing.B) {
	o := open(b, "s3_bucket logs\ns3_object_key_format %Y/${tag}/%H_%{index}_%{uuid_flush}.%{file_extension}\n<buffer tag,time>\ntimekey 1h\n</buffer>", nil)
	var entries []byte
	for range 100 {
		entries = append(entries, kubernetes()...)
	}
	batch, s := batchOf("a", entries), o.Splitter()
	add := addNothing
	b.ReportAllocs()
	for b.Loop() {
		s.Split(batch, add)
	}
}

func addNothing([]byte, output.Run) {}
