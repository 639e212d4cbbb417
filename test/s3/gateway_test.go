// Package s3 runs the real weir binary against a real S3 server that verifies signatures:
// versitygw, built from its module. Where that cannot be had the tests are skipped, and say
// so; WEIR_VERSITYGW names a binary to use instead.
package s3

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/test/weirtest"
)

const gatewayModule = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

func TestMain(m *testing.M) { weirtest.Main(m) }

// built is the server's binary, made once for all tests.
var built = sync.OnceValues(func() (string, error) {
	if b := os.Getenv("WEIR_VERSITYGW"); b != "" {
		return b, nil
	}
	dir, err := os.MkdirTemp("", "weir-versitygw-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", gatewayModule)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %s", gatewayModule, err, bytes.TrimSpace(out))
	}
	return filepath.Join(dir, "versitygw"), nil
})

// gateway is an S3 server with a directory, in which each object is a file.
type gateway struct {
	t    *testing.T
	root string
	meta string
	addr string
	cert string // file with its certificate; "": without TLS
	args []string
	cmd  *exec.Cmd
}

// newGateway prepares a server; it does not run yet.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	if _, err := built(); err != nil {
		t.Skipf("left out, a real S3 server cannot be had: %v", err)
	}
	g := &gateway{t: t, root: t.TempDir(), meta: t.TempDir(), addr: fmt.Sprintf("127.0.0.1:%d", weirtest.Port(t))}
	t.Cleanup(g.stop)
	return g
}

// startGateway starts a server with a bucket.
func startGateway(t *testing.T, bucket string) *gateway {
	t.Helper()
	g := newGateway(t)
	if bucket != "" {
		if err := os.Mkdir(filepath.Join(g.root, bucket), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.start()
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	binary, err := built()
	if err != nil {
		g.t.Fatal(err)
	}
	args := append([]string{"--access", "AKIDEXAMPLE", "--secret", "secret", "--region", "eu-west-1", "--port", g.addr, "--keep-alive", "--quiet"}, g.args...)
	g.cmd = exec.Command(binary, append(args, "posix", "--sidecar", g.meta, g.root)...)
	g.cmd.Env = weirtest.CleanEnv()
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	weirtest.Eventually(g.t, "the S3 server listens", func() (string, bool) {
		c, err := net.DialTimeout("tcp", g.addr, time.Second)
		if err != nil {
			return err.Error(), false
		}
		return "", c.Close() == nil
	})
}

func (g *gateway) stop() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait() // killed: the error says so
		g.cmd = nil
	}
}

// env points a weir to the server.
func (g *gateway) env() []string {
	scheme := "http://"
	if g.cert != "" {
		scheme = "https://"
	}
	return []string{"AWS_ENDPOINT_URL_S3=" + scheme + g.addr}
}

// useTLS gives the server a certificate of its own.
func (g *gateway) useTLS() {
	g.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		g.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		g.t.Fatal(err)
	}
	dir := g.t.TempDir()
	g.cert = filepath.Join(dir, "cert.pem")
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	g.args = []string{"--cert", g.cert, "--key", filepath.Join(dir, "key.pem")}
}

// objects lists the files of a bucket.
func (g *gateway) objects(bucket string) []string {
	g.t.Helper()
	var out []string
	dir := filepath.Join(g.root, bucket)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".sgwtmp") { // uploads under way
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, rel)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return out
}

// ids counts the events in the objects of a bucket, by their ids.
func (g *gateway) ids(bucket string) map[uint64]int {
	g.t.Helper()
	out := map[uint64]int{}
	for _, o := range g.objects(bucket) {
		f, err := os.Open(filepath.Join(g.root, bucket, o))
		if err != nil {
			g.t.Fatal(err)
		}
		var r io.Reader = f
		if strings.HasSuffix(o, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				g.t.Fatalf("%s: %v", o, err)
			}
		}
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var m struct{ Log string }
			if err := json.Unmarshal(s.Bytes(), &m); err != nil {
				g.t.Fatalf("%s: %q: %v", o, s.Bytes(), err)
			}
			id, err := weirtest.ID(m.Log)
			if err != nil {
				g.t.Fatalf("%s: %v", o, err)
			}
			out[id]++
		}
		if s.Err() != nil {
			g.t.Fatalf("%s: %v", o, s.Err())
		}
		_ = f.Close() // only read
	}
	return out
}

// want compares the events of a bucket with those from 0 to n: repeats may be as many as
// given.
func (g *gateway) want(bucket string, n, repeats int) {
	g.t.Helper()
	got, twice, missing := g.ids(bucket), 0, 0
	for id, c := range got {
		if id >= uint64(n) {
			g.t.Errorf("event %d was never sent", id)
		}
		twice += c - 1
	}
	if missing = n - len(got); missing > 0 {
		g.t.Errorf("%d of %d events are missing", missing, n)
	}
	if twice > repeats {
		g.t.Errorf("%d events arrived more than once, at most %d expected", twice, repeats)
	}
}

// proxy stands before a server and loses answers.
type proxy struct {
	*http.Server
	url string
}

// newProxy forwards requests to a server; lose says of an answered request that its answer
// gets lost.
func newProxy(t *testing.T, to string, lose func(*http.Request) bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String()}
	p.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", to, ""
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		out.Header.Del("Expect")
		a, err := http.DefaultTransport.RoundTrip(out) // the Host header stays: it is signed
		if err != nil || lose(r) {
			panic(http.ErrAbortHandler)
		}
		defer a.Body.Close()
		for k, v := range a.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(a.StatusCode)
		_, _ = io.Copy(w, a.Body)
	})}
	done := make(chan struct{})
	go func() { _ = p.Serve(l); close(done) }()
	t.Cleanup(func() { _ = p.Close(); <-done })
	return p
}
