package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// arm sets the deadline of the next read.
func (c *conn) arm() error {
	for {
		stopping := c.in.stopping.Load()
		if c.halt.Load() {
			return errStop
		}
		now := time.Now()
		var want time.Time
		switch {
		case stopping:
			end := c.in.readUntil()
			if !now.Before(end) {
				return errStop
			}
			if want = now.Add(stopIdle); want.After(end) {
				want = end
			}
		case c.r == c.w && len(c.buf.b) > minBuffer:
			if want = now.Add(idleRelease); c.deadline.After(now.Add(idleRelease / 2)) {
				want = c.deadline
			}
		}
		if want.Equal(c.deadline) {
			return nil
		}
		c.deadline = want
		if err := c.sock.SetReadDeadline(want); err != nil {
			return err
		}
		// windDown and stopReading set their flag first and then the deadline; if that
		// was overwritten just now, the flag is visible here.
		if stopping == c.in.stopping.Load() && !c.halt.Load() {
			return nil
		}
	}
}

// timeout is called when a read ran into the deadline.
func (c *conn) timeout() error {
	if c.halt.Load() || c.in.stopping.Load() {
		return errStop
	}
	c.deadline = time.Time{}
	if c.r == c.w && len(c.buf.b) > minBuffer {
		c.batch.trim()
		c.norm.out, c.single, c.jsonOut = nil, nil, nil
		if err := c.resize(minBuffer); err != nil {
			return err
		}
	}
	return c.sock.SetReadDeadline(time.Time{})
}

// windDown wakes the reader when the input stops. Any goroutine may call it.
func (c *conn) windDown() { _ = c.sock.SetReadDeadline(time.Now().Add(stopIdle)) }

// stopReading makes the reader end. Any goroutine may call it.
func (c *conn) stopReading() {
	c.halt.Store(true)
	_ = c.sock.SetReadDeadline(time.Now())
}

func (c *conn) write(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

func (c *conn) release() {
	c.in.mem.put(c.buf)
	c.buf = nil
}

// farewell closes the connection so that the client still gets the last answers: closing
// a socket with unread bytes resets it, and a reset may overtake them.
func (c *conn) farewell(err error) {
	if !c.answered.Load() || c.broken.Load() || errors.Is(err, io.EOF) {
		return
	}
	if half, ok := c.nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.sock.SetReadDeadline(time.Now().Add(lingerFor))
	var sink [4096]byte
	for range 256 {
		if _, err := c.nc.Read(sink[:]); err != nil {
			return
		}
	}
}

// open does what comes before the first message: TLS, names, the handshake.
func (c *conn) open(work context.Context) error {
	if err := c.startTLS(work); err != nil {
		return err
	}
	b, err := c.in.mem.get(minBuffer)
	if err != nil {
		return err
	}
	c.buf = b
	if c.set.auth != nil {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	c.identify(work)
	return nil
}

// identify finds what is put into each record about the client.
func (c *conn) identify(work context.Context) {
	host, _, err := net.SplitHostPort(c.peer)
	if err != nil {
		host = c.peer
	}
	if key := c.set.hostnameKey; key != "" {
		c.norm.addPair(key, c.in.lookup(work, host))
	}
	if key := c.set.addressKey; key != "" {
		c.norm.addPair(key, host)
	}
}
