package cloudwatch

import (
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

// read decodes a section as app does.
func read(t *testing.T, text string, names placeholder.Options) (*Params, *config.Diagnostics) {
	t.Helper()
	s := &fluentconf.Section{Name: "match", Pos: fluentconf.Pos{File: "f", Line: 1}}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		pos := fluentconf.Pos{File: "f", Line: i + 2}
		v := fluentconf.Value{Text: strings.TrimSpace(value), Pos: pos}
		if v.Text == "use_nil" {
			v = fluentconf.Value{State: fluentconf.UseNil, Pos: pos}
		}
		s.Params = append(s.Params, fluentconf.Param{Key: key, Value: v, Pos: pos})
	}
	p, d := &Params{}, &config.Diagnostics{}
	config.Decode(s, p, d)
	p.Check(s, names, d)
	return p, d
}

func clearAWS(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for k, v := range map[string]string{
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "", "AWS_DEFAULT_PROFILE": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_CONFIG_FILE": dir + "/config", "AWS_SHARED_CREDENTIALS_FILE": dir + "/credentials", "AWS_ENDPOINT_URL": "",
		"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CA_BUNDLE": "", "HTTP_PROXY": "", "HTTPS_PROXY": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		t.Setenv(k, v)
	}
}

func TestParamsDefaults(t *testing.T) {
	clearAWS(t)
	p, d := read(t, "region eu-west-1\nlog_group_name g\nuse_tag_as_stream true", placeholder.Options{})
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Fatalf("errors %v, warnings %v", d.Errors, d.Warnings)
	}
	if p.MaxEvents != 10000 || p.OnOversize != "split" || p.Compression != "none" || p.AutoCreate || !p.SSLVerifyPeer ||
		p.STSSessionName != "fluentd" || p.RetryLimit != nil || p.KeepEmptyFields || p.RequestDeadline != time.Minute {
		t.Errorf("defaults: %+v", p)
	}
}

func TestParamsMistakes(t *testing.T) {
	clearAWS(t)
	ok := "region r\nlog_group_name g\nlog_stream_name s\n"
	for _, c := range []struct{ name, text, want string }{
		{"none", "region r\nlog_stream_name s", "f:1:0: none of log_group_name, use_tag_as_group, log_group_name_key is set"},
		{"two", ok + "use_tag_as_group false", "log_group_name and use_tag_as_group are both set (a value of false counts)"},
		{"false alone", "region r\nuse_tag_as_group false\nlog_stream_name s", "use_tag_as_group is false, and nothing else"},
		{"empty", "region r\nlog_group_name\nlog_stream_name s", "f:3:0: log_group_name is empty"},
		{"region", "log_group_name g\nlog_stream_name s", "no AWS region: region is not set, nor are AWS_REGION and AWS_DEFAULT_REGION, and profile \"default\""},
		{"profile", ok + "aws_profile nope", "AWS profile \"nope\" is not in"},
		{"group", "region r\nlog_group_name a b\nlog_stream_name s", "log_group_name \"a b\" has characters"},
		{"reserved", "region r\nlog_group_name aws/b\nlog_stream_name s", "begins with aws/"},
		{"stream", "region r\nlog_group_name g\nlog_stream_name a:b", "log_stream_name \"a:b\" has : or *"},
		{"tags", ok + "auto_create_stream true\nlog_group_aws_tags a:b\nlog_group_aws_tags_key t", "log_group_aws_tags and log_group_aws_tags_key are both set"},
		{"retentions", ok + "auto_create_stream true\nretention_in_days 7\nretention_in_days_key t", "are both set"},
		{"retention", ok + "auto_create_stream true\nretention_in_days 8", "retention_in_days 8 is not a value"},
		{"accessor", "region r\nlog_group_name_key $.a b\nlog_stream_name s", "log_group_name_key: "},
		{"message key", ok + "message_keys a,$[", "message_keys: "},
		{"max events", ok + "max_events_per_batch 10001", "max_events_per_batch 10001"},
		{"max length", ok + "max_message_length 0", "max_message_length 0"},
		{"oversize", ok + "on_oversize foo", "on_oversize"},
		{"endpoint", ok + "endpoint logs.example", "endpoint \"logs.example\" is not a URL"},
		{"proxy", ok + "http_proxy http://", "http_proxy"},
		{"role", ok + "aws_use_sts true", "aws_use_sts needs a role"},
		{"chunk id", "region r\nlog_group_name g\nlog_stream_name ${chunk_id}", "weir has no chunks"},
		{"entity", ok + "entity_key_attributes Type:Service", "1 key attributes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d := read(t, c.text, placeholder.Options{})
			if len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error(), c.want) {
				t.Errorf("errors %v, want %q", d.Errors, c.want)
			}
		})
	}
}

// What public files contain is accepted, some of it with a warning.
func TestParamsAccepted(t *testing.T) {
	clearAWS(t)
	ok := "region r\nlog_group_name g\nlog_stream_name s\n"
	for _, c := range []struct{ name, text, warning string }{
		{"retention nil", ok + "auto_create_stream true\nretention_in_days nil", "retention_in_days"},
		{"empty bool", ok + "log_rejected_request ", ""},
		{"use_nil is not present", "region r\nlog_group_name g\nlog_group_name_key use_nil\nlog_stream_name s", ""},
		{"record without chunk key", "region r\nlog_group_name /x/${$.kubernetes.namespace_name}\nlog_stream_name ${tag}", ""},
		{"retry limit", ok + "put_log_events_retry_limit 3", "events are dropped when a request was throttled"},
		{"retry limit disabled", ok + "put_log_events_retry_limit 3\nput_log_events_disable_retry_limit true", ""},
		{"sanitized", "region r\nlog_group_name a b\nlog_stream_name a:b\nsanitize_names true", ""},
		{"group settings without creation", ok + "kms_key_id k", "auto_create_stream is false"},
		{"max_in_flight", ok + "max_in_flight 3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, d := read(t, c.text, placeholder.Options{})
			if len(d.Errors) > 0 {
				t.Errorf("errors %v", d.Errors)
			}
			found := c.warning == ""
			for _, w := range d.Warnings {
				found = found || strings.Contains(w.Error(), c.warning)
			}
			if !found {
				t.Errorf("warnings %v, want %q", d.Warnings, c.warning)
			}
			if c.name == "retention nil" && p.RetentionDays != nil {
				t.Error("retention is set")
			}
			if c.name == "max_in_flight" && p.InFlight() != 3 {
				t.Error("max_in_flight is not taken")
			}
		})
	}
}
