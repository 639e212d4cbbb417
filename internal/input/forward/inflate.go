package forward

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest zstd window accepted. RFC 8878 recommends that decoders support
// 8 MiB; all levels up to 19 stay below it.
const maxWindow = 8 << 20

// inflater decompresses the bodies of messages. It is shared by connections.
type inflater struct {
	mem   *memory
	limit int64
	gzips sync.Pool
	zstds sync.Pool
}

// inflate decompresses src, which may have several members one behind the other. The
// result grows only as data really comes out, up to the limit. The caller puts back the
// block, which is nil after an error.
func (f *inflater) inflate(c codec, src []byte) (out []byte, home *block, err error) {
	in := bytes.NewReader(src)
	var from io.Reader
	switch c {
	case gzipped:
		z, _ := f.gzips.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		if err := z.Reset(in); err != nil {
			return nil, nil, fmt.Errorf("decompress gzip: %w", err)
		}
		defer f.gzips.Put(z)
		from = z
	case zstandard:
		z, err := f.zstd(in)
		if err != nil {
			return nil, nil, fmt.Errorf("decompress zstd: %w", err)
		}
		defer func() {
			if z.Reset(nil) == nil {
				f.zstds.Put(z)
			}
		}()
		from = z
	default:
		return nil, nil, errors.New("option compressed is neither text, gzip nor zstd")
	}
	home, n, err := f.readAll(from, len(src))
	if err != nil {
		return nil, nil, fmt.Errorf("decompress: %w", err)
	}
	return home.b[:n], home, nil
}

func (f *inflater) zstd(in io.Reader) (*zstd.Decoder, error) {
	if z, _ := f.zstds.Get().(*zstd.Decoder); z != nil {
		return z, z.Reset(in)
	}
	return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(uint64(f.limit)+1))
}

func (f *inflater) readAll(r io.Reader, guess int) (*block, int, error) {
	b, err := f.mem.get(min(max(4*guess, minBuffer), freeBuffer))
	if err != nil {
		return nil, 0, err
	}
	n := 0
	for {
		if n == len(b.b) {
			if b, err = f.mem.grow(b, n); err != nil {
				f.mem.put(b)
				return nil, 0, err
			}
		}
		k, err := r.Read(b.b[n:])
		n += k
		switch {
		case int64(n) > f.limit:
			f.mem.put(b)
			return nil, 0, fmt.Errorf("larger than decompression_size_limit (%d bytes)", f.limit)
		case err == io.EOF:
			return b, n, nil
		case err != nil:
			f.mem.put(b)
			return nil, 0, err
		}
	}
}
