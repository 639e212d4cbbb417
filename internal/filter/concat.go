package filter

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// ConcatParams are the parameters of @type concat.
type ConcatParams struct {
	config.Plugin
	Key            string        `conf:"key" required:"true" doc:"field with the text; an event without it passes as it is"`
	Separator      *string       `conf:"separator" doc:"put between the texts; a line break without it"`
	Lines          *int64        `conf:"n_lines" doc:"this many events become one"`
	Start          string        `conf:"multiline_start_regexp" doc:"the text of a first event matches this; its first and last character, the slashes, are cut off"`
	End            string        `conf:"multiline_end_regexp" doc:"the text of a last event matches this"`
	Continuous     string        `conf:"continuous_line_regexp" doc:"the text of an event in between matches this; another one ends the group and passes as it is"`
	Stream         string        `conf:"stream_identity_key" doc:"events with different values of this field are kept apart; so are those of different tags in any case"`
	FlushInterval  time.Duration `conf:"flush_interval" default:"60" doc:"after so long without a further event a group is late; 0: never"`
	TimeoutLabel   string        `conf:"timeout_label" doc:"label for late groups; without it they are errors and go to @ERROR, without that label too they go on like others"`
	FirstTimestamp bool          `conf:"use_first_timestamp" default:"false" doc:"the time of the first event instead of the last one's"`
	PartialKey     string        `conf:"partial_key" doc:"field that tells that an event is not the last of its group"`
	PartialValue   *string       `conf:"partial_value" doc:"its value then"`
	KeepPartialKey bool          `conf:"keep_partial_key" default:"false" doc:"keep the field in the result"`
	Metadata       bool          `conf:"use_partial_metadata" default:"false" doc:"put together what Docker has divided, by the fields that its log driver adds"`
	MetadataFormat string        `conf:"partial_metadata_format" enum:"docker-fluentd|docker-journald|docker-journald-lowercase" default:"docker-fluentd" doc:"names of these fields"`
	KeepMetadata   bool          `conf:"keep_partial_metadata" default:"false" doc:"keep these fields in the result"`
	CRI            bool          `conf:"use_partial_cri_logtag" default:"false" doc:"put together what a CRI runtime has divided, by its tag P or F"`
	CRIKey         string        `conf:"partial_cri_logtag_key" doc:"field with that tag"`
	CRIStream      string        `conf:"partial_cri_stream_key" default:"stream" doc:"field with the name of the stream; it is removed"`
	BufferLimit    config.Size   `conf:"buffer_limit_size" default:"512000" doc:"with partial_key: bytes of a group"`
	BufferOverflow string        `conf:"buffer_overflow_method" enum:"ignore|truncate|drop|new" default:"ignore" doc:"when a group has more: go on, end it without the event, give up both, or begin a new group with the event"`
}

type concatMode uint8

const (
	byLines concatMode = iota
	byRegexp
	byPartialKey
	byMetadata
	byCRI
)

// Concat makes one event of the parts of a text.
type Concat struct {
	p     ConcatParams
	mode  concatMode
	lines int
	sep   string
	wait  time.Duration

	start, last, continuous *rx.Regexp // nil: not given

	// Names of the fields that partial metadata is in.
	indicator, id, ordinal, final string
	remove                        map[string]bool // fields that a result does not have
	latest                        string          // field that keeps the value of the event that ends a group; "" for none
}

