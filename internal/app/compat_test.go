package app

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/filter"
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

func compatTables() string {
	var b strings.Builder
	for _, s := range []struct {
		title string
		into  any
	}{
		{"`<source>` `@type forward`", forward.Params{}},
		{"`<source>` `@type stdin`", stdin.Params{}},
		{"`<filter>` `@type grep`", filter.GrepParams{}},
		{"`<filter>` `@type record_transformer`", filter.RecordTransformerParams{}},
		{"`<filter>` `@type parser`", filter.ParserParams{}},
		{"`<filter>` `@type concat`", filter.ConcatParams{}},
		{"`<match>` `@type detect_exceptions` (as a `<filter>` too, without `remove_tag_prefix`)", DetectParams{}},
		{"`<parse>` `@type json`", parser.JSONParams{}},
		{"`<parse>` `@type regexp`", parser.RegexpParams{}},
		{"`<parse>` `@type none`", parser.NoneParams{}},
		{"`<parse>` `@type csv`", parser.CSVParams{}},
		{"`<parse>` `@type tsv`", parser.TSVParams{}},
		{"`<parse>` `@type ltsv`", parser.LTSVParams{}},
		{"`<parse>` `@type apache2` and `nginx`", parser.PresetParams{}},
		{"`<parse>` `@type syslog`", parser.SyslogParams{}},
		{"`<parse>` `@type multiline`", parser.MultilineParams{}},
		{"`<parse>` `@type msgpack`", parser.MsgpackParams{}},
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
	} {
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
