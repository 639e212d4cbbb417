package config

import (
	"fmt"
	"strconv"

	"time"

	"weir/internal/fluentconf"
)

// System is what <system> says. Parameters that only steer Ruby processes are accepted and
// have no effect.
type System struct {
	Workers                  int            `conf:"workers" default:"1" min:"1" doc:"accepted for compatibility: one process uses all cores"`
	RestartWorkerInterval    time.Duration  `conf:"restart_worker_interval" default:"0" doc:"accepted for compatibility, without effect"`
	RootDir                  string         `conf:"root_dir" doc:"directory for file buffers without path"`
	LogLevel                 string         `conf:"log_level" alias:"@log_level" enum:"trace|debug|info|warn|error|fatal" default:"info" doc:"log level"`
	SuppressRepeatedTrace    bool           `conf:"suppress_repeated_stacktrace" default:"false" doc:"accepted for compatibility, without effect"`
	IgnoreRepeatedLog        *time.Duration `conf:"ignore_repeated_log_interval" doc:"accepted for compatibility: a lasting fault is logged once"`
	IgnoreSameLog            *time.Duration `conf:"ignore_same_log_interval" doc:"accepted for compatibility: a lasting fault is logged once"`
	EmitErrorLogInterval     *time.Duration `conf:"emit_error_log_interval" doc:"accepted for compatibility: a lasting fault is logged once"`
	SuppressConfigDump       bool           `conf:"suppress_config_dump" default:"false" doc:"accepted for compatibility: the configuration is not dumped"`
	LogEventVerbose          bool           `conf:"log_event_verbose" default:"false" doc:"accepted for compatibility, without effect"`
	WithoutSource            bool           `conf:"without_source" default:"false" doc:"start without sources"`
	WithSourceOnly           bool           `conf:"with_source_only" default:"false" doc:"without effect, and one line says so: what comes in is sent too"`
	RPCEndpoint              string         `conf:"rpc_endpoint" doc:"accepted for compatibility, without effect"`
	EnableGetDump            bool           `conf:"enable_get_dump" default:"false" doc:"accepted for compatibility, without effect"`
	ProcessName              string         `conf:"process_name" doc:"accepted for compatibility, without effect"`
	StrictConfigValue        bool           `conf:"strict_config_value" default:"false" doc:"make odd numbers, sizes, times and booleans errors"`
	EnableMsgpackTimeSupport bool           `conf:"enable_msgpack_time_support" default:"false" doc:"accepted for compatibility, without effect"`
	DisableSharedSocket      *bool          `conf:"disable_shared_socket" doc:"accepted for compatibility, without effect"`
	EnableInputMetrics       bool           `conf:"enable_input_metrics" default:"true" doc:"accepted for compatibility: always on"`
	EnableSizeMetrics        bool           `conf:"enable_size_metrics" default:"false" doc:"accepted for compatibility: always on"`
	EnableJIT                bool           `conf:"enable_jit" default:"false" doc:"accepted for compatibility, without effect"`
	FilePermission           string         `conf:"file_permission" doc:"octal mode of files"`
	DirPermission            string         `conf:"dir_permission" doc:"octal mode of directories"`
	ConfigIncludeDir         *string        `conf:"config_include_dir" doc:"directory whose files are appended to the configuration"`
	Umask                    string         `conf:"umask" doc:"octal umask of the process"`

	ShutdownGrace time.Duration `conf:"shutdown_grace" default:"25s" min:"0" doc:"time for sending what waits when weir stops"`
	MemoryLimit   *Size         `conf:"memory_limit" doc:"memory of the process that the collector keeps to; half of it bounds the messages that inputs have in progress"`

	Log           *SystemLog          `section:"log" doc:"weir's own log"`
	Metrics       *fluentconf.Section `section:"metrics" doc:"accepted for compatibility, without effect"`
	CounterServer *fluentconf.Section `section:"counter_server" doc:"accepted for compatibility, without effect"`
	CounterClient *fluentconf.Section `section:"counter_client" doc:"accepted for compatibility, without effect"`
	SourceOnly    *fluentconf.Section `section:"source_only_buffer" doc:"accepted for compatibility, without effect"`
}

// SystemLog is <log> of <system>.
type SystemLog struct {
	Path            string `conf:"path" doc:"file that the log goes to instead of standard error; opened again at SIGUSR1"`
	Format          string `conf:"format" enum:"text|json" default:"text" doc:"form of log lines"`
	TimeFormat      string `conf:"time_format" default:"%Y-%m-%d %H:%M:%S %z" doc:"form of times"`
	RotateAge       string `conf:"rotate_age" doc:"how many log files there are, the present one included (7 if only rotate_size is set), or daily, weekly, monthly"`
	RotateSize      *Size  `conf:"rotate_size" doc:"size at which the log file is renamed, for a number of files; 1 MiB if only rotate_age is set"`
	ForceStacktrace string `conf:"forced_stacktrace_level" default:"none" doc:"accepted for compatibility, without effect"`
}

// CheckRotateAge says what is wrong with a rotate_age.
func CheckRotateAge(age string) error {
	switch age {
	case "daily", "weekly", "monthly":
		return nil
	}
	if n, err := strconv.Atoi(age); err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number of files nor daily, weekly or monthly", age)
	}
	return nil
}

// ParseSystem reads the <system> section of a configuration; without one all is default.
func ParseSystem(root *fluentconf.Section, d *Diagnostics) System {
	var sys System
	all := root.All("system")
	if len(all) > 1 {
		d.Error(all[1].Pos, "section <system> may stand only once", "the first one is at "+all[0].Pos.String())
	}
	var s *fluentconf.Section
	if len(all) > 0 {
		s = all[0]
	}
	Decode(s, &sys, d)
	if sys.Log != nil && sys.Log.RotateAge != "" {
		if err := CheckRotateAge(sys.Log.RotateAge); err != nil {
			d.Error(s.All("log")[0].Pos, "rotate_age: "+err.Error(), "")
		}
	}
	if s == nil {
		return sys
	}
	if sys.WithSourceOnly {
		d.Note(s.Get("with_source_only").Pos, "with_source_only has no effect: what comes in is filtered and sent too", "")
	}
	if p := s.Get("rpc_endpoint"); p != nil && sys.RPCEndpoint != "" {
		d.Warn(p.Pos, "rpc_endpoint has no effect: weir has no RPC", "use signals: SIGHUP reads the configuration again, SIGUSR1 sends what waits, SIGTERM stops")
	}
	return sys
}
