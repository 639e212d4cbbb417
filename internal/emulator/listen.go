package emulator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleTimeout is how long the service keeps an idle connection, about.
const idleTimeout = 6 * time.Second

// serving is the part of a Server that owns a listener.
type serving struct {
	mu   sync.Mutex // guards all
	http *http.Server
	done chan struct{}
	addr string
	tls  bool
}

// Listen opens addr ("127.0.0.1:0" for any free port) and serves in the
// background until Close. With cert it speaks TLS. It may be called once.
func (s *Server) Listen(addr string, cert *tls.Certificate) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", addr, err)
	}
	if cert != nil {
		// HTTP/1.1 only, like the service: a reset is the reset of one request.
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	}
	sv := &s.serving
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.http != nil {
		return errors.Join(errors.New("listen was called twice"), ln.Close())
	}
	sv.http = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	sv.done, sv.addr, sv.tls = make(chan struct{}), ln.Addr().String(), cert != nil
	go func() {
		defer close(sv.done)
		if err := sv.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the endpoint stopped serving", "err", err)
		}
	}()
	return nil
}

// Addr is host:port of the listener, empty before Listen.
func (s *Server) Addr() string {
	s.serving.mu.Lock()
	defer s.serving.mu.Unlock()
	return s.serving.addr
}

// URL is what clients take as endpoint, such as "http://127.0.0.1:4586".
func (s *Server) URL() string {
	s.serving.mu.Lock()
	defer s.serving.mu.Unlock()
	if s.serving.tls {
		return "https://" + s.serving.addr
	}
	return "http://" + s.serving.addr
}

// Shutdown stops listening, lets running requests end until ctx does, then
// closes everything. Requests that a fault holds back are let go at once.
func (s *Server) Shutdown(ctx context.Context) error {
	var errs []error
	s.closeOnce.Do(func() {
		close(s.closing)
		s.serving.mu.Lock()
		srv, done := s.serving.http, s.serving.done
		s.serving.mu.Unlock()
		if srv != nil {
			if err := srv.Shutdown(ctx); err != nil {
				errs = append(errs, srv.Close())
			}
			<-done
		}
		s.running.Lock() // http.Server.Close does not wait for handlers
		defer s.running.Unlock()
		if s.journal != nil {
			errs = append(errs, s.journal.close())
		}
	})
	return errors.Join(errs...)
}

// Close is Shutdown without patience.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Shutdown(ctx)
}

// SelfSigned makes a certificate for localhost and the loopback addresses (and
// further host names or addresses), valid for a year. The second result is
// the certificate in PEM, for clients that have to trust it.
func SelfSigned(hosts ...string) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("generating a serial number: %w", err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "weir emulate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else if h != "" {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
