// Package forward is the server side of Fluentd's forward protocol: MessagePack or JSON
// over TCP or TLS, with or without authentication and acknowledgements.
//
// Each connection has a reader, which takes messages apart in its read buffer and hands
// their entries over as they came, and an acker, which answers in order when the batches
// are safe. Nothing in between is decoded, and as a rule nothing is copied: only
// small messages that have been received together are put into one batch.
package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/event"
	"weir/internal/input"
)

// Options are what an Input needs besides its parameters.
type Options struct {
	Log      *slog.Logger // required
	Hostname string       // this host's name, for generated certificates; default os.Hostname

	// Listener, if not nil, is what TakeListener of an earlier Input returned: the port
	// stays open and what waits in its queue is served by the new Input.
	Listener *Listener

	// ReadGrace is how long connections are read further after the context of Run has
	// ended, at most, while clients keep sending. Default 1 s.
	ReadGrace time.Duration
	// AckGrace is how long Run waits after that for buffers and receipts, at most, before
	// it gives up the answers that are still due. Default 10 s.
	AckGrace time.Duration
	// Memory limits the bytes of all messages above 1 MiB in progress. Default 512 MiB.
	Memory int64
	// LookupAddr finds the names of an address; default net.DefaultResolver.LookupAddr.
	LookupAddr func(ctx context.Context, addr string) ([]string, error)
}

// Input is a running forward server. New makes one.
type Input struct {
	log     *slog.Logger
	notices notices
	set     *settings
	params  Params

	mem        memory
	groups     ackGroups
	inflate    inflater
	recent     *Recent
	n          counters
	readGrace  time.Duration
	ackGrace   time.Duration
	lookupAddr func(ctx context.Context, addr string) ([]string, error)

	listener *Listener
	lastFile func() uintptr
	taken    atomic.Bool // the listener belongs to another Input
	emitter  atomic.Pointer[emitterBox]

	stopping atomic.Bool
	stopAt   atomic.Int64 // UnixNano
	mu       sync.Mutex   // guards conns
	conns    map[*conn]struct{}
	running  sync.WaitGroup // connection goroutines
	accepts  sync.WaitGroup // the goroutines that use the listener
}

var _ input.Input = (*Input)(nil)

// New makes an Input. It reads the files that p names, but does not touch the network. The
// error holds every mistake in p, joined.
func New(p Params, o Options) (*Input, error) {
	set, err := newSettings(&p, o.Hostname)
	if err != nil {
		return nil, err
	}
	in := &Input{
		log: o.Log, set: set, params: p,
		readGrace: o.ReadGrace, ackGrace: o.AckGrace, lookupAddr: o.LookupAddr,
		listener: o.Listener, lastFile: lastFile, conns: make(map[*conn]struct{}),
	}
	in.notices.log = o.Log
	if in.readGrace == 0 {
		in.readGrace = time.Second
	}
	if in.ackGrace == 0 {
		in.ackGrace = 10 * time.Second
	}
	if in.lookupAddr == nil {
		in.lookupAddr = net.DefaultResolver.LookupAddr
	}
	if in.mem.limit = o.Memory; in.mem.limit == 0 {
		in.mem.limit = defaultMemory
	}
	in.inflate = inflater{mem: &in.mem, limit: int64(p.DecompressionLimit)}
	return in, nil
}

// Open binds the port, unless a listener was handed over, and resolves the clients' names.
func (in *Input) Open() error {
	if s := in.params.Security; s != nil {
		a, err := newAuth(s, lookupHost)
		if err != nil {
			return err
		}
		in.set.auth = a
	}
	if in.listener == nil {
		l, err := listen(&in.params, in.set, in.log)
		if err != nil {
			return err
		}
		in.listener = l
	} else if err := in.listener.reset(); err != nil {
		return fmt.Errorf("take over %s: %w", in.listener.tcp.Addr(), err)
	}
	in.recent = in.listener.recent
	return nil
}

// Addr is the address that Open bound, for port 0.
func (in *Input) Addr() net.Addr { return in.listener.tcp.Addr() }

// Stats returns the counters.
func (in *Input) Stats() Stats { return in.n.stats() }

