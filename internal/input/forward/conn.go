package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How long things may take that the protocol leaves open.
const (
	idleRelease = 5 * time.Second        // then a quiet connection gives its buffer back
	stopIdle    = 100 * time.Millisecond // a connection as quiet as this has nothing on the way when weir stops
	lingerFor   = 500 * time.Millisecond // wait for the client to close after the last answer
)

// maxStrays is how many values in a row may be no messages before the connection is closed.
// Fluentd ignores any number, but then somebody else's protocol keeps a connection busy
// for ever.
const maxStrays = 64

// Ends of a connection that are no mistakes.
var (
	errStop = errors.New("input is stopping")
	errOnce = errors.New("deny_keepalive")
)

var errStrays = fmt.Errorf("none of the last %d values is an array", maxStrays)

// conn is one connection. Its fields belong to the reader goroutine unless said otherwise.
type conn struct {
	in   *Input
	sock net.Conn // never changes: any goroutine may set its deadlines
	nc   net.Conn // sock, or TLS on it
	peer string   // address:port of the client
	set  *settings

	buf      *block // nil after the end
	r, w     int    // buf.b[r:w] is received and not yet taken
	offset   int64  // bytes of the stream before buf.b[0]
	scan     scanner
	scanning bool // the message at r was incomplete when last looked at
	skipping bool // the message at r is too large and thrown away as it comes
	skipped  int64
	deadline time.Time
	arrived  time.Time // of the last read
	msg      message
	took     bool // something has been taken
	messages uint64
	strays   int  // values in a row that are no messages
	filled   bool // the last read filled the buffer
	json     bool
	jsonScan jsonScanner
	jsonOut  []byte
	tags     tags
	norm     normaliser
	single   []byte
	batch    pendingBatch
	hash     []byte // scratch of lasting
	refused  error  // since then nothing is accepted; what needs no answer is booked as lost

	queue    chan *ackGroup // reader to acker; nil until there is something to answer
	acking   sync.WaitGroup // the acker
	answered atomic.Bool    // the acker has written something
	broken   atomic.Bool    // writing failed: the client has gone
	halt     atomic.Bool    // the reader shall end
}

// run serves the connection until it ends, and closes it. work outlives the input's
// context until what was accepted has been answered.
func (c *conn) run(work context.Context) {
	defer func() { _ = c.nc.Close() }()
	if err := c.open(work); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, errStop) {
			c.in.n.handshakes.Add(1)
			c.in.notices.warnRare(kindHandshake, "forward: connection refused", slog.String("peer", c.peer), slog.Any("reason", err))
		}
		c.release()
		return
	}
	err := c.read(work)
	if e := c.flush(work); err == nil || isQuiet(err) && e != nil {
		err = e
	}
	c.report(err)
	c.in.n.messages.Add(c.messages)
	c.release()
	if c.queue != nil {
		close(c.queue)
		c.acking.Wait()
	}
	c.farewell(err)
}

// report logs why a connection ended, if that is worth a line.
func (c *conn) report(err error) {
	var bad *malformed
	switch {
	case errors.As(err, &bad):
		c.in.n.malformed.Add(1)
		c.in.notices.warnRare(kindMalformed, "forward: connection closed: "+bad.text,
			slog.String("peer", c.peer), slog.Int64("offset", bad.offset), slog.Any("reason", bad.err))
	case c.refused != nil:
		c.in.notices.warnRare(kindRefused, "forward: events were refused, connection closed so that the sender keeps its data",
			slog.String("peer", c.peer), slog.Any("reason", c.refused))
	case errors.Is(err, errMemory):
		c.in.notices.warnRare(kindSize, "forward: connection closed so that the sender tries again later", slog.String("peer", c.peer), slog.Any("reason", err))
	case errors.Is(err, io.EOF) && (c.w > c.r || c.skipping):
		c.in.notices.warnRare(kindCut, "forward: a client ended the connection in the middle of a message, which is lost unless it sends it again",
			slog.String("peer", c.peer), slog.Int64("offset", c.offset+int64(c.r)), slog.Int64("bytes", c.skipped+int64(c.w-c.r)))
	case err != nil && !isQuiet(err):
		c.in.log.Debug("forward: connection ended", slog.String("peer", c.peer), slog.Any("reason", err))
	}
}

