package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// parseBuffer reads the buffer of a match with these lines inside.
func parseBuffer(t *testing.T, lines string, def BufferDefaults) (Buffer, *Diagnostics) {
	t.Helper()
	root, d := loadText(map[string]string{"t.conf": "<match a>\n" + lines + "\n</match>"})
	if len(d.Errors) > 0 {
		t.Fatal(d.Errors[0])
	}
	return ParseBuffer(root.Sections[0], def, d), d
}

func TestBufferDefaults(t *testing.T) {
	mem, d := parseBuffer(t, "", BufferDefaults{})
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Error(d.Errors, d.Warnings)
	}
	file, _ := parseBuffer(t, "<buffer>\n@type file\n</buffer>", BufferDefaults{})
	if mem.Type != "memory" || mem.File() || mem.ChunkLimit != 8<<20 || mem.TotalLimit != 512<<20 || !mem.FlushAtShutdown || mem.Durability != "os" {
		t.Errorf("memory: %+v", mem)
	}
	if file.Type != "file" || !file.File() || file.ChunkLimit != 256<<20 || file.TotalLimit != 64<<30 || file.FlushAtShutdown || file.Durability != "sync" {
		t.Errorf("file: %+v", file)
	}
	b := file
	if b.FlushMode != "interval" || b.FlushInterval != time.Minute || b.Threads != 1 || b.PerStream != 1 || b.DrainOrder != "oldest_first" || b.Overflow != "throw_exception" || b.Compress != "text" ||
		b.MinFree != nil || b.SyncInterval != time.Second || b.ParkAfter != nil || b.ParkingLimit != nil || b.BurstInterval != nil {
		t.Errorf("%+v", b)
	}
	if b.RetryForever || b.RetryTimeout != 72*time.Hour || b.RetryMaxTimes != nil || b.RetryThreshold != 0.8 || b.RetryType != "exponential_backoff" || b.RetryWait != time.Second || b.RetryBase != 2 || b.RetryMaxWait != nil || !b.RetryRandomize || b.TimekeyWait != 10*time.Minute {
		t.Errorf("%+v", b)
	}
}

func TestBufferKeys(t *testing.T) {
	s3 := BufferDefaults{Keys: []string{"time"}, Timekey: 24 * time.Hour}
	tests := []struct {
		lines  string
		def    BufferDefaults
		keys   string
		tag    bool
		time   bool
		length time.Duration
	}{
		{"<buffer tag, time,$.kubernetes.pod[0]  key>\ntimekey 1h\n</buffer>", s3, "$.kubernetes.pod[0] key", true, true, time.Hour},
		{"<buffer>\n</buffer>", s3, "", false, true, 24 * time.Hour},
		{"", s3, "", false, true, 24 * time.Hour},
		{"<buffer []>\n</buffer>", s3, "", false, false, 24 * time.Hour},
		{"<buffer tag>\n</buffer>", s3, "", true, false, 24 * time.Hour},
		{"<buffer>\nchunk_keys tag,x\n</buffer>", s3, "x", true, false, 24 * time.Hour},
		{"<buffer>\n</buffer>", BufferDefaults{Keys: []string{"tag"}}, "", true, false, 0},
	}
	for _, tt := range tests {
		b, d := parseBuffer(t, tt.lines, tt.def)
		if len(d.Errors) > 0 {
			t.Errorf("%q: %v", tt.lines, d.Errors[0])
		}
		if strings.Join(b.Keys, " ") != tt.keys || b.ByTag != tt.tag || b.ByTime != tt.time || b.Timekey != tt.length {
			t.Errorf("%q: keys %q tag %v time %v timekey %v", tt.lines, b.Keys, b.ByTag, b.ByTime, b.Timekey)
		}
	}
}

func TestFlushMode(t *testing.T) {
	tests := []struct{ lines, mode, warning string }{
		{"<buffer>\n</buffer>", "interval", ""},
		{"<buffer time>\ntimekey 1h\n</buffer>", "lazy", ""},
		{"<buffer>\nflush_mode immediate\n</buffer>", "immediate", ""},
		{"<buffer time>\ntimekey 1h\nflush_interval 5\n</buffer>", "lazy", "flush_interval together with the chunk key time is ignored"},
		{"<buffer time>\ntimekey 1h\nflush_interval 5\nflush_mode interval\n</buffer>", "interval", ""},
		{"flush_interval 3\n<buffer time>\ntimekey 1h\n</buffer>", "interval", "flush_interval beside a <buffer> section"},
		{"flush_interval 3", "interval", ""},
	}
	for _, tt := range tests {
		b, d := parseBuffer(t, tt.lines, BufferDefaults{})
		if len(d.Errors) > 0 || b.FlushMode != tt.mode {
			t.Errorf("%q: mode %s, errors %v", tt.lines, b.FlushMode, d.Errors)
		}
		got := strings.Join(texts(d.Warnings), "\n")
		if tt.warning == "" && got != "" || !strings.Contains(got, tt.warning) {
			t.Errorf("%q: warnings %q, want %q", tt.lines, got, tt.warning)
		}
	}
}

