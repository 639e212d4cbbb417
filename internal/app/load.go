package app

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
)

// Env is what a configuration may ask about the machine. Load fills empty fields from the
// operating system.
type Env struct {
	Hostname string
	Lookup   func(name string) (string, bool)
	ReadFile func(name string) ([]byte, error)
	Fetch    func(url string) ([]byte, error) // for @include of a URL; nil: it is left out, with a warning
	Location *time.Location                   // the local zone
	Stdout   io.Writer                        // for the plug-ins of this name
	Flags    Flags
}

// Flags is what a command line says about a configuration.
type Flags struct {
	Form          string // of the file: "v1", "yaml", or "" to go by its name
	Inline        string // text in the v1 form to be read behind the file
	IncludeDir    string // directory whose files are read last, unless <system> names another
	Workers       int    // in place of workers in <system>; 0 for that
	WithoutSource bool   // sources are left out
	StrictValues  bool   // odd values are errors
}

func (e Env) withDefaults() Env {
	if e.Hostname == "" {
		e.Hostname, _ = os.Hostname()
	}
	if e.Lookup == nil {
		e.Lookup = os.LookupEnv
	}
	if e.ReadFile == nil {
		e.ReadFile = os.ReadFile
	}
	if e.Location == nil {
		e.Location = time.Local
	}
	if e.Stdout == nil {
		e.Stdout = os.Stdout
	}
	return e
}

// Load reads and understands a configuration file without opening or touching anything
// else. Everything that is wrong with it is in the diagnostics; the plan is complete only
// if there are no errors.
func Load(path string, env Env, strict bool) (*Plan, *config.Diagnostics) {
	env = env.withDefaults()
	d := &config.Diagnostics{Strict: strict, StrictValues: env.Flags.StrictValues}
	if data, err := env.ReadFile(path); err != nil {
		d.Error(fluentconf.Pos{File: path, Line: 1, Column: 1}, "the configuration cannot be read: "+reason(err), "name an existing file with -c")
		return nil, d
	} else if len(strings.TrimSpace(string(data))) == 0 {
		d.Error(fluentconf.Pos{File: path, Line: 1, Column: 1}, "the configuration is empty", "see examples/aggregator.conf for a first one")
		return nil, d
	}
	root := config.Load(path, config.Files{
		ReadFile: env.ReadFile, Fetch: env.Fetch, Glob: glob, Lookup: env.Lookup, Hostname: env.Hostname,
		Now: time.Now, Random: fillRandom, Location: env.Location, PID: os.Getpid(),
		Form: env.Flags.Form, Inline: env.Flags.Inline, IncludeDir: env.Flags.IncludeDir,
	}, d)
	if root == nil {
		return nil, d
	}
	p := newPlan(root, env, d)
	inOrder(d.Errors)
	inOrder(d.Warnings)
	return p, d
}

// inOrder sorts messages as their places stand in the files; a file's place is that of its
// first message.
func inOrder(list []*fluentconf.Error) {
	rank := map[string]int{}
	for _, e := range list {
		if _, ok := rank[e.Pos.File]; !ok {
			rank[e.Pos.File] = len(rank)
		}
	}
	slices.SortStableFunc(list, func(a, b *fluentconf.Error) int {
		return cmp.Or(cmp.Compare(rank[a.Pos.File], rank[b.Pos.File]), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// glob lists the files of an include pattern.
func glob(pattern string) ([]string, error) {
	dir, rest := "", pattern
	if strings.HasPrefix(pattern, "/") {
		dir, rest = "/", strings.TrimPrefix(pattern, "/")
	}
	for strings.HasPrefix(rest, "../") { // a file system of io/fs has no parent
		dir, rest = dir+"../", strings.TrimPrefix(rest, "../")
	}
	root := dir
	if root == "" {
		root = "."
	}
	names, err := fluentconf.GlobFS(os.DirFS(root), rest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for i := range names {
		names[i] = dir + names[i]
	}
	return names, err
}

// reason is an I/O error without the path, which the position already names.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
