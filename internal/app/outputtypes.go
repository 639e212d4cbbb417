package app

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/fluentconf"
	"weir/internal/formatter"
	"weir/internal/output"
	"weir/internal/output/cloudwatch"
	"weir/internal/output/file"
	"weir/internal/output/s3"
	"weir/internal/output/stdout"
	"weir/internal/placeholder"
	"weir/internal/ruby/timefmt"
)

// outputType reads what is particular to an output's type: the one switch over types.
// False after an error.
func (p *planner) outputType(o *outputPlan, s *fluentconf.Section, typ string, pos fluentconf.Pos) bool {
	switch typ {
	case "":
		return false
	case "cloudwatch_logs":
		p.cloudwatch(o, s)
	case "stdout":
		p.stdout(o, s)
	case "file":
		p.file(o, s)
	case "s3":
		p.s3(o, s)
	case "null":
		o.null = true
		var params struct {
			config.OutputPlugin
			NeverFlush bool `conf:"never_flush" default:"false" doc:"for tests of Fluentd, without effect"`
		}
		config.Decode(s, &params, p.d)
	case "prometheus":
		o.null, o.counts = true, p.metrics.NewFilter(s, p.d)
		return o.counts != nil
	case "secondary_file":
		p.d.Error(pos, "secondary_file can only be used in a <secondary> section", "write @type file, or move it into the <secondary> of another output")
		return false
	default:
		p.d.Error(pos, fmt.Sprintf("weir has no output of type %q", typ), "outputs are cloudwatch_logs, s3, file, stdout, null, prometheus, copy, roundrobin, relabel, route, rewrite_tag_filter and detect_exceptions")
		return false
	}
	return true
}

// formatting is <format> and <inject>, as every output that writes text has them.
type formatting struct {
	Format *fluentconf.Section `section:"format" doc:"formatter of the messages"`
	Inject *fluentconf.Section `section:"inject" doc:"fields put into each record before formatting"`
}

// older takes the older parameters of s when there is no <format>.
func (f *formatting) older(s *fluentconf.Section) {
	if f.Format == nil {
		f.Format = formatter.FlatFormat(s)
	}
}

// names is what the chunk keys say about placeholders.
func (o *outputPlan) names() placeholder.Options {
	b := &o.buffer
	n := placeholder.Options{Location: o.zone()}
	if b.ByTag {
		n.ChunkKeys = append(n.ChunkKeys, "tag")
	}
	if b.ByTime {
		n.ChunkKeys = append(n.ChunkKeys, "time")
		n.Timekey = b.Timekey
	}
	n.ChunkKeys = append(n.ChunkKeys, b.Keys...)
	return n
}

// zone is that of time windows and time placeholders. The name was checked before.
func (o *outputPlan) zone() *time.Location {
	b := &o.buffer
	switch {
	case b.TimekeyZone != "":
		if loc, err := timefmt.ParseZone(b.TimekeyZone); err == nil {
			return loc
		}
	case b.TimekeyUseUTC:
		return time.UTC
	}
	return time.Local
}

// window is the end of the timekey window that a time falls into.
func (o *outputPlan) window() func(event.Time) event.Time {
	t, _ := placeholder.Compile("%s", placeholder.Options{ChunkKeys: []string{"time"}, Timekey: o.buffer.Timekey, Location: o.zone()})
	return func(at event.Time) event.Time {
		_, end := t.Window(at)
		return end
	}
}

func (p *planner) cloudwatch(o *outputPlan, s *fluentconf.Section) {
	var params cloudwatch.Params
	config.Decode(s, &params, p.d)
	o.buffer = config.ParseBuffer(s, config.BufferDefaults{}, p.d)
	params.Check(s, o.names(), p.d)
	o.workers = params.InFlight()
	o.maxEvents, o.tell = params.MaxEvents, params.LossNotice != ""
	o.detail = "to group " + named(params.GroupName, params.TagAsGroup, params.GroupNameKey) +
		", stream " + named(params.StreamName, params.TagAsStream, params.StreamNameKey)
	var f cloudwatch.Formatter
	usesTag := false
	if params.Format != nil {
		if params.Format.Get("@type") == nil && params.Format.Get("type") == nil {
			p.d.Error(params.Format.Pos, "<format> has no @type", "add @type json, or remove <format>: the message is the record's JSON then, without a line end")
		}
		f, usesTag = p.formatter(nil, &formatting{Format: params.Format}, "json")
	}
	opts := cloudwatch.Options{Params: params, Names: o.names(), Formatter: f}
	env := formatter.Env{Hostname: p.env.Hostname, Location: p.env.Location}
	if in := formatter.InjectOf(s, params.Inject, env, p.d); in != nil {
		opts.Inject, usesTag = in, usesTag || in.UsesTag()
	}
	opts.UsesTag = usesTag
	o.build = func(log *slog.Logger, sh *shared) (output.Output, error) {
		opts.Log, opts.ID, opts.Tokens = log, o.id, sh.tokens
		return cloudwatch.New(context.Background(), opts)
	}
}

