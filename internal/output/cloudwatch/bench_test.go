package cloudwatch

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/event"
	"weir/internal/output"
)

// kubernetes appends the record that Fluent Bit's kubernetes filter makes, 450 bytes as JSON.
func kubernetes(dst []byte, log string) []byte {
	dst = event.AppendMapHeader(dst, 4)
	str := func(k, v string) { dst = event.AppendStr(event.AppendStr(dst, k), v) }
	str("log", log)
	str("stream", "stdout")
	str("time", "2026-11-30T10:00:06.120345678Z")
	dst = event.AppendMapHeader(event.AppendStr(dst, "kubernetes"), 6)
	str("pod_name", "checkout-7f6b9d4c5-x2x7q")
	str("namespace_name", "production")
	str("pod_id", "0b6d4c1e-3f0a-4a58-9a53-6d2f6f1b7a11")
	str("host", "ip-10-0-12-34.eu-west-1.compute.internal")
	str("container_name", "checkout")
	str("docker_id", "4f1c2d3e5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a5968")
	return dst
}

const sampleLine = `10.0.3.7 - - [30/Nov/2026:10:00:06 +0000] "GET /api/v1/cart HTTP/1.1" 200 512 "-" "curl/8.5"`

func sampleBatch(n int, record func(dst []byte) []byte) []byte {
	var b []byte
	for i := range n {
		b = event.AppendEntryHeader(b, event.Unix(1_796_000_000, int64(i)*1e5))
		b = record(b)
	}
	return b
}

func kubernetesBatch(n int) []byte {
	return sampleBatch(n, func(dst []byte) []byte { return kubernetes(dst, sampleLine) })
}

func oneKeyBatch(n int) []byte {
	line := make([]byte, 256)
	for i := range line {
		line[i] = 'a' + byte(i%26)
	}
	return sampleBatch(n, func(dst []byte) []byte {
		dst = event.AppendMapHeader(dst, 1)
		return event.AppendStr(event.AppendStr(dst, "log"), line)
	})
}

// cpuSeconds is the processor time that this process has used.
func cpuSeconds(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func benchBody(b *testing.B, e *encoding, in []byte, n int, finish bool) {
	body := body{e: e}
	e.maxEvents = maxEvents
	b.ReportAllocs()
	events, start := 0, cpuSeconds(b)
	for b.Loop() {
		for rest, left := in, n; left > 0; {
			body.reset("/infra/logs/eks/pods", "production.checkout")
			got, size, _ := body.add(rest, left)
			rest, left = rest[size:], left-got
			if finish {
				w := body.wire(0, len(body.items), "", "")
				if hexSum(w) == "" {
					b.Fatal("no sum")
				}
			}
			events += got
		}
	}
	b.ReportMetric(float64(events)/(cpuSeconds(b)-start), "events/cpu-s") // the machine may be shared
}

func BenchmarkEncode(b *testing.B) {
	k8s, one := kubernetesBatch(5000), oneKeyBatch(5000)
	whole := &encoding{json: event.JSONOptions{DropEmpty: true}}
	key := &encoding{keys: []event.Path{event.KeyPath("log")}}
	b.Run("kubernetes", func(b *testing.B) { benchBody(b, whole, k8s, 5000, false) })
	b.Run("kubernetes+sha256", func(b *testing.B) { benchBody(b, whole, k8s, 5000, true) })
	b.Run("one_key", func(b *testing.B) { benchBody(b, key, one, 5000, false) })
	b.Run("one_key+sha256", func(b *testing.B) { benchBody(b, key, one, 5000, true) })
}

func BenchmarkSplit(b *testing.B) {
	in := event.Batch{Tag: "kube.app", Entries: kubernetesBatch(1000), Count: 1000}
	_, in.First, in.Last, _, _ = event.Check(in.Entries)
	path := func(s string) event.Path {
		p, err := event.ParsePath(s)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	o := &Output{
		group:  namer{kind: keyName, path: path("$.kubernetes.namespace_name"), bad: badGroupName},
		stream: namer{kind: keyName, path: path("$.kubernetes.pod_name"), bad: badStreamName},
	}
	s := o.newSplitter()
	b.ReportAllocs()
	start := cpuSeconds(b)
	for b.Loop() {
		s.Split(in, func([]byte, output.Run) {})
	}
	b.ReportMetric(float64(b.N*1000)/(cpuSeconds(b)-start), "events/cpu-s")
}
