package fluentbuffer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Listing is what a directory holds.
type Listing struct {
	Chunks []Chunk  // in the order in which Fluentd would flush them
	Broken []Broken // left out of Chunks
}

// maxMeta bounds what is read of a .meta file: Fluentd keeps the chunk's keys there.
const maxMeta = 16 << 20

// prefixes are those that Fluentd itself gives in a directory: of file, and of file_single.
var prefixes = [...]string{"buffer.", "fsb."}

// List finds the chunks of the path that a <buffer> section has: a directory, with
// buffer.* and fsb.* in it and in its worker<N> directories, or a pattern with one *, whose
// place the state and the id take. What does not exist holds nothing. Errors are those of
// the operating system.
func List(path string) (Listing, error) {
	var l Listing
	dir, base := filepath.Split(path)
	if before, _, ok := strings.Cut(base, "*"); ok {
		err := l.read(filepath.Clean(dir), func(name string) (string, bool) { return before, strings.HasPrefix(name, before) })
		l.sort()
		return l, err
	}
	return listDir(path, func(name string) (string, bool) {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return p, true
			}
		}
		return "", false
	})
}

// ListAll is List of a directory whatever prefix its chunks have.
func ListAll(dir string) (Listing, error) {
	return listDir(dir, func(name string) (string, bool) {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return p, true
			}
		}
		return name, true // no tag in it
	})
}

func listDir(dir string, prefix func(string) (string, bool)) (l Listing, err error) {
	if err := l.read(dir, prefix); err != nil {
		return l, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("look for chunks of Fluentd: %w", err)
	}
	for _, e := range entries {
		n, ok := strings.CutPrefix(e.Name(), "worker")
		if !ok || !e.IsDir() || n == "" || strings.Trim(n, "0123456789") != "" {
			continue
		}
		if err := l.read(filepath.Join(dir, e.Name()), prefix); err != nil {
			return l, err
		}
	}
	l.sort()
	return l, nil
}

// read adds the chunks of one directory. prefix says which part of a name comes before a
// tag in it, and whether the file belongs to this buffer.
func (l *Listing) read(dir string, prefix func(string) (string, bool)) error {
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for chunks of Fluentd: %w", err)
	}
	files := map[string]bool{}
	for _, e := range entries {
		if e.Type().IsRegular() {
			files[e.Name()] = true
		}
	}
	used := map[string]bool{}
	for _, e := range entries {
		base := e.Name()
		n, ok := parseName(base)
		p, ours := prefix(base)
		if !ok || !ours || !files[base] {
			continue
		}
		c := Chunk{Path: filepath.Join(dir, base), Queued: n.queued, ID: n.id, Tag: n.tag(p)}
		for i, meta := range n.metaNames(base) {
			if files[meta] && !used[meta] && (i == 0 || !files[strings.TrimSuffix(meta, metaExt)]) {
				c.Meta = filepath.Join(dir, meta)
				used[meta] = true
				break
			}
		}
		if err := c.load(); err != nil {
			l.Broken = append(l.Broken, Broken{c.Path, err})
			continue
		}
		l.Chunks = append(l.Chunks, c)
	}
	for _, e := range entries {
		base, isMeta := strings.CutSuffix(e.Name(), metaExt)
		_, ok := parseName(base)
		if _, ours := prefix(base); isMeta && ok && ours && files[e.Name()] && !used[e.Name()] {
			l.Broken = append(l.Broken, Broken{filepath.Join(dir, e.Name()), ErrNoData})
		}
	}
	return nil
}

// Add puts the chunks of another listing among those of l.
func (l *Listing) Add(other Listing) {
	l.Chunks = append(l.Chunks, other.Chunks...)
	l.Broken = append(l.Broken, other.Broken...)
	l.sort()
}

// ErrChanged: somebody has written to the chunk since it was listed.
var ErrChanged = errors.New("the chunk has changed meanwhile: stop Fluentd first")

// Unchanged fails with ErrChanged if the data have another size than when they were listed.
func (c *Chunk) Unchanged() error {
	st, err := os.Stat(c.Path)
	if err != nil {
		return fmt.Errorf("look at a chunk of Fluentd: %w", err)
	}
	if st.Size() != c.Size {
		return ErrChanged
	}
	return nil
}

// load reads what is known of a chunk beside its data. A file that vanishes meanwhile
// counts as broken: Fluentd is running there.
func (c *Chunk) load() error {
	st, err := os.Stat(c.Path)
	if err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	c.Size = st.Size()
	if c.Size == 0 {
		return ErrEmpty
	}
	if c.Meta == "" {
		// As Fluentd does with chunks of v0.12: they wait to be flushed.
		c.Queued = true
		c.Created, c.Modified = st.ModTime().Truncate(time.Second), st.ModTime().Truncate(time.Second)
		return nil
	}
	f, err := os.Open(c.Meta)
	if err != nil {
		return fmt.Errorf("read the metadata: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMeta))
	if err != nil {
		return fmt.Errorf("read the metadata: %w", err)
	}
	return c.parseMeta(b)
}

// sort brings the chunks into the order in which Fluentd resumes: what is queued by the
// time of its last change, then what is staged. Within a second the id decides, which
// begins with the time of creation.
func (l *Listing) sort() {
	slices.SortStableFunc(l.Chunks, func(a, b Chunk) int {
		if a.Queued != b.Queued {
			if a.Queued {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.ID, b.ID))
	})
}
