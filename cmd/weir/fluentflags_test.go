package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// command parses a command line of Fluentd as weir run does.
func parseFluent(t *testing.T, args []string, env map[string]string) (*fluentFlags, error) {
	t.Helper()
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	fs := flag.NewFlagSet("weir run", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f := &fluentFlags{}
	f.register(fs)
	if err := fs.Parse(expand(fs, environment(args, lookup))); err != nil {
		return f, err
	}
	if fs.NArg() > 0 {
		t.Errorf("left over: %q", fs.Args())
	}
	return f, f.finish(lookup, strings.NewReader("from stdin"))
}

func TestFluentdCommandLines(t *testing.T) {
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	for _, c := range []struct {
		line    string
		env     map[string]string
		check   func(f *fluentFlags) bool
		ignored int
	}{
		// Debian's unit file, the images, a Helm chart, and others.
		{"--log /var/log/fluent/fluentd.log --daemon /x -c a.conf", nil, nil, 0},
		{"-c /fluentd/etc/fluent.conf -p /fluentd/plugins --gemfile /fluentd/Gemfile", nil, func(f *fluentFlags) bool { return f.file == "/fluentd/etc/fluent.conf" }, 2},
		{"-c a -o /var/log/x.log --log-rotate-age 5 --log-rotate-size=1048576", nil, func(f *fluentFlags) bool { return f.log == "/var/log/x.log" && f.age == "5" && f.size == 1<<20 }, 0},
		{"-ca -vv -qqq", nil, func(f *fluentFlags) bool { return f.file == "a" && f.level() == "warn" }, 0},
		{"-c a -q", nil, func(f *fluentFlags) bool { return f.level() == "warn" }, 0},
		{"-c a -qqqq", nil, func(f *fluentFlags) bool { return f.level() == "error" }, 0},
		{"-c a -vvvv", nil, func(f *fluentFlags) bool { return f.level() == "trace" }, 0},
		{"-c a -v --no-supervisor --use-v1-config --suppress-config-dump --under-supervisor", nil, func(f *fluentFlags) bool { return f.level() == "debug" }, 0},
		{"-c a --suppress-repeated-stacktrace true --emit-error-log-interval 60 --suppress-interval 9 --workers 4", nil, func(f *fluentFlags) bool { return f.app.Workers == 4 }, 0},
		{"-c a --strict-config-value --without-source --dry-run --config-file-type yml", nil,
			func(f *fluentFlags) bool {
				return f.app.StrictValues && f.app.WithoutSource && f.dryRun && f.app.Form == "yaml"
			}, 0},
		{"-c a --conf-encoding utf-8 --user " + uid + " --group " + gid + " --umask 022", nil, func(f *fluentFlags) bool { return f.umask == "022" }, 0},
		{"-c a --conf-encoding sjis -I lib -r my_plugin --with-source-only -G /gems", nil, nil, 5},
		{`-c a -i <source>\n@type\tx\n</source>`, nil, func(f *fluentFlags) bool { return strings.Count(f.app.Inline, "\n") == 2 }, 0},
		{"-c a -i -", nil, func(f *fluentFlags) bool { return f.app.Inline == "from stdin" }, 0},
		{"", map[string]string{"FLUENT_CONF": "/e.conf"}, func(f *fluentFlags) bool { return f.file == "/e.conf" && f.app.IncludeDir == "/etc/fluent/conf.d" }, 0},
		{"", map[string]string{"FLUENTD_CONF": "my.conf", "FLUENT_CONF_INCLUDE_DIR": ""}, func(f *fluentFlags) bool { return f.file == "/fluentd/etc/my.conf" && f.app.IncludeDir == "" }, 0},
		{"-c a", map[string]string{"FLUENT_CONF": "b", "FLUENTD_OPT": `-v -i "a b" --log-rotate-age 2`}, func(f *fluentFlags) bool {
			return f.file == "a" && f.level() == "debug" && f.app.Inline == "a b" && f.age == "2"
		}, 0},
		{"-c a -v -p x", map[string]string{"FLUENTD_OPT": "-v -p x"}, func(f *fluentFlags) bool { return f.louder == 1 }, 1},
	} {
		f, err := parseFluent(t, strings.Fields(c.line), c.env)
		if strings.Contains(c.line, "--daemon") {
			if err == nil || !strings.Contains(err.Error(), "--daemon is not supported: weir stays in the foreground") {
				t.Errorf("%s: %v", c.line, err)
			}
			continue
		}
		if err != nil || c.check != nil && !c.check(f) || len(f.ignored) != c.ignored {
			t.Errorf("%s: %v, %+v", c.line, err, f)
		}
	}
}

func TestRefusedCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"-c a --user nobody-here":         "weir does not change its user",
		"-c a --group 123456":             "weir does not change its group",
		"-d /run/x.pid":                   "-d is not supported: weir stays in the foreground",
		"-s":                              "-s is not supported: begin with",
		"--use-v0-config -c a":            "write the file in the v1 form",
		"--show-plugin-config input:tail": "docs/fluentd-compat.md",
		"-c a --config-file-type toml":    "write v1, yaml or guess",
		"-c a --no-such-flag":             "no-such-flag",
	} {
		if _, err := parseFluent(t, strings.Fields(line), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                  nil,
		" a  b\t":           {"a", "b"},
		`a"b c"d 'e "f' ''`: {"ab cd", `e "f`, ""},
		`a\ b "c\"d" '\'`:   {"a b", `c"d`, `\`},
	} {
		if got := words(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestUmask(t *testing.T) {
	if err := setUmask("", "abc"); err == nil {
		t.Error("abc is taken for octal")
	}
	if err := setUmask("", ""); err != nil {
		t.Error(err)
	}
}

// TestLogFileFollowsItsName has the file moved away, as logrotate does.
func TestLogFileFollowsItsName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "weir.log")
	w, l, err := openLog(name, rotation{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	log, err := newLogger(w, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("one")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	log.Info("two")
	if err := l.reopen(); err != nil {
		t.Fatal(err)
	}
	log.Info("three")
	for file, want := range map[string]string{name + ".1": "one two", name: "three"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"one", "two", "three"} {
			if strings.Contains(string(text), "msg="+word) != strings.Contains(want, word) {
				t.Errorf("%s holds %q, want %s", file, text, want)
			}
		}
	}
	if err := (&logFile{name: t.TempDir()}).reopen(); err == nil {
		t.Error("a directory is taken for a log")
	}
}

// TestDryRun checks a file by the flags that run gets.
func TestDryRun(t *testing.T) {
	t.Setenv("FLUENT_CONF_INCLUDE_DIR", "")
	name := filepath.Join(t.TempDir(), "a.conf")
	if err := os.WriteFile(name, []byte("<match **>\n@type null\n</match>\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := runRun([]string{"-c", name, "--dry-run"}, &out, &errs); code != exitFault || !strings.Contains(out.String(), "there is no <source>") {
		t.Errorf("code %d: %s%s", code, out.String(), errs.String())
	}
	out.Reset()
	if code := runRun([]string{"-c", name, "--dry-run", "-i", `<source>\n@type forward\n</source>`}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "is good") {
		t.Errorf("code %d: %s%s", code, out.String(), errs.String())
	}
	if code := runCheck([]string{name, "-q"}, &out, &errs); code != exitFault {
		t.Errorf("check: code %d", code)
	}
}
