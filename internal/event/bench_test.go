package event

import (
	"strings"
	"testing"
)

// kubernetesRecord is what Fluent Bit's Kubernetes filter makes of a line: about 450 bytes
// of JSON.
const kubernetesRecord = `{"log":"2026-11-30T10:00:06.120Z INFO request served path=/api/v1/orders status=200 took=12ms id=8f14e45f","stream":"stdout",` +
	`"time":"2026-11-30T10:00:06.120345678Z","kubernetes":{"pod_name":"orders-7d9c5b6f4-x2x9v","namespace_name":"shop",` +
	`"pod_id":"0f8fad5b-d9cb-469f-a165-70867728950e","host":"ip-10-0-12-34.eu-west-1.compute.internal","container_name":"app",` +
	`"docker_id":"4c01db0b339c","labels":{"app":"orders","pod-template-hash":"7d9c5b6f4"}}}`

func kubernetes(tb testing.TB) []byte {
	record, n, err := AppendFromJSON(nil, []byte(kubernetesRecord))
	if err != nil || n != len(kubernetesRecord) {
		tb.Fatal(n, err)
	}
	return record
}

func BenchmarkCheckKubernetes(b *testing.B) {
	entry := AppendEntry(nil, Unix(1e9, 5), kubernetes(b))
	batch := []byte(strings.Repeat(string(entry), 100))
	b.SetBytes(int64(len(entry)))
	for i := 0; i < b.N; i += 100 {
		if n, _, _, _, err := Check(batch); n != 100 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkCheckFlat(b *testing.B) {
	entry := AppendEntry(nil, Unix(1e9, 5), AppendStr(AppendStr(AppendMapHeader(nil, 1), "message"), strings.Repeat("x", 256)))
	batch := []byte(strings.Repeat(string(entry), 100))
	for i := 0; i < b.N; i += 100 {
		if n, _, _, _, err := Check(batch); n != 100 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkJSONEscapedKubernetes(b *testing.B) {
	// The records of a batch differ in place and lie beside each other, as in a frame.
	record := kubernetes(b)
	dst := make([]byte, 0, 1<<20)
	o := &JSONOptions{DropEmpty: true}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if len(dst) > 1<<19 {
			dst = dst[:0]
		}
		dst, n = AppendJSONEscaped(dst, record, o)
	}
	b.SetBytes(int64(n))
}

// BenchmarkJSONEscapedBatch encodes 1000 records of different lengths, each in its place in
// a batch: the processor cannot learn one record by heart.
func BenchmarkJSONEscapedBatch(b *testing.B) {
	var batch []byte
	for i := range 1000 {
		json := strings.Replace(kubernetesRecord, "id=8f14e45f", "id="+strings.Repeat("f", i*7919%37), 1)
		json = strings.Replace(json, "7d9c5b6f4-x2x9v", strings.Repeat("x", 1+i*104729%19), 1)
		json = strings.Replace(json, "took=12ms", strings.Repeat(`\"q\"`, i*31%3), 1)
		record, _, err := AppendFromJSON(nil, []byte(json))
		if err != nil {
			b.Fatal(err)
		}
		batch = AppendEntry(batch, Unix(1e9, int64(i)), record)
	}
	dst := make([]byte, 0, 1<<20)
	o := &JSONOptions{DropEmpty: true}
	total := 0
	for i := 0; i < b.N; {
		dst = dst[:0]
		for rest := batch; len(rest) > 0 && i < b.N; i++ {
			e, n, err := Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
			var size int
			dst, size = AppendJSONEscaped(dst, e.Record, o)
			total += size
		}
	}
	b.SetBytes(int64(total / b.N))
}

func BenchmarkJSONEscapedDrop(b *testing.B) {
	record := kubernetes(b)
	dst := make([]byte, 0, 1<<20)
	p, err := ParsePath("$.kubernetes.labels")
	if err != nil {
		b.Fatal(err)
	}
	o := &JSONOptions{DropEmpty: true, Drop: NewPathSet(KeyPath("stream"), p)}
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = AppendJSONEscaped(dst[:0], record, o)
	}
}

func BenchmarkStringEscaped(b *testing.B) {
	for _, bench := range []struct{ name, text string }{
		{"Plain256", strings.Repeat("x", 256)},
		{"Plain20", strings.Repeat("x", 20)},
		{"Quotes256", strings.Repeat(`{"k":"v"},1234567`, 16)[:256]},
		{"Umlauts256", strings.Repeat("größer als ", 20)[:256]},
		{"Japanese255", strings.Repeat("日", 85)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := []byte(bench.text)
			dst := make([]byte, 0, 4096)
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				dst, _ = AppendStringEscaped(dst[:0], s)
			}
		})
	}
}

func BenchmarkFindKey(b *testing.B) {
	record := kubernetes(b)
	p, err := ParsePath("$.kubernetes.pod_name")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.Find(record); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkFromJSONKubernetes(b *testing.B) {
	src := []byte(kubernetesRecord)
	var dst []byte
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		dst, _, _ = AppendFromJSON(dst[:0], src)
	}
}
