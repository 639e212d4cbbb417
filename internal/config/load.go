package config

import (
	"weir/internal/fluentconf"
	"weir/internal/ruby/expr"
)

// Files is the world that a configuration is read from. This package does no I/O itself.
type Files struct {
	ReadFile func(name string) ([]byte, error)      // content of a file
	Glob     func(pattern string) ([]string, error) // files for an @include pattern; fluentconf.GlobFS is one
	Lookup   func(name string) (string, bool)       // environment variables
	Hostname string                                 // for #{hostname}
}

// Load reads the configuration file name with its includes and evaluates the Ruby embedded
// in it. Mistakes and warnings are added to d; the tree is complete only without errors.
func Load(name string, f Files, d *Diagnostics) *fluentconf.Section {
	worker := ""
	if f.Lookup != nil {
		worker, _ = f.Lookup("SERVERENGINE_WORKER_ID")
	}
	env := &expr.Env{Lookup: f.Lookup, ReadFile: f.ReadFile, Hostname: f.Hostname, WorkerID: worker}
	root, errs, warnings := fluentconf.Parse(fluentconf.Source{
		Name: name, ReadFile: f.ReadFile, Glob: f.Glob, End: expr.End,
		Eval: func(text string, _ fluentconf.Pos) (string, fluentconf.State, error) {
			p, err := expr.Compile(text)
			if err != nil {
				return "", fluentconf.Text, err
			}
			v, special, err := p.Eval(env)
			switch special {
			case expr.UseNil:
				return "", fluentconf.UseNil, err
			case expr.UseDefault:
				return "", fluentconf.UseDefault, err
			}
			return v.ToS(), fluentconf.Text, err
		},
	})
	d.Errors = append(d.Errors, errs...)
	d.Warnings = append(d.Warnings, warnings...)
	return root
}
