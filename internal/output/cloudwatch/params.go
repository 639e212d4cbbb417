// Package cloudwatch is the output to CloudWatch Logs: names of groups and streams from
// tags, times and records, request bodies encoded straight from msgpack, signed and sent,
// and an account of what the service made of every event.
//
// It takes the parameters of fluent-plugin-cloudwatch-logs 0.15. Limits are those of the
// service's API reference for PutLogEvents, CreateLogGroup and PutRetentionPolicy.
package cloudwatch

import (
	"time"

	"weir/internal/awsx"
	"weir/internal/config"
	"weir/internal/fluentconf"
)

// Params are the parameters of <match> @type cloudwatch_logs. Fields that are pointers
// tell "not set" from a value.
type Params struct {
	config.OutputPlugin
	awsx.Params
	InjectKeys

	Format *fluentconf.Section `section:"format" doc:"formatter of the message; without it message_keys, or the record as JSON"`
	Inject *fluentconf.Section `section:"inject" doc:"fields added to each record"`

	GroupName      string `conf:"log_group_name" doc:"log group; placeholders allowed. One of log_group_name, use_tag_as_group, log_group_name_key"`
	TagAsGroup     bool   `conf:"use_tag_as_group" default:"false"`
	GroupNameKey   string `conf:"log_group_name_key" doc:"field, or record accessor, that holds the group's name"`
	RemoveGroupKey bool   `conf:"remove_log_group_name_key" default:"false"`
	GroupFallback  string `conf:"fallback_log_group_name" doc:"group of events that name none"`

	StreamName      string `conf:"log_stream_name" doc:"log stream; placeholders allowed. One of log_stream_name, use_tag_as_stream, log_stream_name_key"`
	TagAsStream     bool   `conf:"use_tag_as_stream" default:"false"`
	StreamNameKey   string `conf:"log_stream_name_key" doc:"field, or record accessor, that holds the stream's name"`
	RemoveStreamKey bool   `conf:"remove_log_stream_name_key" default:"false"`
	StreamFallback  string `conf:"fallback_log_stream_name" doc:"stream of events that name none"`
	SanitizeNames   bool   `conf:"sanitize_names" default:"false" doc:"replace characters that are illegal in names by _ and cut names at 512 characters"`

	AutoCreate        bool   `conf:"auto_create_stream" default:"false" doc:"create missing streams and groups"`
	DropMissingTarget bool   `conf:"drop_missing_target" default:"false" doc:"as Fluentd: with auto_create_stream false, drop the events of a missing group or stream instead of retrying"`
	KMSKeyID          string `conf:"kms_key_id" doc:"KMS key of groups that are created"`
	GroupClass        string `conf:"log_group_class" enum:"STANDARD|INFREQUENT_ACCESS|DELIVERY" doc:"class of groups that are created"`

	Tags               map[string]string `conf:"log_group_aws_tags" doc:"tags of groups that are created; placeholders allowed in keys and values"`
	TagsKey            string            `conf:"log_group_aws_tags_key" doc:"field that holds the tags of the group"`
	RemoveTagsKey      bool              `conf:"remove_log_group_aws_tags_key" default:"false"`
	RetentionDays      *int              `conf:"retention_in_days" doc:"retention of groups that are created"`
	RetentionKey       string            `conf:"retention_in_days_key" doc:"field that holds the retention of the group"`
	RemoveRetentionKey bool              `conf:"remove_retention_in_days_key" default:"false"`

	MessageKeys      []string `conf:"message_keys" doc:"fields that make up the message, joined by a space; without it the message is the record as JSON"`
	MaxMessageLength *int     `conf:"max_message_length" doc:"longest message in characters; longer ones are cut"`
	MaxEvents        int      `conf:"max_events_per_batch" default:"10000" doc:"events in one request, at most 10000"`
	JSONHandler      string   `conf:"json_handler" enum:"yajl|json" default:"yajl" doc:"whose JSON is written; they differ in how control characters are escaped"`
	KeepEmptyFields  bool     `conf:"keep_empty_fields" default:"false" doc:"keep top-level fields that hold the empty string; Fluentd removes them"`
	TrimNewline      bool     `conf:"trim_newline" default:"false" doc:"remove the line end that formatters put behind a message"`
	OnOversize       string   `conf:"on_oversize" enum:"split|truncate|drop" default:"split" doc:"what happens to an event larger than the service takes (1 MiB)"`
	LogFormat        string   `conf:"log_format" doc:"value of the header x-amzn-logs-format, for example json/emf"`

	RetryWait         *time.Duration `conf:"put_log_events_retry_wait" doc:"first wait after a throttled request"`
	RetryLimit        *int           `conf:"put_log_events_retry_limit" doc:"throttled attempts after which a request's events are dropped; without it they are kept"`
	DisableRetryLimit bool           `conf:"put_log_events_disable_retry_limit" default:"false"`
	Concurrency       *int           `conf:"concurrency" alias:"max_in_flight" doc:"requests in flight for this output"`
	Compression       string         `conf:"request_compression" enum:"gzip|none" default:"none" doc:"compression of request bodies"`
	LogRejected       bool           `conf:"log_rejected_request" default:"false" doc:"log what the service rejects; it is always counted"`

	LossNotice string `conf:"loss_notice" enum:"text|json" doc:"after a loss, a line in the stream that says how many events are missing, from when to when, and why; without it only the books say so"`

	EntityKeyAttributes map[string]string `conf:"entity_key_attributes" doc:"key attributes of the entity that sends the logs, for example Type:Service,Name:web,Environment:prod"`
	EntityAttributes    map[string]string `conf:"entity_attributes" doc:"further attributes of that entity"`
}

// InjectKeys are the flat parameters that Fluentd turns into an <inject> section when
// there is none. What they mean is the formatter's business.
type InjectKeys struct {
	IncludeTimeKey bool    `conf:"include_time_key" default:"false"`
	TimeKey        *string `conf:"time_key"`
	TimeFormat     *string `conf:"time_format"`
	TimeType       *string `conf:"time_type"`
	LocalTime      *bool   `conf:"localtime"`
	UTC            *bool   `conf:"utc"`
	Timezone       *string `conf:"timezone"`
	TimeAsEpoch    bool    `conf:"time_as_epoch" default:"false"`
	IncludeTagKey  bool    `conf:"include_tag_key" default:"false"`
	TagKey         *string `conf:"tag_key"`
}

// Limits of PutLogEvents.
const (
	maxRequestBytes = 1_048_576 // sum of the messages' UTF-8 bytes and eventOverhead for each event
	eventOverhead   = 26        // bytes that the service adds to each event
	maxMessageBytes = maxRequestBytes - eventOverhead
	maxEvents       = 10_000
	maxSpanMillis   = 24*60*60*1000 - 1 // first to last; exactly 24 h is already refused by some
	maxNameChars    = 512
)

// onOversize as compiled.
type oversize uint8

const (
	splitLarge oversize = iota
	truncateLarge
	dropLarge
)

// truncationMark ends a message that on_oversize truncate has cut.
const truncationMark = "...[truncated by weir]"
