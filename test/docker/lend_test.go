package docker

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/emulator"
	"weir/test/docker/engine"
	"weir/test/weirtest"
)

// lender has an engine with both kinds of plugin that tests use at the same time. So most of
// them need not start an engine and install a plugin, and the plugin meets a mixture.
type lender struct {
	e *engine.Engine

	mu   sync.Mutex
	rigs map[kind]*rig // whose plugin runs
	n    int           // of rigs that were lent
}

var lent lender

// rig gives a test its part: containers with names of its own, which lead to an endpoint of
// its own. The test must leave the engine and the plugin alone.
func (l *lender) rig(t *testing.T, k kind, o emulator.Options) *rig {
	t.Helper()
	needEngine(t)
	r := l.start(t, k)
	r.emu = weirtest.Endpoint(t, o)
	r.gate = newGate(t, r.emu.Addr())
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		r.explain()
		// What writes on would be in the way of the others.
		if ids := r.docker("ps", "-q", "--filter", "name="+r.prefix); ids != "" {
			r.docker(append([]string{"rm", "-f"}, strings.Fields(ids)...)...)
		}
	})
	return r
}

// start gives a copy of the rig of a kind. It starts the plugin for the first one.
func (l *lender) start(t *testing.T, k kind) *rig {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.rigs[k]
	if base == nil {
		base = &rig{t: t, kind: k, driver: map[kind]string{managed: "weir", v1: "weirv1", builtin: "awslogs"}[k], e: l.e, o: rigOptions{env: credentials},
			http: fmt.Sprintf("127.0.0.1:%d", weirtest.Port(t)), spool: filepath.Join(l.e.Dir, "spool"), v1log: filepath.Join(l.e.Dir, "plugin.log")}
		if k != builtin {
			base.startPlugin()
		}
		if l.rigs == nil {
			l.rigs = map[kind]*rig{}
		}
		l.rigs[k] = base
	}
	l.n++
	r := *base
	r.t, r.prefix = t, fmt.Sprintf("t%02d-", l.n)
	return &r
}

func (l *lender) close() {
	if l.e != nil {
		l.e.Close()
	}
}

// together runs a test with both kinds of plugin on the engine that is lent.
func together(t *testing.T, o emulator.Options, test func(t *testing.T, r *rig)) {
	each(t, func(t *testing.T, k kind) { test(t, lent.rig(t, k, o)) })
}

// name is the name of a container for the engine.
func (r *rig) name(container string) string { return r.prefix + container }

// names are those of several.
func (r *rig) names(containers ...string) []string {
	var all []string
	for _, c := range containers {
		all = append(all, r.name(c))
	}
	return all
}
