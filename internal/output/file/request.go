package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
)

// maxNumber bounds the search for a free number.
const maxNumber = 1 << 20

// Request returns a new, empty Request.
func (o *Output) Request() output.Request { return &request{o: o} }

type request struct {
	o     *Output
	name  string // path, with mark where the number comes
	tag   string
	buf   []byte // formatted events
	count int
	ended []output.Ended
	gz    bytes.Buffer
	zip   *gzip.Writer
}

// Reset starts a request for a lane.
func (r *request) Reset(lane string) {
	r.name, r.tag = lane, ""
	r.buf, r.count, r.ended = r.buf[:0], 0, r.ended[:0]
	r.gz.Reset()
}

// SetTag implements output.TagTaker.
func (r *request) SetTag(tag string) { r.tag = tag }

// Add formats entries until the request has a few mebibytes.
func (r *request) Add(b []byte, limit int) (entries, size int, isFull bool) {
	for size < len(b) && entries < limit {
		if len(r.buf) >= full {
			return entries, size, true
		}
		e, n, err := event.Next(b[size:])
		if err != nil { // cannot happen to checked entries; never stands in the way of what follows
			r.ended = append(r.ended, output.Ended{First: r.count, Count: limit - entries, Fate: ledger.Invalid.Fate()})
			r.count += limit - entries
			return limit, len(b), true
		}
		r.buf = r.o.o.Formatter.Append(r.buf, r.tag, e.Time, e.Record)
		r.count++
		entries++
		size += n
	}
	return entries, size, len(r.buf) >= full
}

// Fill says how full the request is.
func (r *request) Fill() float64 { return min(1, float64(len(r.buf))/full) }

// Send writes the request to its file and waits until it is on the disk.
func (r *request) Send(ctx context.Context) output.Result {
	if len(r.buf) == 0 { // Fluentd makes no file of nothing either
		return output.Result{Ended: r.ended}
	}
	data := r.buf
	if r.o.o.Params.gzip() {
		var err error
		if data, err = r.compress(); err != nil {
			return r.failed(err)
		}
	}
	p := r.o.take(r.name)
	defer r.o.give(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return r.failed(err)
	}
	if err := r.write(p, data); err != nil {
		return r.failed(err)
	}
	return output.Result{Ended: r.ended, Bytes: len(data)}
}

// compress makes a gzip member of the request, once.
func (r *request) compress() ([]byte, error) {
	if r.gz.Len() > 0 {
		return r.gz.Bytes(), nil
	}
	if r.zip == nil {
		r.zip = gzip.NewWriter(&r.gz)
	} else {
		r.zip.Reset(&r.gz)
	}
	if _, err := r.zip.Write(r.buf); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := r.zip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return r.gz.Bytes(), nil
}

// write appends data to the file that is next for p. p.mu is held.
func (r *request) write(p *path, data []byte) (err error) {
	f, name, created, err := r.open(p)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = e
		}
	}()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", name, err)
	}
	if err := r.append(f, p, size, data); err != nil {
		// What is there in part would be there twice after the retry.
		if e := f.Truncate(size); e != nil {
			err = fmt.Errorf("%w; cutting the file to its old length failed too: %w", err, e)
		}
		return fmt.Errorf("write %s: %w", name, err)
	}
	if created {
		if err := r.o.o.FS.SyncDir(filepath.Dir(name)); err != nil {
			// The events are in the file, and the retry would write them a second time.
			if e := f.Truncate(size); e != nil {
				err = fmt.Errorf("%w; cutting the file to its old length failed too: %w", err, e)
			}
			return fmt.Errorf("sync the directory of %s: %w", name, err)
		}
	}
	p.seen = true
	r.link(name, created)
	return nil
}

// append writes data and syncs it. A text file in which a crash has left part of a line
// gets a line end first, so that the part does not spoil the next line.
func (r *request) append(f File, p *path, size int64, data []byte) error {
	if !p.seen && size > 0 && !r.o.binary && !r.o.o.Params.gzip() && bytes.HasSuffix(data, []byte("\n")) {
		last, err := f.Last(size)
		if err != nil {
			return err
		}
		if last != '\n' {
			if _, err := f.Write([]byte("\n")); err != nil {
				return err
			}
		}
	}
	if n, err := f.Write(data); err != nil {
		return err
	} else if n != len(data) {
		return io.ErrShortWrite
	}
	return f.Sync()
}

// open opens the file that is next for p and makes its directory when it is missing.
func (r *request) open(p *path) (f File, name string, created bool, err error) {
	f, name, created, err = r.openNext(p)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, name, created, err
	}
	dir := filepath.Dir(name)
	if err := r.o.o.FS.MkdirAll(dir, r.o.o.DirPerm); err != nil {
		return nil, "", false, fmt.Errorf("make the directory %s: %w", dir, err)
	}
	return r.openNext(p)
}

func (r *request) openNext(p *path) (f File, name string, created bool, err error) {
	o := &r.o.o
	if o.Params.Append {
		f, created, err = o.FS.Open(r.name, o.FilePerm, false)
		return f, r.name, created, err
	}
	if p.number >= 0 {
		name = r.numbered(p.number)
		if f, created, err = o.FS.Open(name, o.FilePerm, false); err != nil {
			return nil, name, false, err
		}
		if size, err := f.Size(); err == nil && size < o.Limit {
			return f, name, created, nil
		}
		if err := f.Close(); err != nil {
			return nil, name, false, err
		}
	}
	for n := p.number + 1; n < maxNumber; n++ {
		name = r.numbered(n)
		f, created, err = o.FS.Open(name, o.FilePerm, true)
		if err == nil {
			p.number = n
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, name, created, err
		}
	}
	return nil, name, false, fmt.Errorf("all numbers up to %d are taken: %w", maxNumber, fs.ErrExist)
}

// numbered is the path of the nth file.
func (r *request) numbered(n int) string {
	return strings.Replace(r.name, mark, r.o.separator+strconv.Itoa(n), 1)
}

// link points symlink_path to a file. It is a convenience: that it fails is logged, and
// holds up nothing.
func (r *request) link(name string, created bool) {
	link := r.o.o.Params.SymlinkPath
	if link == "" {
		return
	}
	target, err := filepath.Abs(name)
	if err == nil && r.o.o.Params.RelativeLink {
		var from string
		if from, err = filepath.Abs(filepath.Dir(link)); err == nil {
			target, err = filepath.Rel(from, target)
		}
	}
	if err == nil {
		err = r.o.o.FS.Link(target, link)
	}
	if err != nil && created {
		r.o.o.Log.Warn("the symbolic link to the newest file cannot be made", "symlink_path", link, "file", name, "error", err)
	}
}

func (r *request) failed(err error) output.Result {
	// What is wrong with one path must hold up nothing else; the rest concerns the disk.
	kind, hint := output.Unavailable, ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		kind, hint = output.Denied, "let the user that weir runs as write there"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR),
		errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		kind = output.Denied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "free some space"
	}
	return output.Result{Err: &output.Error{
		Kind: kind,
		Op:   fmt.Sprintf("write %d events to %s", r.count, strings.Replace(r.name, mark, r.o.separator+"N", 1)),
		Hint: hint,
		Err:  err,
	}}
}
