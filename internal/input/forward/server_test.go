package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/config"
	"weir/internal/input/inputtest"
	"weir/internal/servertls"
	"weir/test/forwardclient"
)

// server is an Input on a real port.
type server struct {
	*Input
	rec  *inputtest.Recorder
	log  *logged
	stop func() // ends Run and waits for it

	scarce atomic.Bool // as if all descriptors but the spared ones were in use
}

func loopback() Params {
	p := defaults()
	p.Bind, p.Port = "127.0.0.1", 0
	return p
}

func serveOn(t *testing.T, p Params, o Options) *server {
	t.Helper()
	log := &logged{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	s := &server{Input: newTestInput(t, p, o), rec: inputtest.NewRecorder(t), log: log}
	s.lastFile = func() uintptr {
		if s.scarce.Load() {
			return 0
		}
		return lastFile()
	}
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, s.rec) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		s.rec.Close()
	}
	t.Cleanup(s.stop)
	return s
}

func dial(t *testing.T, s *server, o forwardclient.Options) (*forwardclient.Client, error) {
	o.Addr = s.Addr().String()
	c, err := forwardclient.Dial(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func mustDial(t *testing.T, s *server, o forwardclient.Options) *forwardclient.Client {
	t.Helper()
	c, err := dial(t, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClient runs the test client against the server in all its modes, over TCP.
func TestClient(t *testing.T) {
	s := serveOn(t, loopback(), Options{})
	for _, mode := range []forwardclient.Mode{forwardclient.Message, forwardclient.Forward, forwardclient.Packed, forwardclient.Gzip, forwardclient.Zstd} {
		for _, json := range []bool{false, true} {
			if json && mode > forwardclient.Forward {
				continue
			}
			t.Run(fmt.Sprint(mode, json), func(t *testing.T) {
				before := s.Stats()
				var acked []uint64
				c := mustDial(t, s, forwardclient.Options{Window: 100, JSON: json, OnAck: func(k uint64) { acked = append(acked, k) }})
				p := forwardclient.Encoding{Mode: mode, Tag: "kube.shop", Events: 50, Record: forwardclient.Kubernetes(),
					Acks: true, JSON: json, Metadata: !json && mode != forwardclient.Message, Step: time.Millisecond}.Encode()
				const rounds = 20
				for i := range rounds {
					if mode <= forwardclient.Packed && !json {
						p.Renumber(uint64(i*50), time.Unix(1700000000, 0))
					}
					if err := c.Send(p, uint64(i*p.Messages())); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Wait(); err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
				after := s.Stats()
				if n := after.Events - before.Events; n != rounds*50 {
					t.Errorf("%d events arrived, want %d", n, rounds*50)
				}
				for i, k := range acked {
					if k != uint64(i) {
						t.Fatalf("acknowledgement %d is for message %d", i, k)
					}
				}
				if len(acked) != rounds*p.Messages() {
					t.Errorf("%d acknowledgements, want %d", len(acked), rounds*p.Messages())
				}
			})
		}
	}
}

// TestOrder: ids sent in order arrive in order.
func TestOrder(t *testing.T) {
	s := serveOn(t, loopback(), Options{})
	c := mustDial(t, s, forwardclient.Options{Window: 64})
	p := forwardclient.Encoding{Mode: forwardclient.Message, Tag: "t", Events: 7, Record: forwardclient.Docker(64), Acks: true}.Encode()
	for i := range uint64(300) {
		p.Renumber(i*7, time.Unix(1700000000, 0))
		if err := c.Send(p, i*7); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, e := range s.rec.Events() {
		if want := fmt.Sprintf(`"log":"id=%012d`, i); !strings.Contains(e, want) {
			t.Fatalf("event %d is %s, want %s", i, e, want)
		}
	}
}

func TestHandshake(t *testing.T) {
	base := func() *Security {
		return &Security{SelfHostname: "server", SharedKey: "secret", AllowAnonymousSource: true}
	}
	for _, tt := range []struct {
		name   string
		change func(s *Security)
		o      forwardclient.Options
		want   string // part of the refusal
	}{
		{"good key", nil, forwardclient.Options{SharedKey: "secret"}, ""},
		{"bad key", nil, forwardclient.Options{SharedKey: "guess"}, "shared_key mismatch"},
		{"good user", users, forwardclient.Options{SharedKey: "secret", Username: "ann", Password: "x"}, ""},
		{"bad password", users, forwardclient.Options{SharedKey: "secret", Username: "ann", Password: "y"}, "username/password mismatch"},
		{"other's password", users, forwardclient.Options{SharedKey: "secret", Username: "bob", Password: "x"}, "username/password mismatch"},
		{"unknown user", users, forwardclient.Options{SharedKey: "secret", Username: "eve", Password: "x"}, "username/password mismatch"},
		{"anonymous denied", func(s *Security) {
			s.AllowAnonymousSource, s.Clients = false, []Client{{Network: "10.0.0.0/8"}}
		}, forwardclient.Options{SharedKey: "secret"}, "anonymous source host '127.0.0.1' denied"},
		{"known network", func(s *Security) {
			s.AllowAnonymousSource, s.Clients = false, []Client{{Network: "127.1.2.3/8"}}
		}, forwardclient.Options{SharedKey: "secret"}, ""},
		{"known host", func(s *Security) {
			s.AllowAnonymousSource, s.Clients = false, []Client{{Host: "127.0.0.1"}}
		}, forwardclient.Options{SharedKey: "secret"}, ""},
		{"own key, first entry counts", func(s *Security) {
			s.Clients = []Client{{Host: "127.0.0.1", SharedKey: "own"}, {Network: "127.0.0.0/8"}}
		}, forwardclient.Options{SharedKey: "own"}, ""},
		{"common key of a client with its own", func(s *Security) {
			s.Clients = []Client{{Host: "127.0.0.1", SharedKey: "own"}}
		}, forwardclient.Options{SharedKey: "secret"}, "shared_key mismatch"},
		{"user not allowed from here", func(s *Security) {
			users(s)
			s.Clients = []Client{{Host: "127.0.0.1", Users: []string{"bob"}}}
		}, forwardclient.Options{SharedKey: "secret", Username: "ann", Password: "x"}, "username/password mismatch"},
		{"user allowed from here", func(s *Security) {
			users(s)
			s.Clients = []Client{{Host: "127.0.0.1", Users: []string{"bob"}}}
		}, forwardclient.Options{SharedKey: "secret", Username: "bob", Password: "z"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := loopback()
			p.Security = base()
			if tt.change != nil {
				tt.change(p.Security)
			}
			s := serveOn(t, p, Options{})
			tt.o.Hostname, tt.o.Window = "client", 1
			c, err := dial(t, s, tt.o)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error %v, want %q", err, tt.want)
				}
				s.stop()
				if log := s.log.String(); !strings.Contains(log, tt.want) {
					t.Errorf("log %q, want %q in it", log, tt.want)
				}
				if n := s.Stats().Handshakes; n != 1 {
					t.Errorf("%d failed handshakes, want 1", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			send(t, c)
		})
	}
}

func users(s *Security) {
	s.UserAuth = true
	s.Users = []User{{"ann", "x"}, {"bob", "z"}}
}

// send sends one event and waits for its acknowledgement.
func send(t *testing.T, c *forwardclient.Client) {
	t.Helper()
	p := forwardclient.Encoding{Mode: forwardclient.Message, Tag: "t", Events: 1, Time: time.Unix(5, 0), Record: forwardclient.Docker(64), Acks: true}.Encode()
	if err := c.Send(p, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestDescriptorsAreSpared: clients do not take the last descriptors of the process; those
// who are connected go on.
func TestDescriptorsAreSpared(t *testing.T) {
	s := serveOn(t, loopback(), Options{})
	c := mustDial(t, s, forwardclient.Options{Window: 1})
	send(t, c)
	s.scarce.Store(true)
	sent, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sent.Close()
	if _, err := sent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client that takes one of the last descriptors: %v, want that it is sent away", err)
	}
	if log := s.log.String(); strings.Count(log, "is sent away") != 1 || !strings.Contains(log, "connections=1 ") || !strings.Contains(log, "LimitNOFILE") {
		t.Errorf("the log says\n%s", log)
	}
	s.scarce.Store(false)
	send(t, mustDial(t, s, forwardclient.Options{Window: 1}))
}

// TestNoPing: what is no PING is told so and ends.
func TestNoPing(t *testing.T) {
	for _, first := range []string{"\x93\xa1t\x05\x80", "\x96\xa4PING\x01\x02\x03\x04\x05", "\xc1", "[\"t\",5,{}]", "GET / HTTP/1.0\r\n\r\n"} {
		p := loopback()
		p.Security = &Security{SelfHostname: "server", SharedKey: "secret", AllowAnonymousSource: true}
		s := serveOn(t, p, Options{})
		nc, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 1024); err == nil; {
			_, err = nc.Read(b)
		}
		_ = nc.Close()
		s.stop()
		if log := s.log.String(); !strings.Contains(log, "invalid ping") && !strings.Contains(log, "HTTP") {
			t.Errorf("%q: log %q", first, log)
		}
		if got := s.rec.Events(); len(got) != 0 {
			t.Errorf("%q: events %v", first, got)
		}
	}
}

func TestUDPHeartbeat(t *testing.T) {
	s := serveOn(t, loopback(), Options{})
	nc, err := net.Dial("udp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 3 {
		if _, err := nc.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		var b [16]byte
		if n, err := nc.Read(b[:]); err != nil || n != 1 || b[0] != 0 {
			t.Fatalf("answer %x, %v; want one zero byte", b[:n], err)
		}
	}
}

func TestSourceHostname(t *testing.T) {
	p := loopback()
	p.SourceHostnameKey, p.SourceAddressKey = "host", "ip"
	s := serveOn(t, p, Options{LookupAddr: func(_ context.Context, addr string) ([]string, error) {
		if addr != "127.0.0.1" {
			return nil, errors.New("no such host")
		}
		return []string{"client.test."}, nil
	}})
	c := mustDial(t, s, forwardclient.Options{})
	if err := c.Write(messageOf("t", 5, kv{"a", 1}, nil)); err != nil {
		t.Fatal(err)
	}
	got := s.rec.WaitEvents(1)
	if d := cmp.Diff(got, []string{`t 5.000000000 {"a":1,"host":"client.test","ip":"127.0.0.1"}`}); d != "" {
		t.Errorf("got- want+\n%s", d)
	}
}

func TestPortTaken(t *testing.T) {
	s := serveOn(t, loopback(), Options{})
	p := loopback()
	p.Port = s.Addr().(*net.TCPAddr).Port
	in := newTestInput(t, p, Options{})
	if err := in.Open(); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("Open: %v", err)
	}
}

func TestSocketOptions(t *testing.T) {
	p := loopback()
	backlog, linger, size := 7, 3, 64<<10
	p.Backlog = &backlog
	tr := defaultTransport("tcp")
	tr.LingerTimeout, tr.ReceiveBufferSize = &linger, &size
	p.Transport = &tr
	s := serveOn(t, p, Options{})
	send(t, mustDial(t, s, forwardclient.Options{Window: 1}))
	if log := s.log.String(); log != "" {
		t.Errorf("log %q", log)
	}
}

func TestConfigMistakes(t *testing.T) {
	no, empty := false, ""
	for want, change := range map[string]func(p *Params){
		"exclude each other":        func(p *Params) { p.DenyKeepalive, p.SendKeepalive = true, true },
		"resolve_hostname is false": func(p *Params) { p.SourceHostnameKey, p.ResolveHostname = "h", &no },
		"add_tag_prefix is empty":   func(p *Params) { p.AddTagPrefix = &empty },
		"is no port":                func(p *Params) { p.Port = 70000 },
		"must be above 0":           func(p *Params) { p.DecompressionLimit = 0 },
		"needs self_hostname":       func(p *Params) { p.Security = &Security{SharedKey: "x", AllowAnonymousSource: true} },
		"needs shared_key":          func(p *Params) { p.Security = &Security{SelfHostname: "x", AllowAnonymousSource: true} },
		"there is no <user>":        func(p *Params) { p.Security = &Security{SelfHostname: "x", SharedKey: "x", UserAuth: true} },
		"there is no <client>":      func(p *Params) { p.Security = &Security{SelfHostname: "x", SharedKey: "x"} },
		"needs either host or":      func(p *Params) { p.Security = &Security{Clients: []Client{{}}} },
		"is no network":             func(p *Params) { p.Security = &Security{Clients: []Client{{Network: "10.0.0.0"}}} },
		"has no certificate":        func(p *Params) { p.Transport = &Transport{Kind: "tls"} },
		"Ruby program":              func(p *Params) { p.Transport = &Transport{Kind: "tls", Params: servertls.Params{CertVerifier: "x.rb"}} },
		"go together": func(p *Params) {
			p.Transport = &Transport{Kind: "tls", Params: servertls.Params{MinVersion: "TLSv1_2"}}
		},
		"newer than max_version": func(p *Params) {
			p.Transport = &Transport{Kind: "tls", Params: servertls.Params{MinVersion: "TLSv1_3", MaxVersion: "TLSv1_2"}}
		},
		"needs private_key_path":    func(p *Params) { p.Transport = &Transport{Kind: "tls", Params: servertls.Params{CertPath: "x"}} },
		"needs ca_private_key_path": func(p *Params) { p.Transport = &Transport{Kind: "tls", Params: servertls.Params{CACertPath: "x"}} },
		"client_cert_auth needs":    func(p *Params) { p.Transport = &Transport{Kind: "tls", Params: servertls.Params{ClientCertAuth: true}} },
		"no transport":              func(p *Params) { p.Transport = &Transport{Kind: "sctp"} },
		"FIPS 140-3":                func(p *Params) { p.Transport = &Transport{Kind: "tls", Params: servertls.Params{EnsureFIPS: true}} },
		"read certificate: open /no": func(p *Params) {
			p.Transport = &Transport{Kind: "tls", Params: servertls.Params{CertPath: "/no", PrivateKeyPath: "/no"}}
		},
	} {
		p := defaults()
		change(&p)
		_, err := New(p, Options{Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// defaults are the parameters of an empty section.
func defaults() (p Params) {
	config.Decode(nil, &p, &config.Diagnostics{})
	return p
}

// defaultTransport are those of an empty <transport kind>.
func defaultTransport(kind string) (tr Transport) {
	config.Decode(nil, &tr, &config.Diagnostics{})
	tr.Kind = kind
	return tr
}
