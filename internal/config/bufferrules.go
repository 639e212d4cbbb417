package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/internal/fluentconf"
)

// renamed maps the buffer parameters of Fluentd 0.12, which stood beside the output's own,
// to those of <buffer>.
func renamed(key string) string {
	switch key {
	case "buffer_type":
		return "@type"
	case "buffer_path":
		return "path"
	case "num_threads":
		return "flush_thread_count"
	case "try_flush_interval":
		return "flush_thread_interval"
	case "queued_chunk_flush_interval":
		return "flush_thread_burst_interval"
	case "disable_retry_limit":
		return "retry_forever"
	case "retry_limit":
		return "retry_max_times"
	case "max_retry_wait":
		return "retry_max_interval"
	case "buffer_chunk_limit":
		return "chunk_limit_size"
	case "buffer_queue_limit":
		return "queue_limit_length"
	case "buffer_queue_full_action":
		return "overflow_action"
	case "time_slice_wait":
		return "timekey_wait"
	case "flush_interval", "flush_at_shutdown", "retry_wait":
		return key
	}
	return ""
}

// flatBufferKeys lists the parameters of an output that belong to its buffer.
func flatBufferKeys() []string {
	return []string{"buffer_type", "buffer_path", "num_threads", "try_flush_interval", "queued_chunk_flush_interval",
		"disable_retry_limit", "retry_limit", "max_retry_wait", "buffer_chunk_limit", "buffer_queue_limit",
		"buffer_queue_full_action", "time_slice_wait", "time_slice_format", "flush_interval", "flush_at_shutdown", "retry_wait"}
}

// flatBuffer makes the parameters of a <buffer> section from the flat ones.
func flatBuffer(parent *fluentconf.Section, d *Diagnostics) []fluentconf.Param {
	var out []fluentconf.Param
	sliced := parent.Get("time_slice_format")
	for _, p := range parent.Params {
		switch key := renamed(p.Key); {
		case key == "overflow_action" && p.Value.Text == "exception":
			p.Key, p.Value.Text = key, "throw_exception"
			out = append(out, p)
		case key != "":
			p.Key = key
			out = append(out, p)
		case p.Key == "time_slice_format":
			n, ok := sliceLength(p.Value.Text)
			if !ok {
				d.Error(p.Value.Pos, fmt.Sprintf("time_slice_format %q has no %%d, %%H, %%M or %%S", p.Value.Text), "write <buffer time> with a timekey")
				continue
			}
			keys := p
			keys.Key, keys.Value.Text = "chunk_keys", "time"
			p.Key, p.Value.Text = "timekey", n
			out = append(out, keys, p)
		case sliced != nil && p.Key == "utc":
			p.Key = "timekey_use_utc"
			out = append(out, p)
		case sliced != nil && p.Key == "timezone":
			p.Key = "timekey_zone"
			out = append(out, p)
		}
	}
	return out
}

// sliceLength is the unit of the finest part of a time format.
func sliceLength(format string) (string, bool) {
	for _, u := range [][2]string{{"%S", "1s"}, {"%T", "1s"}, {"%M", "60s"}, {"%H", "3600s"}, {"%d", "86400s"}, {"%F", "86400s"}} {
		if strings.Contains(format, u[0]) {
			return u[1], true
		}
	}
	return "", false
}

// warnOldNames helps with a 0.12 name inside <buffer>, where Fluentd does not know it.
func warnOldNames(s *fluentconf.Section, d *Diagnostics) {
	if s.Name != "buffer" {
		return
	}
	for _, p := range s.Params {
		if n := renamed(p.Key); n != "" && n != p.Key {
			d.Warn(p.Pos, p.Key+" has no effect inside <buffer>", "write "+n)
		}
	}
}

func splitKeys(s string) []string {
	keys := []string{}
	if strings.TrimSpace(s) == "[]" {
		return keys
	}
	return append(keys, strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })...)
}

// bufferCheck applies the rules of <buffer>.
type bufferCheck struct {
	b      *Buffer
	s      *fluentconf.Section
	d      *Diagnostics
	parent *fluentconf.Section
	flat   bool
}

// posOf is where a parameter stands, or the section.
func (k *bufferCheck) posOf(key string) fluentconf.Pos {
	if p := k.s.Get(key); p != nil {
		return p.Value.Pos
	}
	return k.s.Pos
}

// set says whether a parameter has a value of its own.
func (k *bufferCheck) set(key string) bool {
	p := k.s.Get(key)
	return p != nil && p.Value.State == fluentconf.Text
}

var (
	plainKey = regexp.MustCompile(`^[-_.@a-zA-Z0-9]+$`)
	accessor = regexp.MustCompile(`^\$(?:\.[^.\[\]$]+(?:\[-?[0-9]+\])*)+$`)
	zone     = regexp.MustCompile(`^[+-][0-9]{2}(?::?[0-9]{2})?$|^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)+$`)
	octal    = regexp.MustCompile(`^0?[0-7]{3,4}$`)
)

func (k *bufferCheck) keys(arg []string, def BufferDefaults) {
	keys := arg
	if keys == nil {
		keys = k.b.KeyList
	}
	if keys == nil {
		keys = def.Keys
	}
	for _, key := range keys {
		switch {
		case key == "tag":
			k.b.ByTag = true
		case key == "time":
			k.b.ByTime = true
		case strings.HasPrefix(key, "$["):
			k.d.Error(k.s.Pos, fmt.Sprintf("chunk key %s: the bracket form is not supported here", key), "write the dot form, such as $.kubernetes.pod_name")
		case plainKey.MatchString(key), accessor.MatchString(key):
			k.b.Keys = append(k.b.Keys, key)
		default:
			k.d.Error(k.s.Pos, fmt.Sprintf("chunk key %q is not a field name", key), "use letters, digits and - _ . @, or an accessor such as $.a.b")
		}
	}
	if n := len(k.b.Keys); n > 3 || k.b.ByTag && n > 2 {
		k.d.Warn(k.s.Pos, "four or more chunk keys", "each combination of values waits by itself")
	}
}

