package segment

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compressor stores payloads in one codec. It keeps its encoder between calls and is for
// one goroutine.
type Compressor struct {
	codec Codec
	gz    *gzip.Writer
	zs    *zstd.Encoder
}

// NewCompressor makes a compressor; name is "", "text", "gzip" or "zstd".
func NewCompressor(name string) (*Compressor, error) {
	switch name {
	case "", "text":
		return &Compressor{}, nil
	case "gzip":
		w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		return &Compressor{codec: Gzip, gz: w}, err
	case "zstd":
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		return &Compressor{codec: Zstd, zs: e}, err
	}
	return nil, fmt.Errorf("compress %q is not known: write gzip, zstd or text", name)
}

// Codec is what Compress makes.
func (c *Compressor) Codec() Codec { return c.codec }

// Compress appends payload in the compressor's codec to dst. ok is false if that would
// not be smaller: the payload is then stored plain.
func (c *Compressor) Compress(dst, payload []byte) (out []byte, ok bool) {
	at := len(dst)
	switch c.codec {
	case Gzip:
		w := &appender{dst}
		c.gz.Reset(w)
		if _, err := c.gz.Write(payload); err != nil {
			return dst, false
		}
		if err := c.gz.Close(); err != nil {
			return dst, false
		}
		dst = w.b
	case Zstd:
		dst = c.zs.EncodeAll(payload, dst)
	default:
		return dst, false
	}
	return dst, len(dst)-at < len(payload)
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// Decompressor reads stored payloads of any codec. It is for one goroutine at a time.
type Decompressor struct {
	gz *gzip.Reader
	zs *zstd.Decoder
}

// Decompress appends the payload of a frame whose stored bytes passed CheckPayload to dst.
// It never makes more than the header's Raw bytes.
func (d *Decompressor) Decompress(h *Header, dst, stored []byte) ([]byte, error) {
	at := len(dst)
	want := at + int(h.Raw)
	var err error
	switch h.Codec {
	case Plain:
		dst = append(dst, stored...)
	case Gzip:
		dst, err = d.gunzip(dst, stored, want)
	case Zstd:
		if d.zs == nil {
			d.zs, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPayload), zstd.WithDecodeAllCapLimit(true))
			if err != nil {
				return dst, fmt.Errorf("make a zstd decoder: %w", err)
			}
		}
		if cap(dst) < want {
			dst = append(make([]byte, 0, want), dst...)
		}
		var out []byte
		out, err = d.zs.DecodeAll(stored, dst[:at:want])
		if err == nil {
			dst = out
		}
	default:
		err = fmt.Errorf("codec %d is not known", h.Codec)
	}
	if err != nil {
		return dst[:at], fmt.Errorf("decompress frame: %w: %w", ErrPayload, err)
	}
	if len(dst) != want {
		return dst[:at], fmt.Errorf("decompress frame: %d bytes instead of %d: %w", len(dst)-at, h.Raw, ErrPayload)
	}
	return dst, nil
}

func (d *Decompressor) gunzip(dst, stored []byte, want int) ([]byte, error) {
	var err error
	if d.gz == nil {
		d.gz, err = gzip.NewReader(bytes.NewReader(stored))
	} else {
		err = d.gz.Reset(bytes.NewReader(stored))
	}
	if err != nil {
		return dst, err
	}
	at := len(dst)
	if cap(dst) < want {
		dst = append(make([]byte, 0, want), dst...)
	}
	n, err := io.ReadFull(d.gz, dst[at:want])
	if err != nil {
		return dst, err
	}
	return dst[:at+n], nil
}
