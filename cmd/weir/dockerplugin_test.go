package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestPluginConfig compares the managed plugin's config.json with the command.
func TestPluginConfig(t *testing.T) {
	b, err := os.ReadFile("../../deploy/docker/plugin/config.json")
	if err != nil {
		t.Fatal(err)
	}
	type setting struct {
		Name, Value, Source, Destination string
		Options, Settable                []string
	}
	var c struct {
		Entrypoint      []string
		PropagatedMount string
		Interface       struct {
			Types  []string
			Socket string
		}
		Network struct{ Type string }
		Env     []setting
		Mounts  []setting
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	var f dockerFlags
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	f.register(fs)
	if len(c.Entrypoint) < 2 || c.Entrypoint[1] != "docker-plugin" || fs.Parse(c.Entrypoint[2:]) != nil || !f.Managed {
		t.Errorf("entrypoint %q", c.Entrypoint)
	}
	f.finish()
	switch {
	case f.Socket != path.Join("/run/docker/plugins", c.Interface.Socket):
		t.Errorf("socket %q and %q", f.Socket, c.Interface.Socket)
	case !slices.Equal(c.Interface.Types, []string{"docker.logdriver/1.0"}):
		t.Error(c.Interface.Types)
	case !strings.HasPrefix(f.Spool, c.PropagatedMount+"/"):
		t.Errorf("the spool %s is not in the propagated mount %s: an upgrade would lose it", f.Spool, c.PropagatedMount)
	case c.PropagatedMount != "/run/docker/logging":
		t.Errorf("the pipes are not in the propagated mount %s: an upgrade would lose them", c.PropagatedMount)
	case c.Network.Type != "host":
		t.Error(c.Network)
	}
	known := map[string]bool{}
	for _, e := range c.Env {
		if !slices.Contains(e.Settable, "value") {
			t.Errorf("%s cannot be set", e.Name)
		}
		if e.Value != "" && strings.HasPrefix(e.Name, "WEIR_") {
			t.Errorf("%s has a value: an upgrade would keep it over a better default", e.Name)
		}
		known[e.Name] = true
	}
	fixed := []string{"socket", "spool", "pipes", "managed"} // where Docker and config.json say
	fs.VisitAll(func(f *flag.Flag) {
		name := variableOf(f.Name)
		if known[name] == slices.Contains(fixed, f.Name) {
			t.Errorf("variable %s: in config.json %v", name, known[name])
		}
		delete(known, name)
	})
	for name := range known {
		if strings.HasPrefix(name, "WEIR_") {
			t.Errorf("%s belongs to no flag", name)
		}
	}
	for _, m := range c.Mounts {
		if st, err := os.Stat(m.Source); err != nil || !st.IsDir() || !slices.Contains(m.Options, "ro") {
			t.Errorf("mount %+v: %v", m, err)
		}
		for _, file := range []string{"credentials", "config"} {
			if _, err := os.Stat(path.Join(m.Source, file)); err == nil {
				t.Errorf("the default of mount %s holds %s", m.Name, file)
			}
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string // spool-limit, in-flight, managed, or the error
	}{
		{nil, nil, " 4 false"},
		{nil, map[string]string{"WEIR_SPOOL_LIMIT": "8g", "WEIR_IN_FLIGHT": "9", "WEIR_MANAGED": "true"}, "8589934592 9 true"},
		{nil, map[string]string{"WEIR_SPOOL_LIMIT": "", "WEIR_IN_FLIGHT": ""}, " 4 false"},
		{[]string{"--spool-limit", "512m"}, map[string]string{"WEIR_SPOOL_LIMIT": "8g"}, "536870912 4 false"},
		{nil, map[string]string{"WEIR_SPOOL_LIMIT": "much"}, `variable WEIR_SPOOL_LIMIT is "much": "much" is no size: write for example 512m or 4g`},
		{nil, map[string]string{"WEIR_IN_FLIGHT": "x"}, `variable WEIR_IN_FLIGHT is "x": parse error`},
	} {
		var f dockerFlags
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := fromEnvironment(fs, func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }); err != nil {
			got = err.Error()
		} else {
			got = strings.Join([]string{f.limit.String(), fs.Lookup("in-flight").Value.String(), fs.Lookup("managed").Value.String()}, " ")
		}
		if got != c.want {
			t.Errorf("%q %v: %q, want %q", c.args, c.env, got, c.want)
		}
	}
}

func TestDockerFlagsThatCannotBe(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", ""},
		{"--in-flight=0", "--in-flight (WEIR_IN_FLIGHT) is 0 and must be at least 1"},
		{"--spool-limit=4m", ""},
		{"--spool-limit=1k", "--spool-limit (WEIR_SPOOL_LIMIT) is 1024 bytes and must be at least 4m, which is the least of one container"},
		{"--grace=-1s", "--grace (WEIR_GRACE) is -1s and must be more than 0, for example 4s"},
	} {
		var f dockerFlags
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := f.check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestUnknownZone(t *testing.T) {
	for zone, want := range map[string]bool{"": false, "UTC": false, "Europe/Berlin": false, ":Europe/Berlin": false, "/etc/localtime": false, "Nowhere/Land": true} {
		var b strings.Builder
		warnZone(slog.New(slog.NewTextHandler(&b, nil)), zone)
		if got := strings.Contains(b.String(), "names no time zone"); got != want {
			t.Errorf("%q: %q", zone, b.String())
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "10k": 10 << 10, "512m": 512 << 20, "4g": 4 << 30, "4G": 4 << 30, "4GiB": 4 << 30, "4gb": 4 << 30, "100b": 100,
		" 1t ": 1 << 40, "": -1, "g": -1, "-1": -1, "1.5g": -1, "9999999999g": -1, "1x": -1,
	} {
		var s sizeFlag
		err := s.Set(text)
		if (err != nil) != (want < 0) || err == nil && int64(s) != want {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
}

func TestDockerLogger(t *testing.T) {
	var low, high bytes.Buffer
	log, err := dockerLogger(&low, &high, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("a", 1)
	log.Debug("d")
	log.Info("i")
	log.Warn("w")
	log.Error("e")
	if low.String() != "level=INFO msg=i a=1\n" || high.String() != "level=WARN msg=w a=1\nlevel=ERROR msg=e a=1\n" {
		t.Errorf("%q %q", low.String(), high.String())
	}
	if _, err := dockerLogger(&low, &high, "xml", "info"); err == nil {
		t.Error("xml")
	}
}

// TestDeployed: the examples beside config.json can be read, and the unit's command line is one.
func TestDeployed(t *testing.T) {
	b, err := os.ReadFile("../../deploy/docker/daemon.json")
	if err != nil {
		t.Fatal(err)
	}
	var daemon struct {
		Driver string            `json:"log-driver"`
		Opts   map[string]string `json:"log-opts"`
	}
	if err := json.Unmarshal(b, &daemon); err != nil || daemon.Driver != "weir" || daemon.Opts["awslogs-group"] == "" {
		t.Errorf("%+v, %v", daemon, err)
	}
	if b, err = os.ReadFile("../../deploy/docker/weir-docker.service"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		args, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/weir docker-plugin ")
		if !ok {
			continue
		}
		var f dockerFlags
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil || f.Spool == "" || fs.NArg() > 0 {
			t.Errorf("%q: %v", args, err)
		}
		return
	}
	t.Error("the unit starts no weir docker-plugin")
}
