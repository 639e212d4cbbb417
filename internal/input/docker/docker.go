// Package docker is Docker's logging-driver plugin protocol: it reads the pipes of containers
// and hands their lines, as events, to a spool for each container.
//
// It never waits for a network. A pipe is read as follows, so that a killed process loses
// and repeats nothing: look at what is in the pipe without taking it (tee), store what it
// says, and only then take it out.
package docker

import (
	"context"

	"weir/internal/event"
	"weir/internal/input/docker/awslogs"
	"weir/internal/ledger"
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
	Open(c *Container) (Spool, error)
}

// Spool takes the events of one container. It is used by one goroutine at a time.
type Spool interface {
	// Put stores the batches, all of one read, in order, and returns when a killed process
	// keeps them. It never waits for room: a full spool gives something up and books it.
	// The batches are borrowed until Put returns. It waits no longer than a few seconds for
	// a disk that does not answer, and then returns an error: the events may be lost if the
	// process is killed, and are stored otherwise.
	Put(ctx context.Context, batches []event.Batch) error
	// Miss books events that were lost before they could be stored, at this place. tag is
	// the lane that they would have had.
	Miss(tag string, reason ledger.Reason, events, bytes uint64, first, last event.Time)
	// Chunks lists the ids (Batch.Chunk) of the batches stored last before this process
	// began, oldest first, at least 64 if there were so many.
	Chunks() []event.Chunk
	// Release ends the use. What is stored is delivered, by a later process if need be.
	Release()
}