// Run serves connections until ctx is done; see input.Input. It stops in two phases: the
// port is closed and connections are read until they are idle or ReadGrace is over; then
// what was accepted is answered. e may be nil if SetEmitter was called before.
func (in *Input) Run(ctx context.Context, e input.Emitter) error {
	if e != nil {
		in.SetEmitter(e)
	}
	if in.emitter.Load() == nil {
		return errors.New("run forward: no emitter")
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	in.accepts.Go(func() { in.accept(ctx, work) })
	if in.listener.udp != nil {
		in.accepts.Go(func() { in.heartbeats(ctx) })
	}
	<-ctx.Done()
	if !in.taken.Load() {
		in.listener.close()
	}
	in.accepts.Wait()
	in.windDown()
	end := time.AfterFunc(in.readGrace+in.ackGrace, cancel)
	defer end.Stop()
	in.running.Wait()
	return nil
}

// windDown tells all connections to end when they are idle.
func (in *Input) windDown() {
	in.stopAt.Store(time.Now().UnixNano())
	in.stopping.Store(true)
	in.mu.Lock()
	defer in.mu.Unlock()
	for c := range in.conns {
		c.windDown()
	}
}

// readUntil is when reading ends at last, once stopping is set.
func (in *Input) readUntil() time.Time {
	return time.Unix(0, in.stopAt.Load()).Add(in.readGrace)
}

// accept takes connections until the listener is closed or interrupted.
func (in *Input) accept(ctx, work context.Context) {
	pause := 5 * time.Millisecond
	for !in.taken.Load() {
		nc, err := in.listener.tcp.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			if !in.spare(nc) {
				in.serve(work, nc)
			}
			continue
		}
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || in.taken.Load() {
			return
		}
		in.notices.warnRare(kindAccept, "forward: cannot accept connections", slog.Any("reason", err))
		select { // out of descriptors or memory, as a rule: it may pass
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// serve starts a connection.
func (in *Input) serve(work context.Context, nc net.Conn) {
	in.set.tune(nc)
	c := &conn{in: in, sock: nc, nc: nc, peer: nc.RemoteAddr().String(), set: in.set}
	c.tags = tags{replace: in.set.tag, prefix: in.set.prefix}
	in.mu.Lock()
	in.conns[c] = struct{}{}
	in.mu.Unlock()
	in.n.connections.Add(1)
	in.n.open.Add(1)
	in.running.Go(func() {
		defer func() {
			in.mu.Lock()
			delete(in.conns, c)
			in.mu.Unlock()
			in.n.open.Add(-1)
		}()
		c.run(work)
	})
}

// lookup finds the name of an address, or returns the address.
func (in *Input) lookup(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	names, err := in.lookupAddr(ctx, addr)
	if err != nil || len(names) == 0 {
		return addr
	}
	name := names[0]
	if n := len(name); n > 1 && name[n-1] == '.' {
		name = name[:n-1]
	}
	return name
}

// emitterBox is an emitter with the number of calls in progress, so that whoever replaces
// it knows when the old one is no longer in use.
type emitterBox struct {
	e     input.Emitter
	calls atomic.Int64
	old   atomic.Bool
	once  sync.Once
	idle  chan struct{} // closed when replaced and unused
}

func (b *emitterBox) leave() {
	if b.calls.Add(-1) == 0 && b.old.Load() {
		b.once.Do(func() { close(b.idle) })
	}
}

// SetEmitter makes all connections use e from their next batch on. The channel returned is
// closed when no call is in progress any more on the emitter that was replaced; what it
// has taken is still answered by its receipts.
func (in *Input) SetEmitter(e input.Emitter) (unused <-chan struct{}) {
	was := in.emitter.Swap(&emitterBox{e: e, idle: make(chan struct{})})
	if was == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	was.calls.Add(1)
	was.old.Store(true)
	was.leave()
	return was.idle
}

// enter returns the emitter for one call. The caller calls leave after it.
func (in *Input) enter() *emitterBox {
	for {
		b := in.emitter.Load()
		b.calls.Add(1)
		if in.emitter.Load() == b {
			return b
		}
		b.leave()
	}
}

func (in *Input) emit(ctx context.Context, b event.Batch) (input.Receipt, error) {
	box := in.enter()
	defer box.leave()
	return box.e.Emit(ctx, b)
}

func (in *Input) lost(b event.Batch) {
	box := in.enter()
	defer box.leave()
	box.e.Lost(b)
}