func named(name string, byTag bool, key string) string {
	switch {
	case byTag:
		return "${tag}"
	case key != "":
		return "of field " + key
	}
	return name
}

func (p *planner) stdout(o *outputPlan, s *fluentconf.Section) {
	var params struct {
		config.OutputPlugin
		formatting
		formatter.FlatParams
		UseLogger bool `conf:"use_logger" default:"true" doc:"accepted for compatibility, without effect"`
	}
	config.Decode(s, &params, p.d)
	o.buffer = config.ParseBuffer(s, config.BufferDefaults{}, p.d)
	if len(s.All("buffer")) == 0 {
		o.buffer.FlushMode, o.direct = "immediate", true // Fluentd's stdout is not buffered unless asked to
	}
	params.older(s)
	f, _ := p.formatter(s, &params.formatting, "stdout")
	o.lines = f
	w := p.env.Stdout
	o.build = func(*slog.Logger, *shared) (output.Output, error) {
		return stdout.New(stdout.Options{Writer: w, Formatter: f}), nil
	}
}

func (p *planner) file(o *outputPlan, s *fluentconf.Section) {
	var params struct {
		config.OutputPlugin
		file.Params
		formatting
		formatter.FlatParams
	}
	config.Decode(s, &params, p.d)
	o.buffer = config.ParseBuffer(s, config.BufferDefaults{Keys: []string{"time"}, Timekey: 24 * time.Hour}, p.d)
	params.older(s)
	f, _ := p.formatter(s, &params.formatting, "out_file")
	o.lines = f
	opts := file.Options{Params: params.Params, Formatter: f, Names: o.names(), Limit: int64(o.buffer.ChunkLimit)}
	opts.FilePerm, opts.DirPerm = p.mode(o.buffer.FileMode, p.System.FilePermission), p.mode(o.buffer.DirMode, p.System.DirPermission)
	params.Params.Check(s, o.names(), p.d)
	o.detail = "to " + params.Path
	o.build = func(log *slog.Logger, _ *shared) (output.Output, error) {
		opts.Log = log
		return file.New(opts)
	}
}

// secondaryFile reads a <secondary> @type secondary_file of primary. What it writes is what
// the primary's chunks hold in Fluentd: its lines, or for cloudwatch_logs msgpack.
func (p *planner) secondaryFile(o *outputPlan, s *fluentconf.Section, primary *outputPlan) {
	var params file.SecondaryParams
	config.Decode(s, &params, p.d)
	params.Check(s, primary.names(), p.d)
	b := &primary.buffer
	opts := file.Options{Formatter: primary.lines, Names: primary.names(), Limit: int64(b.ChunkLimit)}
	opts.FilePerm, opts.DirPerm = p.mode(b.FileMode, p.System.FilePermission), p.mode(b.DirMode, p.System.DirPermission)
	binary := primary.lines == nil
	if binary {
		opts.Formatter = file.Messages{}
	}
	o.detail = "to " + params.Directory
	o.build = func(log *slog.Logger, _ *shared) (output.Output, error) {
		opts.Log = log
		return file.NewSecondary(params, binary, opts)
	}
}

func (p *planner) s3(o *outputPlan, s *fluentconf.Section) {
	var params s3.Params
	config.Decode(s, &params, p.d)
	o.buffer = config.ParseBuffer(s, config.BufferDefaults{Keys: []string{"time"}, Timekey: 24 * time.Hour}, p.d)
	params.Check(s, o.names(), p.d)
	format := formatting{params.Format, params.Inject}
	format.older(s)
	f, usesTag := p.formatter(s, &format, "out_file")
	o.lines = f
	b := &o.buffer
	opts := s3.Options{
		Params: params, Names: o.names(), Formatter: f, FormatterUsesTag: usesTag,
		Limit: int(float64(b.ChunkLimit) * b.ChunkFullThreshold), Conns: max(b.Threads, 1),
	}
	o.detail = "to bucket " + params.Bucket
	o.build = func(log *slog.Logger, _ *shared) (output.Output, error) {
		opts.Log, opts.Dir = log, o.dir
		return s3.New(context.Background(), opts)
	}
}

// mode is the first octal mode given; 0 for none.
func (p *planner) mode(texts ...string) fs.FileMode {
	for _, t := range texts {
		if n, err := strconv.ParseUint(t, 8, 32); err == nil && t != "" {
			return fs.FileMode(n)
		}
	}
	return 0
}

// formatter builds the <format> and <inject> of an output; usesTag says that what it
// writes depends on the tag.
func (p *planner) formatter(s *fluentconf.Section, f *formatting, fallback string) (out formatter.Formatter, usesTag bool) {
	env := formatter.Env{Hostname: p.env.Hostname, Location: p.env.Location}
	return formatter.New(s, f.Format, f.Inject, fallback, env, p.d)
}
