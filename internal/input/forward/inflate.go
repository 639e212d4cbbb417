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
	gzips sync.Pool // of *gunzip
	zstds sync.Pool // of *unzstd
}

// gunzip and unzstd are decompressors with what they read.
type (
	gunzip struct {
		gzip.Reader
		src bytes.Reader
	}
	unzstd struct {
		*zstd.Decoder
		src bytes.Reader
	}
)

// inflate decompresses src, which may have several members one behind the other. The
// result grows only as data really comes out, up to the limit. The caller puts back the
// block, which is nil after an error.
func (f *inflater) inflate(c codec, src []byte) (out []byte, home *block, err error) {
	var begin func() (io.Reader, error)
	switch c {
	case gzipped:
		z, _ := f.gzips.Get().(*gunzip)
		if z == nil {
			z = new(gunzip)
		}
		defer func() {
			z.src.Reset(nil)
			f.gzips.Put(z)
		}()
		begin = func() (io.Reader, error) {
			z.src.Reset(src)
			return z, z.Reset(&z.src)
		}
	case zstandard:
		z, _ := f.zstds.Get().(*unzstd)
		if z == nil {
			d, err := f.newZstd()
			if err != nil {
				return nil, nil, fmt.Errorf("decompress zstd: %w", err)
			}
			z = &unzstd{Decoder: d}
		}
		defer func() {
			z.src.Reset(nil)
			if z.Reset(nil) == nil {
				f.zstds.Put(z)
			}
		}()
		begin = func() (io.Reader, error) {
			z.src.Reset(src)
			return z, z.Reset(&z.src)
		}
	default:
		return nil, nil, errors.New("option compressed is neither text, gzip nor zstd")
	}
	home, n, err := f.readAll(begin, len(src))
	if err != nil {
		return nil, nil, fmt.Errorf("decompress: %w", err)
	}
	return home.b[:n], home, nil
}

func (f *inflater) newZstd() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(uint64(f.limit)+1))
}

// measureAbove is the size from which a body is decompressed twice: first to see how large
// it is, then into a block of that size. Growing would take twice as much memory for a
// while, and a body beyond the limit would take all of it before it is refused.
const measureAbove = 8 << 20

func (f *inflater) readAll(begin func() (io.Reader, error), guess int) (*block, int, error) {
	r, err := begin()
	if err != nil {
		return nil, 0, err
	}
	b, err := f.mem.get(min(max(4*guess, minBuffer), freeBuffer))
	if err != nil {
		return nil, 0, err
	}
	n := 0
	for {
		if n == len(b.b) {
			if n >= measureAbove {
				f.mem.put(b)
				return f.measured(begin, r, int64(n))
			}
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
			return nil, 0, f.tooLarge()
		case err == io.EOF:
			return b, n, nil
		case err != nil:
			f.mem.put(b)
			return nil, 0, err
		}
	}
}

func (f *inflater) tooLarge() error {
	return fmt.Errorf("larger than decompression_size_limit (%d bytes)", f.limit)
}

// measured finds the size of a body of which n bytes have come out of r, and decompresses
// it again.
func (f *inflater) measured(begin func() (io.Reader, error), r io.Reader, n int64) (*block, int, error) {
	rest, err := io.Copy(io.Discard, io.LimitReader(r, f.limit-n+1))
	if err != nil {
		return nil, 0, err
	}
	if n += rest; n > f.limit {
		return nil, 0, f.tooLarge()
	}
	b, err := f.mem.get(int(n))
	if err != nil {
		return nil, 0, err
	}
	if r, err = begin(); err == nil {
		_, err = io.ReadFull(r, b.b[:n])
	}
	if err != nil {
		f.mem.put(b)
		return nil, 0, err
	}
	return b, int(n), nil
}
