package config

import (
	"time"

	"weir/internal/fluentconf"
)

// Buffer is what a <buffer> section says, with Fluentd's defaults filled in. All durations
// are exact; sizes are bytes.
type Buffer struct {
	Pos fluentconf.Pos // of the section, or of the output when it has none

	Type     string   `conf:"@type" alias:"type" enum:"memory|file|file_single" doc:"where accepted events wait"`
	KeyList  []string `conf:"chunk_keys" doc:"chunk keys, as an alternative to the argument"`
	Path     string   `conf:"path" doc:"directory or pattern of a file buffer; without it <root_dir> and @id make one"`
	Suffix   string   `conf:"path_suffix" doc:"accepted for compatibility, without effect"`
	FileMode string   `conf:"file_permission" doc:"octal mode of files"`
	DirMode  string   `conf:"dir_permission" doc:"octal mode of directories"`

	Timekey       time.Duration `conf:"timekey" doc:"length of the time window of a chunk key time"`
	TimekeyWait   time.Duration `conf:"timekey_wait" default:"600" doc:"how long to wait for late events of a window"`
	TimekeyUseUTC bool          `conf:"timekey_use_utc" default:"false" doc:"windows and time placeholders in UTC"`
	TimekeyZone   string        `conf:"timekey_zone" doc:"zone of windows and time placeholders: +09:00 or Asia/Tokyo"`

	FlushMode          string        `conf:"flush_mode" enum:"default|lazy|interval|immediate" default:"default" doc:"when waiting events are sent; default is lazy with the key time, else interval"`
	FlushInterval      time.Duration `conf:"flush_interval" default:"60" min:"0" doc:"longest time that an event waits for company, fractions of a second allowed"`
	FlushAtShutdown    bool          `conf:"flush_at_shutdown" doc:"accepted for compatibility: what can be sent within shutdown_grace is sent in any case, the rest stays in file buffers"`
	Threads            int           `conf:"flush_thread_count" alias:"max_in_flight" default:"1" min:"0" doc:"requests in flight for this output"`
	ThreadInterval     float64       `conf:"flush_thread_interval" default:"1.0" doc:"accepted for compatibility: nothing is polled"`
	BurstInterval      *float64      `conf:"flush_thread_burst_interval" doc:"pause after each request; Fluentd's default of one second is not kept"`
	PerStream          int           `conf:"max_in_flight_per_stream" default:"1" min:"1" doc:"requests in flight for one stream; above 1 the order of events of one time may be lost"`
	DelayedCommit      time.Duration `conf:"delayed_commit_timeout" default:"60" doc:"accepted for compatibility: no output here acknowledges later"`
	DrainOrder         string        `conf:"drain_order" enum:"oldest_first|live_first" default:"oldest_first" doc:"what is sent first after an outage: what has waited, or new events with what has waited beside them"`
	DrainRate          int           `conf:"drain_rate" default:"10" min:"1" doc:"requests a second, at most, for what has waited with drain_order live_first"`
	QueuedChunksLimit  *int          `conf:"queued_chunks_limit_size" doc:"accepted for compatibility, without effect"`
	ChunkFullThreshold float64       `conf:"chunk_full_threshold" default:"0.95" doc:"share of its limit at which a chunk is sent"`

	Overflow        string         `conf:"overflow_action" enum:"throw_exception|block|drop_oldest_chunk|drop_newest" default:"throw_exception" doc:"what happens to events that do not fit"`
	TotalLimit      Size           `conf:"total_limit_size" min:"1" doc:"bytes of the whole buffer; default 512m for memory, 64g for file"`
	ChunkLimit      Size           `conf:"chunk_limit_size" min:"1" doc:"bytes of a chunk; default 8m for memory, 256m for file"`
	ChunkRecords    *int           `conf:"chunk_limit_records" doc:"events of a chunk"`
	QueueLength     *int           `conf:"queue_limit_length" doc:"older way to say total_limit_size: chunks of chunk_limit_size"`
	Compress        string         `conf:"compress" enum:"text|gzip|zstd" default:"text" doc:"how events are stored"`
	DecompressLimit Size           `conf:"decompression_size_limit" default:"256m" doc:"accepted for compatibility: chunks are unpacked piece by piece"`
	CalcNumRecords  bool           `conf:"calc_num_records" default:"true" doc:"accepted for compatibility, without effect"`
	ChunkFormat     string         `conf:"chunk_format" enum:"auto|msgpack|text" default:"auto" doc:"accepted for compatibility, without effect"`
	BackupDisabled  bool           `conf:"disable_chunk_backup" default:"false" doc:"accepted for compatibility: what can never be delivered is booked with its reason, not backed up"`
	MinFree         *Size          `conf:"min_free_space" doc:"free space that a file buffer leaves on its file system; default 256m, or a quarter of the file system if that is less"`
	Durability      string         `conf:"durability" enum:"sync|interval|os" doc:"when an event counts as stored: after fdatasync, with one every sync_interval, or after the write; default sync for file"`
	SyncInterval    time.Duration  `conf:"sync_interval" default:"1s" doc:"time between two fdatasync for durability interval"`
	ParkAfter       *time.Duration `conf:"park_after" doc:"how long a stream may fail before it is parked"`
	ParkingLimit    *Size          `conf:"parking_limit_size" doc:"bytes that parked streams may hold"`

	RetryForever   bool           `conf:"retry_forever" default:"false" doc:"never give up"`
	RetryTimeout   time.Duration  `conf:"retry_timeout" default:"72h" doc:"time after the first failure at which events are given up"`
	RetryMaxTimes  *int           `conf:"retry_max_times" doc:"attempts after the first failure"`
	RetryThreshold float64        `conf:"retry_secondary_threshold" default:"0.8" doc:"share of the retry time after which <secondary> is used"`
	RetryType      string         `conf:"retry_type" enum:"exponential_backoff|periodic" default:"exponential_backoff" doc:"how waits grow"`
	RetryWait      time.Duration  `conf:"retry_wait" default:"1" min:"0" doc:"first wait"`
	RetryBase      float64        `conf:"retry_exponential_backoff_base" default:"2" min:"1" doc:"factor from wait to wait"`
	RetryMaxWait   *time.Duration `conf:"retry_max_interval" doc:"longest wait"`
	RetryRandomize bool           `conf:"retry_randomize" default:"true" doc:"spread the waits"`

	// What follows is worked out from the above.

	Keys   []string // record fields and accessors among the chunk keys, in order
	ByTag  bool     // tag is a chunk key
	ByTime bool     // time is a chunk key
}

