package forward

import (
	"testing"

	"weir/test/forwardclient"
)

// TestReadsOfLargeMessages: a message of many small values must not be read value by value,
// whatever the scanner knows about the one in progress.
func TestReadsOfLargeMessages(t *testing.T) {
	for name, b := range map[string][]byte{
		"nested": append([]byte{0x93, 0xa1, 'a'}, nestedArrays(1<<20)...),
		"forward": forwardclient.Encoding{Mode: forwardclient.Forward, Tag: "a", Events: 5000, Record: forwardclient.Kubernetes()}.
			Encode().Bytes,
	} {
		c := &conn{buf: &block{b: make([]byte, 2*len(b))}, scanning: true}
		c.scan.begin()
		reads := 0
		for c.w < len(b)-1 {
			end := min(c.readEnd(), c.w+64<<10, len(b)-1) // what a socket gives at once
			copy(c.buf.b[c.w:end], b[c.w:end])
			c.w = end
			if _, err := c.scan.next(c.buf.b[:c.w]); err != errMore {
				t.Fatalf("%s: %v after %d of %d bytes", name, err, c.w, len(b))
			}
			reads++
		}
		if most := len(b)/(16<<10) + 2; reads > most {
			t.Errorf("%s: %d reads for %d bytes, want at most %d", name, reads, len(b), most)
		}
	}
}

func nestedArrays(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0x91
	}
	return b
}
