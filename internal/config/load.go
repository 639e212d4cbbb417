package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/fluentconf"
	"weir/internal/ruby/expr"
)

// Files is the world that a configuration is read from. This package does no I/O itself.
type Files struct {
	ReadFile func(name string) ([]byte, error)      // content of a file
	Fetch    func(url string) ([]byte, error)       // content behind an @include of a URL; nil: these are left out
	Glob     func(pattern string) ([]string, error) // files for an @include pattern; fluentconf.GlobFS is one
	Lookup   func(name string) (string, bool)       // environment variables
	Hostname string                                 // for #{hostname}
	Now      func() time.Time                       // for Time.now
	Random   func(b []byte)                         // fills b; for rand and SecureRandom
	Location *time.Location                         // the local zone; nil is UTC
	PID      int                                    // for Process.pid

	Form       string // of the first file: "v1", "yaml", or "" to go by its name
	Inline     string // text in the v1 form that is read behind the first file
	IncludeDir string // directory whose files are read last, unless <system> names another; "" for none
}

// Load reads the configuration file name with its includes and evaluates the Ruby embedded
// in it. Mistakes and warnings are added to d; the tree is complete only without errors.
func Load(name string, f Files, d *Diagnostics) *fluentconf.Section {
	worker := ""
	if f.Lookup != nil {
		worker, _ = f.Lookup("SERVERENGINE_WORKER_ID")
	}
	env := &expr.Env{Lookup: f.Lookup, ReadFile: f.ReadFile, Hostname: f.Hostname, WorkerID: worker, Now: f.Now, Random: f.Random, Location: f.Location, PID: f.PID}
	root, errs, warnings := fluentconf.Parse(fluentconf.Source{
		Name: name, Form: f.Form, Inline: f.Inline, ReadFile: f.ReadFile, Glob: f.Glob, Fetch: f.Fetch, End: expr.End,
		More: func(root *fluentconf.Section) []string { return moreFiles(root, f, d) },
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

// moreFiles lists what the include directory holds: config_include_dir of <system>, else
// what f says.
func moreFiles(root *fluentconf.Section, f Files, d *Diagnostics) (names []string) {
	dir := f.IncludeDir
	at := root.Pos
	for _, s := range root.All("system") {
		if p := s.Get("config_include_dir"); p != nil && p.Value.State == fluentconf.Text {
			dir, at = p.Value.Text, p.Pos
		}
	}
	if dir == "" || f.Glob == nil {
		return nil
	}
	for _, ext := range []string{"conf", "yaml", "yml"} {
		found, err := f.Glob(strings.TrimRight(dir, "/") + "/**/*." + ext)
		if err != nil {
			d.Error(at, fmt.Sprintf("cannot list the files of the include directory %s: %v", dir, err), "config_include_dir \"\" in <system> turns it off")
			return nil
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	for _, n := range names {
		d.Note(at, fmt.Sprintf("%s of the include directory is read too", n), "config_include_dir \"\" in <system> turns that off")
	}
	return names
}
