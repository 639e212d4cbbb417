package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// askSocket asks a server on a unix socket.
func askSocket(t *testing.T, socket, method, path string) (string, int) {
	t.Helper()
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	r, err := http.NewRequest(method, "http://weir"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), res.StatusCode
}

// TestDockerStartAndStop: the whole of it, with its sockets, twice over one spool; a second
// process beside the first is refused.
func TestDockerStartAndStop(t *testing.T) {
	dir, err := os.MkdirTemp("", "wd") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := &logs{}
	o := DockerOptions{Log: slog.New(slog.NewTextHandler(log, nil)), Version: "test", Spool: filepath.Join(dir, "spool"), MinFree: 1,
		Socket: filepath.Join(dir, "weir.sock"), Pipes: filepath.Join(dir, "pipes"), HTTP: "127.0.0.1:0", Grace: time.Second}
	if err := os.Mkdir(o.Pipes, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d := NewDocker(o)
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		if body, code := askSocket(t, o.Socket, http.MethodPost, "/LogDriver.Capabilities"); code != http.StatusOK || !strings.Contains(body, `"ReadLogs":false`) {
			t.Errorf("%d %s", code, body)
		}
		for _, path := range []string{"/", "/metrics", "/api/status", "/healthz", "/readyz"} {
			if body, code := askSocket(t, filepath.Join(o.Spool, DockerStatus), http.MethodGet, path); code != http.StatusOK || body == "" {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		other := o
		other.Socket = filepath.Join(dir, "other.sock")
		if err := NewDocker(other).Start(); err == nil || !strings.Contains(err.Error(), "does another weir use it?") {
			t.Errorf("a second one over the same spool: %v", err)
		}
		d.Stop(context.Background())
		d.Stop(context.Background())
		select {
		case <-d.Done():
		default:
			t.Error("the plugin still runs")
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}
