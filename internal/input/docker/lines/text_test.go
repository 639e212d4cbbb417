package lines

import "testing"

// TestBuffersAreLetGo: a hundred containers that wrote one long line each must not hold a
// hundred large buffers.
func TestBuffersAreLetGo(t *testing.T) {
	var x text
	x.add(0, make([]byte, keep))
	x.reset()
	if cap(x.buf) == 0 {
		t.Error("a small buffer was not kept")
	}
	x.add(0, make([]byte, 4*keep))
	x.reset()
	if cap(x.buf) != 0 {
		t.Error("a large buffer was kept")
	}
}
