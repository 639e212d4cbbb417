package vfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"sort"
	"sync"
	"syscall"
)

// memChunk is the unit in which a Mem file grows. Growing never copies, and a removed
// file's chunks serve the next one.
const memChunk = 64 << 10

// memSpare bounds the chunks that a Mem keeps for reuse: 4 MiB.
const memSpare = 64

// Mem is a file system in memory. Its contents end with the process.
type Mem struct {
	mu    sync.Mutex // guards all fields; a node.s mu may be held when it is taken
	limit int64      // bytes; 0 is unlimited
	used  int64      // bytes of chunks in files
	files map[string]*memNode
	locks map[string]bool
	spare [][]byte
}

var _ FS = (*Mem)(nil)

// NewMem makes an empty file system that fails writes with ENOSPC beyond limit bytes
// (counted in whole chunks of 64 KiB); 0 is no limit.
func NewMem(limit int64) *Mem {
	return &Mem{limit: limit, files: map[string]*memNode{}, locks: map[string]bool{}}
}

// Volatile says that nothing outlives the process.
func (*Mem) Volatile() bool { return true }

type memNode struct {
	mu      sync.RWMutex // guards data and size
	data    [][]byte     // chunks; nil is a hole
	size    int64
	handles int  // open files; guarded by Mem.mu
	removed bool // guarded by Mem.mu
}

type memFile struct {
	fs   *Mem
	node *memNode
	name string
	once sync.Once
}

func pathErr(op, name string, err error) error { return &os.PathError{Op: op, Path: name, Err: err} }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.files[name] != nil {
		return nil, pathErr("create", name, os.ErrExist)
	}
	n := &memNode{handles: 1}
	m.files[name] = n
	return &memFile{fs: m, node: n, name: name}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.files[name]
	if n == nil {
		return nil, pathErr("open", name, os.ErrNotExist)
	}
	n.handles++
	return &memFile{fs: m, node: n, name: name}, nil
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	n := m.files[oldname]
	if n == nil {
		return pathErr("rename", oldname, os.ErrNotExist)
	}
	if old := m.files[newname]; old != nil && old != n {
		old.removed = true
		m.reclaim(old)
	}
	delete(m.files, oldname)
	m.files[newname] = n
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.files[name]
	if n == nil {
		return pathErr("remove", name, os.ErrNotExist)
	}
	delete(m.files, name)
	n.removed = true
	m.reclaim(n)
	return nil
}

// reclaim takes the chunks of a removed file that nobody has open. mu is held.
func (m *Mem) reclaim(n *memNode) {
	if !n.removed || n.handles > 0 {
		return
	}
	m.give(n.data)
	n.data, n.size = nil, 0
}

// give takes chunks back. mu is held.
func (m *Mem) give(chunks [][]byte) {
	for _, c := range chunks {
		if c == nil {
			continue
		}
		m.used -= memChunk
		if len(m.spare) < memSpare {
			m.spare = append(m.spare, c)
		}
	}
}

func (m *Mem) take() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit > 0 && m.used+memChunk > m.limit {
		return nil, syscall.ENOSPC
	}
	m.used += memChunk
	if k := len(m.spare); k > 0 {
		c := m.spare[k-1]
		m.spare = m.spare[:k-1]
		clear(c)
		return c, nil
	}
	return make([]byte, memChunk), nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	var names []string
	for name := range m.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	sort.Strings(names)
	return names, nil
}

// MkdirAll implements FS: every directory exists already.
func (*Mem) MkdirAll(string) error { return nil }

// SyncDir implements FS.
func (*Mem) SyncDir(string) error { return nil }

// Free implements FS.
func (m *Mem) Free(string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit == 0 {
		return math.MaxInt64, nil
	}
	return max(0, m.limit-m.used), nil
}

// Lock implements FS.
func (m *Mem) Lock(dir string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	if m.locks[dir] {
		return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
	}
	m.locks[dir] = true
	return &memLock{fs: m, dir: dir}, nil
}

type memLock struct {
	fs   *Mem
	dir  string
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		delete(l.fs.locks, l.dir)
		l.fs.mu.Unlock()
	})
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathErr("read", f.name, errors.New("negative offset"))
	}
	n := f.node
	n.mu.RLock()
	defer n.mu.RUnlock()
	done := 0
	for done < len(p) && off < n.size {
		in := int(off % memChunk)
		k := min(memChunk-in, len(p)-done, int(n.size-off))
		if c := n.data[off/memChunk]; c != nil {
			copy(p[done:done+k], c[in:])
		} else {
			clear(p[done : done+k])
		}
		done += k
		off += int64(k)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// WriteAt implements io.WriterAt.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathErr("write", f.name, errors.New("negative offset"))
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	done := 0
	for done < len(p) {
		i, in := int(off/memChunk), int(off%memChunk)
		for len(n.data) <= i {
			n.data = append(n.data, nil)
		}
		if n.data[i] == nil {
			c, err := f.fs.take()
			if err != nil {
				return done, pathErr("write", f.name, err)
			}
			n.data[i] = c
		}
		k := copy(n.data[i][in:], p[done:])
		done += k
		off += int64(k)
		n.size = max(n.size, off)
	}
	return done, nil
}

// Close implements io.Closer.
func (f *memFile) Close() error {
	f.once.Do(func() {
		f.fs.mu.Lock()
		f.node.handles--
		f.fs.reclaim(f.node)
		f.fs.mu.Unlock()
	})
	return nil
}

// Datasync implements File.
func (*memFile) Datasync() error { return nil }

// Allocate implements File: memory is taken as it is written.
func (*memFile) Allocate(int64) error { return errors.ErrUnsupported }

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	keep := int((size + memChunk - 1) / memChunk)
	if keep < len(n.data) {
		f.fs.mu.Lock()
		f.fs.give(n.data[keep:])
		f.fs.mu.Unlock()
		clear(n.data[keep:])
		n.data = n.data[:keep]
	}
	for len(n.data) < keep {
		n.data = append(n.data, nil)
	}
	if in := size % memChunk; in != 0 && size < n.size && n.data[keep-1] != nil {
		clear(n.data[keep-1][in:])
	}
	n.size = size
	return nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.size, nil
}
