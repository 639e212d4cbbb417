// Package vfstest is a file system for tests that fails on request and forgets what was
// not synced when the power is cut.
package vfstest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"weir/internal/vfs"
)

// Op is a kind of call.
type Op uint8

// The calls that can be made to fail.
const (
	Create Op = iota
	Open
	Rename
	Remove
	List
	SyncDir
	Read
	Write
	Datasync
	Allocate
	Truncate
	Free
)

// Fault makes calls fail.
type Fault struct {
	Op    Op
	Name  string // the base name contains it; "" is any
	After int    // so many calls succeed first
	Times int    // so many calls fail; 0 is all
	Err   error
	Short int // a failing Write still writes so many bytes
}

// ErrDead is what a file system answers after Crash or Kill: its process is gone.
var ErrDead = errors.New("file system of a dead process")

// FS is a file system in memory with two images of each file and directory: what was
// written and what is durable. It may be used from any goroutine.
type FS struct {
	mu       sync.Mutex // guards everything, nodes included
	names    map[string]*node
	durable  map[string]*node
	log      []entry // changes of names that no SyncDir has made durable
	faults   []*Fault
	capacity int64 // bytes of all files; 0 is unlimited
	free     int64 // answer of Free; 0: from capacity
	locks    map[string]bool
	dead     bool
	syncs    int
}

var _ vfs.FS = (*FS)(nil)

// entry is a change of a directory: name now means node (nil: nothing).
type entry struct {
	dir     string
	changes map[string]*node // applied together
}

type node struct {
	data    []byte
	durable []byte
	pending []change
	alloc   int64
	name    string // the last one it had
}

// change is a write, or a truncation to off if data is nil.
type change struct {
	off  int64
	data []byte
}

// New makes an empty file system.
func New() *FS {
	return &FS{names: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}}
}

// Inject adds a fault.
func (s *FS) Inject(f Fault) {
	s.mu.Lock()
	s.faults = append(s.faults, &f)
	s.mu.Unlock()
}

// Heal removes all faults.
func (s *FS) Heal() {
	s.mu.Lock()
	s.faults = nil
	s.mu.Unlock()
}

// SetCapacity limits the bytes of all files and reservations; 0 is no limit.
func (s *FS) SetCapacity(n int64) {
	s.mu.Lock()
	s.capacity = n
	s.mu.Unlock()
}

// SetFree sets the answer of Free.
func (s *FS) SetFree(n int64) {
	s.mu.Lock()
	s.free = n
	s.mu.Unlock()
}

// Syncs is how many times Datasync succeeded.
func (s *FS) Syncs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncs
}

// Contents returns what was written to a file, to be changed by tests that damage it: it
// is both written and durable after Damage.
func (s *FS) Contents(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[path.Clean(name)]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// Damage replaces a file's contents, making the file if there is none.
func (s *FS) Damage(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = path.Clean(name)
	n := s.names[name]
	if n == nil {
		n = &node{name: name}
		s.names[name], s.durable[name] = n, n
	}
	n.data, n.durable, n.pending = slices.Clone(data), slices.Clone(data), nil
}

// Total is the length of all files whose name ends in suffix.
func (s *FS) Total(suffix string) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.names {
		if strings.HasSuffix(name, suffix) {
			sum += int64(len(n.data))
		}
	}
	return sum
}

// Clone copies the written image to an independent file system without faults or locks.
func (s *FS) Clone() *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clone(s.names, func(n *node) []byte { return n.data })
}

func (s *FS) clone(names map[string]*node, image func(*node) []byte) *FS {
	c := New()
	for name, n := range names {
		d := image(n)
		m := &node{data: slices.Clone(d), durable: slices.Clone(d), alloc: n.alloc, name: name}
		c.names[name], c.durable[name] = m, m
	}
	return c
}

// Kill ends the process that uses s: its calls fail from now on. The file system returned
// has everything that was written.
func (s *FS) Kill() *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	c := s.clone(s.names, func(n *node) []byte { return n.data })
	c.capacity = s.capacity
	return c
}

// Crash cuts the power: calls of s fail from now on. The file system returned has what was
// synced, and of the rest what pick chooses: pick(n) returns a number below n. Changes of
// names happen or not; a write happens whole, not at all, up to some byte, in some of its
// sectors, as zeros, or as garbage, but never touches bytes outside its own range.
func (s *FS) Crash(pick func(n int) int) *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	names := maps.Clone(s.durable)
	for _, e := range s.log {
		if pick(2) == 0 {
			apply(names, e.changes)
		}
	}
	images := map[*node][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n := names[name]; images[n] == nil {
			images[n] = n.crash(pick)
		}
	}
	c := s.clone(names, func(n *node) []byte { return images[n] })
	c.capacity = s.capacity
	return c
}

