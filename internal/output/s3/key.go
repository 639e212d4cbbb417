package s3

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/placeholder"
)

// A key has marks for what is only known when the object is sent: a zero byte and a word.
// No value from a tag or a record can hold a zero byte.
const (
	markIndex = "\x00{index}"
	markUUID  = "\x00{uuid_flush}"
	markHex   = "\x00{hex_random}"
	markHMS   = "\x00{hms_slice}"
	markChunk = "\x00{chunk_id}"
	markEnd   = "\x00|" // ends a part of a lane
)

// maxKey is the longest key that S3 takes, in bytes.
const maxKey = 1024

var (
	mark        = regexp.MustCompile(`%\{[^}]+\}`)
	uuidMark    = regexp.MustCompile(`%\{uuid(:random|:hostname|:timestamp)?\}`)
	indexFormat = regexp.MustCompile(`^%(0\d*)?[dxX]$`)
)

// keyFormat is s3_object_key_format, compiled.
type keyFormat struct {
	template *placeholder.Template
	index    string // index_format
	hexLen   int
	indexed  bool // has %{index}
	unique   bool // has something of 64 random bits or more: no other object has this key
	random   bool // has a %{hex_random} that is shorter than that
	timed    bool // has the time of the flush
	grow     int  // bytes by which a key gets longer when its marks are filled in, about
}

// compileKey reads the key's format in Fluentd's order: %{path} and %{file_extension}, then
// the placeholders of the buffer with the time, then the rest.
func (p *Params) compileKey(names placeholder.Options) (keyFormat, []placeholder.Problem) {
	text, problems := p.keyText(names.Timekey)
	names.Strict, names.Direct, names.EventTime = false, false, false
	t, more := placeholder.Compile(text, names)
	f := keyFormat{
		template: t, index: p.IndexFormat, hexLen: p.HexLength,
		indexed: strings.Contains(text, markIndex), timed: strings.Contains(text, markHMS), random: strings.Contains(text, markHex),
	}
	f.unique = strings.Contains(text, markUUID) || strings.Contains(text, markChunk) || f.random && p.HexLength >= 16
	f.grow = len(f.expand(text, &fresh{index: 99999})) - len(text)
	for i := range more {
		more[i].Text = readable(more[i].Text)
	}
	return f, append(problems, more...)
}

// readable shows marks as they were written.
func readable(s string) string {
	return strings.NewReplacer(`\x00{chunk_id}`, "${chunk_id}", `\x00{`, "%{").Replace(s)
}

// keyText makes a template of the key's format.
func (p *Params) keyText(timekey time.Duration) (string, []placeholder.Problem) {
	var problems []placeholder.Problem
	format := p.KeyFormat
	if m := uuidMark.FindString(format); m != "" {
		problems = append(problems, placeholder.Problem{Text: "s3_object_key_format has " + m + ", which no longer exists", Hint: "write %{uuid_flush}"})
	}
	format = strings.NewReplacer("%{path}", p.Path, "%{file_extension}", p.store().ext).Replace(format)
	if strings.Contains(format, "\x00") {
		problems = append(problems, placeholder.Problem{Text: "the key has a zero byte"})
	}
	slice := ""
	if timekey > 0 {
		slice = p.sliceLayout(timekey)
	}
	text := mark.ReplaceAllStringFunc(format, func(m string) string {
		switch m {
		case "%{time_slice}":
			return slice
		case "%{uuid_flush}":
			return markUUID
		case "%{hex_random}":
			return markHex
		case "%{index}":
			if p.CheckObject {
				return markIndex
			}
		case "%{date_slice}":
			if !p.CheckObject {
				return slice
			}
		case "%{hms_slice}":
			if !p.CheckObject {
				return markHMS
			}
		}
		problems = append(problems, vanishes(m, p.CheckObject))
		return ""
	})
	return strings.Replace(text, "${chunk_id}", markChunk, 1), problems
}

// vanishes is the warning about a placeholder that leaves nothing.
func vanishes(m string, checked bool) placeholder.Problem {
	pr := placeholder.Problem{Warning: true, Text: m + " in s3_object_key_format becomes the empty text"}
	switch {
	case m == "%{index}":
		pr.Text += " with check_object false"
	case (m == "%{hms_slice}" || m == "%{date_slice}") && checked:
		pr.Text += " unless check_object is false"
	case m == "%{hostname}":
		pr.Hint = `write "#{hostname}" in double quotes`
	default:
		pr.Hint = "there are %{path} %{time_slice} %{index} %{file_extension} %{uuid_flush} %{hex_random}"
	}
	return pr
}

// sliceLayout is the time layout of %{time_slice}.
func (p *Params) sliceLayout(timekey time.Duration) string {
	if p.TimeSliceFormat != "" {
		return p.TimeSliceFormat
	}
	return config.TimekeyLayout(timekey)
}

// fresh is what makes the key of one object: the same for all attempts to send it.
type fresh struct {
	chunk, uuid [16]byte
	index       int
	at          time.Time // of the attempt
}

// newFresh draws new random parts.
func newFresh() fresh {
	var f fresh
	_, _ = rand.Read(f.chunk[:]) // never fails
	_, _ = rand.Read(f.uuid[:])
	f.uuid[6], f.uuid[8] = f.uuid[6]&0x0f|0x40, f.uuid[8]&0x3f|0x80
	return f
}

// uuidText is the usual form of a UUID.
func uuidText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// hexRandom is Fluentd's %{hex_random}: the first digits of the chunk's id read backwards.
func hexRandom(id [16]byte, n int) string {
	h := []byte(hex.EncodeToString(id[:]))
	for i, j := 0, len(h)-1; i < j; i, j = i+1, j-1 {
		h[i], h[j] = h[j], h[i]
	}
	return string(h[:min(n, len(h))])
}

// expand fills in the marks of a text.
func (f *keyFormat) expand(text string, v *fresh) string {
	if !strings.Contains(text, "\x00") {
		return text
	}
	return strings.NewReplacer(
		markIndex, fmt.Sprintf(f.index, v.index), markUUID, uuidText(v.uuid), markHex, hexRandom(v.chunk, f.hexLen),
		markHMS, v.at.UTC().Format("150405"), markChunk, hex.EncodeToString(v.chunk[:]),
	).Replace(text)
}
