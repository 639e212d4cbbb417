package fluentbuffer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/event"
)

// The files that these functions write follow the description of Fluentd's format; those
// in testdata were written by Fluentd's own code.

const (
	idA = "5f0a1b2c3d4e5f60718293a4b5c6d7e8"
	idB = "5f0a1b2c3d4e60000000000000000001"
)

type meta struct {
	tag      string
	created  int64
	modified int64
	old      bool // without the header
	trailing string
	noID     bool
	noTimes  bool
}

func (m meta) bytes() []byte {
	pairs := [][2][]byte{
		{event.AppendStr(nil, "timekey"), event.AppendNil(nil)},
		{event.AppendStr(nil, "tag"), event.AppendNil(nil)},
		{event.AppendStr(nil, "variables"), event.AppendNil(nil)},
		{event.AppendStr(nil, "seq"), event.AppendInt(nil, 0)},
		{event.AppendStr(nil, "s"), event.AppendInt(nil, 1)},
	}
	if m.tag != "" {
		pairs[1][1] = event.AppendStr(nil, m.tag)
	}
	if !m.noID {
		pairs = append(pairs, [2][]byte{event.AppendStr(nil, "id"), event.AppendBin(nil, bytes.Repeat([]byte{0xfe}, 16))})
	}
	if !m.noTimes {
		pairs = append(pairs, [2][]byte{event.AppendStr(nil, "c"), event.AppendInt(nil, m.created)}, [2][]byte{event.AppendStr(nil, "m"), event.AppendInt(nil, m.modified)})
	}
	b := event.AppendMapHeader(nil, len(pairs))
	for _, p := range pairs {
		b = append(append(b, p[0]...), p[1]...)
	}
	if !m.old {
		b = append(binary.BigEndian.AppendUint32([]byte{0xc1, 0}, uint32(len(b))), b...)
	}
	return append(b, m.trailing...)
}

func record(n int) []byte {
	return event.AppendInt(event.AppendStr(event.AppendMapHeader(nil, 1), "n"), int64(n))
}

// entries are [time, record] with n from first on.
func entries(first, count int) (b []byte) {
	for i := range count {
		b = event.AppendEntry(b, event.Unix(int64(first+i), 5), record(first+i))
	}
	return b
}

// tagged are [tag, time, record].
func tagged(tag string, first, count int) (b []byte) {
	for i := range count {
		b = event.AppendStr(event.AppendArrayHeader(b, 3), tag)
		b = append(event.AppendInt(b, int64(first+i)), record(first+i)...)
	}
	return b
}

func gz(parts ...[]byte) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		_, _ = w.Write(p)
		_ = w.Close()
	}
	return b.Bytes()
}

func zs(parts ...[]byte) (out []byte) {
	w, _ := zstd.NewWriter(nil)
	for _, p := range parts {
		out = w.EncodeAll(p, out)
	}
	_ = w.Close()
	return out
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// got collects events as "tag:n".
type got []string

func (g *got) emit(b event.Batch) error {
	count, first, last, _, err := event.Check(b.Entries)
	if err != nil || count != b.Count || first != b.First || last != b.Last {
		return fmt.Errorf("batch says %d %d %d, has %d %d %d, %v", b.Count, b.First, b.Last, count, first, last, err)
	}
	for rest := b.Entries; len(rest) > 0; {
		e, n, err := event.Next(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
		v, _ := event.FindKey(e.Record, "n")
		*g = append(*g, b.Tag+":"+string(event.AppendText(nil, v)))
	}
	return nil
}
