// Package docker is Docker's logging-driver plugin protocol: it reads the pipes of containers
// and hands their lines, as events, to a spool for each container.
//
// It never waits for a network. A pipe is read as follows, so that a killed process loses
// and repeats nothing: look at what is in the pipe without taking it (tee), store what it
// says, and only then take it out.
package docker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/ledger"
	"weir/internal/vfs"
)

// Container is what StartLogging tells about a container, as far as it matters.
type Container struct {
	ID      string // 64 hexadecimal digits
	Name    string // without the leading slash
	Options *awslogs.Options
}

// Host gives each container its spool. It may be used from any goroutine.
type Host interface {
	// Open returns the spool of a container. It uses no network and leaves no trace before
	// the first Put. A container may be opened again while, or after, a session of it
	// runs: the events of both are delivered in order. Every Open is ended by a Release.
	// Its error is told to the user, as the reason for which the container does not start.
	Open(c *Container) (Spool, error)
}

// Spool takes the events of one container. It is used by one goroutine at a time.
type Spool interface {
	// Put stores the batches in order, and returns when a killed process keeps them. They are
	// of one look at the pipe, one for each tag; of a look that met losses there are several
	// Puts, with the Misses between. Each has a Chunk that no other batch of the container has.
	// It never waits for room: a full spool gives something up and books it.
	// The batches are borrowed until Put returns. It waits no longer than a few seconds for
	// a disk that does not answer, and then returns an error: the events may be lost if the
	// process is killed, and are stored otherwise.
	Put(ctx context.Context, batches []event.Batch) error
	// Miss books events that were lost before they could be stored, at this place. tag is
	// the lane that they would have had.
	Miss(id event.Chunk, tag string, reason ledger.Reason, events, bytes uint64, first, last event.Time)
	// Chunks lists the ids (Batch.Chunk) of the batches stored last before this process
	// began, oldest first, at least 64 if there were so many: twice as many as one look gives.
	Chunks() []event.Chunk
	// Release ends the use. What is stored is delivered, by a later process if need be.
	Release()
}

// PipesDir is where Docker puts the pipes of containers.
const PipesDir = "/run/docker/logging"

// Options configures a Plugin. Socket, State, Host and Log are required.
type Options struct {
	Socket   string         // path of the unix socket; a stale one is replaced
	State    string         // directory of the sessions, the plugin's own; made if missing
	Pipes    string         // directory of the pipes, default PipesDir
	Managed  bool           // the pipes directory is this plugin's alone: stray pipes are removed from it
	Hostname string         // of Docker's host, for {{.Hostname}} in names
	Local    *time.Location // zone of Docker's host, for awslogs-datetime-timezone local; nil: UTC
	Host     Host
	Log      *slog.Logger

	fs   vfs.FS                          // of State; the operating system's unless a test says otherwise
	pace time.Duration                   // between two looks at a pipe that has little to give
	stop time.Duration                   // for which StopLogging waits at most
	kill func(key string, at stage) bool // true: the session does nothing more, as if killed; nil in production
}

func (o *Options) validate() error {
	switch {
	case o.Socket == "" || o.State == "":
		return errors.New("docker plugin: a socket and a directory for the sessions are required")
	case o.Host == nil || o.Log == nil:
		return errors.New("docker plugin: Host and Log are required")
	}
	if o.Pipes == "" {
		o.Pipes = PipesDir
	}
	if o.pace == 0 {
		o.pace = pace
	}
	if o.stop == 0 {
		o.stop = stopTime
	}
	if o.fs == nil {
		o.fs = vfs.OS{}
	}
	return nil
}

// Counts are what was read from pipes since the process began.
type Counts struct {
	Frames    uint64 // whole frames
	Events    uint64 // log events given to the spool
	Bytes     uint64 // of frames
	Partials  uint64 // frames that were a part of a longer line
	Lost      uint64 // places in a pipe where frames were torn or missing
	LostBytes uint64 // bytes that were skipped there
	Repeats   uint64 // frames found again after a restart that had been stored before
}

func (c *Counts) add(o *Counts) {
	c.Frames += o.Frames
	c.Events += o.Events
	c.Bytes += o.Bytes
	c.Partials += o.Partials
	c.Lost += o.Lost
	c.LostBytes += o.LostBytes
	c.Repeats += o.Repeats
}

// SessionStats describes one session: one pipe of a container.
type SessionStats struct {
	Counts
	File      string // the pipe
	Container Container
	Since     time.Time // StartLogging; of the process that began it
	Last      time.Time // when something was read; zero if never
	Stopping  bool      // StopLogging was received or the pipe has ended
	Fault     string    // why the spool does not store, or ""
}
