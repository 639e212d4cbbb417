package docker

import (
	"context"
	"errors"
)

// Plugin is the logging driver: a listener on a unix socket and a session for each pipe.
type Plugin struct {
	o Options
}

// New makes a Plugin. Call Open and then Run.
func New(o Options) *Plugin { return &Plugin{o: o} }

// Open re-attaches the sessions that an earlier process left and listens on the socket. It
// waits for nobody. After an error nothing is left open.
func (p *Plugin) Open() error {
	if err := p.o.validate(); err != nil {
		return err
	}
	return errors.ErrUnsupported
}

// Run serves Docker until ctx ends. Then it stops in good order: what was looked at is stored,
// and the sessions are kept for the next process. Open must have been called.
func (p *Plugin) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Sessions lists the sessions that run, in the order in which they began.
func (p *Plugin) Sessions() []SessionStats { return nil }

// Totals sums the counts of all sessions of this process, those that have ended included.
func (p *Plugin) Totals() Counts { return Counts{} }
