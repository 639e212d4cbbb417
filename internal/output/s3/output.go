// Package s3 is the output to S3: objects whose keys are made of tags, times, records and
// an index, written by several threads and replicas side by side without one overwriting
// the other's.
//
// It takes the parameters of fluent-plugin-s3 1.8. A request is an object: it is
// formatted, compressed and, beyond a few mebibytes, spooled to a file without a name while
// delivery fills it, and put in one piece or, beyond 16 MiB, in parts. The events stay in
// the buffer until the service has accepted the object, so that the spool needs no
// guarantees of its own.
//
// # A key that is free
//
// Fluentd asks for each index from 0 whether its key exists, and puts then: that costs more
// requests the more objects there are, and two writers that ask at once overwrite each
// other. Here the next index of each series is remembered, and the put itself says that it
// must not replace anything (If-None-Match: *). When something is there the next free index
// is looked for in steps that double. Keys with %{uuid_flush}, ${chunk_id} or 16 digits of
// %{hex_random} need no check. A service that does not know the condition, which is found
// out with the first small object, is asked before each put; then replicas that write the
// same series need one of those three in their keys.
//
// A retry puts the same bytes under the same key. When an answer was lost and the key is
// taken, the object there is compared with ours: if it is the same, it is ours. With a file
// buffer a note beside it says under which key an object is about to be put, so that after
// a kill the next process makes the same object again instead of a second one.
package s3

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"weir/internal/awsx"
	"weir/internal/event"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// defaultLimit is Fluentd's chunk_limit_size of a memory buffer.
const defaultLimit = 8 << 20

// Formatter turns an event into bytes. A Formatter may be used from any goroutine and
// copies what it needs.
type Formatter interface {
	Append(dst []byte, tag string, t event.Time, record []byte) []byte
}

// Options configures an Output. Params, Formatter and Log are required; Params must have
// passed Check.
type Options struct {
	Params           Params
	Names            placeholder.Options // what the <buffer> section allows in placeholders
	Formatter        Formatter           // the <format> section; Fluentd's default here is out_file
	FormatterUsesTag bool                // what it writes depends on the tag
	Log              *slog.Logger
	Limit            int              // bytes of formatted events in one object; default 8 MiB
	Conns            int              // requests in flight
	Dir              string           // of the file buffer, for notes of what is under way; "" for none
	Now              func() time.Time // nil: time.Now
}

// Output sends objects to S3. It implements output.Output, output.Sized and output.Tagged.
type Output struct {
	p         Params
	log       *slog.Logger
	now       func() time.Time
	bucket    string
	session   *awsx.Session
	client    *s3.Client
	transport *http.Transport
	host      string // of the endpoint; "" is Amazon's own
	deadline  time.Duration
	checksum  types.ChecksumAlgorithm // "": Content-MD5

	key       keyFormat
	metaNames []string
	templates []*placeholder.Template // of the key, of each of metaNames, and of the other chunk keys
	perRecord bool
	formatter Formatter
	usesTag   bool
	store     store
	level     int
	limit     int
	spoolDir  string

	attempts attempts
	underway underway
	indexes  indexes
	support  atomic.Int32 // whether the service knows conditions: unknown, yes, no

	bucketMu  sync.Mutex // one creates the bucket; guards what follows
	created   time.Time  // when we made it
	lifecycle time.Time  // when the rules are to be set next; zero: they need not be

	told struct { // said once, or once a minute
		disk, delay atomic.Int64
	}
}

var (
	_ output.Output   = (*Output)(nil)
	_ output.Sized    = (*Output)(nil)
	_ output.Tagged   = (*Output)(nil)
	_ output.TagTaker = (*request)(nil)
	_ output.Settler  = (*request)(nil)
)

