// Package crash kills the real weir binary, damages its buffer, fills its disk, and checks
// that what it has acknowledged arrives.
//
// TestKill runs for WEIR_CRASH_CYCLES kills (default 30); a long run is
//
//	WEIR_CRASH_CYCLES=1000 go test -count=1 -timeout 2h -run TestKill ./test/crash
package crash

import (
	"testing"

	"weir/test/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }
