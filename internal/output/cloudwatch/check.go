package cloudwatch

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

// retentions are the values that PutRetentionPolicy takes.
func retentions() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

// Check finds the mistakes in p that can be found without the network, all at once, and
// brings p into the form that New expects. s is the section that p was read from, names
// what the <buffer> section says about placeholders (New gets the same).
func (p *Params) Check(s *fluentconf.Section, names placeholder.Options, d *config.Diagnostics) {
	names.Direct = true
	c := checker{s: s, d: d, names: names}
	p.Params.Check(s, d)
	c.exactlyOne("log_group_name", "use_tag_as_group", "log_group_name_key")
	c.exactlyOne("log_stream_name", "use_tag_as_stream", "log_stream_name_key")
	c.falseAlone("use_tag_as_group", p.GroupName+p.GroupNameKey == "" && !p.TagAsGroup)
	c.falseAlone("use_tag_as_stream", p.StreamName+p.StreamNameKey == "" && !p.TagAsStream)
	c.name("log_group_name", p.GroupName, p.SanitizeNames, badGroupName)
	c.name("fallback_log_group_name", p.GroupFallback, false, badGroupName)
	c.name("log_stream_name", p.StreamName, p.SanitizeNames, badStreamName)
	c.name("fallback_log_stream_name", p.StreamFallback, false, badStreamName)
	c.notBoth("log_group_aws_tags", "log_group_aws_tags_key")
	c.notBoth("retention_in_days", "retention_in_days_key")
	c.retention(p)
	c.paths(p)
	c.numbers(p)
	if !p.AutoCreate && p.has(s, "log_group_aws_tags", "log_group_aws_tags_key", "retention_in_days", "retention_in_days_key", "kms_key_id", "log_group_class") {
		d.Warn(s.Pos, "tags, retention, kms_key_id and log_group_class are for groups that weir creates, and auto_create_stream is false", "write auto_create_stream true")
	}
	for k, v := range p.Tags {
		c.template("log_group_aws_tags", k)
		c.template("log_group_aws_tags", v)
	}
	if len(p.Tags) > 50 {
		c.fail("log_group_aws_tags", fmt.Sprintf("%d tags, and a log group can have 50", len(p.Tags)), "")
	}
	if k := len(p.EntityKeyAttributes); k == 1 || k > 4 || k == 0 && len(p.EntityAttributes) > 0 {
		c.fail("entity_key_attributes", fmt.Sprintf("%d key attributes", k), "an entity has 2 to 4 of Type, ResourceType, Identifier, Name, Environment")
	}
	if len(p.EntityAttributes) > 10 {
		c.fail("entity_attributes", fmt.Sprintf("%d attributes, and an entity can have 10", len(p.EntityAttributes)), "")
	}
}

func (p *Params) has(s *fluentconf.Section, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return s.Get(k) != nil })
}

// checker reports at the parameter a mistake is about.
type checker struct {
	s     *fluentconf.Section
	d     *config.Diagnostics
	names placeholder.Options
}

func (c *checker) at(key string) fluentconf.Pos {
	if p := c.s.Get(key); p != nil {
		return p.Value.Pos
	}
	return c.s.Pos
}

func (c *checker) fail(key, text, hint string) { c.d.Error(c.at(key), text, hint) }

// present means written in the file with a value, whatever the value: use_tag_as_group
// false is present, as in Fluentd.
func (c *checker) present(key string) bool {
	p := c.s.Get(key)
	return p != nil && p.Value.State == fluentconf.Text
}

