package awslogs

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// container is an Info with the given options; without a group it gets one.
func container(opts ...string) *Info {
	i := &Info{
		Config: map[string]string{"awslogs-group": "g"}, ContainerID: id, ContainerName: "/web-1",
		ContainerEntrypoint: "/bin/app", ContainerArgs: []string{"-v", "run"},
		ContainerImageID: "sha256:fedcba9876543210fedc", ContainerImageName: "alpine:latest",
		ContainerEnv: []string{"A=1", "SECRET=x"}, ContainerLabels: map[string]string{"team": "blue", "com.x": "y"}, DaemonName: "docker",
	}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		if v == "DELETE" {
			delete(i.Config, k)
			continue
		}
		i.Config[k] = v
	}
	return i
}

func defaults() Options {
	return Options{
		Group: "g", Stream: id, CreateStream: true, FlushInterval: 5 * time.Second, DatetimeTimezone: "utc",
		EventSize: 262118, BufferSize: 256 << 20,
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opts string // parted by |
		want func(o *Options)
	}{
		{"", func(o *Options) {}},
		{"awslogs-region=r|awslogs-endpoint=http://127.0.0.1:1|awslogs-stream=s", func(o *Options) { o.Region, o.Endpoint, o.Stream = "r", "http://127.0.0.1:1", "s" }},
		{"awslogs-stream=s|tag={{.Name}}", func(o *Options) { o.Stream = "s" }},
		{"tag={{.Name}}/{{.FullID}}", func(o *Options) { o.Stream = "web-1/" + id }},
		{"awslogs-create-group=true|awslogs-create-stream=false", func(o *Options) { o.CreateGroup, o.CreateStream = true, false }},
		{"awslogs-create-group=1|awslogs-create-stream=", func(o *Options) { o.CreateGroup = true }},
		{"awslogs-create-group=|awslogs-create-stream=true", func(o *Options) {}},
		{"awslogs-force-flush-interval-seconds=15|awslogs-max-buffered-events=1024", func(o *Options) { o.FlushInterval = 15 * time.Second }},
		{"awslogs-force-flush-interval-seconds=10|awslogs-max-buffered-events=10", func(o *Options) { o.FlushInterval = 10 * time.Second }},
		{"awslogs-force-flush-interval-seconds=9000000000000", func(o *Options) { o.FlushInterval = 1 << 30 * time.Second }},
		{"awslogs-credentials-endpoint=/creds?id=1", func(o *Options) { o.CredentialsEndpoint, o.HasCredentials = "/creds?id=1", true }},
		{"awslogs-credentials-endpoint=", func(o *Options) { o.HasCredentials = true }},
		{"awslogs-format=json/emf", func(o *Options) { o.Format = "json/emf" }},
		{"awslogs-format=", func(o *Options) {}},
		{"awslogs-format=|awslogs-multiline-pattern=^x", func(o *Options) { o.MultilinePattern = "^x" }},
		{"awslogs-datetime-format=%Y", func(o *Options) { o.DatetimeFormat, o.MultilinePattern = "%Y", `\d{4}` }},
		{"awslogs-datetime-format=", func(o *Options) {}},
		{"awslogs-datetime-format=%e", func(o *Options) { o.DatetimeFormat = "%e" }},
		{"awslogs-datetime-format=%H|awslogs-datetime-as-event-time=true|awslogs-datetime-timezone=local", func(o *Options) {
			o.DatetimeFormat, o.MultilinePattern, o.DatetimeAsEventTime, o.DatetimeTimezone = "%H", `(?:[0,1][0-9]|2[0-3])`, true, "local"
		}},
		{"mode=blocking|cache-disabled=true|cache-max-size=20m|cache-max-file=3|cache-compress=false|cache-tag=x|cache-env=a|cache-env-regex=a|cache-labels=a|cache-labels-regex=a", func(o *Options) {}},
		{"mode=non-blocking|max-buffer-size=4m", func(o *Options) {}},
		{"mode=", func(o *Options) {}},
		{"weir-loss-notice=text", func(o *Options) { o.LossNotice = "text" }},
		{"weir-loss-notice=json", func(o *Options) { o.LossNotice = "json" }},
		{"weir-loss-notice=text|awslogs-format=json/emf", func(o *Options) { o.LossNotice, o.Format = "json", "json/emf" }},
		{"weir-loss-notice=", func(o *Options) {}},
		{"weir-buffer-size=1g|weir-overflow=drop-newest|weir-drain-order=live-first", func(o *Options) { o.BufferSize, o.DropNewest, o.LiveFirst = 1<<30, true, true }},
		{"weir-buffer-size=4194304|weir-overflow=drop-oldest|weir-drain-order=oldest-first", func(o *Options) { o.BufferSize = 4 << 20 }},
		{"weir-retention-days=3653|awslogs-create-group=true", func(o *Options) { o.RetentionDays, o.CreateGroup = 3653, true }},
		{"weir-event-size=1048550", func(o *Options) { o.EventSize = 1048550 }},
		{"weir-profile=p|weir-role-arn=arn:aws:iam::1:role/r", func(o *Options) { o.Profile, o.RoleARN = "p", "arn:aws:iam::1:role/r" }},
		{"weir-stderr-stream={{.Stream}}/{{.Source}}|awslogs-stream=s", func(o *Options) { o.Stream, o.StderrStream = "s", "s/stderr" }},
		{"weir-stderr-stream={{.Name}}|tag={{.Name}}", func(o *Options) { o.Stream = "web-1" }},
		{"weir-stderr-stream=s:1|awslogs-stream=s*1", func(o *Options) { o.Stream = "s_1" }},
		{"awslogs-group=/docker/{{index .ContainerLabels `team`}}|awslogs-stream={{.ImageName}}-{{.Hostname}}", func(o *Options) { o.Group, o.Stream = "/docker/blue", "alpine_latest-host-1" }},
		{"awslogs-stream={{.Name}}|weir-templates=false", func(o *Options) { o.Stream = "{{.Name}}" }},
		{"tag={{.ID}}|weir-templates=false", func(o *Options) { o.Stream = id[:12] }},
		{"awslogs-group=a b:é|awslogs-stream=a b:é", func(o *Options) { o.Group, o.Stream = "a_b__", "a b_é" }},
		{"awslogs-group=aws/x", func(o *Options) { o.Group = "aws_x" }},
		{"awslogs-group=a/b#c.d-e_F9|weir-sanitize-names=false", func(o *Options) { o.Group = "a/b#c.d-e_F9" }},
	} {
		want := defaults()
		c.want(&want)
		got, err := Parse(container(strings.Split(c.opts, "|")...), Env{Hostname: "host-1"})
		if c.opts == "" {
			got, err = Parse(container(), Env{Hostname: "host-1"})
		}
		if err != nil {
			t.Errorf("%s: %v", c.opts, err)
			continue
		}
		if *got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.opts, *got, want)
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back Options
		if err := json.Unmarshal(b, &back); err != nil || back != want {
			t.Errorf("%s: after JSON %+v, %v", c.opts, back, err)
		}
		if _, err := back.Compile(time.UTC); err != nil {
			t.Errorf("%s: after JSON: %v", c.opts, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ opts, want string }{
		{"awslogs-group=DELETE", "must specify a value for log opt 'awslogs-group'"},
		{"awslogs-group=", "must specify a value for log opt 'awslogs-group'"},
		{"awslogs-create-group=yes", `must specify valid value for log opt 'awslogs-create-group': strconv.ParseBool: parsing "yes": invalid syntax`},
		{"awslogs-create-stream=AAAA", `must specify valid value for log opt 'awslogs-create-stream': strconv.ParseBool: parsing "AAAA": invalid syntax`},
		{"awslogs-force-flush-interval-seconds=0", "must specify a positive integer for log opt 'awslogs-force-flush-interval-seconds': 0"},
		{"awslogs-force-flush-interval-seconds=-1", "must specify a positive integer for log opt 'awslogs-force-flush-interval-seconds': -1"},
		{"awslogs-force-flush-interval-seconds=a", "must specify a positive integer for log opt 'awslogs-force-flush-interval-seconds': a"},
		{"awslogs-max-buffered-events=0", "must specify a positive integer for log opt 'awslogs-max-buffered-events': 0"},
		{"awslogs-max-buffered-events=-1", "must specify a positive integer for log opt 'awslogs-max-buffered-events': -1"},
		{"awslogs-max-buffered-events=a", "must specify a positive integer for log opt 'awslogs-max-buffered-events': a"},
		{"awslogs-multiline-pattern=|awslogs-datetime-format=", "you cannot configure log opt 'awslogs-datetime-format' and 'awslogs-multiline-pattern' at the same time"},
		{"awslogs-multiline-pattern=x|awslogs-datetime-format=%Y", "you cannot configure log opt 'awslogs-datetime-format' and 'awslogs-multiline-pattern' at the same time"},
		{"awslogs-format=xml", "unsupported log format 'xml'"},
		{"awslogs-format=json/emf|awslogs-multiline-pattern=", "you cannot configure log opt 'awslogs-datetime-format' or 'awslogs-multiline-pattern' when log opt 'awslogs-format' is set to 'json/emf'"},
		{"awslogs-format=json/emf|awslogs-datetime-format=%Y", "you cannot configure log opt 'awslogs-datetime-format' or 'awslogs-multiline-pattern' when log opt 'awslogs-format' is set to 'json/emf'"},
		{"awslogs-multiline-pattern=(a{1001})", "awslogs could not parse multiline pattern key <nil>: error parsing regexp: invalid repeat count: `{1001}`"},
		{"awslogs-multiline-pattern=(?!x)", "awslogs could not parse multiline pattern key <nil>: error parsing regexp: invalid or unsupported Perl syntax: `(?!`"},
		{"awslogs-datetime-format=[%Y", "awslogs could not parse multiline pattern key <nil>: error parsing regexp: missing closing ]: `[\\d{4}` (text in 'awslogs-datetime-format' is a regular expression: write \\[ for [)"},
		{"mode=fast", "logger: logging mode not supported: fast"},
		{"max-buffer-size=1m", "logger: max-buffer-size option is only supported with 'mode=non-blocking'"},
		{"mode=blocking|max-buffer-size=", "logger: max-buffer-size option is only supported with 'mode=non-blocking'"},
		{"mode=non-blocking|max-buffer-size=x", "error parsing option max-buffer-size: invalid size: 'x'"},
		{"mode=non-blocking|max-buffer-size=1x", "error parsing option max-buffer-size: invalid suffix: 'x'"},
		{"cache-disabled=maybe", "invalid value for option cache-disabled: maybe"},
		{"tag={{.Nam}}", `template: log-tag:1:2: executing "log-tag" at <.Nam>: can't evaluate field Nam in type *logger.Info`},
		{"tag={{nofunc}}|awslogs-stream=s", `template: log-tag:1: function "nofunc" not defined`},
		{"awslogs-group={{.Name", `template: awslogs-group:1: unclosed action`},

		{"awslogs-steam=x", "unknown log opt 'awslogs-steam' for weir log driver (did you mean awslogs-stream)"},
		{"weir-lossnotice=text", "unknown log opt 'weir-lossnotice' for weir log driver (did you mean weir-loss-notice)"},
		{"splunk-token=x", "unknown log opt 'splunk-token' for weir log driver"},
		{"labels=a", "unknown log opt 'labels' for weir log driver (awslogs refuses it too; put a label into a name, as in tag={{index .ContainerLabels \"NAME\"}})"},
		{"env-regex=a", "unknown log opt 'env-regex' for weir log driver (awslogs refuses it too; give the container a label, and put that into a name, as in tag={{index .ContainerLabels \"NAME\"}})"},
		{"awslogs-stream-prefix=a", "unknown log opt 'awslogs-stream-prefix' for weir log driver (only Amazon ECS knows it; write awslogs-stream=PREFIX/{{.Name}}/{{.ID}})"},
		{"max-size=1m", "unknown log opt 'max-size' for weir log driver (it belongs to other drivers; the disk that weir uses is weir-buffer-size)"},

		{"awslogs-endpoint=logs.example.com", "must specify valid value for log opt 'awslogs-endpoint': 'logs.example.com' is not a URL such as https://logs.eu-west-1.amazonaws.com"},
		{"awslogs-endpoint=http://127.0.0.1:99999", "must specify valid value for log opt 'awslogs-endpoint': 'http://127.0.0.1:99999' is not a URL such as https://logs.eu-west-1.amazonaws.com"},
		{"awslogs-endpoint=http://:80", "must specify valid value for log opt 'awslogs-endpoint': 'http://:80' is not a URL such as https://logs.eu-west-1.amazonaws.com"},
		{"awslogs-endpoint=http://h/" + strings.Repeat("x", 3000), "must specify valid value for log opt 'awslogs-endpoint': 'http://h/" + strings.Repeat("x", 191) + "…' is not a URL such as https://logs.eu-west-1.amazonaws.com"},
		{"awslogs-region=eu-west-1.example.com/", "must specify valid value for log opt 'awslogs-region': 'eu-west-1.example.com/' is not a region such as eu-west-1"},
		{"awslogs-credentials-endpoint=@example.com/x", "must specify valid value for log opt 'awslogs-credentials-endpoint': '@example.com/x' is not a path that begins with /"},
		{"awslogs-credentials-endpoint=/x\x7f", "must specify valid value for log opt 'awslogs-credentials-endpoint': '/x\x7f' is not a path that begins with /"},
		{"weir-loss-notice=true", "must specify valid value for log opt 'weir-loss-notice': 'true' is neither text nor json"},
		{"weir-overflow=block", "must specify valid value for log opt 'weir-overflow': 'block' is neither drop-oldest nor drop-newest"},
		{"weir-drain-order=x", "must specify valid value for log opt 'weir-drain-order': 'x' is neither oldest-first nor live-first"},
		{"weir-buffer-size=512k", "must specify valid value for log opt 'weir-buffer-size': 512k is less than 4194304 bytes"},
		{"weir-buffer-size=15m|weir-drain-order=live-first", "log opt 'weir-drain-order' live-first needs a 'weir-buffer-size' of at least 16m"},
		{"weir-buffer-size=9999999p", "must specify valid value for log opt 'weir-buffer-size': number too large"},
		{"weir-event-size=1m", "must specify valid value for log opt 'weir-event-size': 1m is more than 1048550 bytes"},
		{"weir-event-size=10", "must specify valid value for log opt 'weir-event-size': 10 is less than 1024 bytes"},
		{"weir-retention-days=4|awslogs-create-group=true", "must specify valid value for log opt 'weir-retention-days': 4 is none of the numbers of days that CloudWatch Logs takes: 1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"},
		{"weir-retention-days=7", "log opt 'weir-retention-days' is for groups that are created: it needs awslogs-create-group=true"},
		{"weir-templates=x", `must specify valid value for log opt 'weir-templates': strconv.ParseBool: parsing "x": invalid syntax`},
		{"weir-role-arn=admin", "must specify valid value for log opt 'weir-role-arn': 'admin' is not an ARN such as arn:aws:iam::123456789012:role/NAME"},
		{"weir-profile=p|awslogs-credentials-endpoint=", "you cannot configure log opt 'weir-profile' and 'awslogs-credentials-endpoint' at the same time"},
		{"weir-role-arn=arn:x|awslogs-credentials-endpoint=/c", "you cannot configure log opt 'weir-role-arn' and 'awslogs-credentials-endpoint' at the same time"},
		{"weir-sanitize-names=false|awslogs-group=a b", "must specify valid value for log opt 'awslogs-group': the name 'a b' has characters other than letters, digits and . - _ / # (without weir-sanitize-names=false it is made legal)"},
		{"weir-sanitize-names=0|awslogs-group=aws/b", "must specify valid value for log opt 'awslogs-group': the name 'aws/b' begins with aws/, which is reserved (without weir-sanitize-names=false it is made legal)"},
		{"weir-sanitize-names=0|tag={{.ImageName}}", "must specify valid value for log opt 'tag': the name 'alpine:latest' has : or * or a NUL character (without weir-sanitize-names=false it is made legal)"},
		{"tag={{index .ContainerLabels `x`}}", "must specify valid value for log opt 'tag': '{{index .ContainerLabels `x`}}' makes an empty name for this container"},
		{"awslogs-datetime-timezone=CET", "must specify valid value for log opt 'awslogs-datetime-timezone': 'CET' is neither utc nor local"},
		{"awslogs-datetime-as-event-time=true", "log opt 'awslogs-datetime-as-event-time' needs 'awslogs-datetime-format'"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%Y-%m-%d %H:%M %Z", "log opt 'awslogs-datetime-as-event-time' cannot be used with %Z in 'awslogs-datetime-format': several zones share an abbreviation; write %z, or say awslogs-datetime-timezone"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%e", "log opt 'awslogs-datetime-as-event-time' finds no time in 'awslogs-datetime-format': '%e' lacks a date and an hour (%Y-%m-%d %H)"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%I:%M", "log opt 'awslogs-datetime-as-event-time' finds no time in 'awslogs-datetime-format': '%I:%M' lacks morning or afternoon (%p)"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%d %M", "log opt 'awslogs-datetime-as-event-time' finds no time in 'awslogs-datetime-format': '%d %M' lacks an hour (%H)"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%Y %H", "log opt 'awslogs-datetime-as-event-time' finds no time in 'awslogs-datetime-format': '%Y %H' lacks a day and its month (%m and %d)"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=[%Y]-%m-%d %H", "log opt 'awslogs-datetime-as-event-time' cannot tell the parts of the time in 'awslogs-datetime-format' apart: write % directives outside of [ ]"},
		{"awslogs-datetime-as-event-time=true|awslogs-datetime-format=%H[%M:%S]", "log opt 'awslogs-datetime-as-event-time' cannot tell the parts of the time in 'awslogs-datetime-format' apart: error parsing regexp: unexpected ): `(?P<weir1>(?:[0,1][0-9]|2[0-3]))[(?P<weir2>[0-5][0-9]):(?P<weir3>[0-5][0-9])]`"},

		{"mode=x|foo=1|awslogs-group=|awslogs-create-group=x|weir-buffer-size=y",
			"logger: logging mode not supported: x; unknown log opt 'foo' for weir log driver; must specify a value for log opt 'awslogs-group'; " +
				`must specify valid value for log opt 'awslogs-create-group': strconv.ParseBool: parsing "x": invalid syntax; ` +
				"must specify valid value for log opt 'weir-buffer-size': invalid size: 'y'"},
	} {
		o, err := Parse(container(strings.Split(c.opts, "|")...), Env{})
		if err == nil {
			t.Errorf("%s: no mistake, %+v", c.opts, o)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.opts, err, c.want)
		}
		var m Mistakes
		if !errors.As(err, &m) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %T, or on several lines", c.opts, err)
		}
	}
}

