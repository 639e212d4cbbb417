package main

import (
	"os"
	"runtime/debug"
	"time"

	"weir/internal/app"
	"weir/internal/ledger"
)

// boundMemory makes the collector keep to memory_limit of <system>, and to a small heap
// otherwise; whoever sets GOGC or GOMEMLIMIT has decided.
func boundMemory(plan *app.Plan) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if limit := plan.System.MemoryLimit; limit != nil && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(*limit))
	}
}

// quiet notices that no events come any more, and gives memory back once then.
type quiet struct {
	app    counted
	tick   *time.Ticker
	before uint64 // events admitted when it last looked
	shrunk bool   // since events last came
}

// counted is what has books: an App, a Docker.
type counted interface{ Totals() ledger.Sheet }

func newQuiet(a counted) *quiet {
	return &quiet{app: a, tick: time.NewTicker(7 * time.Second), shrunk: true}
}

func (q *quiet) look() {
	sum := q.app.Totals()
	came := sum.Admitted != q.before
	q.before = sum.Admitted
	switch {
	case came:
		q.shrunk = false
	case !q.shrunk:
		q.shrunk = true
		shrink()
	}
}

// shrink gives back what starting took and is not needed again: freed heap, and the pages
// of the binary that only the start has touched. The kernel brings those back from its
// cache when they are wanted after all.
func shrink() {
	debug.FreeOSMemory()
	dropOwnPages()
}
