package cloudwatch

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
)

// compress appends the gzip form of p to dst. Bodies are large and few: a writer each time
// would cost a megabyte of tables, so the fastest level, whose tables are small.
func compress(dst, p []byte) []byte {
	buf := bytes.NewBuffer(dst)
	w, err := gzip.NewWriterLevel(buf, gzip.BestSpeed)
	if err != nil {
		return append(dst, p...) // the level is a constant: cannot happen
	}
	if _, err := w.Write(p); err != nil {
		return append(dst, p...)
	}
	if err := w.Close(); err != nil {
		return append(dst, p...)
	}
	return buf.Bytes()
}
