package app

import (
	"path/filepath"
	"testing"

	"weir/internal/config"
	"weir/internal/vfs"
)

// TestRoom: what the file says holds; else the floor is 256 MiB, or a quarter of a small
// file system. The directory need not be there. (test/crash has a small file system.)
func TestRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	size, err := (vfs.OS{}).Capacity(filepath.Dir(filepath.Dir(dir)))
	if err != nil || size <= 0 {
		t.Fatal(size, err)
	}
	none := config.Size(0)
	for _, c := range []struct {
		written *config.Size
		want    int64
	}{{nil, min(256<<20, size/4)}, {&none, 0}} {
		if capacity, floor := room(&config.Buffer{MinFree: c.written}, dir); capacity != size || floor != c.want {
			t.Errorf("%v: the floor is %d of %d bytes, want %d of %d", c.written, floor, capacity, c.want, size)
		}
	}
}
