package buffer

import (
	"fmt"

	"weir/internal/ledger"
)

// Miss books events of a tag that were lost before they could be appended, and leaves a Gap
// behind everything appended so far and before everything that follows. It takes a Seq of
// its own, or joins the gap that stands there already. A killed process keeps it as soon as
// a batch appended later is stored, and at the latest after a second.
func (b *Buffer) Miss(tag string, reason ledger.Reason, l Loss) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return fmt.Errorf("note a loss in buffer %s: %w", b.o.Dir, ErrClosed)
	}
	b.o.Book.AdmitEnded(ledger.Fate{Class: ledger.Dropped, Reason: reason}, int(l.Events))
	b.dirty = true
	b.kickCommitter()
	return nil
}
