package docker

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// collect looks for pipes without a session. Those that nobody writes to any more are
// removed: Docker leaves the pipe behind when StartLogging failed or Docker was killed.
// Others belong to a container whose session could not be stored. In a directory that is
// shared with other plugins nothing is touched.
func (p *Plugin) collect(now time.Time) {
	if !p.o.Managed {
		return
	}
	entries, err := os.ReadDir(p.o.Pipes)
	if err != nil {
		return // the directory comes with the first container
	}
	for _, e := range entries {
		if e.Type() != os.ModeNamedPipe || !isKey(e.Name()) {
			continue
		}
		if st, err := e.Info(); err == nil && now.Sub(st.ModTime()) > collectTime {
			p.collectOne(filepath.Join(p.o.Pipes, e.Name()))
		}
	}
}

// collectOne removes a pipe without a session and without a writer. If it has a writer, that
// is a container which would stop, for ever, once the pipe is full: so its lines are thrown
// away. It is called by Run alone.
func (p *Plugin) collectOne(path string) {
	p.mu.Lock()
	known := p.sessions[keyOf(path)] != nil || p.orphans[path]
	p.mu.Unlock()
	if known {
		return
	}
	from, err := openPipe(path)
	if err != nil {
		return
	}
	b, err := p.takeViewer()
	if err == nil {
		_, err = from.look(b, len(b.raw))
		p.returnViewer(b)
	}
	if err == nil || errors.Is(err, errEmpty) {
		p.mu.Lock()
		p.orphans[path] = true
		p.mu.Unlock()
		p.tasks.Go(func() { p.drain(path, from) })
		return
	}
	ended := errors.Is(err, io.EOF)
	err = from.close()
	if ended {
		err = errors.Join(err, removePipe(path))
	}
	p.forgets.note(p.o.Log, "a stray pipe cannot be removed", "stray pipes can be removed again", err)
}

// drain throws away what comes through a pipe until the writer has gone or the plugin stops.
func (p *Plugin) drain(path string, from *pipe) {
	log := p.o.Log.With("pipe", path)
	var lost Counts
	for {
		took, err := p.discard(from, &lost)
		if took > 0 && lost.Lost == 0 {
			lost.Lost = 1
			log.Error("a container writes to a pipe without a session: its log lines are thrown away until it is restarted")
		}
		if errors.Is(err, errEmpty) {
			from.deadline(time.Now().Add(restWait))
			from.wait(0)
		} else if err != nil {
			break
		}
	}
	if lost.Lost > 0 {
		log.Info("the pipe without a session has ended, or is left to the next process", "lines", lost.Frames, "bytes", lost.Bytes)
	}
	_ = from.close()
	p.mu.Lock()
	delete(p.orphans, path)
	p.mu.Unlock()
}
