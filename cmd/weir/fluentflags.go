package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"weir/internal/app"
	"weir/internal/config"
)

// Where Fluentd and its images look for a configuration when no flag names one.
const (
	fluentConf       = "/etc/fluent/fluent.conf"
	fluentIncludeDir = "/etc/fluent/conf.d"
	imageConfDir     = "/fluentd/etc"
)

// fluentFlags are the flags of Fluentd's command line, so that a unit file or an image
// needs another command and nothing else.
type fluentFlags struct {
	file    string
	log     string // file of the log; "" for what <system> says
	age     string // --log-rotate-age, checked; "" for what <system> says
	size    int64  // --log-rotate-size; 0 likewise
	louder  int    // -v counts up, -q down
	dryRun  bool
	version bool
	umask   string
	user    string
	group   string
	app     app.Flags
	ignored []string // flags that have no meaning here, each with the reason
	refused []string // flags that ask for what weir does not do, each with what to do instead
}

// register defines the flags in fs.
func (f *fluentFlags) register(fs *flag.FlagSet) {
	text := func(usage string, to *string, names ...string) {
		for _, n := range names {
			fs.StringVar(to, n, "", usage)
		}
	}
	yes := func(usage string, to *bool, names ...string) {
		for _, n := range names {
			fs.BoolVar(to, n, false, usage)
		}
	}
	text("configuration `file`; default $FLUENT_CONF, or "+fluentConf, &f.file, "c", "config")
	text("`file` of the log, opened again at SIGUSR1; default: <log> path of <system>, or standard error", &f.log, "o", "log")
	fs.Func("log-rotate-age", "how `many` log files there are, or daily, weekly, monthly", func(v string) error {
		f.age = v
		return config.CheckRotateAge(v)
	})
	fs.Int64Var(&f.size, "log-rotate-size", 0, "`bytes` at which the log file is renamed")
	text("`text` in the v1 form that is read behind the file; - reads standard input", &f.app.Inline, "i", "inline-config")
	text("`form` of the configuration: v1, yaml, guess (default: by the file's name)", &f.app.Form, "config-file-type")
	text("octal `mask` of the process for new files", &f.umask, "umask")
	text("`user` that weir is to run as: it must be the present one", &f.user, "user")
	text("`group` that weir is to run as: it must be the present one", &f.group, "group")
	yes("check the configuration and stop, as weir check does", &f.dryRun, "dry-run")
	yes("print the version and stop", &f.version, "version")
	yes("start without sources", &f.app.WithoutSource, "without-source")
	yes("odd numbers, sizes, times and booleans are errors", &f.app.StrictValues, "strict-config-value")
	fs.IntVar(&f.app.Workers, "workers", 0, "`number` of workers that <worker> sections may name; one process uses all cores")
	for _, c := range []struct {
		name, usage string
		step        int
	}{{"v", "more log lines; twice: still more", 1}, {"verbose", "the same as -v", 1}, {"q", "fewer log lines; twice: errors only", -1}, {"quiet", "the same as -q", -1}} {
		fs.BoolFunc(c.name, c.usage, func(string) error { f.louder += c.step; return nil })
	}
	f.registerOthers(fs)
}

// registerOthers defines the flags that do nothing here.
func (f *fluentFlags) registerOthers(fs *flag.FlagSet) {
	quiet := func(string) error { return nil }
	for _, n := range []string{"no-supervisor", "under-supervisor", "use-v1-config", "suppress-config-dump", "suppress-repeated-stacktrace", "enable-input-metrics",
		"disable-input-metrics", "enable-size-metrics", "use-shared-socket", "disable-shared-socket", "log-event-verbose"} {
		fs.BoolFunc(n, "accepted for compatibility, without effect", quiet)
	}
	for _, n := range []string{"suppress-interval", "emit-error-log-interval"} {
		fs.Func(n, "accepted for compatibility: a lasting fault is logged once", quiet)
	}
	const noPlugins = "there are no Ruby plug-ins to load"
	for _, n := range strings.Fields("p plugin I r g gemfile G gem-path") {
		fs.Func(n, "ignored: "+noPlugins, func(v string) error { f.ignore(n, v, noPlugins); return nil })
	}
	fs.Func("conf-encoding", "`encoding` of the configuration: only UTF-8", func(v string) error {
		if e := strings.ToLower(strings.ReplaceAll(v, "-", "")); e != "utf8" && e != "usascii" && e != "ascii" {
			f.ignore("conf-encoding", v, "files are read as UTF-8")
		}
		return nil
	})
	fs.BoolFunc("with-source-only", "ignored", func(string) error {
		f.ignore("with-source-only", "", "what comes in is sent too")
		return nil
	})
	for _, o := range []struct {
		names, do string
		bare      bool
	}{
		{"d daemon", "weir stays in the foreground: let systemd or the container runtime start it, without this flag", false},
		{"s setup", "begin with examples/aggregator.conf, or look at weir demo", true},
		{"show-plugin-config", "the parameters are in docs/fluentd-compat.md", false},
		{"use-v0-config", "write the file in the v1 form", true},
	} {
		for _, n := range strings.Fields(o.names) {
			refuse := func(string) error {
				f.refused = append(f.refused, fmt.Sprintf("%s is not supported: %s", dashed(n), o.do))
				return nil
			}
			if o.bare {
				fs.BoolFunc(n, "refused: "+o.do, refuse)
			} else {
				fs.Func(n, "refused: "+o.do, refuse)
			}
		}
	}
}

