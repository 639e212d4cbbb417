package vfstest

import (
	"io"
	"os"
	"slices"
	"syscall"
)

type file struct {
	fs   *FS
	node *node
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, err := f.fs.check(Read, f.node.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	fault, err := f.fs.check(Write, f.node.name)
	n := len(p)
	if fault != nil {
		n = min(n, fault.Short)
	} else if err != nil {
		return 0, err
	}
	if c := f.fs.capacity; c > 0 && err == nil {
		grow := off + int64(n) - max(int64(len(f.node.data)), f.node.alloc)
		if over := f.fs.used() + grow - c; grow > 0 && over > 0 {
			n = max(0, n-int(over))
			err = &os.PathError{Op: "write", Path: f.node.name, Err: syscall.ENOSPC}
		}
	}
	if n > 0 {
		f.node.data = write(f.node.data, off, p[:n])
		f.node.pending = append(f.node.pending, change{off, slices.Clone(p[:n])})
	}
	return n, err
}

// Datasync implements vfs.File. When it fails, the kernel has marked the pages clean: what
// was written since the last sync can be read, and may never reach the disk, even if a
// later Datasync succeeds.
func (f *file) Datasync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.node
	if _, err := f.fs.check(Datasync, f.node.name); err != nil {
		if !f.fs.dead {
			n.pending = nil
		}
		return err
	}
	for _, c := range n.pending {
		if c.data == nil {
			n.durable = resize(n.durable, c.off)
		} else {
			n.durable = write(n.durable, c.off, c.data)
		}
	}
	n.pending = nil
	f.fs.syncs++
	return nil
}

// Allocate implements vfs.File.
func (f *file) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, err := f.fs.check(Allocate, f.node.name); err != nil {
		return err
	}
	have := max(int64(len(f.node.data)), f.node.alloc)
	if c := f.fs.capacity; c > 0 && size > have && f.fs.used()+size-have > c {
		return &os.PathError{Op: "allocate", Path: f.node.name, Err: syscall.ENOSPC}
	}
	f.node.alloc = max(f.node.alloc, size)
	return nil
}

// Truncate implements vfs.File.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, err := f.fs.check(Truncate, f.node.name); err != nil {
		return err
	}
	f.node.data = resize(f.node.data, size)
	f.node.alloc = 0
	f.node.pending = append(f.node.pending, change{off: size})
	return nil
}

// Size implements vfs.File.
func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.dead {
		return 0, ErrDead
	}
	return int64(len(f.node.data)), nil
}

// Close implements io.Closer.
func (f *file) Close() error { return nil }
