package file

import (
	"io/fs"
	"sync"
)

// faultyFS is the operating system's file system with faults. A fault is consumed when it
// strikes.
type faultyFS struct {
	OS
	mu       sync.Mutex
	open     error
	write    error // strikes after half of the bytes
	sync     error
	syncDir  error
	link     error
	synced   int // calls of File.Sync
	dirSyncs int
	handles  int // open files
}

func (f *faultyFS) take(e *error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := *e
	*e = nil
	return err
}

func (f *faultyFS) Open(name string, perm fs.FileMode, exclusive bool) (File, bool, error) {
	if err := f.take(&f.open); err != nil {
		return nil, false, err
	}
	file, created, err := f.OS.Open(name, perm, exclusive)
	if err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	f.handles++
	f.mu.Unlock()
	return &faultyFile{File: file, fs: f}, created, nil
}

func (f *faultyFS) SyncDir(dir string) error {
	if err := f.take(&f.syncDir); err != nil {
		return err
	}
	f.mu.Lock()
	f.dirSyncs++
	f.mu.Unlock()
	return f.OS.SyncDir(dir)
}

func (f *faultyFS) Link(target, name string) error {
	if err := f.take(&f.link); err != nil {
		return err
	}
	return f.OS.Link(target, name)
}

type faultyFile struct {
	File
	fs *faultyFS
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.fs.take(&f.fs.write); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.take(&f.fs.sync); err != nil {
		return err
	}
	f.fs.mu.Lock()
	f.fs.synced++
	f.fs.mu.Unlock()
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	f.fs.mu.Lock()
	f.fs.handles--
	f.fs.mu.Unlock()
	return f.File.Close()
}