func (k *bufferCheck) time(def BufferDefaults) {
	b := k.b
	if !k.set("timekey") {
		b.Timekey = def.Timekey
	}
	if b.ByTime && b.Timekey <= 0 {
		text := "<buffer time> needs the parameter timekey"
		if k.set("timekey") {
			text = "timekey must be more than 0"
		}
		k.d.Error(k.posOf("timekey"), text, "write for example timekey 1h")
	}
	if z := b.TimekeyZone; z != "" && !zone.MatchString(z) {
		k.d.Error(k.posOf("timekey_zone"), fmt.Sprintf("%q is not a time zone", z), "write +09:00 or a name such as Asia/Tokyo; for UTC write timekey_use_utc true")
		b.TimekeyZone = ""
	}
}

func (k *bufferCheck) limits() {
	b := k.b
	if !k.set("chunk_limit_size") || b.ChunkLimit <= 0 {
		b.ChunkLimit = 8 << 20
		if b.File() {
			b.ChunkLimit = 256 << 20
		}
	}
	if !k.set("total_limit_size") || b.TotalLimit <= 0 {
		b.TotalLimit = 512 << 20
		if b.File() {
			b.TotalLimit = 64 << 30
		}
		if b.QueueLength != nil && *b.QueueLength > 0 {
			b.TotalLimit = Size(min(math.MaxInt64/int64(b.ChunkLimit), int64(*b.QueueLength))) * b.ChunkLimit
		}
	}
	if k.set("chunk_limit_size") && b.ChunkLimit > b.TotalLimit {
		k.d.Warn(k.posOf("chunk_limit_size"), "chunk_limit_size is larger than total_limit_size", "the buffer is full before a chunk is")
	}
	if !b.File() {
		for _, key := range []string{"durability", "sync_interval", "min_free_space", "path"} {
			if k.set(key) {
				k.d.Warn(k.posOf(key), key+" has no effect with a memory buffer", "write @type file")
			}
		}
	}
	if b.Durability == "" {
		b.Durability = "os"
		if b.File() {
			b.Durability = "sync"
		}
	}
	for _, key := range []string{"file_permission", "dir_permission"} {
		if k.set(key) && !octal.MatchString(k.s.Get(key).Value.Text) {
			k.d.Error(k.posOf(key), key+" is not an octal file mode", "write for example 0644")
		}
	}
}

func (k *bufferCheck) flush() {
	b := k.b
	if !k.set("flush_at_shutdown") {
		b.FlushAtShutdown = !b.File()
	} else if !b.FlushAtShutdown && !b.File() {
		k.d.Warn(k.posOf("flush_at_shutdown"), "a memory buffer with flush_at_shutdown false loses what waits when Fluentd stops; weir sends it, as far as shutdown_grace allows", "remove the line or write @type file")
	}
	if k.set("drain_rate") && b.DrainOrder != "live_first" {
		k.d.Warn(k.posOf("drain_rate"), "drain_rate has no effect with drain_order "+b.DrainOrder, "write drain_order live_first, or remove the line")
	}
	outside := k.parent.Get("flush_interval")
	if !k.flat && outside != nil {
		k.d.Warn(outside.Pos, "flush_interval beside a <buffer> section only makes flush_mode interval", "move it into <buffer>")
	}
	explicit := b.FlushMode != "default"
	if !explicit {
		b.FlushMode = "interval"
		if b.ByTime && outside == nil {
			b.FlushMode = "lazy"
		}
	}
	if b.FlushMode == "lazy" && b.ByTime && !k.set("timekey") && b.Timekey >= 24*time.Hour {
		k.d.Warn(k.s.Pos, fmt.Sprintf("timekey is not set: events wait until their day is over, and timekey_wait (%s) longer", b.TimekeyWait),
			"write timekey 1h or less in <buffer>, or flush_mode interval; timekey 1d if a day is meant")
	}
	if !k.set("flush_interval") || b.FlushMode == "interval" {
		return
	}
	if explicit {
		k.d.Error(k.posOf("flush_interval"), fmt.Sprintf("flush_interval and flush_mode %s exclude each other", b.FlushMode), "write flush_mode interval or remove flush_interval")
	} else {
		k.d.Warn(k.posOf("flush_interval"), "flush_interval together with the chunk key time is ignored: events wait for the end of their timekey", "write flush_mode interval to have it")
	}
}

func (k *bufferCheck) retry() {
	b := k.b
	if b.RetryThreshold <= 0 || b.RetryThreshold >= 1 {
		k.d.Error(k.posOf("retry_secondary_threshold"), fmt.Sprintf("retry_secondary_threshold %s is not between 0 and 1", strconv.FormatFloat(b.RetryThreshold, 'g', -1, 64)), "write for example 0.8")
		b.RetryThreshold = 0.8
	}
	if k.set("retry_timeout") && b.RetryTimeout <= 0 && !b.RetryForever {
		k.d.Error(k.posOf("retry_timeout"), "retry_timeout must be more than 0", "write retry_forever true for no limit")
		b.RetryTimeout = 72 * time.Hour
	}
}
