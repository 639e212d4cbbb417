package main

import (
	"os"
	"runtime/debug"

	"weir/internal/app"
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

// shrink gives back what starting took and is not needed again: freed heap, and the pages
// of the binary that only the start has touched. The kernel brings those back from its
// cache when they are wanted after all.
func shrink() {
	debug.FreeOSMemory()
	dropOwnPages()
}