func apply(names map[string]*node, changes map[string]*node) {
	for name, n := range changes {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

const sector = 512

// crash returns what a power cut leaves of the node.
func (n *node) crash(pick func(int) int) []byte {
	img := slices.Clone(n.durable)
	for _, c := range n.pending {
		if c.data == nil {
			if pick(2) == 0 {
				img = resize(img, c.off)
			}
			continue
		}
		switch pick(6) {
		case 0: // not at all
		case 1:
			img = write(img, c.off, c.data)
		case 2:
			img = write(img, c.off, c.data[:pick(len(c.data)+1)])
		case 3:
			for at := 0; at < len(c.data); {
				end := min(len(c.data), at+sector-int((c.off+int64(at))%sector))
				if pick(2) == 0 {
					img = write(img, c.off+int64(at), c.data[at:end])
				}
				at = end
			}
		case 4:
			if end := c.off + int64(len(c.data)); int64(len(img)) < end {
				img = resize(img, end) // the length arrived, the data did not
			}
		case 5:
			g := slices.Clone(c.data)
			for at := pick(len(g)); at < len(g); at += 1 + pick(64) {
				g[at] ^= byte(1 + pick(255))
			}
			img = write(img, c.off, g)
		}
	}
	return img
}

func write(img []byte, off int64, p []byte) []byte {
	if end := off + int64(len(p)); int64(len(img)) < end {
		img = resize(img, end)
	}
	copy(img[off:], p)
	return img
}

func resize(img []byte, size int64) []byte {
	if size <= int64(len(img)) {
		return img[:size]
	}
	return append(img, make([]byte, size-int64(len(img)))...)
}

// check returns the error that a call is to fail with. mu is held.
func (s *FS) check(op Op, name string) (*Fault, error) {
	if s.dead {
		return nil, fmt.Errorf("%s: %w", name, ErrDead)
	}
	for _, f := range s.faults {
		if f.Op != op || !strings.Contains(path.Base(name), f.Name) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times < 0 {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				f.Times = -1
			}
		}
		return f, &os.PathError{Op: "test", Path: name, Err: f.Err}
	}
	return nil, nil
}

func (s *FS) rename(dir string, changes map[string]*node) {
	for name, n := range changes {
		if n != nil {
			n.name = name
		}
	}
	apply(s.names, changes)
	s.log = append(s.log, entry{dir, changes})
}

// Create implements vfs.FS.
func (s *FS) Create(name string) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = path.Clean(name)
	if _, err := s.check(Create, name); err != nil {
		return nil, err
	}
	if s.names[name] != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: os.ErrExist}
	}
	n := &node{}
	s.rename(path.Dir(name), map[string]*node{name: n})
	return &file{s, n}, nil
}

// Open implements vfs.FS.
func (s *FS) Open(name string) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = path.Clean(name)
	if _, err := s.check(Open, name); err != nil {
		return nil, err
	}
	n := s.names[name]
	if n == nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	return &file{s, n}, nil
}

// Rename implements vfs.FS.
func (s *FS) Rename(oldname, newname string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	if _, err := s.check(Rename, newname); err != nil {
		return err
	}
	n := s.names[oldname]
	if n == nil {
		return &os.PathError{Op: "rename", Path: oldname, Err: os.ErrNotExist}
	}
	s.rename(path.Dir(newname), map[string]*node{oldname: nil, newname: n})
	return nil
}

// Remove implements vfs.FS.
func (s *FS) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = path.Clean(name)
	if _, err := s.check(Remove, name); err != nil {
		return err
	}
	if s.names[name] == nil {
		return &os.PathError{Op: "remove", Path: name, Err: os.ErrNotExist}
	}
	s.rename(path.Dir(name), map[string]*node{name: nil})
	return nil
}

// List implements vfs.FS.
func (s *FS) List(dir string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir = path.Clean(dir)
	if _, err := s.check(List, dir); err != nil {
		return nil, err
	}
	var names []string
	for name := range s.names {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// MkdirAll implements vfs.FS: every directory exists and is durable.
func (s *FS) MkdirAll(string) error { return nil }

// SyncDir implements vfs.FS.
func (s *FS) SyncDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir = path.Clean(dir)
	if _, err := s.check(SyncDir, dir); err != nil {
		return err
	}
	keep := s.log[:0]
	for _, e := range s.log {
		if e.dir == dir {
			apply(s.durable, e.changes)
		} else {
			keep = append(keep, e)
		}
	}
	s.log = keep
	return nil
}

// Free implements vfs.FS.
func (s *FS) Free(dir string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.check(Free, dir); err != nil {
		return 0, err
	}
	switch {
	case s.free > 0:
		return s.free, nil
	case s.capacity > 0:
		return max(0, s.capacity-s.used()), nil
	}
	return 1 << 50, nil
}

// Used is what SetCapacity limits.
func (s *FS) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used()
}

func (s *FS) used() (sum int64) {
	for _, n := range s.names {
		sum += max(int64(len(n.data)), n.alloc)
	}
	return sum
}

// Lock implements vfs.FS.
func (s *FS) Lock(dir string) (io.Closer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, ErrDead
	}
	if s.locks[dir] {
		return nil, fmt.Errorf("lock %s: %w", dir, vfs.ErrLocked)
	}
	s.locks[dir] = true
	return closer(func() {
		s.mu.Lock()
		delete(s.locks, dir)
		s.mu.Unlock()
	}), nil
}

type closer func()

func (c closer) Close() error {
	c()
	return nil
}