func TestFlatParameters(t *testing.T) {
	b, d := parseBuffer(t, `buffer_type file
buffer_path /var/log/b
num_threads 4
flush_interval 5s
try_flush_interval 2
queued_chunk_flush_interval 0.1
disable_retry_limit true
retry_limit 9
max_retry_wait 30s
buffer_chunk_limit 2m
buffer_queue_limit 64
buffer_queue_full_action exception
flush_at_shutdown true
retry_wait 3
time_slice_format %Y%m%d%H
time_slice_wait 1m
utc`, BufferDefaults{})
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Fatal(d.Errors, d.Warnings)
	}
	if b.Type != "file" || b.Path != "/var/log/b" || b.Threads != 4 || b.FlushInterval != 5*time.Second || b.ThreadInterval != 2 || *b.BurstInterval != 0.1 || !b.RetryForever || *b.RetryMaxTimes != 9 ||
		*b.RetryMaxWait != 30*time.Second || b.ChunkLimit != 2<<20 || b.TotalLimit != 128<<20 || b.Overflow != "throw_exception" || !b.FlushAtShutdown || b.RetryWait != 3*time.Second {
		t.Errorf("%+v", b)
	}
	if !b.ByTime || b.Timekey != time.Hour || b.TimekeyWait != time.Minute || !b.TimekeyUseUTC || b.FlushMode != "interval" {
		t.Errorf("%+v", b)
	}
	// A path alone makes a file buffer.
	if b, _ := parseBuffer(t, "buffer_path /x", BufferDefaults{}); b.Type != "file" {
		t.Errorf("%+v", b)
	}
	// Flat parameters have no effect beside a section.
	if b, _ := parseBuffer(t, "num_threads 4\n<buffer>\n</buffer>", BufferDefaults{}); b.Threads != 1 {
		t.Errorf("%+v", b)
	}
}

func TestBufferOwnParameters(t *testing.T) {
	b, d := parseBuffer(t, `<buffer>
@type file
durability interval
sync_interval 0.5
min_free_space 1g
compress zstd
overflow_action drop_newest
parking_limit_size 32m
park_after 5m
max_in_flight 8
max_in_flight_per_stream 2
drain_order live_first
</buffer>`, BufferDefaults{})
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Fatal(d.Errors, d.Warnings)
	}
	if b.Durability != "interval" || b.SyncInterval != 500*time.Millisecond || *b.MinFree != 1<<30 || b.Compress != "zstd" || b.Overflow != "drop_newest" || *b.ParkingLimit != 32<<20 || *b.ParkAfter != 5*time.Minute || b.Threads != 8 || b.PerStream != 2 || b.DrainOrder != "live_first" {
		t.Errorf("%+v", b)
	}
}

func TestBufferWarnings(t *testing.T) {
	tests := []struct{ lines, want string }{
		{"<buffer>\nflush_at_shutdown false\n</buffer>", "loses what waits"},
		{"<buffer tag,a,b,c>\n</buffer>", "four or more chunk keys"},
		{"<buffer>\ndrain_rate 5\n</buffer>", "drain_rate has no effect with drain_order oldest_first"},
		{"<buffer>\ndurability sync\n</buffer>", "durability has no effect with a memory buffer"},
		{"<buffer>\nchunk_limit_size 2g\ntotal_limit_size 1g\n</buffer>", "chunk_limit_size is larger than total_limit_size"},
		{"<buffer>\nbuffer_chunk_limit 2m\n</buffer>", "buffer_chunk_limit has no effect inside <buffer>; write chunk_limit_size"},
		{"<buffer>\nflush_intervall 2m\n</buffer>", "did you mean flush_interval?"},
		{"<buffer>\nflush_interval 500ms\n</buffer>", `"500ms" is read as 30000 seconds, as by Fluentd; write 0.5 for 500ms`},
	}
	for _, tt := range tests {
		_, d := parseBuffer(t, tt.lines, BufferDefaults{})
		if len(d.Errors) > 0 || !slices.ContainsFunc(texts(d.Warnings), func(s string) bool { return strings.Contains(s, tt.want) }) {
			t.Errorf("%q: errors %v, warnings %v, want %q", tt.lines, d.Errors, d.Warnings, tt.want)
		}
	}
}

func TestSystem(t *testing.T) {
	root, d := loadText(map[string]string{"t.conf": "<system>\nworkers 4\nroot_dir /var/lib/weir\nlog_level debug\nshutdown_grace 5s\nmemory_limit 64m\n<log>\nformat json\nrotate_age daily\n</log>\n</system>"})
	sys := ParseSystem(root, d)
	if len(d.Errors)+len(d.Warnings) > 0 {
		t.Fatal(d.Errors, d.Warnings)
	}
	if sys.Workers != 4 || sys.RootDir != "/var/lib/weir" || sys.LogLevel != "debug" || sys.ShutdownGrace != 5*time.Second || *sys.MemoryLimit != 64<<20 || sys.Log.Format != "json" || sys.Log.RotateAge != "daily" {
		t.Errorf("%+v", sys)
	}
	empty, d := loadText(map[string]string{"t.conf": ""})
	sys = ParseSystem(empty, d)
	if len(d.Errors)+len(d.Warnings) > 0 || sys.Workers != 1 || sys.LogLevel != "info" || sys.ShutdownGrace != 25*time.Second || !sys.EnableInputMetrics || sys.Log != nil {
		t.Errorf("%+v %v", sys, d.Errors)
	}
}
