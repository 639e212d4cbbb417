package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/web"
)

// dockerWeb serves the status page on a unix socket in the spool, and on TCP if asked to.
type dockerWeb struct {
	listeners []net.Listener
	server    *http.Server
	stop      context.CancelFunc
	wg        sync.WaitGroup
}

func startDockerWeb(d *Docker) *dockerWeb {
	w := &dockerWeb{}
	name := filepath.Join(d.o.Spool, DockerStatus)
	l, err := listenAnew(name)
	if err != nil {
		// Containers must start all the same.
		d.o.Log.Error("the status socket cannot be opened; weir runs without", "socket", name, "error", err)
	} else {
		w.listeners = append(w.listeners, l)
	}
	if d.o.HTTP != "" && d.o.HTTP != "off" {
		l, err := net.Listen("tcp", d.o.HTTP)
		if err != nil {
			d.o.Log.Error("the status address cannot be opened; weir runs without", "address", d.o.HTTP, "error", err)
		} else {
			w.listeners = append(w.listeners, l)
		}
	}
	h := web.New(web.Options{Log: d.o.Log, Source: d, Version: d.o.Version, Collectors: d.collectors, Started: d.started})
	w.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() { h.Run(ctx) })
	for _, l := range w.listeners {
		w.wg.Go(func() {
			if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				d.o.Log.Error("the status page has ended", "error", err)
			}
		})
	}
	return w
}

// listenAnew listens on a unix socket, also where a killed process has left its own.
func listenAnew(name string) (net.Listener, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", name)
}

// collectors are the metrics that the outputs have by themselves.
func (d *Docker) collectors() []web.Collector {
	var all []web.Collector
	d.outputs.mu.Lock()
	defer d.outputs.mu.Unlock()
	for _, o := range d.outputs.all {
		if o.out != nil {
			all = append(all, o.out.Metrics())
		}
	}
	return all
}

func (w *dockerWeb) addresses() []string {
	var all []string
	for _, l := range w.listeners {
		if l.Addr().Network() == "unix" {
			all = append(all, "unix:"+l.Addr().String())
		} else {
			all = append(all, "http://"+l.Addr().String())
		}
	}
	return all
}

func (w *dockerWeb) close() {
	w.stop()
	_ = w.server.Close()
	w.wg.Wait()
}
