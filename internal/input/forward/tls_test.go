package forward

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/forwardclient"
)

// authority makes certificates for tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.pool.AddCert(a.cert)
	a.write(t, "ca.pem", "CERTIFICATE", der)
	a.writeKey(t, "ca.key", a.key)
	return a
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a *authority) writeKey(t *testing.T, name string, key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name, "PRIVATE KEY", der)
}

// issue makes a certificate and returns its files.
func (a *authority) issue(t *testing.T, name string) (certPath, keyPath string) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+".pem", "CERTIFICATE", der), a.writeKey(t, name+".key", key)
}

func TestTLS(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server.test")
	clientCert, clientKey := a.issue(t, "client.test")
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	foreignCert, foreignKey := stranger.issue(t, "client.test")
	foreign, err := tls.LoadX509KeyPair(foreignCert, foreignKey)
	if err != nil {
		t.Fatal(err)
	}
	own := func(t *Transport) { t.CertPath, t.PrivateKeyPath = cert, key }
	mutual := func(t *Transport) {
		own(t)
		t.ClientCertAuth, t.CAPath = true, filepath.Join(a.dir, "ca.pem")
	}
	trust := func(name string) *tls.Config { return &tls.Config{RootCAs: a.pool, ServerName: name} }
	with := func(c *tls.Config, p tls.Certificate) *tls.Config {
		c.Certificates = []tls.Certificate{p}
		return c
	}
	old := trust("server.test")
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for _, tt := range []struct {
		name   string
		change func(t *Transport)
		client *tls.Config
		fails  bool
		log    string
	}{
		{"own certificate", own, trust("server.test"), false, ""},
		{"made by an authority", func(tr *Transport) {
			tr.CACertPath, tr.CAPrivateKeyPath = filepath.Join(a.dir, "ca.pem"), filepath.Join(a.dir, "ca.key")
			tr.GenerateCommonName = "made.test"
		}, trust("made.test"), false, ""},
		{"self-signed", func(tr *Transport) { tr.Insecure = true }, &tls.Config{InsecureSkipVerify: true}, false, ""},
		{"client certificate", mutual, with(trust("server.test"), pair), false, ""},
		{"no client certificate", mutual, trust("server.test"), true, "TLS handshake"},
		{"client certificate of a stranger", mutual, with(trust("server.test"), foreign), true, "TLS handshake"},
		{"version too old", own, old, true, "TLS handshake"},
		{"only TLS 1.3", func(tr *Transport) { own(tr); tr.MinVersion, tr.MaxVersion = "TLSv1_3", "TLSv1_3" }, trust("server.test"), false, ""},
		{"plain client", own, nil, true, "does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := loopback()
			tr := defaultTransport("tls")
			tt.change(&tr)
			p.Transport = &tr
			s := serveOn(t, p, Options{Hostname: "host.test"})
			c, err := dial(t, s, forwardclient.Options{TLS: tt.client, Window: 1})
			if !tt.fails {
				if err != nil {
					t.Fatal(err)
				}
				send(t, c)
				return
			}
			if err == nil { // TLS 1.3 clients learn of the refusal when they read
				_ = c.Write(numbered(1, "a"))
				<-c.Done()
			}
			s.stop()
			if log := s.log.String(); !strings.Contains(log, tt.log) {
				t.Errorf("log %q, want %q in it", log, tt.log)
			}
			if got := s.rec.Events(); len(got) != 0 {
				t.Errorf("events %v", got)
			}
		})
	}
}

func TestHTTPOnTLS(t *testing.T) {
	p := loopback()
	tr := defaultTransport("tls")
	tr.Insecure = true
	p.Transport = &tr
	s := serveOn(t, p, Options{})
	c := mustDial(t, s, forwardclient.Options{})
	if err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	s.stop()
	if log := s.log.String(); !strings.Contains(log, "HTTP on a TLS port") {
		t.Errorf("log %q", log)
	}
}