func TestParseLeavesTheInfoAlone(t *testing.T) {
	i := container("awslogs-stream={{.Hostname}}")
	before := *i
	if _, err := Parse(i, Env{Hostname: "h"}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*i, before) {
		t.Errorf("%+v became %+v", before, *i)
	}
}

// TestInfoReadsTheProtocol uses a request as an engine sends it, shortened.
func TestInfoReadsTheProtocol(t *testing.T) {
	const request = `{"Config":{"awslogs-group":"g","tag":"{{.Name}}/{{.ID}}/{{.ImageID}}/{{.Command}}/{{.ContainerCreated.Year}}"},"ContainerID":"` + id + `","ContainerName":"/c1",
		"ContainerEntrypoint":"/p","ContainerArgs":["a","b"],"ContainerImageID":"sha256:0123456789abcdef","ContainerImageName":"i:1",
		"ContainerCreated":"2026-11-30T20:14:14.123456789Z","ContainerEnv":["PATH=/bin"],"ContainerLabels":{"l":"v"},"LogPath":"","DaemonName":"docker","Later":1}`
	var i Info
	if err := json.Unmarshal([]byte(request), &i); err != nil {
		t.Fatal(err)
	}
	o, err := Parse(&i, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "c1/0123456789ab/0123456789ab//p a b/2026"; o.Stream != want {
		t.Errorf("stream %q, want %q", o.Stream, want)
	}
	if b, _ := json.Marshal(o); strings.Contains(string(b), "PATH") {
		t.Errorf("the environment is stored: %s", b)
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"1": 1, "32": 32, "32b": 32, "32B": 32, "32k": 32 << 10, "32K": 32 << 10, "32kb": 32 << 10, "32Kb": 32 << 10, "32KiB": 32 << 10, "32 KiB": 32 << 10, "32 kb": 32 << 10,
		"32m": 32 << 20, "1g": 1 << 30, "2t": 2 << 40, "3p": 3 << 50, "1.5k": 1536, "0.3k": 307, "0": 0, "32.5 b": 32, ".5m": 512 << 10, "32.": 32,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"": "invalid size: ''", "hello": "invalid size: 'hello'", "-32": "invalid size: '-32'", " 32 ": `strconv.ParseFloat: parsing " 32": invalid syntax`,
		"32 mbs": "invalid suffix: 'mbs'", "32kmb": "invalid suffix: 'kmb'", "32bb": "invalid suffix: 'bb'", "32x": "invalid suffix: 'x'", "32kib b": `strconv.ParseFloat: parsing "32kib": invalid syntax`,
		"1e300": "number too large", "10000p": "number too large", " ": `strconv.ParseFloat: parsing "": invalid syntax`,
	} {
		if got, err := parseSize(s); err == nil || err.Error() != want {
			t.Errorf("%q is %d, %v, want error %s", s, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("awslogs-datetime-format", "[%Y-%m-%d %H", "tag", "{{range 999999999}}{{end}}")
	f.Add("awslogs-group", "a\x00b", "awslogs-stream", "::**\xff")
	f.Add("weir-buffer-size", "1.5g", "weir-event-size", "-1")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		i := container()
		i.Config[k1], i.Config[k2] = v1, v2
		o, err := Parse(i, Env{Hostname: "h"})
		if (err == nil) == (o == nil) {
			t.Fatalf("%v and %v", o, err)
		}
		if err != nil {
			return
		}
		if badGroup(o.Group) != "" || badStream(o.Stream) != "" || o.Group == "" || o.Stream == "" {
			t.Errorf("illegal names %q, %q", o.Group, o.Stream)
		}
		if _, err := o.Compile(time.UTC); err != nil {
			t.Errorf("Parse took what Compile refuses: %v", err)
		}
	})
}
