// Package written is what the program in the containers writes and the tests expect: both
// make it from the same few numbers.
package written

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// AppendLine appends line i of the writer id. Its length depends on i unless size, the bytes
// of a line, is given. Its text depends on i, so that a mixed-up line is noticed.
func AppendLine(dst []byte, id string, i, size int) []byte {
	from := len(dst)
	dst = append(append(dst, "line "...), id...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, ' ')
	pad := i * 7919 % 97
	if size > 0 {
		pad = size - (len(dst) - from)
	}
	for range pad {
		dst = append(dst, byte('a'+i%26))
	}
	return dst
}

// Line is AppendLine as a string.
func Line(id string, i, size int) string { return string(AppendLine(nil, id, i, size)) }

// Number reads which line of the writer id a message is. ok is false for other messages,
// damaged ones among them.
func Number(message, id string, size int) (i int, ok bool) {
	rest, ok := strings.CutPrefix(message, "line "+id+" ")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, " ")
	i, err := strconv.Atoi(number)
	return i, err == nil && i >= 0 && message == Line(id, i, size)
}

// End is the line after the last of n lines.
func End(id string, n int, slowest time.Duration) string {
	return fmt.Sprintf("end %s %d slowest %d ms", id, n, slowest.Milliseconds())
}

// ParseEnd reads such a line.
func ParseEnd(message, id string) (n int, slowest time.Duration, ok bool) {
	var ms int64
	var got string
	c, err := fmt.Sscanf(message, "end %s %d slowest %d ms", &got, &n, &ms)
	return n, time.Duration(ms) * time.Millisecond, err == nil && c == 3 && got == id
}

// Long is a line of n bytes in which no two neighbouring kilobytes are equal.
func Long(n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%08d.", i)
	}
	return b.String()[:n]
}

// Binary is n bytes of which none is a newline.
func Binary(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		for b[i] = byte(r.Uint32()); b[i] == '\n'; b[i] = byte(r.Uint32()) {
		}
	}
	return b
}

// Repaired is what the service stores of bytes that are no UTF-8: each that fits nowhere
// becomes a replacement character.
func Repaired(b []byte) string { return string([]rune(string(b))) }

// JSON is a JSON object with a nested one and characters that have to be escaped.
func JSON(id string, i int) string {
	return fmt.Sprintf(`{"id":%q,"n":%d,"text":"tab\t quote\" café","nested":{"list":[1,2,%d]}}`, id, i, i)
}

// Dated is line i of the writer id behind a date, in seconds since 1970.
func Dated(id string, i int, at int64) string {
	return time.Unix(at, 0).UTC().Format("2006-01-02 15:04:05") + " " + Line(id, i, 0)
}

// Trace is an event of several lines that begins with a date, without the last newline.
func Trace(id string, i int) string {
	at := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
	var b strings.Builder
	fmt.Fprintf(&b, "%s ERROR %s %d failed", at.Format("2006-01-02 15:04:05"), id, i)
	for k := range i % 4 {
		fmt.Fprintf(&b, "\n\tat com.example.Frame%d(Frame.java:%d)", k, i)
	}
	return b.String()
}
