//go:build unix && !linux

package vfs

import (
	"errors"
	"fmt"
	"os"
)

// datasync is a full sync: on macOS os.File.Sync asks the drive itself to flush.
func datasync(f *os.File) error { return f.Sync() }

func allocate(f *os.File, _ int64) error {
	return fmt.Errorf("reserve space for %s: %w", f.Name(), errors.ErrUnsupported)
}
