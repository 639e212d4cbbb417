package parser

import (
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
)

func buildIn(tb testing.TB, conf string) Parser {
	tb.Helper()
	d := &config.Diagnostics{}
	env := Env{Location: time.FixedZone("", 9*3600), Now: func() time.Time { return time.Date(2023, 12, 31, 20, 0, 0, 0, time.UTC) }}
	p := New(section(tb, conf), "none", env, d)
	if p == nil || len(d.Errors) > 0 {
		tb.Fatalf("%s: %v", conf, d.Errors)
	}
	return p
}

// TestTypes has every parser but none and json; local time is nine hours east of UTC, and it
// is the first of January 2024 there.
func TestTypes(t *testing.T) {
	const noTime = event.Time(-1)
	const (
		apache = `192.168.0.1 - - [28/Feb/2013:12:00:00 +0900] "GET / HTTP/1.1" 200 777 "-" "Opera/12.0"`
		nginx  = `127.0.0.1 192.168.0.1 - [28/Feb/2013:12:00:00 +0900] "GET /a?b HTTP/1.1" 200 777 "-" "Opera/12.0" 10.0.0.1`
	)
	feb := event.Unix(1362020400, 0)
	for _, c := range []struct {
		conf, line, want string // want "" is an error
		time             event.Time
	}{
		{`@type /^(?<a>\w+) (?<b>\d+)?$/`, "x 5", `{"a":"x","b":"5"}`, noTime},
		{`@type /^(?<a>\w+) (?<b>\d+)?$/`, "x ", `{"a":"x"}`, noTime},
		{`@type /^(?<a>\w+) (?<b>\d+)?$/`, "!", "", 0},
		{"@type regexp\nexpression /^(?<time>[^ ]*) (?<m>.*)$/\ntime_format %Y-%m-%dT%H:%M:%S%z", "2013-02-28T12:00:00+0900 hi", `{"m":"hi"}`, feb},
		{"@type regexp\nexpression /^(?<time>[^ ]*) (?<m>.*)$/\ntime_format %Y-%m-%dT%H:%M:%S\nkeep_time_key true", "2013-02-28T12:00:00 hi", `{"time":"2013-02-28T12:00:00","m":"hi"}`, feb},
		{"@type regexp\nexpression /^(?<time>[^ ]*) (?<m>.*)$/\ntime_format %Y-%m-%dT%H:%M:%S\nutc true", "2013-02-28T03:00:00 hi", `{"m":"hi"}`, feb},
		{"@type regexp\nexpression /^(?<time>[^ ]*) (?<m>.*)$/\ntime_format %Y-%m-%dT%H:%M:%S\ntimezone -01:00", "2013-02-28T02:00:00 hi", `{"m":"hi"}`, feb},
		{"@type regexp\nexpression /^(?<time>[^ ]*) (?<m>.*)$/\ntime_format %Y", "x hi", "", 0},
		{"@type regexp\nexpression /^(?<time>.*)$/", "2013-02-28 12:00:00", `{}`, feb},
		{"@type regexp\nexpression /^(?<t>.*)$/\ntime_key t\ntime_format %b %d %H:%M:%S", "Jan  2 03:04:05", `{}`, event.Unix(1704132245, 0)},
		{"@type regexp\nexpression /^(?<a>x) (?<a>y)?/i", "X ", `{"a":"X"}`, noTime},
		{"@type regexp\nexpression /^(?<n>\\S+) (?<f>\\S+) (?<b>\\S+) (?<a>\\S+) (?<z>\\S+)/\ntypes n:integer,f:float,b:bool,a:array:|,z:string",
			"12x 1.5e1 yes p|q| 5", `{"n":12,"f":15.0,"b":true,"a":["p","q"],"z":"5"}`, noTime},
		{"@type json\ntypes a:string,b:integer,c:bool,d:array,t:time:%Y-%m-%d\nnull_value_pattern /^-$/\nnull_empty_string true", `{"a":5,"b":"7","c":"maybe","d":"x,y","e":"-","f":"","t":"1970-01-02","n":null}`,
			`{"a":"5","b":7,"c":false,"d":["x","y"],"e":null,"f":null,"t":54000,"n":null}`, noTime},
		{"@type json\ntime_format %iso8601\ntime_key ts", `{"ts":"2013-02-28T03:00:00.5Z","a":1}`, `{"a":1}`, feb + 5e8},
		{"@type json\ntime_format %Y-%m-%dT%H:%M:%S.%NZ\nutc true", `{"time":"2013-02-28T03:00:00.123456789Z","a":1}`, `{"a":1}`, feb + 123456789},
		{"@type json\ntime_format %s", `{"time":"1362020400"}`, `{}`, feb},
		{"@type json\ntime_type mixed\ntime_format_fallbacks unixtime,%Y-%m-%d %H:%M:%S", `{"time":1362020400.7}`, `{}`, feb + 7e8},
		{"@type json\ntime_type mixed\ntime_format_fallbacks unixtime,%Y-%m-%d %H:%M:%S", `{"time":"2013-02-28 12:00:00"}`, `{}`, feb},
		{"@type json\ntime_type string", `{"time":5}`, "", 0},
		{"@type csv\nkeys a,b,c\ntypes b:integer", `x,5,"q""r, s"`, `{"a":"x","b":5,"c":"q\"r, s"}`, noTime},
		{"@type csv\nkeys a,b,c", `,""`, `{"a":null,"b":"","c":null}`, noTime},
		{"@type csv\nkeys a", `x,y`, `{"a":"x"}`, noTime},
		{"@type csv\nkeys a", `"x`, "", 0},
		{"@type csv\nkeys a", `"x"y`, "", 0},
		{"@type csv\nkeys a", `x"y`, "", 0},
		{"@type csv\nkeys time,a\ntime_key time\ntime_format %d/%b/%Y:%H:%M:%S %z", "28/Feb/2013:12:00:00 +0900,x", `{"a":"x"}`, feb},
		{"@type tsv\nkeys a,b", "x\ty\tz", `{"a":"x","b":"y\tz"}`, noTime},
		{"@type tsv\nkeys a,b", "x", `{"a":"x","b":null}`, noTime},
		{"@type ltsv", "a:1\tb:x:y\tc\ta:2", `{"a":"2","b":"x:y"}`, noTime},
		{"@type ltsv\ndelimiter ,\nlabel_delimiter =", "a=1,b=2", `{"a":"1","b":"2"}`, noTime},
		{"@type ltsv\ntime_format %d/%b/%Y:%H:%M:%S %z", "time:28/Feb/2013:12:00:00 +0900\ta:1", `{"a":"1"}`, feb},
		{"@type apache2", apache, `{"host":"192.168.0.1","user":null,"method":"GET","path":"/","code":200,"size":777,"referer":null,"agent":"Opera/12.0"}`, feb},
		{"@type apache2", `h - u [28/Feb/2013:12:00:00 +0900] "GET /a b HTTP/1.1" 0 -`, `{"host":"h","user":"u","method":"GET","path":"/a b","code":null,"size":null,"referer":null,"agent":null}`, feb},
		{"@type apache2", "nonsense", "", 0},
		{"@type nginx", nginx, `{"remote":"127.0.0.1","host":"192.168.0.1","user":"-","method":"GET","path":"/a?b","code":"200","size":"777","referer":"-","agent":"Opera/12.0","http_x_forwarded_for":"10.0.0.1"}`, feb},
		{"@type syslog", "Feb 28 12:00:00 192.168.0.1 fluentd[11111]: [error] Syslog test", `{"host":"192.168.0.1","ident":"fluentd","pid":"11111","message":"[error] Syslog test"}`, event.Unix(1709089200, 0)},
		{"@type syslog\nwith_priority true", "<6>Feb  8 12:00:00 h fluentd: hi", `{"pri":6,"host":"h","ident":"fluentd","message":"hi"}`, event.Unix(1707361200, 0)},
		{"@type syslog\nmessage_format rfc5424", `2017-02-06T13:14:15.003Z 192.168.0.1 fluentd - - [ex@1 a="b" c="d"] Hi, from Fluentd!`, `{"host":"192.168.0.1","ident":"fluentd","pid":"-","msgid":"-","extradata":"[ex@1 a=\"b\" c=\"d\"]","message":"Hi, from Fluentd!"}`, event.Unix(1486386855, 3e6)},
		{"@type syslog\nmessage_format auto", "<16>1 2017-02-06T13:14:15Z h app 1 ID47 - \uFEFFHi", `{"pri":16,"host":"h","ident":"app","pid":"1","msgid":"ID47","extradata":"-","message":"` + "\uFEFF" + `Hi"}`, event.Unix(1486386855, 0)},
		{"@type syslog\nmessage_format auto", "<9>Feb 28 12:00:00 h app: hi", `{"pri":9,"host":"h","ident":"app","message":"hi"}`, event.Unix(1709089200, 0)},
		{"@type multiline\nformat_firstline /^\\d/\nformat1 /^(?<time>\\S+ \\S+) (?<level>\\w+) /\nformat2 /(?<message>.*)/\ntime_format %Y-%m-%d %H:%M:%S", "2013-02-28 12:00:00 ERROR a\nb\nc", `{"level":"ERROR","message":"a\nb\nc"}`, feb},
		{"@type msgpack", "\x81\xa1a\x01", `{"a":1}`, noTime},
		{"@type msgpack\ntypes a:string", "\x81\xa1a\x01", `{"a":"1"}`, noTime},
		{"@type msgpack", "\x91\x01", "", 0},
		{"@type msgpack", "\x81\xa1a", "", 0},
		{"@type none\nnull_empty_string true", "", `{"message":""}`, noTime},
	} {
		p := buildIn(t, c.conf)
		out, at, hasTime, err := parseOne(p, &Records{}, []byte(c.line))
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: %q: no error, but %q", c.conf, c.line, out)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %q: %v", c.conf, c.line, err)
			continue
		}
		if hasTime != (c.time != noTime) || hasTime && at != c.time {
			t.Errorf("%s: %q: time %v %d, want %d", c.conf, c.line, hasTime, at, c.time)
		}
		if end, err := event.Skip(out, 0); err != nil || end != len(out) {
			t.Errorf("%s: %q: not one value: %v", c.conf, c.line, err)
		}
		if got := string(event.AppendJSON(nil, out, event.Yajl)); got != c.want {
			t.Errorf("%s: %q:\n got %s\nwant %s", c.conf, c.line, got, c.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	p := buildIn(t, "@type multiline\nformat_firstline /^\\d/\nformat1 /(?<a>.*)/").(*Multiline)
	if !p.FirstLine([]byte("1 x")) || p.FirstLine([]byte(" at y")) {
		t.Error("format_firstline is not asked")
	}
}

func FuzzTypes(f *testing.F) {
	confs := []string{"@type csv\nkeys a,b\ntypes a:integer", "@type ltsv", "@type apache2", "@type syslog\nmessage_format auto", "@type msgpack\nnull_empty_string true", "@type tsv\nkeys a,b", "@type json\ntime_type string\ntypes a:float",
		"@type csv\nkeys a,b\nparser_engine fast", "@type syslog\nparser_engine string\nwith_priority true", "@type ltsv\ndelimiter_pattern /\\s+/", "@type multiline\nformat1 /(?<a>\\d*)(?<b>[a-z]*)/",
		"@type none", "@type regexp\nexpression /(?<a>[^ ]*) (?<time>.*)/", "@type apache", "@type apache_error", "@type nginx"}
	var all []Parser
	fuzzed := map[string]bool{}
	for i, c := range confs {
		all = append(all, buildIn(f, c))
		first, _, _ := strings.Cut(c, "\n")
		fuzzed[strings.TrimPrefix(first, "@type ")] = true
		f.Add(i, []byte("a=\"1\" b:2\t[28/Feb/2013:12:00:00 +0900] \xff{"))
		f.Add(i, []byte(nil))
	}
	for _, typ := range Types() {
		if !fuzzed[typ.Name] {
			f.Errorf("the parser %s reads foreign bytes and is not among those that are fuzzed", typ.Name)
		}
	}
	f.Add(0, []byte(`x,"y""z"`))
	f.Add(3, []byte("<16>1 2017-02-06T13:14:15Z h app 1 ID47 - Hi"))
	f.Add(6, []byte(`{"time":"2013-02-28 12:00:00","a":"1e5"}`))
	f.Add(7, []byte("\"a,b\",\"\""))
	f.Add(8, []byte("<6>Feb  8 12:00:00 h p[1]: x"))
	f.Add(9, []byte("a:1  b:2"))
	f.Add(10, []byte("1a\n2b\n"))
	f.Fuzz(func(t *testing.T, i int, line []byte) {
		checkRecords(t, all[uint(i)%uint(len(all))], line)
	})
}

func BenchmarkApache(b *testing.B) {
	p := buildIn(b, "@type apache2")
	line := []byte(`192.168.0.1 - - [28/Feb/2013:12:00:00 +0900] "GET / HTTP/1.1" 200 777 "-" "Opera/12.0"`)
	r := &Records{}
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		p.Parse(r, line)
	}
}

func BenchmarkJSONTime(b *testing.B) {
	p := buildIn(b, "@type json\ntime_format %Y-%m-%dT%H:%M:%S.%NZ\nutc true")
	line := []byte(`{"time":"2013-02-28T03:00:00.123456789Z","log":"a line of text","stream":"stdout"}`)
	r := &Records{}
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		p.Parse(r, line)
	}
}
