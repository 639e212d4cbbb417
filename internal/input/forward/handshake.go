package forward

import (
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"weir/internal/event"
)

// handshakeTimeout bounds the time from accepting a connection to its authentication.
const handshakeTimeout = 30 * time.Second

// maxPing is the largest PING accepted, in bytes.
const maxPing = 64 << 10

// auth is `<security>`, resolved. It is immutable.
type auth struct {
	hostname  string
	key       string
	userAuth  bool
	anonymous bool
	users     []User
	clients   []client
}

// client is one `<client>`.
type client struct {
	nets  []netip.Prefix
	key   string
	users []string
}

// newAuth resolves the names of clients with lookup.
func newAuth(s *Security, lookup func(host string) ([]netip.Addr, error)) (*auth, error) {
	a := &auth{hostname: s.SelfHostname, key: s.SharedKey, userAuth: s.UserAuth, anonymous: s.AllowAnonymousSource, users: s.Users}
	for _, c := range s.Clients {
		n := client{key: c.SharedKey, users: c.Users}
		if n.key == "" {
			n.key = s.SharedKey
		}
		if c.Network != "" {
			p, err := netip.ParsePrefix(c.Network)
			if err != nil {
				return nil, fmt.Errorf("parse network of <client>: %w", err)
			}
			n.nets = append(n.nets, p.Masked())
		}
		if c.Host != "" {
			addrs, err := lookup(c.Host)
			if err != nil {
				return nil, fmt.Errorf("look up host of <client>: %w", err)
			}
			for _, addr := range addrs {
				addr = addr.Unmap()
				n.nets = append(n.nets, netip.PrefixFrom(addr, addr.BitLen()))
			}
		}
		a.clients = append(a.clients, n)
	}
	return a, nil
}

// find returns the first client entry that covers addr.
func (a *auth) find(addr netip.Addr) *client {
	addr = addr.Unmap().WithZone("")
	for i := range a.clients {
		for _, p := range a.clients[i].nets {
			if p.Contains(addr) {
				return &a.clients[i]
			}
		}
	}
	return nil
}

// ping is the client's part of the handshake.
type ping struct{ hostname, salt, digest, user, password string }

var errPing = errors.New("invalid ping message")

func readPing(b []byte) (p ping, err error) {
	n, i, err := event.ArrayHeader(b, 0)
	if err != nil || n != 6 {
		return p, errPing
	}
	var word string
	for _, to := range []*string{&word, &p.hostname, &p.salt, &p.digest, &p.user, &p.password} {
		s, j, err := event.Bytes(b, i)
		if err != nil {
			return p, errPing
		}
		*to, i = string(s), j
	}
	if word != "PING" {
		return p, errPing
	}
	return p, nil
}

// check says whether the client may send, and with which shared key. The error's text is
// the reason that the client is told.
func (a *auth) check(p ping, from netip.Addr, nonce, salt []byte) (key string, err error) {
	c := a.find(from)
	if c == nil && !a.anonymous {
		return "", fmt.Errorf("anonymous source host '%s' denied", from.Unmap())
	}
	key = a.key
	if c != nil {
		key = c.key
	}
	if !same(p.digest, digest(p.salt, p.hostname, string(nonce), key)) {
		return "", errors.New("shared_key mismatch")
	}
	if a.userAuth && !a.checkUser(c, p, salt) {
		return "", errors.New("username/password mismatch")
	}
	return key, nil
}

func (a *auth) checkUser(c *client, p ping, salt []byte) bool {
	found := false
	for _, u := range a.users {
		if u.Username != p.user || c != nil && len(c.users) > 0 && !slices.Contains(c.users, p.user) {
			continue
		}
		if same(p.password, digest(string(salt), p.user, u.Password)) {
			found = true
		}
	}
	return found
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// digest is the hexadecimal SHA-512 of all parts.
func digest(parts ...string) string {
	h := sha512.New()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// handshake does HELO, PING and PONG.
func (c *conn) handshake() error {
	a := c.set.auth
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	nonce, salt := random[:16], random[16:]
	if err := c.write(appendHelo(nil, nonce, salt, !c.set.denyKeepalive)); err != nil {
		return fmt.Errorf("send HELO: %w", err)
	}
	msg, err := c.readValue(maxPing, time.Now().Add(handshakeTimeout))
	if err != nil {
		return err
	}
	p, err := readPing(msg)
	var key string
	if err == nil {
		key, err = a.check(p, remoteAddr(c.nc), nonce, salt)
	}
	c.r += len(msg)
	if err != nil {
		_ = c.write(appendPong(nil, false, err.Error(), "", ""))
		c.answered.Store(true)
		c.farewell(nil)
		return err
	}
	if err := c.write(appendPong(nil, true, "", a.hostname, digest(p.salt, a.hostname, string(nonce), key))); err != nil {
		return fmt.Errorf("send PONG: %w", err)
	}
	c.deadline = time.Time{}
	return c.sock.SetReadDeadline(time.Time{})
}

// readValue reads until one msgpack value is complete and returns it.
func (c *conn) readValue(limit int, until time.Time) ([]byte, error) {
	if err := c.sock.SetReadDeadline(until); err != nil {
		return nil, err
	}
	if c.in.stopping.Load() {
		return nil, errStop
	}
	c.scan.begin()
	for {
		if c.w == len(c.buf.b) {
			if err := c.growBuffer(); err != nil {
				return nil, err
			}
		}
		n, err := c.nc.Read(c.buf.b[c.w:])
		c.w += n
		c.in.n.bytes.Add(uint64(n))
		if n == 0 {
			if c.in.stopping.Load() {
				return nil, errStop
			}
			return nil, fmt.Errorf("wait for PING: %w", err)
		}
		if err := c.first(c.buf.b[:c.w]); err != nil && !errors.Is(err, errMore) {
			return nil, err
		}
		size, err := c.scan.next(c.buf.b[:c.w])
		switch {
		case err == nil:
			return c.buf.b[:size], nil
		case !errors.Is(err, errMore) || c.w > limit || c.scan.need > limit:
			return nil, errPing
		}
	}
}

func appendHelo(dst, nonce, salt []byte, keepalive bool) []byte {
	dst = event.AppendArrayHeader(dst, 2)
	dst = event.AppendStr(dst, "HELO")
	dst = event.AppendMapHeader(dst, 3)
	dst = event.AppendBin(event.AppendStr(dst, "nonce"), nonce)
	dst = event.AppendBin(event.AppendStr(dst, "auth"), salt)
	return event.AppendBool(event.AppendStr(dst, "keepalive"), keepalive)
}

func appendPong(dst []byte, ok bool, reason, hostname, digest string) []byte {
	dst = event.AppendArrayHeader(dst, 5)
	dst = event.AppendStr(dst, "PONG")
	dst = event.AppendBool(dst, ok)
	for _, s := range [...]string{reason, hostname, digest} {
		dst = event.AppendStr(dst, s)
	}
	return dst
}

// remoteAddr is the client's address, or the zero Addr where there is none.
func remoteAddr(nc net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr()
}
