// Package vfs is the handful of file calls that weir's buffers need, so that one code
// path runs on the operating system, in memory, and in tests on a file system that fails
// and forgets.
package vfs

import (
	"errors"
	"io"
	"syscall"
)

// ErrLocked is returned by FS.Lock when another process (or another buffer of this one)
// has the directory.
var ErrLocked = errors.New("directory is in use by another process")

// LockName is the file that FS.Lock leaves in the directory.
const LockName = "lock"

// IsFull tells whether err means that the file system or a quota has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Volatile tells whether what fs holds ends with the process, so that nothing needs to be
// synced or kept for a restart.
func Volatile(fs FS) bool {
	v, ok := fs.(interface{ Volatile() bool })
	return ok && v.Volatile()
}

// FS is a file system. Names are slash-separated paths. It may be used from any goroutine.
type FS interface {
	// Create makes a new file for reading and writing; it fails if the name exists.
	// The name is durable only after SyncDir of its directory.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename replaces newname atomically.
	Rename(oldname, newname string) error
	Remove(name string) error
	// List returns the base names in dir, sorted.
	List(dir string) ([]string, error)
	MkdirAll(dir string) error
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Free is how many bytes the file system can still take for an unprivileged writer.
	Free(dir string) (int64, error)
	// Lock takes dir for this process; it fails at once if another process has it. Closing
	// gives it back; so does the end of the process.
	Lock(dir string) (io.Closer, error)
}

// File is an open file. Reads may run beside one writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Datasync makes everything written durable. After it fails the state of the file on
	// disk is unknown and calling it again proves nothing: abandon the file.
	Datasync() error
	// Allocate reserves space up to size without changing the file's length, so that
	// writes below it cannot fail with ENOSPC. ErrUnsupported is not an error for callers.
	Allocate(size int64) error
	Truncate(size int64) error
	Size() (int64, error)
}
