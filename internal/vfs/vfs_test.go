package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"syscall"
	"testing"

	"weir/internal/vfs"
	"weir/internal/vfs/vfstest"
)

// TestConformance holds every file system to the contract.
func TestConformance(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem(0), "test": vfstest.New()} {
		t.Run(name, func(t *testing.T) {
			dir := path.Join(t.TempDir(), "a", "b")
			if err := fs.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			f, err := fs.Create(dir + "/x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fs.Create(dir + "/x"); !errors.Is(err, os.ErrExist) {
				t.Fatal("created twice:", err)
			}
			if _, err := fs.Open(dir + "/nothing"); !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := f.Allocate(1 << 20); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Fatal(err)
			}
			if n, err := f.Size(); n != 0 || err != nil {
				t.Fatal("Allocate changed the size:", n, err)
			}
			big := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
			if n, err := f.WriteAt(big, 100_000); n != len(big) || err != nil {
				t.Fatal(n, err)
			}
			if n, err := f.WriteAt([]byte("head"), 0); n != 4 || err != nil {
				t.Fatal(n, err)
			}
			want := append(make([]byte, 100_000), big...)
			copy(want, "head")
			readAll := func() []byte {
				size, err := f.Size()
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, size+10)
				n, err := f.ReadAt(b, 0)
				if !errors.Is(err, io.EOF) {
					t.Fatal("no EOF:", err)
				}
				return b[:n]
			}
			if !bytes.Equal(readAll(), want) {
				t.Fatal("read something else")
			}
			if err := errors.Join(f.Datasync(), fs.SyncDir(dir)); err != nil {
				t.Fatal(err)
			}
			for _, size := range []int64{70_000, 150_000, 65_536, 3} {
				if err := f.Truncate(size); err != nil {
					t.Fatal(err)
				}
				if size < int64(len(want)) {
					want = want[:size:size]
				}
				want = append(want, make([]byte, size-int64(len(want)))...)
				if !bytes.Equal(readAll(), want) {
					t.Fatal("wrong after truncation to", size)
				}
			}
			testNames(t, fs, dir, f)
		})
	}
}

func testNames(t *testing.T, fs vfs.FS, dir string, f vfs.File) {
	if err := fs.Rename(dir+"/x", dir+"/y"); err != nil {
		t.Fatal(err)
	}
	g, err := fs.Create(dir + "/c")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := fs.List(dir); err != nil || !slices.Equal(names, []string{"c", "y"}) {
		t.Fatal(names, err)
	}
	// An open file outlives its name.
	if err := errors.Join(fs.Remove(dir+"/y"), g.Close()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "hea" {
		t.Fatal(string(b), err)
	}
	if err := fs.Remove(dir + "/y"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := fs.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Lock(dir); !errors.Is(err, vfs.ErrLocked) {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = fs.Lock(dir); err != nil {
		t.Fatal(err)
	}
	if free, err := fs.Free(dir); err != nil || free <= 0 {
		t.Fatal(free, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMemLimit(t *testing.T) {
	m := vfs.NewMem(128 << 10)
	f, err := m.Create("d/x")
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.WriteAt(make([]byte, 200<<10), 0)
	if n != 128<<10 || !vfs.IsFull(err) {
		t.Fatal(n, err)
	}
	if err := errors.Join(m.Remove("d/x"), f.Close()); err != nil {
		t.Fatal(err)
	}
	if free, _ := m.Free("d"); free != 128<<10 {
		t.Fatal("not given back:", free)
	}
	// Memory that is used again is clean.
	if f, err = m.Create("d/y"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1}, 1000); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, make([]byte, 1000)) {
		t.Fatal("old bytes:", err)
	}
}

// TestCrash: what was synced survives, what was not survives as pick says, and a failed
// sync loses the pages for good.
func TestCrash(t *testing.T) {
	make3 := func() (*vfstest.FS, vfs.File) {
		fs := vfstest.New()
		f, err := fs.Create("d/x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("synced"), 0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Datasync(), fs.SyncDir("d")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(" and not"), 6); err != nil {
			t.Fatal(err)
		}
		return fs, f
	}
	fs, f := make3()
	none := fs.Crash(func(int) int { return 0 })
	if got := string(none.Contents("d/x")); got != "synced" {
		t.Fatal(got)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, vfstest.ErrDead) {
		t.Fatal("a dead process writes:", err)
	}
	fs, _ = make3()
	if got := string(fs.Crash(func(n int) int { return 1 % n }).Contents("d/x")); got != "synced and not" {
		t.Fatal(got)
	}
	fs, f = make3()
	fs.Inject(vfstest.Fault{Op: vfstest.Datasync, Times: 1, Err: syscall.EIO})
	if err := f.Datasync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	if got := string(fs.Crash(func(n int) int { return 1 % n }).Contents("d/x")); got != "synced" {
		t.Fatal("a second sync brought it back:", got)
	}
	fs, _ = make3()
	if err := fs.Rename("d/x", "d/y"); err != nil {
		t.Fatal(err)
	}
	if got := fs.Crash(func(n int) int { return n - 1 }); got.Contents("d/y") != nil || got.Contents("d/x") == nil {
		t.Fatal("a rename that was not synced survived")
	}
}

func TestFaultKinds(t *testing.T) {
	fs := vfstest.New()
	fs.Inject(vfstest.Fault{Op: vfstest.Write, Name: "x", After: 1, Times: 1, Err: syscall.ENOSPC, Short: 2})
	f, err := fs.Create("x1")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{4, 2, 4} {
		n, err := f.WriteAt([]byte("abcd"), 0)
		if n != want || (want == 2) != vfs.IsFull(err) {
			t.Fatal(i, n, err)
		}
	}
}
