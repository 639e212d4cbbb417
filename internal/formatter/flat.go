package formatter

import "weir/internal/fluentconf"

// FlatParams are the older parameters of an output's own section that say what <format> and
// <inject> say. Embed them, so that they count as known; FlatFormat and New read them.
type FlatParams struct {
	FlatFormat     string `conf:"format" doc:"older form: @type of <format>"`
	OutputType     string `conf:"output_type" doc:"older form, of stdout: what stands behind time and tag"`
	OutputTime     string `conf:"output_time" doc:"older form, of out_file"`
	OutputTag      string `conf:"output_tag" doc:"older form, of out_file"`
	Delimiter      string `conf:"delimiter" doc:"older form, of out_file, ltsv, csv and tsv"`
	LabelDelimiter string `conf:"label_delimiter" doc:"older form, of ltsv"`
	MessageKey     string `conf:"message_key" doc:"older form, of single_value"`
	AddNewline     string `conf:"add_newline" doc:"older form: end lines with a line end"`
	Fields         string `conf:"fields" doc:"older form, of csv"`
	Keys           string `conf:"keys" doc:"older form, of tsv"`
	ForceQuotes    string `conf:"force_quotes" doc:"older form, of csv"`
	JSONParser     string `conf:"json_parser" doc:"older form, of json"`
	Timezone       string `conf:"timezone" doc:"older form: zone of times"`
	TimeFormat     string `conf:"time_format" doc:"older form: layout of the time that include_time_key puts in"`
	IncludeTimeKey string `conf:"include_time_key" doc:"older form: put the time into each record"`
	TimeKey        string `conf:"time_key" doc:"older form: its key"`
	TimeType       string `conf:"time_type" doc:"older form, without effect: include_time_key makes a text, time_as_epoch seconds"`
	TimeAsEpoch    string `conf:"time_as_epoch" doc:"older form: put the time into each record as seconds"`
	IncludeTagKey  string `conf:"include_tag_key" doc:"older form: put the tag into each record"`
	TagKey         string `conf:"tag_key" doc:"older form: its key"`
}

// FlatFormat makes a <format> section of the older parameters of parent, as Fluentd does;
// nil if there are none. It has no @type unless they name one.
func FlatFormat(parent *fluentconf.Section) *fluentconf.Section {
	s := &fluentconf.Section{Name: "format", Pos: parent.Pos}
	kind := ""
	if own := parent.Get("@type"); own != nil && own.Value.Text == "stdout" {
		kind = "stdout" // the default of this output, as out_file is that of others
	}
	if typ := parent.Get("format"); typ != nil {
		named := *typ
		named.Key, s.Pos, kind = "@type", typ.Pos, typ.Value.Text
		s.Params = append(s.Params, named)
	}
	for _, k := range flatKeys(kind) {
		if prm := parent.Get(k); prm != nil {
			s.Params = append(s.Params, *prm)
		}
	}
	if len(s.Params) == 0 {
		return nil
	}
	return s
}

// flatKeys lists the older parameters that a formatter takes, "" being the output's own.
func flatKeys(typ string) []string {
	switch typ {
	case "":
		return []string{"output_time", "output_tag", "delimiter", "localtime", "utc", "timezone", "output_type"}
	case "out_file":
		return []string{"output_time", "output_tag", "delimiter", "localtime", "utc", "timezone"}
	case "json":
		return []string{"json_parser", "add_newline"}
	case "hash":
		return []string{"add_newline"}
	case "single_value":
		return []string{"message_key", "add_newline"}
	case "ltsv":
		return []string{"delimiter", "label_delimiter", "add_newline"}
	case "csv":
		return []string{"fields", "delimiter", "force_quotes", "add_newline"}
	case "tsv":
		return []string{"keys", "delimiter", "add_newline"}
	case "stdout":
		return []string{"output_type", "delimiter", "keys", "fields", "message_key", "label_delimiter"}
	}
	return nil
}
