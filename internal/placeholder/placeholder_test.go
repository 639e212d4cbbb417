package placeholder

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/event"
	"weir/internal/ruby/timefmt"
)

// record is {"app":"web", "n":42, "nil":nil, "k":{"pod":"p-0","list":["x","y"]}, "up":"../x", "abs":"/etc", "dot":"."}.
func record() []byte {
	b := event.AppendMapHeader(nil, 7)
	b = event.AppendStr(event.AppendStr(b, "app"), "web")
	b = event.AppendInt(event.AppendStr(b, "n"), 42)
	b = event.AppendNil(event.AppendStr(b, "nil"))
	b = event.AppendMapHeader(event.AppendStr(b, "k"), 2)
	b = event.AppendStr(event.AppendStr(b, "pod"), "p-0")
	b = event.AppendArrayHeader(event.AppendStr(b, "list"), 2)
	b = event.AppendStr(event.AppendStr(b, "x"), "y")
	b = event.AppendStr(event.AppendStr(b, "up"), "../x")
	b = event.AppendStr(event.AppendStr(b, "abs"), "/etc")
	return event.AppendStr(event.AppendStr(b, "dot"), ".")
}

var id = [16]byte{0: 0xab, 15: 0x01}

const idHex = "ab000000000000000000000000000001"

// at is 2023-11-14 22:13:20.5 UTC.
const at = event.Time(1_700_000_000_500_000_000)

