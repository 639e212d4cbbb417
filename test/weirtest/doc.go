// Package weirtest runs the real weir binary for the tests under test/: it builds it once,
// starts it on a configuration, sends it signals, scrapes its status, and compares what
// the local endpoint accepted with what was sent.
//
// Nothing here sleeps for a fixed time: Eventually polls something observable until a
// deadline.
//
// Environment of a test run:
//
//	WEIR_BINARY       a binary to test instead of one built from this tree
//	WEIR_BUILD_FLAGS  more flags for `go build`, for example -race
//	WEIR_TEST_DUMP    directory for the goroutines of a weir whose test has failed
//	WEIR_TEST_KEEP    1: a failed test keeps its directory and says where it is
package weirtest
