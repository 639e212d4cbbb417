package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"weir/internal/input/docker/awslogs"
)

const (
	maxBody   = 16 << 20 // of a request; StartLogging holds the container's environment and labels
	maxSocket = 107      // bytes of a path that can be the address of a socket
	stopTime  = 900 * time.Millisecond
	mimeType  = "application/vnd.docker.plugins.v1.2+json"
)

// listen makes the socket. One that nobody listens on any more is replaced.
func listen(path string) (net.Listener, error) {
	if len(path) > maxSocket {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, and the kernel takes %d: choose a shorter one", path, len(path), maxSocket)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen on %s: another process does", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove a socket that nobody listens on: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for Docker: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect the socket: %w", err), l.Close())
	}
	return newSpareListener(l), nil
}

func (p *Plugin) newServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/Plugin.Activate", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"Implements": []string{"LogDriver"}})
	})
	mux.HandleFunc("/LogDriver.Capabilities", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"Cap": map[string]any{"ReadLogs": false}})
	})
	mux.HandleFunc("/LogDriver.StartLogging", p.serveStart)
	mux.HandleFunc("/LogDriver.StopLogging", p.serveStop)
	mux.HandleFunc("/LogDriver.ReadLogs", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotImplemented, errors.New("weir does not read logs back; Docker's own cache does, unless cache-disabled is true"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("weir does not know %s", r.URL.Path))
	})
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(p.o.Log.Handler(), slog.LevelDebug),
	}
}

func (p *Plugin) serveStart(w http.ResponseWriter, r *http.Request) {
	var req struct {
		File string
		Info awslogs.Info
	}
	if !read(w, r, &req) {
		return
	}
	if req.File == "" || req.Info.ContainerID == "" {
		refuse(w, http.StatusBadRequest, errors.New("StartLogging needs File and Info.ContainerID"))
		return
	}
	if err := p.begin(req.File, &req.Info); err != nil {
		refuse(w, http.StatusOK, err)
		return
	}
	answer(w, http.StatusOK, map[string]string{"Err": ""})
}

func (p *Plugin) serveStop(w http.ResponseWriter, r *http.Request) {
	var req struct{ File string }
	if !read(w, r, &req) {
		return
	}
	if req.File == "" {
		refuse(w, http.StatusBadRequest, errors.New("StopLogging needs File"))
		return
	}
	if err := p.finish(req.File); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, http.StatusOK, map[string]string{"Err": ""})
}

// read decodes the body. Docker repeats a request whose answer it did not get with an empty
// body, which says nothing.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into)
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		err = errors.New("the request has no body: Docker repeated one whose answer was lost")
	default:
		err = fmt.Errorf("read the request: %w", err)
	}
	refuse(w, http.StatusBadRequest, err)
	return false
}

func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"Err": err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", mimeType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // Docker has gone: it asks again
}
