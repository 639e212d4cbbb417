// Package forwardclient is a fast client of Fluentd's forward protocol for tests and
// benchmarks: all modes, acknowledgements with a window, TLS, the handshake, and payloads
// that are encoded once and sent many times. It shares no code with weir's server side.
package forwardclient

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// Options configures a Client. Addr or Conn is required.
type Options struct {
	Addr string      // host:port
	Conn net.Conn    // an open connection to use instead
	TLS  *tls.Config // nil: plain TCP

	// SharedKey, if set, makes Dial do the handshake.
	SharedKey, Hostname, Username, Password string

	// Window is how many messages may wait for their acknowledgement; Send blocks beyond
	// it. 0: acknowledgements are neither counted nor waited for.
	Window int
	// JSON says that acknowledgements come as JSON: as payloads with Encoding.JSON.
	JSON bool
	// Nonce makes the chunk ids of this sender its own. A repeat over another connection
	// needs the same. 0: random.
	Nonce uint32
	// OnAck is called by the reading goroutine with the key of each acknowledged message.
	OnAck func(key uint64)
	// DialTimeout covers connecting and the handshake. Default 10 s.
	DialTimeout time.Duration
}

// Client is one connection. Send and Wait may be used from one goroutine at a time.
type Client struct {
	o     Options
	nc    net.Conn
	r     *bufio.Reader
	nonce [nonceLen]byte
	done  chan struct{} // the reading goroutine has ended

	mu    sync.Mutex // guards what follows
	cond  sync.Cond
	sent  uint64 // messages with a chunk id
	acked uint64
	err   error // of reading
}

// A chunk id is 24 characters: 8 hexadecimal digits of the nonce and 16 of the key.
const (
	nonceLen = 8
	chunkLen = nonceLen + 16
)

// Dial connects, and authenticates itself if Options.SharedKey is set.
func Dial(ctx context.Context, o Options) (*Client, error) {
	if o.DialTimeout == 0 {
		o.DialTimeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	nc := o.Conn
	if nc == nil {
		var d net.Dialer
		var err error
		if nc, err = d.DialContext(ctx, "tcp", o.Addr); err != nil {
			return nil, err
		}
	}
	if o.TLS != nil {
		t := tls.Client(nc, o.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", o.Addr, err)
		}
		nc = t
	}
	c := &Client{o: o, nc: nc, r: bufio.NewReaderSize(nc, 64<<10), done: make(chan struct{})}
	c.cond.L = &c.mu
	if o.Nonce == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:])
		o.Nonce = binary.BigEndian.Uint32(b[:])
	}
	putHex(c.nonce[:], uint64(o.Nonce))
	if o.SharedKey != "" {
		deadline, _ := ctx.Deadline()
		_ = nc.SetDeadline(deadline)
		if err := c.handshake(); err != nil {
			_ = nc.Close()
			return nil, err
		}
		_ = nc.SetDeadline(time.Time{})
	}
	go c.read()
	return c, nil
}

