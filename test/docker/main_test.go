// Package docker proves the Docker logging driver on a real Docker Engine, which the tests
// start themselves (package engine), and for what no engine does at will on one that is
// played (package player). In both cases the plugin is the real program, as a managed plugin
// from build/plugin or as a process with a socket ("v1").
//
// Not root, or no Docker Engine installed: the tests that need one leave themselves out. The
// protocol is tested without any in internal/input/docker.
//
// What does not depend on an engine or plugin that is restarted runs on one engine that all
// such tests have in common, each with an endpoint of its own.
//
//	WEIR_DOCKER_KILLS=200   kills of TestKillUnderLoad (default 20)
//	WEIR_DOCKER_FULL=1      200 containers at once, every kind of plugin for everything, more rounds,
//	                        and a comparison with the own awslogs driver of the engine
//	WEIR_DOCKER_CLOCK=1     sets the machine's clock, for some seconds; everybody on it will notice
package docker

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/test/docker/engine"
	"weir/test/weirtest"
)

// absent says why there is no engine; nil: there is. writer is the program for containers,
// plugin the directory for `docker plugin create`. TestMain sets all three.
var (
	absent         error
	writer, plugin string
)

func TestMain(m *testing.M) {
	guardClock()
	if absent = engine.Available(); absent == nil {
		if err := makePlugin(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	weirtest.Main(suite{m}, prepare)
}

// makePlugin makes the directory for `docker plugin create`, of the program that is given or
// of a new one. In the second case that is the one to test, so none has to be built besides.
func makePlugin() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	plugin = filepath.Join(root, "build", "plugin")
	binary := weirtest.Binary()
	cmd := exec.Command("make", "-C", root, "plugin")
	if binary != "" {
		if binary, err = filepath.Abs(binary); err != nil {
			return err
		}
		cmd = exec.Command(filepath.Join(root, "tools", "plugin.sh"), binary, plugin)
		cmd.Dir = root
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	if binary+os.Getenv("WEIR_BUILD_FLAGS") != "" {
		return nil
	}
	return os.Setenv("WEIR_BINARY", filepath.Join(plugin, "rootfs", "bin", "weir"))
}

// suite is the tests of this package with what they have in common.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	defer lent.close()
	flag.Parse()
	// Most of the time these tests wait: for an engine, for the plugin's delays, for writers.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(min(3*runtime.GOMAXPROCS(0), 24))) // it takes numbers
	}
	return s.m.Run()
}

// full asks for all that takes longer than CI has time for.
var full = os.Getenv("WEIR_DOCKER_FULL") != ""

// prepare finds out whether an engine can be had.
func prepare(dir string) error {
	if absent == nil {
		absent = try(dir)
	}
	if absent != nil {
		fmt.Fprintln(os.Stderr, "no Docker Engine:", absent)
	}
	return nil
}

// try starts the engine that is lent to tests, and a container. Where mounts or cgroups are
// not permitted this fails.
func try(dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if writer, err = engine.BuildWriter(ctx, dir); err != nil {
		return err
	}
	if lent.e, err = engine.Start(ctx, engine.Options{Env: credentials}); err != nil {
		return err
	}
	if err = lent.e.ImportWriter(ctx, writer); err == nil {
		_, err = lent.e.Docker(ctx, "run", "--rm", "--network", "none", engine.Image)
	}
	return err
}

// needEngine leaves a test out where there is no engine.
func needEngine(t *testing.T) {
	t.Helper()
	if absent != nil {
		why, _, _ := strings.Cut(absent.Error(), "\n")
		t.Skip("no Docker Engine:", why)
	}
}
