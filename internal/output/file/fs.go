package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is the handful of calls that the output makes on a file system; tests put faults into
// them. It may be used from any goroutine.
type FS interface {
	// Open opens a file for appending and creates it when it is missing; created says so.
	// With exclusive an existing file is an error for which errors.Is(err, fs.ErrExist).
	Open(name string, perm fs.FileMode, exclusive bool) (f File, created bool, err error)
	MkdirAll(dir string, perm fs.FileMode) error
	// SyncDir makes the creation of files in dir durable.
	SyncDir(dir string) error
	// Link makes name a symbolic link to target, in place of an existing link. It does not
	// replace anything else.
	Link(target, name string) error
}

// File is a file open for appending.
type File interface {
	io.Writer
	io.Closer
	Size() (int64, error)
	// Last is the last byte; size is what Size returned and above 0.
	Last(size int64) (byte, error)
	Truncate(size int64) error
	// Sync makes what was written durable.
	Sync() error
}

// OS is the operating system's file system.
type OS struct{}

var _ FS = OS{}

// Open implements FS.
func (OS) Open(name string, perm fs.FileMode, exclusive bool) (File, bool, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, perm)
	if err == nil {
		return osFile{f}, true, nil
	}
	if exclusive || !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	f, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, perm)
	if err != nil {
		return nil, false, err
	}
	return osFile{f}, false, nil
}

// MkdirAll implements FS.
func (OS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Link implements FS. The link is made under another name and moved into place, so that
// there is one at every moment.
func (OS) Link(target, name string) error {
	if old, err := os.Lstat(name); err == nil && old.Mode()&fs.ModeSymlink == 0 {
		return &fs.PathError{Op: "link", Path: name, Err: fs.ErrExist}
	}
	if old, err := os.Readlink(name); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), defaultDirPerm); err != nil {
		return err
	}
	next := name + ".weir-new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, name)
}

type osFile struct{ *os.File }

// Size implements File.
func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

// Last implements File.
func (f osFile) Last(size int64) (byte, error) {
	var b [1]byte
	_, err := f.ReadAt(b[:], size-1)
	return b[0], err
}