// New makes the output. It reads the environment, the shared AWS configuration and the
// certificate authorities but does not use the network.
func New(ctx context.Context, opt Options) (*Output, error) {
	p := opt.Params
	o := &Output{
		p: p, log: opt.Log, now: opt.Now, bucket: p.Bucket, formatter: opt.Formatter, usesTag: opt.FormatterUsesTag,
		store: p.store(), level: p.level(), limit: opt.Limit, spoolDir: p.SpoolPath, deadline: p.RequestTimeout,
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.limit <= 0 {
		o.limit = defaultLimit
	}
	if o.deadline <= 0 {
		o.deadline = time.Minute
	}
	if len(p.Lifecycle) > 0 {
		o.lifecycle = o.now()
	}
	o.underway.load(opt.Dir)
	if err := o.compile(opt.Names); err != nil {
		return nil, err
	}
	return o, o.connect(ctx, max(opt.Conns, 1))
}

// compile makes the templates.
func (o *Output) compile(names placeholder.Options) error {
	key, problems := o.p.compileKey(names)
	for _, pr := range problems {
		if !pr.Warning {
			return fmt.Errorf("s3_object_key_format %q: %s; %s", o.p.KeyFormat, pr.Text, pr.Hint)
		}
	}
	o.key = key
	o.templates = []*placeholder.Template{key.template}
	o.metaNames = slices.Sorted(maps.Keys(o.p.Metadata))
	for _, k := range o.metaNames {
		t, problems := compileMeta(o.p.Metadata[k], names)
		for _, pr := range problems {
			if !pr.Warning {
				return fmt.Errorf("s3_metadata %s: %s; %s", k, pr.Text, pr.Hint)
			}
		}
		o.templates = append(o.templates, t)
	}
	if rest := chunkKeys(names, key.template.String()); rest != "" {
		t, _ := placeholder.Compile(rest, names)
		o.templates = append(o.templates, t)
	}
	o.perRecord = o.usesRecord()
	return nil
}

// compileMeta reads a value of s3_metadata.
func compileMeta(text string, names placeholder.Options) (*placeholder.Template, []placeholder.Problem) {
	text = mark.ReplaceAllStringFunc(strings.ReplaceAll(text, "\x00", ""), func(m string) string {
		if m == "%{index}" {
			return markIndex
		}
		return ""
	})
	names.Strict, names.Direct, names.EventTime = false, false, false
	return placeholder.Compile(text, names)
}

// chunkKeys is a text that has all chunk keys which the key does not show: events that
// differ in one of them are not put into one object.
func chunkKeys(names placeholder.Options, key string) string {
	var parts []string
	for _, k := range names.ChunkKeys {
		if k != "time" && !strings.Contains(key, "${"+k+"}") {
			parts = append(parts, "${"+k+"}")
		}
	}
	if names.Timekey > 0 {
		parts = append(parts, "%s")
	}
	return strings.Join(parts, "\x00|")
}

// Scope implements output.Output: S3 throttles by prefixes of keys, which it makes as it
// likes; a bucket is what can be told from outside.
func (o *Output) Scope() string {
	return "s3 " + o.host + " " + o.bucket + " " + o.session.Account()
}

// RequestBytes implements output.Sized. Entries are about as long as their formatted form.
func (o *Output) RequestBytes() int { return o.limit }

// UsesTags implements output.Tagged.
func (o *Output) UsesTags() bool { return o.usesTag }

// Close implements output.Output.
func (o *Output) Close() error {
	o.transport.CloseIdleConnections()
	o.session.Close()
	return nil
}

// noteDisk says once that objects cannot be spooled.
func (o *Output) noteDisk(err error) {
	if err != nil && o.told.disk.CompareAndSwap(0, 1) {
		o.log.Warn("there is no place for large objects under construction: they end at 8 MiB", "spool_path", o.spoolDir, "error", err,
			"hint", "write a spool_path that weir may write to, or set TMPDIR")
	}
}

// delayed warns about an object with old events, at most once a minute.
func (o *Output) delayed(r *request, a *attempt) {
	if o.p.WarnForDelay <= 0 {
		return
	}
	now := o.now()
	late := now.Sub(r.first.Time())
	last := o.told.delay.Load()
	if late > o.p.WarnForDelay && now.UnixNano()-last > int64(time.Minute) && o.told.delay.CompareAndSwap(last, now.UnixNano()) {
		o.log.Warn("an object has events that are late", "bucket", o.bucket, "key", a.key, "late", late.Round(time.Second).String())
	}
}
