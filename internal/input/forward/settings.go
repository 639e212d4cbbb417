package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"weir/internal/config"
	"weir/internal/fluentconf"
)

// defaultMessage is the largest message accepted where chunk_size_limit is not set. It is
// Fluentd's default chunk size of file buffers, the largest that a sender makes unasked.
const defaultMessage = 256 << 20

// usualChunk is the default chunk size of Fluentd's memory buffers.
const usualChunk = 8 << 20

// settings are Params as connections use them. They are immutable after Open.
type settings struct {
	maxMessage, warnMessage int
	denyKeepalive           bool
	skipInvalid             bool
	ackDelivered            bool
	tag, prefix             string
	addressKey, hostnameKey string
	linger                  *int
	receiveBuffer           int
	tls                     *tls.Config // nil: plain
	auth                    *auth       // nil: none
}

// newSettings checks p and reads the files it names. The error joins every mistake.
func newSettings(p *Params, hostname string) (*settings, error) {
	var d config.Diagnostics
	p.Check(nil, &d)
	var errs []error
	for _, e := range d.Errors {
		errs = append(errs, errors.New(e.Text+hint(e.Hint)))
	}
	s := &settings{
		maxMessage: defaultMessage, denyKeepalive: p.DenyKeepalive, skipInvalid: p.SkipInvalidEvent,
		ackDelivered: p.AckAfter == "delivered", tag: p.Tag,
		addressKey: p.SourceAddressKey, hostnameKey: p.SourceHostnameKey, linger: p.LingerTimeout,
	}
	if p.ChunkSizeLimit != nil && *p.ChunkSizeLimit > 0 {
		s.maxMessage = int(*p.ChunkSizeLimit)
	}
	if p.ChunkSizeWarnLimit != nil {
		s.warnMessage = int(*p.ChunkSizeWarnLimit)
	}
	if p.AddTagPrefix != nil {
		s.prefix = *p.AddTagPrefix + "."
	}
	if t := p.Transport; t != nil {
		if t.LingerTimeout != nil {
			s.linger = t.LingerTimeout
		}
		if t.ReceiveBufferSize != nil {
			s.receiveBuffer = *t.ReceiveBufferSize
		}
		if t.Kind == "tls" && len(errs) == 0 {
			var err error
			if s.tls, err = t.Config(hostname); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return s, errors.Join(errs...)
}

func hint(s string) string {
	if s == "" {
		return ""
	}
	return "; " + s
}

// Check notes what is wrong with the parameters as a whole, beyond what config.Decode
// finds in single ones. s is the section they come from; nil if there is none. It touches
// neither files nor the network.
func (p *Params) Check(s *fluentconf.Section, d *config.Diagnostics) {
	if p.DenyKeepalive && p.SendKeepalive {
		d.Error(place(s, "deny_keepalive"), "deny_keepalive and send_keepalive_packet exclude each other", "remove one of them")
	}
	if p.SourceHostnameKey != "" && p.ResolveHostname != nil && !*p.ResolveHostname {
		d.Error(place(s, "resolve_hostname"), "source_hostname_key needs the names of clients, but resolve_hostname is false", "remove resolve_hostname")
	}
	if p.AddTagPrefix != nil && *p.AddTagPrefix == "" {
		d.Error(place(s, "add_tag_prefix"), "add_tag_prefix is empty", "write a prefix or remove the parameter")
	}
	if p.Port < 0 || p.Port > 65535 {
		d.Error(place(s, "port"), fmt.Sprintf("%d is no port", p.Port), "write a number from 1 to 65535")
	}
	if p.DecompressionLimit <= 0 {
		d.Error(place(s, "decompression_size_limit"), "decompression_size_limit must be above 0", "write for example 256m")
	}
	if p.LingerTimeout != nil {
		d.Warn(place(s, "linger_timeout"), "linger_timeout is deprecated here", "move it into <transport tcp>")
	}
	if n := p.ChunkSizeLimit; n != nil && *n > 0 && *n < usualChunk {
		d.Warn(place(s, "chunk_size_limit"), fmt.Sprintf("messages of more than chunk_size_limit (%d bytes) are refused, and senders make larger ones: a memory buffer of Fluentd 8m, a file buffer 256m", *n),
			"remove it, or set chunk_limit_size of the senders' buffers below it")
	}
	if p.Security != nil {
		p.Security.check(sub(s, "security"), d)
		if p.Transport == nil || p.Transport.Kind != "tls" {
			d.Note(place(sub(s, "security"), ""), "<security> says who may send, and encrypts nothing", "add <transport tls> here and tls on in the senders; one side alone gets no connection")
		}
	}
	if t := p.Transport; t != nil {
		switch t.Kind {
		case "", "tcp", "udp":
		case "tls":
			t.Params.Check(sub(s, "transport"), d)
		default:
			d.Error(place(sub(s, "transport"), ""), fmt.Sprintf("%q is no transport", t.Kind), "write <transport tcp> or <transport tls>")
		}
	}
}

func (s *Security) check(at *fluentconf.Section, d *config.Diagnostics) {
	if s.SelfHostname == "" {
		d.Error(place(at, "self_hostname"), "<security> needs self_hostname", "write the name of this host")
	}
	if s.SelfHostname == "localhost" {
		d.Warn(place(at, "self_hostname"), "self_hostname localhost is what a sender may call itself too, and Fluentd refuses a partner of its own name", "write a name that no sender has")
	}
	if s.SharedKey == "" {
		d.Error(place(at, "shared_key"), "<security> needs shared_key", "write the secret that the clients have")
	}
	if s.UserAuth && len(s.Users) == 0 {
		d.Error(place(at, "user_auth"), "user_auth is true, but there is no <user>", "add <user> sections with username and password")
	}
	if !s.AllowAnonymousSource && len(s.Clients) == 0 {
		d.Error(place(at, "allow_anonymous_source"), "allow_anonymous_source is false, but there is no <client>", "add <client> sections with host or network")
	}
	var sections []*fluentconf.Section
	if at != nil {
		sections = at.All("client")
	}
	for i, c := range s.Clients {
		var cs *fluentconf.Section
		if i < len(sections) {
			cs = sections[i]
		}
		c.check(cs, d)
	}
}

func (c *Client) check(at *fluentconf.Section, d *config.Diagnostics) {
	if (c.Host == "") == (c.Network == "") {
		d.Error(place(at, ""), "<client> needs either host or network", "write one of them")
	}
	if c.Network != "" {
		if _, err := netip.ParsePrefix(c.Network); err != nil {
			d.Error(place(at, "network"), fmt.Sprintf("%q is no network", c.Network), "write it as address/bits, for example 10.0.0.0/8")
		}
	}
}

// place is where a parameter stands, or else where its section begins.
func place(s *fluentconf.Section, key string) fluentconf.Pos {
	if s == nil {
		return fluentconf.Pos{}
	}
	if p := s.Get(key); p != nil {
		return p.Pos
	}
	return s.Pos
}

func sub(s *fluentconf.Section, name string) *fluentconf.Section {
	if s == nil {
		return nil
	}
	if all := s.All(name); len(all) > 0 {
		return all[0]
	}
	return s
}

// tune sets what belongs to a single connection.
func (s *settings) tune(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if s.linger != nil {
		_ = tcp.SetLinger(*s.linger) // the connection works without
	}
}

// tuneListener sets what connections inherit.
func (s *settings) tuneListener(raw syscall.RawConn) error {
	if s.receiveBuffer <= 0 {
		return nil
	}
	var inner error
	err := raw.Control(func(fd uintptr) {
		inner = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, s.receiveBuffer)
	})
	if err = errors.Join(err, inner); err != nil {
		return fmt.Errorf("set receive_buffer_size to %d: %w", s.receiveBuffer, err)
	}
	return nil
}