func zone(t testing.TB, s string) *time.Location {
	t.Helper()
	loc, err := timefmt.ParseZone(s)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestAppend follows Fluentd's extract_placeholders; the cases under "direct" are ours.
func TestAppend(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name    string
		text    string
		keys    string
		timekey time.Duration
		direct  bool
		event   bool // Options.EventTime
		tag     string
		want    string
		missing bool
	}{
		{name: "no keys: only the first chunk id", text: "${tag}-%Y%%-${app}-${chunk_id}-${chunk_id}", want: "${tag}-%Y%%-${app}-" + idHex + "-${chunk_id}"},
		{name: "tag", text: "/aws/${tag}/x", keys: "tag", want: "/aws/app.web.1/x"},
		{name: "tag parts", text: "${tag[0]} ${tag[-1]} ${tag[1]} ${tag[-3]}", keys: "tag", want: "app 1 web app"},
		{name: "tag part out of range", text: "a${tag[3]}b${tag[-4]}c", keys: "tag", want: "abc", missing: true},
		{name: "odd numbers name no part", text: "${tag[01]}${tag[-0]}.", keys: "tag", want: ".", missing: true},
		{name: "numbers beyond int", text: "${tag[99999999999999999999]}.", keys: "tag", want: ".", missing: true},
		{name: "empty parts", text: "${tag[0]}|${tag[1]}|${tag[2]}|${tag[-1]}", keys: "tag", tag: ".a..b..", want: "|a||b"},
		{name: "tag of one part", text: "${tag[0]}|${tag[-1]}", keys: "tag", tag: "a", want: "a|a"},
		{name: "tag of dots", text: "${tag}|${tag[0]}", keys: "tag", tag: "..", want: "..|", missing: true},
		{name: "tag key missing, other keys: tag stays, unknown vanish", text: "${tag}.${tag[0]}.${app}.${other}", keys: "app", want: "${tag}.${tag[0]}.web."},
		{name: "only tag: unknown stay", text: "${tag}.${app}", keys: "tag", want: "app.web.1.${app}"},
		{name: "only time: unknown stay", text: "%Y.${app}", keys: "time", timekey: hour, want: "2023.${app}"},
		{name: "time shows the window's start", text: "%Y-%m-%dT%H:%M:%S", keys: "time", timekey: hour, want: "2023-11-14T22:00:00"},
		{name: "percent with time", text: "100%%-%d", keys: "time", timekey: hour, want: "100%-14"},
		{name: "only percents with time", text: "100%%", keys: "time", timekey: hour, want: "100%"},
		{name: "percent without time", text: "100%%-%d", keys: "tag", want: "100%%-%d"},
		{name: "percent before a placeholder", text: "5%${tag}", keys: "time,tag", timekey: hour, want: "5%app.web.1"},
		{name: "flags before a placeholder", text: "%Y %%%-5${tag}", keys: "time,tag", timekey: hour, want: "2023 %%-5app.web.1"},
		{name: "percent in a value is text", text: "%Y${tag}", keys: "time,tag", timekey: hour, tag: "%d", want: "2023%d"},
		{name: "placeholder in a value is text", text: "${tag}", keys: "tag,app", tag: "${app}", want: "${app}"},
		{name: "fields", text: "${app}/${n}/${$.k.pod}", keys: "app,n,$.k.pod", want: "web/42/p-0"},
		{name: "index in an accessor", text: "${$.k.list}|${$.x[1]}", keys: "$.k.list,$.x[1]", want: `["x", "y"]|`, missing: true},
		{name: "nil and missing are empty", text: "${nil}${gone}!", keys: "nil,gone", want: "!", missing: true},
		{name: "chunk id then unknown id", text: "${chunk_id}${chunk_id}", keys: "app", want: idHex},
		{name: "braces that are none", text: "${} ${a b} ${ ${tag} $tag {tag} ${tag", keys: "tag", want: "${} ${a b} ${ app.web.1 $tag {tag} ${tag"},
		{name: "direct", text: "${tag}/${tag[1]}/${app}/${$.k.pod}/${$['k']['pod']}", direct: true, want: "app.web.1/web/web/p-0/p-0"},
		{name: "direct, missing", text: "x${gone}", direct: true, want: "x", missing: true},
		{name: "direct leaves other braces", text: `${record["app"]}${tag_parts[0]}`, direct: true, want: `${record["app"]}${tag_parts[0]}`},
		{name: "direct leaves percent", text: "%Y${app}", direct: true, want: "%Yweb"},
		{name: "event time", text: "%Y-%m-%d %H:%M:%S.%L", event: true, want: "2023-11-14 22:13:20.500"},
		{name: "timekey wins over event time", text: "%M", event: true, keys: "time", timekey: hour, want: "00"},
		{name: "plain", text: "just text", want: "just text"},
		{name: "empty", text: "", want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Timekey: c.timekey, Direct: c.direct, EventTime: c.event}
			if c.keys != "" {
				o.ChunkKeys = strings.Split(c.keys, ",")
			}
			tpl, problems := Compile(c.text, o)
			for _, p := range problems {
				if !p.Warning {
					t.Errorf("error: %s; %s", p.Text, p.Hint)
				}
			}
			if c.tag == "" {
				c.tag = "app.web.1"
			}
			x := Context{Tag: c.tag, Time: at, Record: record(), ChunkID: id}
			got, missing := tpl.Append([]byte("<"), x)
			if string(got) != "<"+c.want || missing != c.missing {
				t.Errorf("got %q, missing %v; want %q, %v", got[1:], missing, c.want, c.missing)
			}
			if path, _, err := tpl.AppendPath([]byte("<"), x); err == nil && string(path) != string(got) {
				t.Errorf("as a path %q", path)
			}
		})
	}
}

func TestUses(t *testing.T) {
	for text, want := range map[string][5]bool{ // static, tag, time, record, chunk id
		"plain":        {true},
		"${tag}":       {false, true},
		"${tag[1]}":    {false, true},
		"%Y":           {false, false, true},
		"100%%":        {true},
		"${a}":         {false, false, false, true},
		"${chunk_id}":  {false, false, false, false, true},
		"${a}${tag}%d": {false, true, true, true},
	} {
		p, _ := Compile(text, Options{Direct: true, ChunkKeys: []string{"time"}, Timekey: time.Hour})
		if got := [5]bool{p.Static(), p.UsesTag(), p.UsesTime(), p.UsesRecord(), p.UsesChunkID()}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if p.String() != text {
			t.Errorf("String() = %q, want %q", p, text)
		}
	}
}

func TestProblems(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		text string
		o    Options
		want []string // pieces of text and hint, in order; "warning" and "error" count how many
	}{
		{"fine", "${tag}/${app}/%Y%m%d%H", Options{ChunkKeys: []string{"tag", "app", "time"}, Timekey: time.Hour, Strict: true}, nil},
		{"hostname", "${hostname}", Options{ChunkKeys: []string{"tag"}}, []string{"warning", "${hostname} stays", `"#{hostname}"`}},
		{"hostname, strict", "${hostname}/${tag}", Options{ChunkKeys: []string{"tag"}, Strict: true}, []string{"error", "${hostname} stays", `"#{hostname}"`}},
		{"hostname, direct", "${hostname}", Options{Direct: true}, []string{"warning", "reads the field hostname", `"#{hostname}"`}},
		{"hostname is a key", "${hostname}", Options{Direct: true, ChunkKeys: []string{"hostname"}}, nil},
		{"tag without key", "${tag[0]}", Options{}, []string{"warning", "${tag[0]} stays", "<buffer tag>"}},
		{"tag without key, strict", "${tag}", Options{Strict: true}, []string{"error", "${tag} stays"}},
		{"tag, direct", "${tag}", Options{Direct: true}, nil},
		{"vanishes", "${other}${app}", Options{ChunkKeys: []string{"app"}}, []string{"warning", "becomes the empty text", "<buffer other>"}},
		{"tag_parts", "${tag_parts[1]}", Options{Direct: true}, []string{"warning", "${tag_parts[1]} stays", "${tag[n]}"}},
		{"record", `${record["a"]}`, Options{Direct: true}, []string{"warning", "stays", "${field}"}},
		{"brackets", `${$['a']}`, Options{ChunkKeys: []string{"tag"}}, []string{"warning", "stays", "with dots"}},
		{"bad accessor", `${$.a[b]}`, Options{Direct: true}, []string{"error", "${$.a[b]}"}},
		{"second id", "${chunk_id}${chunk_id}", Options{}, []string{"warning", "only the first"}},
		{"time without key", "a-%Y%m%d", Options{Direct: true}, []string{"warning", "stay as they are", "<buffer time>"}},
		{"time without key, strict", "a-%-d", Options{Strict: true}, []string{"error", "stay as they are"}},
		{"percent that is no time", "100%%d 5%", Options{}, nil},
		{"unfinished", "%Y 100%", Options{ChunkKeys: []string{"time"}, Timekey: day}, []string{"error", "in the middle", "%%"}},
		{"too wide", "%9999d", Options{ChunkKeys: []string{"time"}, Timekey: day}, []string{"error", "1024"}},
		{"finer than timekey", "%Y%m%d%H", Options{ChunkKeys: []string{"time"}, Timekey: day}, []string{"warning", "shows the hour", "shorter"}},
		{"as fine as timekey", "%Y%m%d%H", Options{ChunkKeys: []string{"time"}, Timekey: 6 * time.Hour, Strict: true}, nil},
		{"odd timekey shows seconds", "%Y%m%d%H%M%S", Options{ChunkKeys: []string{"time"}, Timekey: 90 * time.Second, Strict: true}, nil},
		{"coarser than timekey", "%Y%m%d", Options{ChunkKeys: []string{"time"}, Timekey: time.Hour}, nil},
		{"coarser than timekey, strict", "%Y%m%d", Options{ChunkKeys: []string{"time"}, Timekey: time.Hour, Strict: true}, []string{"error", "no more than the day"}},
		{"no time at all, strict", "a", Options{ChunkKeys: []string{"time"}, Timekey: time.Hour, Strict: true}, []string{"error", "has no time placeholders"}},
		{"unused keys, strict", "a", Options{ChunkKeys: []string{"tag", "b"}, Strict: true}, []string{"error error", "tag is a chunk key", "b is a chunk key"}},
		{"unused keys", "a", Options{ChunkKeys: []string{"tag", "b"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := Compile(c.text, c.o)
			var kinds []string
			all := ""
			for _, p := range problems {
				k := "error"
				if p.Warning {
					k = "warning"
				}
				kinds = append(kinds, k)
				all += p.Text + "; " + p.Hint + "\n"
			}
			if len(c.want) == 0 {
				if len(problems) > 0 {
					t.Errorf("unexpected: %s", all)
				}
				return
			}
			if got := strings.Join(kinds, " "); got != c.want[0] {
				t.Errorf("%s, want %s: %s", got, c.want[0], all)
			}
			for _, w := range c.want[1:] {
				_, rest, ok := strings.Cut(all, w)
				if !ok {
					t.Errorf("no %q in %q", w, all)
				}
				all = rest
			}
		})
	}
}

func TestAppendPathRefusesWhatLeadsAway(t *testing.T) {
	for _, c := range []struct {
		text, tag string
		ok        bool
	}{
		{"/var/log/${tag}/x", "app.web", true},
		{"/var/log/${tag}/x", "a/b", true}, // Fluentd allows it: a sub-directory
		{"/var/log/${tag}/x", "a..b", true},
		{"/var/log/${tag}/x", "..", false},
		{"/var/log/${tag}/x", "/etc", false},
		{"/var/log/${tag}/x", `\etc`, false},
		{"/var/log/${tag}/x", "a/../../b", false},
		{"/var/log/${tag}/x", "a/..", false},
		{"/var/log/${tag}/x", `a\..\b`, false},
		{"/var/log/${tag}/x", "a\x00b", false},
		{"/var/log/${tag}.log", "..", false},
		{"/var/${dot}${dot}/x", "t", false}, // two harmless values make a step
		{"/var/.${dot}/x", "t", false},
		{"../log/${tag}", "t", true}, // the user's own step
		{"../log/${dot}${dot}/${tag}", "t", false},
		{"/var/${up}", "t", false},
		{"/var/${abs}", "t", false},
		{"/var/..${gone}/${tag}", "t", false},
	} {
		tpl, _ := Compile(c.text, Options{Direct: true})
		got, _, err := tpl.AppendPath([]byte("keep"), Context{Tag: c.tag, Record: record()})
		if c.ok != (err == nil) {
			t.Errorf("%s with tag %q: %q, %v", c.text, c.tag, got, err)
		}
		if err != nil && (!errors.Is(err, ErrUnsafePath) || string(got) != "keep") {
			t.Errorf("%s with tag %q: %q, %v", c.text, c.tag, got, err)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	tpl, _ := Compile("/aws/${tag[1]}/${$.k.pod}/%Y-%m-%d-%H/${chunk_id}", Options{Direct: true, ChunkKeys: []string{"time"}, Timekey: time.Hour, Location: zone(t, "Europe/Berlin")})
	x := Context{Tag: "app.web", Time: at, Record: record()}
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		dst, _ = tpl.Append(dst[:0], x)
		dst, _, _ = tpl.AppendPath(dst[:0], x)
		tpl.SameTime(at, at+1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"${tag}", "${tag[-1]}%Y", "%", "${${tag}", "%-${a}", "${$.a[0]}", "${chunk_id}${chunk_id}", "a/../${up}"} {
		f.Add(s, "app.web")
	}
	options := []Options{{}, {Direct: true}, {Direct: true, EventTime: true}, {ChunkKeys: []string{"tag", "time", "app"}, Timekey: time.Hour, Strict: true}}
	f.Fuzz(func(t *testing.T, text, tag string) {
		for _, o := range options {
			tpl, _ := Compile(text, o)
			x := Context{Tag: tag, Time: at, Record: record(), ChunkID: id}
			name, _ := tpl.Append(nil, x)
			if tpl.Static() && o.Timekey == 0 && !o.EventTime && string(name) != text && o.ChunkKeys == nil {
				t.Fatalf("%q became %q", text, name)
			}
			path, _, err := tpl.AppendPath(nil, x)
			if err == nil && climbs(path) > climbs(text) {
				t.Fatalf("%q with tag %q made the path %q", text, tag, path)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, text := range []string{"/static/name", "/aws/${tag}", "${$.k.pod}-${app}", "${$.k.pod}-%Y-%m-%d-%H"} {
		tpl, _ := Compile(text, Options{Direct: true, EventTime: true})
		x := Context{Tag: "app.web", Time: at, Record: record()}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 128)
			for b.Loop() {
				dst, _ = tpl.Append(dst[:0], x)
			}
		})
	}
}
