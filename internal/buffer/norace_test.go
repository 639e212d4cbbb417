//go:build !race

package buffer

// allocSlack is how many allocations a batch may cost on average; half of one leaves room
// for what the collector takes from the pools.
const allocSlack = 0.5
