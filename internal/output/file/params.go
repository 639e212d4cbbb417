package file

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

// Params are the parameters of the output's section. <format>, <inject> and <buffer> are
// read by others.
type Params struct {
	Path         string `conf:"path" required:"true" doc:"path of the files; placeholders of the chunk keys, and * for the time"`
	AddSuffix    bool   `conf:"add_path_suffix" default:"true" doc:"add path_suffix to a path without *"`
	Suffix       string `conf:"path_suffix" default:".log" doc:"what add_path_suffix adds"`
	Append       bool   `conf:"append" default:"false" doc:"write into an existing file instead of a new one with a number"`
	Compress     string `conf:"compress" enum:"text|gz|gzip" default:"text" doc:"gzip the files, and add .gz to their names"`
	Recompress   bool   `conf:"recompress" default:"false" doc:"accepted for compatibility, without effect"`
	SymlinkPath  string `conf:"symlink_path" doc:"symbolic link to the file written last"`
	RelativeLink bool   `conf:"symlink_path_use_relative" default:"false" doc:"let the link name the file relative to itself"`
	SliceFormat  string `conf:"time_slice_format" doc:"older form: the time layout of *"`
	UTC          bool   `conf:"utc" default:"false" doc:"older form, for the format section only"`
	LocalTime    bool   `conf:"localtime" default:"true" doc:"older form, for the format section only"`
}

// mark stands in a template where the number of the file comes. No value may hold it.
const mark = "\x00"

func (p *Params) gzip() bool { return p.Compress == "gz" || p.Compress == "gzip" }

// Check finds the mistakes in p, all at once. s is the section that p was read from, names
// what the <buffer> section says about placeholders (New gets the same).
func (p *Params) Check(s *fluentconf.Section, names placeholder.Options, d *config.Diagnostics) {
	_, problems := p.Template(names)
	pos := s.Pos
	if prm := s.Get("path"); prm != nil {
		pos = prm.Value.Pos
	}
	for _, pr := range problems {
		text := strings.ReplaceAll(pr.Text, `\x00`, "_N") // the mark, as the problem quotes it
		if pr.Warning {
			d.Warn(pos, text, pr.Hint)
		} else {
			d.Error(pos, text, pr.Hint)
		}
	}
	if prm := s.Get("symlink_path"); prm != nil && p.SymlinkPath == "" {
		d.Error(prm.Value.Pos, "symlink_path is empty", "write the path of the link, or leave it out")
	}
	if prm := s.Get("recompress"); prm != nil {
		d.Warn(prm.Value.Pos, "recompress has no effect: events are compressed once, when they are written", "remove it")
	}
}

// Template makes the template of the file's path from path, as Fluentd does: the time
// layout that fits timekey in place of *, or behind a path that has none of it, then
// suffixes. Where the number of the file goes it has mark.
func (p *Params) Template(names placeholder.Options) (*placeholder.Template, []placeholder.Problem) {
	names.Strict, names.Direct, names.EventTime = true, false, false
	text, problem := p.pattern(names.Timekey)
	if problem != nil {
		t, _ := placeholder.Compile("", placeholder.Options{})
		return t, []placeholder.Problem{*problem}
	}
	return placeholder.Compile(text, names)
}

func (p *Params) pattern(timekey time.Duration) (string, *placeholder.Problem) {
	layout, number, suffix := config.TimekeyLayout(timekey), mark, ""
	if p.SliceFormat != "" && timekey > 0 {
		layout = p.SliceFormat
	}
	if p.Append {
		number = ""
	}
	if p.AddSuffix {
		suffix = p.Suffix
	}
	gz := ""
	if p.gzip() {
		gz = ".gz"
	}
	switch {
	case p.Path == "":
		return "", &placeholder.Problem{Text: "path is empty", Hint: "write where the files go"}
	case strings.Contains(p.Path+p.Suffix+p.SliceFormat, "\x00"):
		return "", &placeholder.Problem{Text: fmt.Sprintf("path %q has a zero byte", p.Path)}
	case strings.Contains(p.Path, "*"):
		if timekey == 0 {
			return "", &placeholder.Problem{Text: fmt.Sprintf("path %q has a * for the time, but time is no chunk key", p.Path), Hint: "write <buffer time>, or leave the * out"}
		}
		first, rest, _ := strings.Cut(p.Path, "*")
		return first + layout + number + strings.ReplaceAll(rest, "*", layout) + gz, nil
	case timekey == 0:
		return p.Path + number + suffix + gz, nil
	}
	has, lacks := uses(p.Path, config.TimekeyLayout(timekey))
	switch {
	case p.SliceFormat != "" || !has:
		return p.Path + "." + layout + number + suffix + gz, nil
	case lacks != "":
		return "", &placeholder.Problem{
			Text: fmt.Sprintf("path %q shows a part of the time, but not %s, and so does not tell windows of %v apart", p.Path, lacks, timekey),
			Hint: "add " + lacks + ", or leave all of the time out: it is added",
		}
	}
	return p.Path + number + suffix + gz, nil
}

// uses says whether path has some of a layout's directives, and which it lacks.
func uses(path, layout string) (some bool, lacks string) {
	for i := 0; i+2 <= len(layout); i += 2 {
		if strings.Contains(path, layout[i:i+2]) {
			some = true
		} else {
			lacks += layout[i : i+2]
		}
	}
	return some, lacks
}
