package emulator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// openDir loads the directory and opens it for writing.
func (s *Server) openDir() error {
	if err := os.MkdirAll(s.opt.Dir, 0o755); err != nil {
		return err
	}
	j := &journal{dir: s.opt.Dir, table: castagnoli()}
	if err := s.loadMeta(j); err != nil {
		return errors.Join(err, j.close())
	}
	if err := s.loadSegments(j); err != nil {
		return errors.Join(err, j.close())
	}
	s.journal = j
	return nil
}

// loadMeta replays meta.log and writes it anew in its shortest form.
func (s *Server) loadMeta(j *journal) error {
	path := filepath.Join(j.dir, metaFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	// One server per directory: two would overwrite each other's records.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(errors.New("another server uses this directory; stop it or take another --dir"), f.Close())
	}
	_, err = readRecords(bufio.NewReaderSize(f, 1<<20), j.table, func(payload []byte) error {
		var r metaRecord
		if json.Unmarshal(payload, &r) != nil {
			return errDamaged
		}
		s.replay(r)
		return nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("reading %s: %w", path, err), f.Close())
	}
	return s.compactMeta(j, f, path)
}

// compactMeta replaces meta.log by the present state. The lock moves to the
// new file before the old one is let go.
func (s *Server) compactMeta(j *journal, old *os.File, path string) error {
	tmp, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return errors.Join(err, old.Close())
	}
	j.meta, j.metaSize = tmp, 0
	var records []metaRecord
	for _, g := range s.sortedGroups("", "") {
		records = append(records, g.record())
		for _, st := range g.sortedStreams("") {
			records = append(records, st.record())
		}
	}
	for _, r := range records {
		if err := j.appendMeta(r); err != nil {
			return errors.Join(err, old.Close())
		}
	}
	if err := syscall.Flock(int(tmp.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("locking %s: %w", tmp.Name(), err), old.Close())
	}
	if err := errors.Join(tmp.Sync(), os.Rename(tmp.Name(), path)); err != nil {
		return errors.Join(err, old.Close())
	}
	return old.Close()
}

// replay applies one record of meta.log. Records that no longer fit are
// skipped: they can only stem from a file that was damaged in the middle.
func (s *Server) replay(r metaRecord) {
	s.nextID = max(s.nextID, r.ID)
	g := s.groups[r.Group]
	switch {
	case r.Op == "group":
		if g == nil {
			g = &group{name: r.Group, streams: make(map[string]*stream)}
			s.groups[r.Group] = g
		}
		g.created, g.class, g.kmsKey, g.protected, g.retention, g.tags = r.Created, r.Class, r.KMSKey, r.Protected, r.Retention, r.Tags
		if g.tags == nil {
			g.tags = make(map[string]string)
		}
	case r.Op == "delete_group":
		delete(s.groups, r.Group)
	case g == nil:
	case r.Op == "stream":
		g.streams[r.Stream] = &stream{id: r.ID, name: r.Stream, group: g, created: r.Created}
	case r.Op == "delete_stream":
		delete(g.streams, r.Stream)
	}
}

// loadSegments reads all events, cuts a torn tail, and opens the last segment.
func (s *Server) loadSegments(j *journal) error {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := isSegment(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	byID := make(map[uint64]*stream)
	for _, g := range s.groups {
		for _, st := range g.streams {
			byID[st.id] = st
		}
	}
	for i, number := range numbers {
		seg := segment{number: number}
		size, err := s.loadSegment(j, &seg, byID)
		if err != nil {
			return fmt.Errorf("reading %s: %w", j.path(number), err)
		}
		j.segments = append(j.segments, seg)
		if i == len(numbers)-1 {
			if j.seg, err = os.OpenFile(j.path(number), os.O_RDWR, 0); err != nil {
				return err
			}
			j.segSize = size
			return j.seg.Truncate(size)
		}
	}
	return j.roll()
}

// loadSegment adds the events of one file to their streams. Events of
// deleted streams are left out.
func (s *Server) loadSegment(j *journal, seg *segment, byID map[uint64]*stream) (int64, error) {
	f, err := os.Open(j.path(seg.number))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sound, err := readRecords(bufio.NewReaderSize(f, 1<<20), j.table, func(payload []byte) error {
		c, id, token, err := decodeChunk(payload)
		if err != nil {
			return err
		}
		seg.lastReq = max(seg.lastReq, c.request)
		s.requests.Store(max(s.requests.Load(), c.request))
		s.ordinals.Store(max(s.ordinals.Load(), c.ordinal+uint64(len(c.ts))-1))
		// A stream that was deleted, or whose record was lost with a torn end
		// of meta.log, still has events here: its id must not be given again.
		s.nextID = max(s.nextID, id)
		st := byID[id]
		if st == nil {
			return nil
		}
		c.stream = st
		st.append(c, s.lim.EventOverhead)
		st.puts++
		st.lastToken = strings.Clone(token)
		if s.opt.StrictTokens {
			st.lastHash = hashMessages(s.seed, c.ends, c.data)
		}
		if victims := s.retained.add(c); victims != nil {
			forget(victims)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if torn := info.Size() - sound; torn > 0 {
		s.log.Warn("the end of a file was torn or damaged and is left out", "file", f.Name(), "bytes", torn)
	}
	return sound, nil
}
