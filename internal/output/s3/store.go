package s3

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// store is a way to store objects: store_as.
type store struct {
	name, ext, mime string
}

// refusedStores need programs that weir does not run.
const refusedStores = "lzo lzma2 parquet"

// store is what store_as means. As in Fluentd an unknown name is text.
func (p *Params) store() store {
	switch p.StoreAs {
	case "gzip", "gzip_command":
		return store{"gzip", "gz", "application/x-gzip"}
	case "zstd":
		return store{"zstd", "zst", "application/x-zst"}
	case "json":
		return store{"text", "json", "application/json"}
	}
	return store{"text", "txt", "text/plain"}
}

func refused(storeAs string) bool {
	for _, s := range strings.Fields(refusedStores) {
		if s == storeAs {
			return true
		}
	}
	return false
}

// zipper compresses into a writer that Reset gives.
type zipper interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// newZipper makes the compressor of a store; nil for text.
func newZipper(s store, level int) (zipper, error) {
	switch s.name {
	case "gzip":
		return gzip.NewWriter(io.Discard), nil
	case "zstd":
		z, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("set up zstd: %w", err)
		}
		return z, nil
	}
	return nil, nil
}
