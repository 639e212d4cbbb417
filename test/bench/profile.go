package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// profileVariable names the environment variable that tells a profiled weir where to serve
// its profiles.
const profileVariable = "WEIR_BENCH_PROFILE"

// profiler is laid over cmd/weir for a build with profiles. It is no part of weir itself.
const profiler = `package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
)

func init() {
	http.HandleFunc("/mallocs", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintln(w, m.Mallocs)
	})
	if addr := os.Getenv("` + profileVariable + `"); addr != "" {
		go http.ListenAndServe(addr, nil)
	}
}
`

// buildProfiled builds weir with a profiler in it, from the tree in the working directory.
func buildProfiled(ctx context.Context, dir, out string) error {
	at, err := filepath.Abs("cmd/weir/bench_profiler.go")
	if err != nil {
		return err
	}
	source, err := filepath.Abs(filepath.Join(dir, "profiler.go"))
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {at: source}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(source, []byte(profiler), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", file, "-o", out, "./cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build weir with a profiler: %w\n%s", err, text)
	}
	return nil
}

// profile takes profiles of CPU and allocations of a run into the directory --profile. The
// function returned waits for them.
func (b *bench) profile(ctx context.Context, c benchCase, r *running) (stop func() error) {
	if b.o.profile == "" || r.s.fluent || r.s.name != "weir" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	seconds := max(int(b.o.seconds*0.8), 1)
	go func() {
		time.Sleep(200 * time.Millisecond)
		done <- save(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", r.profile, seconds), filepath.Join(b.o.profile, c.name+".pprof"))
	}()
	return func() error {
		err := <-done
		// With GODEBUG=memprofilerate=1 in the environment this one is exact.
		return errors.Join(err, save(ctx, fmt.Sprintf("http://%s/debug/pprof/allocs", r.profile), filepath.Join(b.o.profile, c.name+".allocs.pprof")))
	}
}

func save(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		return err
	}
	return f.Close()
}
