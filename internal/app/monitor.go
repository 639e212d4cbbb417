package app

import (
	"slices"
	"strings"

	"weir/internal/fluentconf"
	"weir/internal/web"
	"weir/internal/web/fluentd"
)

// watch registers the monitors of a plan: they show the outputs as they are when somebody
// reads. A plan that was watched before, as when a reload is undone, stays as it is. The last
// one comes first, as Fluentd starts sources.
func (a *App) watch(p *Plan) {
	for _, m := range slices.Backward(p.monitors) {
		p.metrics.Monitor(m, a.plugins)
	}
}

// registry is that of the configuration in force.
func (a *App) registry() *fluentd.Registry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gen.plan.metrics
}

// shown is what monitor_agent tells of.
func (a *App) shown() fluentd.Source {
	return fluentd.Source{
		Plugins: a.plugins,
		ByTag: func(tag string) string {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.gen.plan.outputOf(tag)
		},
		About: func() fluentd.About {
			a.mu.Lock()
			defer a.mu.Unlock()
			p := a.gen.plan
			return fluentd.About{Version: a.o.Version, Config: p.File, Log: p.LogPath(), Root: p.System.RootDir}
		},
	}
}

// outputOf is the id of the first output of the top level whose pattern takes a tag. Copies
// and their like do not count, as in Fluentd.
func (p *Plan) outputOf(tag string) string {
	for _, r := range p.contexts[""].table.Rules() {
		if !r.IsMatch || r.Match.multi() || !r.Pattern.Match(tag) {
			continue
		}
		if e := &r.Match.ends[0]; e.out != nil {
			return e.out.id
		} else if e.pass != nil && e.route == nil {
			return e.pass.id
		}
	}
	return ""
}

// plugins lists what is configured and how it is doing, in Fluentd's order: sources, then the
// outputs and filters of the top level and of each label.
func (a *App) plugins() []fluentd.Plugin {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gen
	var all []fluentd.Plugin
	for _, s := range g.plan.listed {
		p := fluentd.Plugin{Kind: fluentd.Input, ID: s.id, Type: s.typ, Config: s.params}
		for _, in := range a.inputs {
			if in.plan == s {
				p.Records, p.Bytes = in.count.Events.Load(), in.count.Bytes.Load()
			}
		}
		all = append(all, p)
	}
	for _, label := range g.plan.labels {
		c := g.plan.contexts[label]
		if c.worker() {
			continue
		}
		for _, r := range c.table.Rules() {
			if r.IsMatch {
				all = g.matched(all, r.Match)
			}
		}
		for _, r := range c.table.Rules() {
			if f := r.Filter; !r.IsMatch {
				all = append(all, fluentd.Plugin{Kind: fluentd.Filtering, ID: f.id, Type: f.typ, Config: f.params, Records: f.passed.Events.Load(), Bytes: f.passed.Bytes.Load()})
			}
		}
	}
	return all
}

// matched appends what a <match> has.
func (g *generation) matched(all []fluentd.Plugin, m *matchPlan) []fluentd.Plugin {
	if m.multi() {
		all = append(all, fluentd.Plugin{Kind: fluentd.MultiOutput, ID: m.id, Type: m.kind, Config: shown(m.section)})
	}
	for _, e := range m.ends {
		switch {
		case e.out != nil:
			p := fluentd.Plugin{Kind: fluentd.Output, ID: e.out.id, Type: e.out.typ, Config: e.out.params, Status: &web.OutputStatus{}}
			if r := g.outputs[e.out]; r != nil {
				*p.Status = r.status()
			}
			p.Buffered = p.Status.Buffer.Kind != "" && !e.out.direct
			if p.Every = e.out.buffer.FlushInterval; e.out.buffer.ByTime && e.out.buffer.Timekey > 0 {
				p.Every = e.out.buffer.Timekey
			}
			all = append(all, p)
		case e.pass != nil:
			p := fluentd.Plugin{Kind: fluentd.Output, ID: e.pass.id, Type: e.pass.typ, Config: e.pass.params, Status: &web.OutputStatus{}}
			if e.route != nil {
				p.Kind = fluentd.MultiOutput
			}
			p.Status.Emits, p.Status.BytesIn = e.pass.in.Batches.Load(), e.pass.in.Bytes.Load()
			p.Status.EventsIn = e.pass.in.Events.Load()
			all = append(all, p)
		}
	}
	return all
}

// shown are a section's own parameters, without those that can be secrets.
func shown(s *fluentconf.Section) (out [][2]string) {
	for _, p := range s.Params {
		text := p.Value.Text
		if secretName(p.Key) {
			text = "xxxxxx"
		}
		out = append(out, [2]string{p.Key, text})
	}
	return out
}

// secretName says whether a parameter's name is that of a secret.
func secretName(key string) bool {
	for _, word := range []string{"secret", "password", "passphrase", "sec_key", "shared_key", "private_key", "key_id", "token"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}
