// Package fluentbuffer reads the directories that Fluentd's file and file_single buffers
// leave behind: which files are chunks, what their metadata says, and the events in them.
// It changes nothing.
package fluentbuffer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/event"
)

// Chunk is one chunk of a Fluentd buffer.
type Chunk struct {
	Path     string    // of the data
	Meta     string    // path of the metadata; "" if there is none
	Queued   bool      // it waited to be flushed; else it was still being filled
	ID       string    // as in the file name, hex
	Tag      string    // of events that do not carry their own; "" if unknown
	Timekey  int64     // begin of its time window, seconds since 1970; 0 if none
	Created  time.Time // whole seconds; the file's own time without metadata
	Modified time.Time
	Size     int64 // bytes of the data as stored
}

// Broken is a file that belongs to a chunk of which nothing can be read.
type Broken struct {
	Path string
	Err  error
}

const metaExt = ".meta"

// minID is the shortest id that counts: those of v0.12 have 14 to 16 digits, newer ones 32.
const minID = 12

// name is what a file's base name says.
type name struct {
	key    string // text before the state, without the dot
	id     string
	queued bool
	state  int // index of the b or q
}

// parseName reads PREFIX.b<hex>.SUFFIX and PREFIX.q<hex>.SUFFIX. Of several places that
// look so the last one counts: a key may contain anything.
func parseName(base string) (n name, ok bool) {
	if strings.HasSuffix(base, metaExt) {
		return n, false
	}
	for end := len(base); ; {
		dot := strings.LastIndexByte(base[:end], '.')
		if dot < 0 {
			return n, false
		}
		begin := strings.LastIndexByte(base[:dot], '.')
		part := base[begin+1 : dot]
		if begin >= 0 && len(part) > minID && (part[0] == 'b' || part[0] == 'q') && strings.Trim(part[1:], "0123456789abcdef") == "" {
			return name{key: base[:begin], id: part[1:], queued: part[0] == 'q', state: begin + 1}, true
		}
		end = dot
	}
}

// metaNames are the names that the metadata of a chunk can have: its own, and that of the
// other state, which is left if Fluentd is killed between the two renames of a chunk.
func (n *name) metaNames(base string) [2]string {
	other := "q"
	if n.queued {
		other = "b"
	}
	return [2]string{base + metaExt, base[:n.state] + other + base[n.state+1:] + metaExt}
}

// tag is what a name tells about the tag: file_single and v0.12 write it there, escaped as
// in a URL, behind the prefix.
func (n *name) tag(prefix string) string {
	key, ok := strings.CutPrefix(n.key, prefix)
	if !ok {
		return ""
	}
	if text, err := url.PathUnescape(key); err == nil {
		return text
	}
	return key
}

var (
	// ErrMeta marks metadata that cannot be used.
	ErrMeta = errors.New("metadata is damaged")
	// ErrEmpty marks a chunk without a byte of data.
	ErrEmpty = errors.New("no data")
	// ErrNoData marks metadata without its chunk.
	ErrNoData = errors.New("metadata without its data file")
)

// parseMeta reads the content of a .meta file into c: 0xc1 0x00, the length of a msgpack
// map in four bytes, the map; or, of older versions, the map alone. What stands behind it
// is left from longer metadata before.
func (c *Chunk) parseMeta(b []byte) error {
	if len(b) > 6 && b[0] == 0xc1 && b[1] == 0 {
		n := binary.BigEndian.Uint32(b[2:])
		if uint64(n) > uint64(len(b)-6) {
			return fmt.Errorf("%w: it ends early", ErrMeta)
		}
		b = b[6 : 6+n]
	}
	end, err := event.Skip(b, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMeta, err)
	}
	b = b[:end]
	if _, _, err := event.MapHeader(b, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrMeta, err)
	}
	if v, ok := event.FindKey(b, "id"); !ok || v[0] == 0xc0 || v[0] == 0xc2 {
		return fmt.Errorf("%w: it has no id", ErrMeta)
	}
	created, modified := seconds(b, "c"), seconds(b, "m")
	if created <= 0 || modified <= 0 {
		return fmt.Errorf("%w: it has no times", ErrMeta)
	}
	c.Created, c.Modified = time.Unix(created, 0), time.Unix(modified, 0)
	c.Timekey = seconds(b, "timekey")
	c.Tag = ""
	if v, ok := event.FindKey(b, "tag"); ok {
		if s, _, err := event.Bytes(v, 0); err == nil {
			if len(s) > maxTag {
				return fmt.Errorf("%w: a tag of %d bytes", ErrMeta, len(s))
			}
			c.Tag = string(s)
		}
	}
	return nil
}

// seconds is a number of the map; 0 if it has none.
func seconds(b []byte, key string) int64 {
	v, ok := event.FindKey(b, key)
	if !ok {
		return 0
	}
	if t, _, err := event.ReadTime(v, 0); err == nil {
		return t.Seconds()
	}
	f, err := strconv.ParseFloat(string(event.AppendText(nil, v)), 64)
	if err != nil || !(f > 0 && f < 1<<40) {
		return 0
	}
	return int64(f)
}

// IsFile tells by its base name whether a file is of a buffer of Fluentd: data or metadata.
func IsFile(base string) bool {
	_, ok := parseName(strings.TrimSuffix(base, metaExt))
	return ok
}
