package file

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

// SecondaryParams are the parameters of secondary_file, which keeps in files what the
// primary output gave up.
type SecondaryParams struct {
	Type      string `conf:"@type" alias:"type" doc:"secondary_file"`
	ID        string `conf:"@id" alias:"id" doc:"accepted for compatibility, without effect"`
	LogLevel  string `conf:"@log_level" alias:"log_level" doc:"accepted for compatibility, without effect"`
	Directory string `conf:"directory" required:"true" doc:"directory of the files; placeholders of the primary's chunk keys"`
	Basename  string `conf:"basename" default:"dump.bin" doc:"name of the files; placeholders of the primary's chunk keys"`
	Append    bool   `conf:"append" default:"false" doc:"write into one file instead of files with a number"`
	Compress  string `conf:"compress" enum:"text|gzip" default:"text" doc:"gzip the files, and add .gz to their names"`
}

// strftime is a directive that is a time placeholder only under the chunk key time.
var strftime = regexp.MustCompile(`%[-0^#]?[A-Za-z]`)

// Check finds the mistakes in p, all at once. s is the section that p was read from, names
// what the primary's <buffer> section says about placeholders.
func (p *SecondaryParams) Check(s *fluentconf.Section, names placeholder.Options, d *config.Diagnostics) {
	at := func(key string) fluentconf.Pos {
		if prm := s.Get(key); prm != nil {
			return prm.Value.Pos
		}
		return s.Pos
	}
	if strings.Contains(p.Basename, "/") {
		d.Error(at("basename"), "basename must not contain a slash", "put the directories into directory")
	}
	for _, c := range []struct{ key, text string }{{"directory", p.Directory}, {"basename", p.Basename}} {
		switch {
		case c.text == "" && s.Get(c.key) != nil:
			d.Error(at(c.key), c.key+" is empty", "write where the files go")
		case strings.Contains(c.text, "\x00"):
			d.Error(at(c.key), c.key+" has a zero byte", "")
		case names.Timekey == 0 && strftime.MatchString(c.text):
			d.Error(at(c.key), fmt.Sprintf("%s %q has a time format, but time is no chunk key of the primary output", c.key, c.text), "add time to its <buffer>, or take the format out")
		}
		_, problems := placeholder.Compile(c.text, plainNames(names))
		for _, pr := range problems { // what is a warning elsewhere stops Fluentd here
			if strings.Contains(pr.Text, "time placeholders") {
				continue // said above
			}
			d.Error(at(c.key), pr.Text, pr.Hint)
		}
	}
}

func plainNames(names placeholder.Options) placeholder.Options {
	names.Strict, names.Direct, names.EventTime = false, false, false
	return names
}

// NewSecondary makes an Output that writes as secondary_file does. o.Params is not used.
// binary says that the formatter's bytes are no lines.
func NewSecondary(p SecondaryParams, binary bool, o Options) (*Output, error) {
	text := filepath.Join(p.Directory, p.Basename)
	if !p.Append {
		text += mark
	}
	o.Params = Params{Path: text, Append: p.Append, Compress: p.Compress}
	if p.Compress == "gzip" {
		text += ".gz"
	}
	t, problems := placeholder.Compile(text, plainNames(o.Names))
	for _, pr := range problems {
		if !pr.Warning {
			return nil, fmt.Errorf("secondary_file with directory %q: %s; %s", p.Directory, pr.Text, pr.Hint)
		}
	}
	out := outputOf(o, t)
	out.separator, out.binary = ".", binary
	return out, nil
}

// Messages formats an event as fluent-plugin-cloudwatch-logs keeps it in its chunks: the
// msgpack array of tag, time and record.
type Messages struct{}

// Append implements Formatter.
func (Messages) Append(dst []byte, tag string, t event.Time, record []byte) []byte {
	dst = event.AppendArrayHeader(dst, 3)
	dst = event.AppendTime(event.AppendStr(dst, tag), t)
	return append(dst, record...)
}