func (c *checker) exactlyOne(keys ...string) {
	var found []string
	for _, k := range keys {
		if c.present(k) {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 0:
		c.d.Error(c.s.Pos, "none of "+strings.Join(keys, ", ")+" is set", "write exactly one of them")
	case len(found) > 1:
		c.fail(found[1], strings.Join(found, " and ")+" are both set (a value of false counts)", "keep exactly one of "+strings.Join(keys, ", "))
	}
}

// falseAlone: the only one of the three is there, and says no.
func (c *checker) falseAlone(key string, nameless bool) {
	if nameless && c.present(key) {
		c.fail(key, key+" is false, and nothing else gives a name", "write "+key+" true, or a name instead")
	}
}

func (c *checker) notBoth(a, b string) {
	if c.present(a) && c.present(b) {
		c.fail(b, a+" and "+b+" are both set", "keep one of them")
	}
}

// name checks a name that is written in the file. Placeholders can only be checked event
// by event.
func (c *checker) name(key, value string, sanitized bool, bad func([]byte) string) {
	if !c.present(key) {
		return
	}
	if strings.TrimSpace(value) == "" {
		c.fail(key, key+" is empty", "is an environment variable of its expression not set? Write a name, or \"#{ENV['NAME'] || 'default'}\"")
		return
	}
	static := c.template(key, value)
	c.direct(key, value)
	if !static || sanitized {
		return
	}
	if why := bad([]byte(value)); why != "" {
		c.fail(key, fmt.Sprintf("%s %q %s", key, value, why), "write another name, or sanitize_names true")
	}
}

// direct says it where a placeholder works here that Fluentd takes only with a chunk key.
func (c *checker) direct(key, value string) {
	names := c.names
	names.Direct = false
	_, problems := placeholder.Compile(value, names)
	if _, direct := placeholder.Compile(value, c.names); len(problems) > len(direct) {
		c.d.Note(c.at(key), key+" has a placeholder that Fluentd fills in only from a chunk key of <buffer>, and there is none for it; weir reads the event itself",
			"to use the file with Fluentd too, write <buffer tag>, or the field's name in place of tag")
	}
}

// template checks a text with placeholders and reports whether it has none.
func (c *checker) template(key, text string) (static bool) {
	t, problems := placeholder.Compile(text, c.names)
	for _, p := range problems {
		if p.Warning {
			c.d.Warn(c.at(key), key+": "+p.Text, p.Hint)
		} else {
			c.fail(key, key+": "+p.Text, p.Hint)
		}
	}
	if t.UsesChunkID() {
		c.fail(key, key+" uses ${chunk_id}, and weir has no chunks", "use ${tag}, a field or a time")
	}
	return t.Static() && len(problems) == 0
}

func (c *checker) retention(p *Params) {
	r := p.RetentionDays
	if r == nil {
		return
	}
	if *r == 0 {
		c.d.Warn(c.at("retention_in_days"), "retention_in_days is 0 or no number: taken as not set", "remove it, or write a number of days")
		p.RetentionDays = nil
		return
	}
	if !slices.Contains(retentions(), *r) {
		c.fail("retention_in_days", fmt.Sprintf("retention_in_days %d is not a value that CloudWatch Logs takes", *r), fmt.Sprintf("write one of %v", retentions()))
	}
}

func (c *checker) paths(p *Params) {
	for _, k := range []struct{ key, text string }{
		{"log_group_name_key", p.GroupNameKey}, {"log_stream_name_key", p.StreamNameKey},
		{"log_group_aws_tags_key", p.TagsKey}, {"retention_in_days_key", p.RetentionKey},
	} {
		if !c.present(k.key) {
			continue
		}
		if k.text == "" {
			c.fail(k.key, k.key+" is empty", "write the name of a field, or an accessor such as $.kubernetes.pod_name")
			continue
		}
		path, err := event.ParsePath(k.text)
		if err != nil {
			c.fail(k.key, k.key+": "+err.Error(), "write a field's name, $.a.b or $['a.b']['c']")
		} else if _, plain := path.Key(); !plain {
			c.d.Note(c.at(k.key), k.key+" reads a nested field: in Fluentd this parameter takes only the name of a top-level field", "to use the file there too, copy the field to the top level with record_transformer")
		}
	}
	for _, k := range p.MessageKeys {
		if _, err := event.ParsePath(k); err != nil {
			c.fail("message_keys", "message_keys: "+err.Error(), "write fields' names, $.a.b or $['a.b']['c']")
		}
	}
}

func (c *checker) numbers(p *Params) {
	if p.MaxEvents < 1 || p.MaxEvents > maxEvents {
		c.fail("max_events_per_batch", fmt.Sprintf("max_events_per_batch %d", p.MaxEvents), "write a number from 1 to 10000")
	}
	if n := p.MaxMessageLength; n != nil && *n < 1 {
		c.fail("max_message_length", fmt.Sprintf("max_message_length %d would leave no message", *n), "remove it, or write a number of characters")
	}
	if n := p.Concurrency; n != nil && *n < 1 {
		c.fail("concurrency", fmt.Sprintf("concurrency %d", *n), "write 1 or more")
	}
	if p.RetryLimit != nil && !p.DisableRetryLimit {
		c.d.Warn(c.at("put_log_events_retry_limit"), "events are dropped when a request was throttled more often than put_log_events_retry_limit", "remove it to keep them")
	}
	if p.DropMissingTarget && !p.AutoCreate {
		c.d.Warn(c.at("drop_missing_target"), "events of a missing group or stream are dropped", "remove drop_missing_target to keep them until it exists")
	}
}
