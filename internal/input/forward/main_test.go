package forward

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestInput(tb testing.TB, p Params, o Options) *Input {
	tb.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	in, err := New(p, o)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}
