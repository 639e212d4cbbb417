package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// subject is a program to measure.
type subject struct {
	name, path, version string
	fluent              bool // it is Fluent Bit
}

func findFluentBit(flag string) string {
	switch flag {
	case "off", "":
		return ""
	case "auto":
		path, err := exec.LookPath("fluent-bit")
		if err != nil {
			return ""
		}
		return path
	}
	return flag
}

func (s *subject) readVersion(ctx context.Context) error {
	arg := "version"
	if s.fluent {
		arg = "--version"
	}
	out, err := exec.CommandContext(ctx, s.path, arg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w; is it built? Try: make build", s.path, arg, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	s.version = fmt.Sprintf("%s = %s (%s)", s.name, s.path, first)
	return nil
}

// setup is how a subject is configured.
type setup struct {
	key      string  // message key; "": the whole record
	flush    float64 // flush_interval
	streams  bool    // a stream for each tag
	limit    string  // total_limit_size
	threads  int     // flush_thread_count
	overflow string
	rewrite  bool // events get new fields and two new tags on the way
}

func (u setup) withDefaults() setup {
	if u.flush == 0 {
		u.flush = 1
	}
	if u.limit == "" {
		u.limit = "1g"
	}
	if u.threads == 0 {
		u.threads = 1
	}
	if u.overflow == "" {
		u.overflow = "block"
	}
	return u
}

// running is a subject at work.
type running struct {
	*process
	s       *subject
	dir     string
	addr    string // of its forward input
	http    string // of weir's status page
	profile string // of the profiler, if it has one
}

// freePort finds a port that nobody uses just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start configures and starts the subject, and waits until it listens.
func (s *subject) start(ctx context.Context, dir string, k *sink, u setup) (*running, error) {
	u = u.withDefaults()
	if err := os.RemoveAll(filepath.Join(dir, "buffer")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	local := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	r := &running{s: s, dir: dir, addr: local(0), http: local(1), profile: local(2)}
	file := filepath.Join(dir, s.name+".conf")
	args := []string{"run", "-c", file, "--http", r.http}
	text := weirConfig(ports[0], k.addr, filepath.Join(dir, "buffer"), u)
	if s.fluent {
		args = []string{"-c", file}
		text = fluentConfig(ports[0], k.addr, filepath.Join(dir, "buffer"), u)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	env := []string{"AWS_CA_BUNDLE=" + k.cert, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_EC2_METADATA_DISABLED=true",
		profileVariable + "=" + r.profile}
	var err error
	if r.process, err = start(ctx, filepath.Join(dir, s.name+".log"), env, s.path, args...); err != nil {
		return nil, err
	}
	for range 400 {
		if c, err := net.Dial("tcp", r.addr); err == nil {
			return r, c.Close()
		}
		if err := r.alive(); err != nil {
			return nil, r.failed(err)
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil, r.failed(errors.New("it does not listen after 10 s"))
}

// failed adds the end of the subject's log to an error.
func (r *running) failed(err error) error {
	log, _ := os.ReadFile(filepath.Join(r.dir, r.s.name+".log"))
	if len(log) > 2000 {
		log = log[len(log)-2000:]
	}
	return fmt.Errorf("%s: %w; its log ends with:\n%s", r.s.name, err, log)
}

// rewriteRoute is what pod-logs.conf does with events before they are stored.
const rewriteRoute = `<filter bench bench.*>
  @type record_transformer
  enable_ruby true
  <record>
    namespace ${record["kubernetes"]["namespace_name"]}
    pod ${record["kubernetes"]["pod_name"]}
  </record>
</filter>
<match bench bench.*>
  @type rewrite_tag_filter
  <rule>
    key namespace
    pattern /(.+)/
    tag step.$1
  </rule>
</match>
<match step.*>
  @type rewrite_tag_filter
  <rule>
    key pod
    pattern /(.+)/
    tag ${tag}.pod.$1
  </rule>
</match>
<match **>
`

// weirConfig is a configuration as a user would write it: file buffer, durability sync.
func weirConfig(port int, endpoint, dir string, u setup) string {
	message, stream := "", "log_stream_name bench"
	if u.key != "" {
		message = "message_keys " + u.key
	}
	if u.streams {
		stream = "use_tag_as_stream true"
	}
	route := "<match **>\n"
	if u.rewrite {
		route = rewriteRoute
	}
	return fmt.Sprintf(`<source>
  @type forward
  bind 127.0.0.1
  port %d
</source>
%s  @type cloudwatch_logs
  region us-east-1
  endpoint https://%s
  log_group_name bench
  %s
  %s
  <buffer>
    @type file
    path %s
    durability sync
    total_limit_size %s
    flush_interval %g
    flush_thread_count %d
    overflow_action %s
    retry_forever true
    retry_max_interval 5s
  </buffer>
</match>
`, port, route, endpoint, stream, message, dir, u.limit, u.flush, u.threads, u.overflow)
}

// fluentConfig is the same for Fluent Bit.
func fluentConfig(port int, endpoint, dir string, u setup) string {
	host, to, _ := net.SplitHostPort(endpoint)
	key, stream := "", "log_stream_name   bench"
	if u.key != "" {
		key = "log_key           " + u.key
	}
	if u.streams {
		stream = "log_stream_prefix from-"
	}
	return fmt.Sprintf(`[SERVICE]
    flush             %g
    log_level         warn
    storage.path      %s
    storage.sync      full
    storage.checksum  off
[INPUT]
    name              forward
    listen            127.0.0.1
    port              %d
    storage.type      filesystem
    buffer_chunk_size 1M
    buffer_max_size   64M
[OUTPUT]
    name              cloudwatch_logs
    match             *
    region            us-east-1
    endpoint          %s
    port              %s
    tls.verify        off
    log_group_name    bench
    %s
    %s
    auto_create_group off
    retry_limit       no_limits
`, u.flush, dir, port, host, to, stream, key)
}
