// Package e2e runs the real weir binary with real protocols on both sides: forward clients
// before it, the local CloudWatch Logs endpoint behind it.
package e2e

import (
	"testing"

	"weir/test/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }
