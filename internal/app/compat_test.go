package app

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/filter"
	"weir/internal/formatter"
	"weir/internal/input/forward"
	"weir/internal/input/stdin"
	"weir/internal/output/cloudwatch"
	"weir/internal/output/file"
	"weir/internal/output/s3"
	"weir/internal/parser"
	"weir/internal/retag"
	"weir/internal/web/fluentd"
)

var update = flag.Bool("update", false, "write the tables of docs/fluentd-compat.md anew")

const (
	compatFile  = "../../docs/fluentd-compat.md"
	compatBegin = "<!-- parameters: written by go test ./internal/app -run TestCompat -update -->\n"
	compatEnd   = "<!-- end of parameters -->\n"
)

// TestCompatTableIsTrue compares the parameter tables of the documentation with the structs
// that the plug-ins decode into: a table that rots fails.
func TestCompatTableIsTrue(t *testing.T) {
	data, err := os.ReadFile(compatFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	begin, end := strings.Index(text, compatBegin), strings.Index(text, compatEnd)
	if begin < 0 || end < begin {
		t.Fatalf("%s lacks its markers", compatFile)
	}
	begin += len(compatBegin)
	want := compatTables()
	if *update {
		if err := os.WriteFile(compatFile, []byte(text[:begin]+want+text[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text[begin:end] != want {
		t.Errorf("%s does not list the parameters that weir reads: run go test ./internal/app -run TestCompat -update", compatFile)
	}
}

// table is what one section of a configuration file can hold.
type table struct {
	title string
	into  any
}

func compatTables() string {
	var b strings.Builder
	tables := []table{
		{"`<source>` `@type forward`", forward.Params{}},
		{"`<source>` `@type stdin`", stdin.Params{}},
		{"`<filter>` `@type grep`", filter.GrepParams{}},
		{"`<filter>` `@type record_transformer`", filter.RecordTransformerParams{}},
		{"`<filter>` `@type parser`", filter.ParserParams{}},
		{"`<filter>` `@type concat`", filter.ConcatParams{}},
		{"`<match>` `@type detect_exceptions` (as a `<filter>` too, without `remove_tag_prefix`)", DetectParams{}},
	}
	for _, t := range parser.Types() {
		tables = withType(tables, "`<parse>`", t.Name, t.Params)
	}
	for _, t := range formatter.Types() {
		tables = withType(tables, "`<format>`", t.Name, t.Params)
	}
	tables = append(tables, []table{
		{"`<match>` `@type cloudwatch_logs`", cloudwatch.Params{}},
		{"`<match>` `@type file`", file.Params{}},
		{"`<match>` `@type s3`", s3.Params{}},
		{"`<match>` `@type route`", RouteParams{}},
		{"`<secondary>` `@type secondary_file`", file.SecondaryParams{}},
		{"`<match>` `@type rewrite_tag_filter`", retag.Params{}},
		{"`<source>` `@type prometheus`", fluentd.PrometheusParams{}},
		{"`<source>` `@type prometheus_output_monitor`, `prometheus_monitor`, `prometheus_tail_monitor`", fluentd.MonitorParams{}},
		{"`<source>` `@type monitor_agent`", fluentd.AgentParams{}},
		{"`<filter>` and `<match>` `@type prometheus`", fluentd.FilterParams{}},
		{"`<buffer>`", config.Buffer{}},
		{"`<system>`", config.System{}},
	}...)
	for _, s := range tables {
		fmt.Fprintf(&b, "\n### %s\n\n| parameter | type | default | meaning |\n|---|---|---|---|\n", s.title)
		for _, d := range config.Doc(s.into) {
			key := d.Key
			if d.Section != "" {
				key = "<" + strings.ReplaceAll(d.Section, ".", "> <") + "> " + key
			}
			typ := d.Type
			if len(d.Enum) > 0 {
				typ = strings.Join(d.Enum, " \\| ")
			}
			def := d.Default
			if d.Required {
				def = "(required)"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, typ, def, strings.ReplaceAll(d.Doc, "|", "\\|"))
		}
	}
	return b.String()
}

// withType adds the table of a type. One that reads the same parameters as the type before
// shares its table.
func withType(to []table, section, name string, params any) []table {
	name = " `@type " + name + "`"
	if params == nil {
		return to
	}
	if last := &to[len(to)-1]; reflect.TypeOf(last.into) == reflect.TypeOf(params) {
		last.title += "," + name
		return to
	}
	return append(to, table{section + name, params})
}

// TestEveryTypeIsNamed: what an error offers in place of an unknown @type stands in the
// documentation's list of what works.
func TestEveryTypeIsNamed(t *testing.T) {
	doc, err := os.ReadFile(compatFile)
	if err != nil {
		t.Fatal(err)
	}
	for row, conf := range map[string]string{
		"sources":    "<source>\n@type nothing\n</source>",
		"outputs":    "<match>\n@type nothing\n</match>",
		"filters":    "<filter>\n@type nothing\n</filter>\n<match>\n@type null\n</match>",
		"parsers":    "<filter>\n@type parser\nkey_name k\n<parse>\n@type nothing\n</parse>\n</filter>\n<match>\n@type null\n</match>",
		"formatters": "<match>\n@type stdout\n<format>\n@type nothing\n</format>\n</match>",
	} {
		_, text, found := strings.Cut(string(doc), "\n| "+row+" | ")
		text, _, _ = strings.Cut(text, "\n")
		var hint string
		_, d := Load("f", Env{ReadFile: func(string) ([]byte, error) { return []byte(conf + "\n"), nil }}, false)
		for _, e := range d.Errors {
			if rest, ok := strings.CutPrefix(e.Hint, row+" are "); ok {
				hint, _, _ = strings.Cut(rest, ", which")
			}
		}
		names := strings.FieldsFunc(strings.ReplaceAll(hint, " and ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
		if !found || len(names) < 5 {
			t.Errorf("%s: %q is offered, documented is %q", row, names, text)
		}
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s: %s is missing in the row %q of %s", row, name, row, compatFile)
			}
		}
	}
}
