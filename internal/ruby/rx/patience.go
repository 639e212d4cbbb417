package rx

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// Limits of matching by the engine that backtracks. A text on which an expression explodes
// must not hold up the events behind it: a thousand of them at matchTime each would be
// minutes.
const (
	matchTime   = 100 * time.Millisecond
	shortTime   = 5 * time.Millisecond
	clockPeriod = 2 * time.Millisecond // how exactly regexp2 keeps a limit

	missPrice  = 100            // what a match given up after matchTime costs …
	fullCredit = 10 * missPrice // … of this; each match that ends gives 1 back
	maxMisses  = 100            // in a row: the texts are all alike, and trying is of no use
	maxSkips   = 1000           // texts given up unseen before the next is tried again
)

// patience decides how long the next text may take: matchTime as a rule, shortTime while
// many are given up, and nothing at all while all are.
type patience struct {
	brief *regexp2.Regexp // slow with shortTime

	spent  atomic.Int64 // of fullCredit
	misses atomic.Int64 // in a row
	length atomic.Int64 // shortest text among them, in bytes
	skips  atomic.Int64 // texts still to be given up unseen
}

var clock sync.Once

// slowly compiles an expression for the engine that backtracks.
func slowly(text string) (slow, brief *regexp2.Regexp, err error) {
	clock.Do(func() { regexp2.SetTimeoutCheckPeriod(clockPeriod) })
	compile := func(limit time.Duration) (*regexp2.Regexp, error) {
		re, err := regexp2.Compile(text, regexp2.OptionMaxBacktrackingStackSize(maxStack))
		if err == nil {
			re.MatchTimeout = limit
		}
		return re, err
	}
	if slow, err = compile(matchTime); err == nil {
		brief, err = compile(shortTime)
	}
	return slow, brief, err
}

// engine gives what is to match a text of n bytes; nil means that it is given up unseen.
func (r *Regexp) engine(n int) *regexp2.Regexp {
	p := &r.patience
	if p.misses.Load() >= maxMisses && int64(n) >= p.length.Load() && p.skips.Add(-1) >= 0 {
		r.timeouts.Add(1)
		return nil
	}
	if p.spent.Load() > fullCredit-missPrice {
		return p.brief
	}
	return r.slow
}

// ended notes how the match of a text of n bytes by an engine ended.
func (r *Regexp) ended(by *regexp2.Regexp, n int, ok bool) {
	p := &r.patience
	if ok {
		if p.misses.Load() > 0 {
			p.misses.Store(0)
		}
		if p.spent.Load() > 0 {
			p.spent.Add(-1)
		}
		return
	}
	r.timeouts.Add(1)
	if by == r.slow {
		p.spent.Add(missPrice)
	}
	if m := p.misses.Add(1); m == 1 || int64(n) < p.length.Load() {
		p.length.Store(int64(n))
	} else if m >= maxMisses {
		p.skips.Store(maxSkips)
	}
}