// BufferDefaults is what an output puts in place of Fluentd's general defaults.
type BufferDefaults struct {
	Type    string        // buffer type when none is given; "" is memory
	Keys    []string      // chunk keys when the section has no argument
	Timekey time.Duration // timekey when the key time is in use and none is given
}

// File says whether the buffer is kept on disk.
func (b *Buffer) File() bool { return b.Type != "memory" }

// ParseBuffer reads the <buffer> section of an output, or the flat parameters of Fluentd
// 0.12 when there is no section, fills in defaults and checks the rules.
func ParseBuffer(parent *fluentconf.Section, def BufferDefaults, d *Diagnostics) Buffer {
	s := &fluentconf.Section{Name: "buffer", Pos: parent.Pos}
	b := Buffer{}
	flat := true
	if all := parent.All("buffer"); len(all) > 0 {
		s, flat = all[0], false
	} else {
		s.Params = flatBuffer(parent, d)
	}
	warnOldNames(s, d)
	c := decodeBuffer(s, &b, d)
	b.Pos = s.Pos
	if b.Type == "" {
		b.Type = def.Type
	}
	if b.Type == "" {
		b.Type = "memory"
		if b.Path != "" && flat {
			b.Type = "file"
		}
	}
	k := &bufferCheck{b: &b, s: s, d: d, parent: parent, flat: flat}
	k.keys(c, def)
	k.time(def)
	k.limits()
	k.flush()
	k.retry()
	return b
}

// decodeBuffer decodes the parameters and gives the argument's keys; nil without argument.
func decodeBuffer(s *fluentconf.Section, b *Buffer, d *Diagnostics) []string {
	Decode(s, b, d)
	if !s.HasArg {
		return nil
	}
	return splitKeys(s.Arg)
}

// TimekeyLayout is the time layout that tells windows of timekey apart, as out_file and s3 use
// it in paths; "" without a timekey.
func TimekeyLayout(timekey time.Duration) string {
	switch {
	case timekey == 0:
		return ""
	case timekey < time.Minute:
		return "%Y%m%d%H%M%S"
	case timekey < time.Hour:
		return "%Y%m%d%H%M"
	case timekey < 24*time.Hour:
		return "%Y%m%d%H"
	}
	return "%Y%m%d"
}
