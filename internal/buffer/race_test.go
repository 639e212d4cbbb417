//go:build race

package buffer

// allocSlack is loose here: under the race detector sync.Pool drops some of what it is
// given, on purpose.
const allocSlack = 5
