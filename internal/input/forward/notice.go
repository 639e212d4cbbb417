package forward

import (
	"log/slog"
	"sync"
	"time"
)

// notices keeps the log readable when clients misbehave: of each kind of trouble it lets
// a few lines pass, then one per interval, with the number of those left out.
type notices struct {
	log *slog.Logger
	mu  sync.Mutex // guards by
	by  [kinds]notice
}

type notice struct {
	begun time.Time // of the current interval
	shown int
	more  int // left out since the last line
}

const (
	noticeInterval = time.Minute
	noticeBurst    = 5
)

// kind is a kind of trouble.
type kind uint8

const (
	kindMalformed kind = iota
	kindHandshake
	kindInvalid
	kindBroken
	kindSize
	kindRefused
	kindAck
	kindAccept
	kindCut
	kinds
)

// may says whether a line of this kind may be written now, and counts it if not. What can
// happen with every message asks before it collects the line's attributes.
func (n *notices) may(k kind) bool {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &n.by[k]
	if now.Sub(c.begun) >= noticeInterval {
		c.begun, c.shown = now, 0
	}
	if c.shown >= noticeBurst {
		c.more++
		return false
	}
	c.shown++
	return true
}

// warn writes a line after may.
func (n *notices) warn(k kind, text string, attrs ...any) {
	n.mu.Lock()
	more := n.by[k].more
	n.by[k].more = 0
	n.mu.Unlock()
	if more > 0 {
		attrs = append(attrs, slog.Int("similar_lines_left_out", more))
	}
	n.log.Warn(text, attrs...)
}

// warnRare is may and warn for what ends a connection.
func (n *notices) warnRare(k kind, text string, attrs ...any) {
	if n.may(k) {
		n.warn(k, text, attrs...)
	}
}