func isQuiet(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, errStop) || errors.Is(err, errOnce)
}

// malformed is an error in the bytes of a client.
type malformed struct {
	text   string // what it looks like
	offset int64  // within the connection's stream
	err    error
}

func (m *malformed) Error() string { return fmt.Sprintf("%s at byte %d: %v", m.text, m.offset, m.err) }
func (m *malformed) Unwrap() error { return m.err }

func (c *conn) malformed(at int, text string, err error) error {
	return &malformed{text: text, offset: c.offset + int64(c.r+at), err: err}
}

// read takes messages until the client closes, weir stops or something is wrong.
func (c *conn) read(work context.Context) error {
	for {
		err := c.takeAll(work)
		if err == nil {
			err = c.flush(work)
		}
		if c.refused != nil {
			_ = c.takeAll(work) // books what is lost
			_ = c.flush(work)
			return c.refused
		}
		if err != nil {
			return err
		}
		if c.took && c.set.denyKeepalive {
			return errOnce
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// takeAll takes every complete message that has been received. Once events have been
// refused it goes on, so that what comes without a chunk id is booked as lost.
func (c *conn) takeAll(work context.Context) error {
	for c.r < c.w {
		n, err := c.takeOne(work)
		if errors.Is(err, errMore) {
			return nil
		}
		c.r += n
		if err != nil && (c.refused == nil || n == 0) {
			return err
		}
	}
	return nil
}

// takeOne takes the message at c.r and returns its length.
func (c *conn) takeOne(work context.Context) (int, error) {
	b := c.buf.b[c.r:c.w]
	switch {
	case c.skipping:
		return c.skipMore(b)
	case !c.took:
		if err := c.first(b); err != nil {
			return 0, err
		}
	}
	if c.json {
		return c.takeJSON(work, b)
	}
	if c.scanning {
		n, err := c.scan.next(b)
		if errors.Is(err, errMore) {
			return 0, c.tooLarge(len(b))
		}
		if err != nil {
			return 0, c.malformed(c.scan.at, "malformed msgpack", err)
		}
		b = b[:n]
	}
	if !isArray(b[0]) {
		return c.takeOther(b)
	}
	err := c.msg.read(b)
	switch {
	case err == nil:
	case errors.Is(err, errMore) && !c.scanning:
		c.scanning = true
		c.scan.begin()
		return c.takeOne(work)
	case errors.Is(err, errReserved):
		c.scan.begin()
		_, _ = c.scan.next(b)
		return 0, c.malformed(c.scan.at, "malformed msgpack", err)
	default:
		return 0, c.malformed(0, "not a forward message", err)
	}
	c.scanning = false
	c.took = true
	c.strays = 0
	if c.msg.size > c.set.maxMessage {
		c.dropLarge(int64(c.msg.size))
		return c.msg.size, nil
	}
	return c.msg.size, c.take(work, &c.msg)
}

// takeOther takes a value that is no array: nil is a heartbeat of old clients, anything
// else is ignored with a warning, as Fluentd does.
func (c *conn) takeOther(b []byte) (int, error) {
	if b[0] == 0xc0 {
		c.scanning = false
		return 1, nil
	}
	n, err := skip(b, 0)
	if errors.Is(err, errMore) {
		if !c.scanning {
			c.scanning = true
			c.scan.begin()
			_, err = c.scan.next(b)
		}
		return 0, err
	}
	if err != nil {
		return 0, c.malformed(n, "malformed msgpack", err)
	}
	c.scanning = false
	c.took = true
	c.in.n.invalid.Add(1)
	if c.strays++; c.strays >= maxStrays {
		return n, c.malformed(0, "this is not the forward protocol", errStrays)
	}
	if c.strays == 1 && c.in.notices.may(kindBroken) { // one line is enough for a connection
		c.in.notices.warn(kindBroken, "forward: ignored something that is no message (wrong port, or a client that is not Fluentd's forward protocol?)",
			slog.String("peer", c.peer), slog.Int64("offset", c.offset+int64(c.r)))
	}
	return n, nil
}

// tooLarge decides what to do about an incomplete message: wait for more of it, or begin
// to throw it away.
func (c *conn) tooLarge(have int) error {
	if have <= c.set.maxMessage && c.scan.need <= c.set.maxMessage {
		return errMore
	}
	c.skipping, c.skipped = true, 0
	return nil
}

// skipMore throws away what has come of a message that is too large.
func (c *conn) skipMore(b []byte) (int, error) {
	_, err := c.scan.next(b)
	if err != nil && !errors.Is(err, errMore) {
		return 0, c.malformed(c.scan.at, "malformed msgpack", err)
	}
	n := min(len(b), c.scan.at)
	c.scan.discard(n)
	c.skipped += int64(n)
	if err == nil {
		size := c.skipped
		c.skipping, c.skipped, c.scanning, c.took = false, 0, false, true
		c.dropLarge(size)
		return n, nil
	}
	if n == 0 {
		return 0, errMore
	}
	return n, nil
}

func (c *conn) dropLarge(size int64) {
	c.in.n.tooLarge.Add(1)
	if c.in.notices.may(kindSize) {
		c.in.notices.warn(kindSize, "forward: dropped a message that is larger than chunk_size_limit; it is not acknowledged",
			slog.String("peer", c.peer), slog.Int64("bytes", size), slog.Int("limit", c.set.maxMessage))
	}
}

// fill reads more bytes, growing the buffer only if it is full of one message.
func (c *conn) fill() error {
	c.in.n.messages.Add(c.messages)
	c.messages = 0
	if err := c.makeRoom(); err != nil {
		return err
	}
	for {
		if err := c.arm(); err != nil {
			return err
		}
		n, err := c.nc.Read(c.buf.b[c.w:c.readEnd()])
		if n > 0 {
			c.w += n
			c.filled = c.w == len(c.buf.b)
			c.arrived = time.Now()
			c.in.n.bytes.Add(uint64(n))
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := c.timeout(); err != nil {
			return err
		}
	}
}

// smallRead is the least that a read may be limited to.
const smallRead = 4 << 10

// readEnd limits a read to the message in progress if its length is known, so that large
// messages end where the buffer does and need not be moved. What is known may be the end of
// a value deep inside the message only, a few bytes away: such a limit would turn a large
// message into as many system calls as it has values.
func (c *conn) readEnd() int {
	if c.scanning && !c.skipping {
		if end := c.r + c.scan.need; c.scan.need > steadyBuffer/4 && end-c.w >= smallRead && end < len(c.buf.b) {
			return end
		}
	}
	return len(c.buf.b)
}

func (c *conn) makeRoom() error {
	if c.filled && len(c.buf.b) < steadyBuffer {
		c.filled = false
		if err := c.growBuffer(); err != nil {
			return err
		}
	}
	if c.r == c.w {
		c.offset += int64(c.r)
		c.r, c.w = 0, 0
		if len(c.buf.b) > keepBuffer {
			return c.resize(steadyBuffer)
		}
		return nil
	}
	if c.w < len(c.buf.b) && (c.r == 0 || len(c.buf.b)-c.w >= len(c.buf.b)/4) &&
		!(c.scanning && c.r > 0 && c.r+c.scan.need > len(c.buf.b)) {
		return nil
	}
	if c.r > 0 {
		c.offset += int64(c.r)
		c.w = copy(c.buf.b, c.buf.b[c.r:c.w])
		c.r = 0
		return nil
	}
	return c.growBuffer()
}

func (c *conn) growBuffer() error {
	b, err := c.in.mem.grow(c.buf, c.w)
	c.buf = b
	return err
}

func (c *conn) resize(size int) error {
	c.in.mem.put(c.buf)
	b, err := c.in.mem.get(size)
	c.buf = b
	return err
}
