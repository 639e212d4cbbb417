package formatter

import "weir/internal/fluentconf"

// FlatParams are the older parameters of an output's own section that say what <format> and
// <inject> say. Embed them, so that they count as known; FlatFormat and New read them.
type FlatParams struct {
	FlatFormat     string `conf:"format" doc:"older form: @type of <format>"`
	OutputType     string `conf:"output_type" doc:"older form: the same as format"`
	OutputTime     string `conf:"output_time" doc:"older form, of out_file"`
	OutputTag      string `conf:"output_tag" doc:"older form, of out_file"`
	Delimiter      string `conf:"delimiter" doc:"older form, of out_file, ltsv, csv and tsv"`
	LabelDelimiter string `conf:"label_delimiter" doc:"older form, of ltsv"`
	MessageKey     string `conf:"message_key" doc:"older form, of single_value"`
	AddNewline     string `conf:"add_newline" doc:"older form: end lines with a line end"`
	Fields         string `conf:"fields" doc:"older form, of csv"`
	Keys           string `conf:"keys" doc:"older form, of tsv"`
	Timezone       string `conf:"timezone" doc:"older form: zone of times"`
	TimeFormat     string `conf:"time_format" doc:"older form: layout of times"`
	IncludeTimeKey string `conf:"include_time_key" doc:"older form: put the time into each record"`
	TimeKey        string `conf:"time_key" doc:"older form: its key"`
	TimeType       string `conf:"time_type" doc:"older form, without effect: include_time_key makes a text, time_as_epoch seconds"`
	TimeAsEpoch    string `conf:"time_as_epoch" doc:"older form: put the time into each record as seconds"`
	IncludeTagKey  string `conf:"include_tag_key" doc:"older form: put the tag into each record"`
	TagKey         string `conf:"tag_key" doc:"older form: its key"`
}

// FlatFormat makes a <format> section of the older parameters of parent, as Fluentd does;
// nil if there are none that name a formatter.
func FlatFormat(parent *fluentconf.Section) *fluentconf.Section {
	typ := parent.Get("format")
	if typ == nil {
		typ = parent.Get("output_type")
	}
	if typ == nil {
		return nil
	}
	named := *typ
	named.Key = "@type"
	s := &fluentconf.Section{Name: "format", Pos: typ.Pos, Params: []fluentconf.Param{named}}
	for _, k := range flatKeys(typ.Value.Text) {
		if prm := parent.Get(k); prm != nil {
			s.Params = append(s.Params, *prm)
		}
	}
	return s
}

// flatKeys lists the older parameters that a formatter takes.
func flatKeys(typ string) []string {
	switch typ {
	case "out_file":
		return []string{"output_time", "output_tag", "delimiter", "localtime", "utc", "timezone", "time_format"}
	case "json", "hash":
		return []string{"add_newline"}
	case "single_value":
		return []string{"message_key", "add_newline"}
	case "ltsv":
		return []string{"delimiter", "label_delimiter", "add_newline"}
	case "csv":
		return []string{"fields", "delimiter", "add_newline"}
	case "tsv":
		return []string{"keys", "delimiter", "add_newline"}
	}
	return nil
}