func (f *fluentFlags) ignore(name, value, why string) {
	if value != "" {
		value = " " + value
	}
	f.ignored = append(f.ignored, fmt.Sprintf("%s%s (%s)", dashed(name), value, why))
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// expand rewrites what Fluentd's parser takes and Go's does not: -vv, -c/path, the value of
// --suppress-repeated-stacktrace behind a blank, flags behind other arguments. fs says which
// flags exist and which take a value.
func expand(fs *flag.FlagSet, args []string) (out []string) {
	bare := func(name string) (exists, bare bool) {
		f := fs.Lookup(name)
		if f == nil {
			return false, false
		}
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		return true, ok && b.IsBoolFlag()
	}
	var others []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			others = append(others, args[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' {
			others = append(others, a)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		exists, isBare := bare(name)
		if len(a) > 2 && a[1] != '-' && !exists {
			if ok, isBool := bare(a[1:2]); ok && isBool {
				out = append(out, a[:2])
				args = append(append(slices.Clone(args[:i]), "-"+a[2:]), args[i+1:]...) // the rest is looked at again; args are the caller's
				i--
				continue
			} else if ok {
				out = append(out, a[:2], a[2:])
				continue
			}
		}
		out = append(out, a)
		if exists && !hasValue && !isBare && i+1 < len(args) { // its value is no flag, whatever it looks like
			i++
			out = append(out, args[i])
		}
		if name == "suppress-repeated-stacktrace" && !hasValue && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
			i++
		}
	}
	return append(out, others...)
}

// environment adds the flags of FLUENTD_OPT, which Fluentd's images put behind the others.
// A start script that has done so already is not done again.
func environment(args []string, lookup func(string) (string, bool)) []string {
	text, _ := lookup("FLUENTD_OPT")
	more := words(text)
	if n := len(args) - len(more); n >= 0 && strings.Join(args[n:], "\x00") == strings.Join(more, "\x00") {
		return args
	}
	return append(append([]string{}, args...), more...)
}

// words splits a text as a shell does, with quotes and backslashes.
func words(text string) (out []string) {
	var b strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
			open = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if open {
				out = append(out, b.String())
			}
			b.Reset()
			open = false
		default:
			b.WriteByte(c)
			open = true
		}
	}
	if open {
		out = append(out, b.String())
	}
	return out
}

// finish fills in what the environment says, and finds what is wrong. stdin is for -i -.
func (f *fluentFlags) finish(lookup func(string) (string, bool), stdin io.Reader) error {
	if len(f.refused) > 0 {
		return fmt.Errorf("%s", strings.Join(f.refused, "; "))
	}
	if f.file == "" {
		f.file = defaultFile(lookup)
	}
	switch f.app.Form {
	case "guess":
		f.app.Form = ""
	case "yml":
		f.app.Form = "yaml"
	case "", "v1", "yaml":
	default:
		return fmt.Errorf("--config-file-type %s does not exist: write v1, yaml or guess", f.app.Form)
	}
	if f.app.Inline == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, 1<<26))
		if err != nil {
			return fmt.Errorf("read the inline configuration from standard input: %w", err)
		}
		f.app.Inline = string(text)
	}
	f.app.Inline = strings.ReplaceAll(f.app.Inline, `\n`, "\n")
	f.app.IncludeDir = includeDir(lookup)
	return f.identity()
}

// identity refuses to run as somebody else than weir does already.
func (f *fluentFlags) identity() error {
	if u := f.user; u != "" && u != strconv.Itoa(os.Getuid()) {
		if known, err := user.Lookup(u); err != nil || known.Uid != strconv.Itoa(os.Getuid()) {
			return fmt.Errorf("--user %s: weir does not change its user; start it as that user (User= in a systemd unit, user: in a container)", u)
		}
	}
	if g := f.group; g != "" && g != strconv.Itoa(os.Getgid()) {
		if known, err := user.LookupGroup(g); err != nil || known.Gid != strconv.Itoa(os.Getgid()) {
			return fmt.Errorf("--group %s: weir does not change its group; start it as that group (Group= in a systemd unit, user: in a container)", g)
		}
	}
	return nil
}

// defaultFile is the configuration when no flag names one; "" if there is none.
func defaultFile(lookup func(string) (string, bool)) string {
	if name, _ := lookup("FLUENT_CONF"); name != "" {
		return name
	}
	if name, _ := lookup("FLUENTD_CONF"); name != "" { // of the images: a name below their directory
		if !filepath.IsAbs(name) {
			name = filepath.Join(imageConfDir, name)
		}
		return name
	}
	if _, err := os.Stat(fluentConf); err == nil {
		return fluentConf
	}
	return ""
}

// includeDir is the directory whose files are appended to a configuration.
func includeDir(lookup func(string) (string, bool)) string {
	if dir, ok := lookup("FLUENT_CONF_INCLUDE_DIR"); ok {
		return dir
	}
	return fluentIncludeDir
}

// setUmask sets the mask of the process: the flag's, else that of <system>.
func setUmask(texts ...string) error {
	text := firstOf(texts...)
	if text == "" {
		return nil
	}
	mask, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		return fmt.Errorf("umask %q is no octal number from 0 to 777", text)
	}
	syscall.Umask(int(mask))
	return nil
}

// level is the log level of -v and -q counted from info; "" when neither was given.
func (f *fluentFlags) level() string {
	if f.louder == 0 {
		return ""
	}
	all := []string{"error", "warn", "info", "debug", "trace"}
	return all[min(max(2+f.louder, 0), len(all)-1)]
}

// tell logs in one line which flags have no effect.
func (f *fluentFlags) tell(log *slog.Logger) {
	if len(f.ignored) > 0 {
		log.Info("flags without meaning here are ignored", "flags", strings.Join(f.ignored, ", "))
	}
}
