package app

import (
	"strings"

	"weir/internal/fluentconf"
	"weir/internal/web/fluentd"
)

// watch registers the monitors of a plan: they show the outputs as they are when somebody
// reads. A plan that was watched before, as when a reload is undone, stays as it is.
func (a *App) watch(p *Plan) error {
	for _, m := range p.monitors {
		if err := p.metrics.Monitor(fluentd.NewCollector(a, m)); err != nil {
			return err
		}
	}
	return nil
}

// registry is that of the configuration in force.
func (a *App) registry() *fluentd.Registry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gen.plan.metrics
}

// plugins lists what is configured, for monitor_agent.
func (a *App) plugins() []fluentd.Plugin {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []fluentd.Plugin
	for _, s := range a.gen.plan.Sources {
		all = append(all, fluentd.Plugin{ID: s.id, Category: "input", Type: s.typ, Config: s.params})
	}
	for _, c := range a.gen.plan.contexts {
		if c.worker() {
			continue
		}
		for _, r := range c.table.Rules() {
			if !r.IsMatch {
				all = append(all, fluentd.Plugin{ID: r.Filter.id, Category: "filter", Type: r.Filter.typ})
			}
		}
	}
	for _, o := range a.gen.plan.Outputs {
		all = append(all, fluentd.Plugin{ID: o.id, Category: "output", Type: o.typ, Output: true, Config: o.params})
	}
	return all
}

// shown are a section's own parameters, without those that can be secrets.
func shown(s *fluentconf.Section) map[string]string {
	out := map[string]string{}
	for _, p := range s.Params {
		out[p.Key] = p.Value.Text
		if secretName(p.Key) {
			out[p.Key] = "xxxxxx"
		}
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
