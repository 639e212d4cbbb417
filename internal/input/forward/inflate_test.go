package forward

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestLargeBodiesTakeTheirSize: a body beyond the limit is refused as such before it has
// taken memory, and one below takes no more than its size, rounded up.
func TestLargeBodiesTakeTheirSize(t *testing.T) {
	const limit = 9 << 20
	text := strings.Repeat("0123456789abcdef", limit/16+1)
	for c, pack := range map[codec]func(...string) string{gzipped: gzipOf, zstandard: zstdOf} {
		f := &inflater{mem: &memory{limit: 16 << 20}, limit: limit}
		for _, n := range []int{limit + 1, limit, measureAbove, 5} {
			out, home, err := f.inflate(c, []byte(pack(text[:n])))
			switch {
			case n > limit:
				if err == nil || errors.Is(err, errMemory) || !strings.Contains(err.Error(), "decompression_size_limit") {
					t.Errorf("codec %v, %d bytes: %v", c, n, err)
				}
			case err != nil || !bytes.Equal(out, []byte(text[:n])):
				t.Errorf("codec %v, %d bytes: %d came out, %v", c, n, len(out), err)
			}
			f.mem.put(home)
			if used := f.mem.used.Load(); used != 0 {
				t.Fatalf("codec %v, %d bytes: %d are still counted", c, n, used)
			}
		}
	}
}
