package cloudwatch

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
)

// zipper compresses bodies, one after the other. Its tables are kept: they have about a
// megabyte, even those of the fastest level.
type zipper struct {
	w   *gzip.Writer
	buf bytes.Buffer
}

// compress returns the gzip form of p, valid until the next call, or nil if that is not
// smaller than p.
func (z *zipper) compress(p []byte) []byte {
	z.buf.Reset()
	if z.w == nil {
		w, err := gzip.NewWriterLevel(&z.buf, gzip.BestSpeed)
		if err != nil {
			return nil // the level is a constant: cannot happen
		}
		z.w = w
	} else {
		z.w.Reset(&z.buf)
	}
	if _, err := z.w.Write(p); err != nil {
		return nil
	}
	if err := z.w.Close(); err != nil || z.buf.Len() >= len(p) {
		return nil
	}
	return z.buf.Bytes()
}