// Send writes a payload. Its first message gets the chunk id of key, the second of key+1
// and so on. With a window it blocks until there is room for all of them, so a payload
// must not have more messages than the window. After an error the connection is of no
// more use.
func (c *Client) Send(p *Payload, key uint64) error {
	n := uint64(len(p.chunks))
	if n > 0 && c.o.Window > 0 {
		c.mu.Lock()
		for c.err == nil && c.sent-c.acked+n > uint64(c.o.Window) && c.sent > c.acked {
			c.cond.Wait()
		}
		err := c.err
		c.sent += n
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for i, at := range p.chunks {
		copy(p.Bytes[at:], c.nonce[:])
		putHex(p.Bytes[at+nonceLen:at+chunkLen], key+uint64(i))
	}
	_, err := c.nc.Write(p.Bytes)
	return err
}

// Write sends bytes as they are.
func (c *Client) Write(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// Wait blocks until all messages sent have been acknowledged, or reading failed.
func (c *Client) Wait() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.acked < c.sent {
		c.cond.Wait()
	}
	if c.acked < c.sent {
		return fmt.Errorf("%d messages are not acknowledged: %w", c.sent-c.acked, c.err)
	}
	return nil
}

// Acked is how many messages have been acknowledged.
func (c *Client) Acked() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

// Done is closed when the server has closed the connection, or it broke.
func (c *Client) Done() <-chan struct{} { return c.done }

// CloseWrite tells the server that nothing more comes; acknowledgements still arrive.
func (c *Client) CloseWrite() error {
	if h, ok := c.nc.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection and waits for the reading goroutine.
func (c *Client) Close() error {
	err := c.nc.Close()
	<-c.done
	return err
}

// Abort closes the connection with a reset, as a crash of the machine would.
func (c *Client) Abort() error {
	if t, ok := c.nc.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	return c.Close()
}

// read takes acknowledgements until the connection ends.
func (c *Client) read() {
	defer close(c.done)
	next := c.readMsgpack
	if c.o.JSON {
		d := json.NewDecoder(c.r)
		next = func() (string, error) {
			var a struct{ Ack string }
			err := d.Decode(&a)
			return a.Ack, err
		}
	}
	for {
		id, err := next()
		var key uint64
		if err == nil {
			key, err = c.key(id)
		}
		c.mu.Lock()
		if err != nil {
			if c.err = err; errors.Is(err, io.EOF) {
				c.err = fmt.Errorf("server closed the connection: %w", err)
			}
		} else {
			c.acked++
		}
		c.cond.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
		if c.o.OnAck != nil {
			c.o.OnAck(key)
		}
	}
}

// ackLen is the length of an acknowledgement: a map of one, "ack", a string of 24.
const ackLen = 1 + 4 + 1 + chunkLen

func (c *Client) readMsgpack() (string, error) {
	b, err := c.r.Peek(ackLen)
	if err != nil {
		return "", err
	}
	if string(b[:6]) != "\x81\xa3ack\xb8" {
		return "", fmt.Errorf("not an acknowledgement: %x", b)
	}
	id := string(b[6:])
	_, err = c.r.Discard(ackLen)
	return id, err
}

func (c *Client) key(id string) (uint64, error) {
	if len(id) != chunkLen || id[:nonceLen] != string(c.nonce[:]) {
		return 0, fmt.Errorf("acknowledgement of a foreign chunk %q", id)
	}
	return strconv.ParseUint(id[nonceLen:], 16, 64)
}

func putHex(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = "0123456789abcdef"[v&15]
		v >>= 4
	}
}

func (c *Client) handshake() error {
	r := msgp.NewReader(c.r)
	var helo msgp.Raw
	if err := helo.DecodeMsg(r); err != nil {
		return fmt.Errorf("read HELO: %w", err)
	}
	nonce, salt, err := readHelo(helo)
	if err != nil {
		return err
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	keySalt := hex.EncodeToString(random[:])
	b := msgp.AppendArrayHeader(nil, 6)
	for _, s := range []string{"PING", c.o.Hostname, keySalt, sum(keySalt, c.o.Hostname, nonce, c.o.SharedKey)} {
		b = msgp.AppendString(b, s)
	}
	password := ""
	if salt != "" {
		password = sum(salt, c.o.Username, c.o.Password)
	}
	b = msgp.AppendString(msgp.AppendString(b, c.o.Username), password)
	if _, err := c.nc.Write(b); err != nil {
		return fmt.Errorf("send PING: %w", err)
	}
	var pong msgp.Raw
	if err := pong.DecodeMsg(r); err != nil {
		return fmt.Errorf("read PONG: %w", err)
	}
	if r.R.Buffered() > 0 {
		return errors.New("the server sent something behind PONG")
	}
	return c.readPong(pong, keySalt, nonce)
}

func readHelo(b []byte) (nonce, salt string, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || n != 2 {
		return "", "", fmt.Errorf("HELO has %d elements: %w", n, err)
	}
	word, b, err := msgp.ReadStringZC(b)
	if err != nil || string(word) != "HELO" {
		return "", "", fmt.Errorf("%q instead of HELO: %w", word, err)
	}
	n, b, err = msgp.ReadMapHeaderBytes(b)
	for ; err == nil && n > 0; n-- {
		var key, val []byte
		if key, b, err = msgp.ReadStringZC(b); err != nil {
			break
		}
		switch msgp.NextType(b) {
		case msgp.BinType:
			val, b, err = msgp.ReadBytesZC(b)
		case msgp.StrType:
			val, b, err = msgp.ReadStringZC(b)
		default:
			b, err = msgp.Skip(b)
		}
		switch string(key) {
		case "nonce":
			nonce = string(val)
		case "auth":
			salt = string(val)
		}
	}
	return nonce, salt, err
}

func (c *Client) readPong(b []byte, keySalt, nonce string) error {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || n != 5 {
		return fmt.Errorf("PONG has %d elements: %w", n, err)
	}
	word, b, err := msgp.ReadStringZC(b)
	if err != nil || string(word) != "PONG" {
		return fmt.Errorf("%q instead of PONG: %w", word, err)
	}
	ok, b, err := msgp.ReadBoolBytes(b)
	if err != nil {
		return err
	}
	var s [3]string
	for i := range s {
		if s[i], b, err = msgp.ReadStringBytes(b); err != nil {
			return err
		}
	}
	if !ok {
		return fmt.Errorf("server refused: %s", s[0])
	}
	if s[1] == c.o.Hostname {
		return errors.New("the server has the name of this client")
	}
	if s[2] != sum(keySalt, s[1], nonce, c.o.SharedKey) {
		return errors.New("the server does not know the shared key")
	}
	return nil
}

func sum(parts ...string) string {
	h := sha512.New()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