// NewConcat builds a Concat. Mistakes are noted in d; the result is then nil.
func NewConcat(s *fluentconf.Section, p ConcatParams, env Env, d *config.Diagnostics) *Concat {
	before := len(d.Errors)
	c := &Concat{p: p, wait: p.FlushInterval, sep: "\n"}
	if p.Separator != nil {
		c.sep = *p.Separator
	}
	fail := func(text, hint string) { d.Error(env.Pos, "concat: "+text, hint) }
	regexps := p.Start != "" || p.End != ""
	type way struct {
		name  string
		given bool
		mode  concatMode
	}
	given := ""
	for _, w := range []way{
		{"n_lines", p.Lines != nil, byLines}, {"multiline_start_regexp or multiline_end_regexp", regexps, byRegexp}, {"partial_key", p.PartialKey != "", byPartialKey},
		{"use_partial_metadata", p.Metadata, byMetadata}, {"use_partial_cri_logtag", p.CRI, byCRI},
	} {
		switch {
		case !w.given:
		case given == "" || given == "use_partial_metadata": // with both of the last two Fluentd goes by the metadata
			if given == "" {
				given, c.mode = w.name, w.mode
			}
		default:
			fail(fmt.Sprintf("%s and %s exclude each other", given, w.name), "leave one of them out")
		}
	}
	if given == "" {
		fail("nothing says which events belong together", "add n_lines, multiline_start_regexp, multiline_end_regexp, partial_key, use_partial_metadata or use_partial_cri_logtag")
	}
	if p.PartialKey != "" && p.PartialValue == nil {
		fail("partial_key needs partial_value", "add partial_value with the value of that field in events that are not the last")
	}
	c.regexps(s, env, d)
	switch c.mode {
	case byLines:
		if p.Lines != nil {
			c.lines = int(min(*p.Lines, 1<<30))
		}
	case byPartialKey:
		if !p.KeepPartialKey {
			c.remove = map[string]bool{p.PartialKey: true}
		} else {
			c.latest = p.PartialKey
		}
	case byMetadata:
		c.metadata()
	case byCRI:
		if p.CRIKey == "" {
			fail("use_partial_cri_logtag needs partial_cri_logtag_key", "add partial_cri_logtag_key with the field that holds P or F, for example logtag")
		}
		c.remove = map[string]bool{p.CRIStream: true}
		if !p.KeepPartialKey {
			c.remove[p.CRIKey] = true
		} else {
			c.latest = p.CRIKey
		}
	}
	if p.FlushInterval <= 0 {
		c.wait = 0
		d.Warn(env.Pos, "concat: flush_interval 0 keeps the last event of a stream until the next one comes, and its acknowledgement too", "write a time that senders can wait, for example flush_interval 5s")
	}
	if c.wait > patience && (c.mode == byLines || c.start != nil) {
		d.Note(env.Pos, fmt.Sprintf("concat: the last event of a stream, and the acknowledgement of its message, wait up to %s for the next event", c.wait),
			"Fluent Bit gives a connection up after 10 s (net.io_timeout) and repeats the message: write flush_interval 5s")
	}
	if len(d.Errors) > before {
		return nil
	}
	return c
}

// patience is how long every sender waits for an acknowledgement.
const patience = 10 * time.Second

// metadata sets the names of the fields that Docker's log drivers add.
func (c *Concat) metadata() {
	message := "partial_message"
	c.id, c.ordinal, c.final = "partial_id", "partial_ordinal", "partial_last"
	c.indicator = message
	if c.p.MetadataFormat != "docker-fluentd" {
		prefix := "container_"
		message, c.id, c.ordinal, c.final = prefix+message, prefix+c.id, prefix+c.ordinal, prefix+c.final
		if c.p.MetadataFormat == "docker-journald" {
			for _, s := range []*string{&message, &c.id, &c.ordinal, &c.final} {
				*s = strings.ToUpper(*s)
			}
		}
		c.indicator = c.id // the last part has no partial_message there
	}
	if !c.p.KeepMetadata {
		c.remove = map[string]bool{message: true, c.id: true, c.ordinal: true, c.final: true}
	}
}

func (c *Concat) regexps(s *fluentconf.Section, env Env, d *config.Diagnostics) {
	for _, r := range []struct {
		key, text string
		to        **rx.Regexp
	}{
		{"multiline_start_regexp", c.p.Start, &c.start}, {"multiline_end_regexp", c.p.End, &c.last}, {"continuous_line_regexp", c.p.Continuous, &c.continuous},
	} {
		if r.text == "" {
			continue
		}
		pos := env.Pos
		if prm := s.Get(r.key); prm != nil {
			pos = prm.Value.Pos
		}
		if c.mode != byRegexp {
			if r.key == "continuous_line_regexp" {
				d.Warn(pos, "concat: continuous_line_regexp has no effect without multiline_start_regexp or multiline_end_regexp", "remove it")
			}
			continue
		}
		if len(r.text) < 2 || r.text[0] != '/' || r.text[len(r.text)-1] != '/' {
			d.Warn(pos, fmt.Sprintf("concat: the first and the last character of %s are cut off, whatever they are", r.key), "write /PATTERN/, with options inside: /(?i)PATTERN/")
		}
		if len(r.text) < 2 {
			d.Error(pos, fmt.Sprintf("concat: %s is too short", r.key), "write /PATTERN/")
			continue
		}
		re, err := rx.Compile(r.text[1:len(r.text)-1], rx.Options{})
		if err != nil {
			d.Error(pos, fmt.Sprintf("concat: %s: %v", r.key, err), "")
			continue
		}
		*r.to = re
	}
}

// Hold implements Holder.
func (c *Concat) Hold(tag string) *Held { return newHeld(tag, c, true) }

// Wait implements Holder.
func (c *Concat) Wait() time.Duration { return c.wait }

// TimeoutLabel is the label that late groups go to; "" for none.
func (c *Concat) TimeoutLabel() string { return c.p.TimeoutLabel }
