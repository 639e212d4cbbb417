package awslogs

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"weir/internal/config"
)

// driver is the name in the error texts, where the original says awslogs.
const driver = "weir"

const (
	defaultFlush     = 5 * time.Second
	defaultEventSize = 262_144 - 26   // awslogs' limit
	maxEventSize     = 1_048_576 - 26 // the service's, since 2025
	minEventSize     = 1024
	defaultBuffer    = 256 << 20
	minBuffer        = 4 << 20  // some times what one look at a pipe can bring
	minLiveFirst     = 16 << 20 // of which new events have an eighth

	// Settings of the service stand in logs, metrics and in each record of a container.
	maxRegion   = 64
	maxEndpoint = 2048
	maxQuoted   = 200 // bytes of a value in an error text
)

// Parse reads the log options of a container. The error is of type Mistakes and names all
// that is wrong, in the order in which awslogs looks. An option that is present with an
// empty value counts as not set, except where awslogs sees it.
func Parse(info *Info, env Env) (*Options, error) {
	r := reader{cfg: info.Config, info: *info}
	r.info.hostname = env.Hostname
	o := &Options{}
	r.daemon()
	r.unknown()
	r.names(o)
	r.service(o)
	r.lines(o)
	r.spool(o)
	if len(r.bad) > 0 {
		return nil, r.bad
	}
	return o, nil
}

// reader collects what is wrong while it reads.
type reader struct {
	cfg  map[string]string
	info Info // a copy that knows the host's name
	bad  Mistakes
}

func (r *reader) fail(format string, args ...any) {
	r.bad = append(r.bad, fmt.Errorf(format, args...))
}

func (r *reader) has(key string) bool {
	_, ok := r.cfg[key]
	return ok
}

// daemon checks what Docker itself checks, for engines that did not.
func (r *reader) daemon() {
	mode := r.cfg[keyMode]
	if mode != "" && mode != modeDirect && mode != modeRing {
		r.fail("logger: logging mode not supported: %s", mode)
	}
	if size, ok := r.cfg[keyRing]; ok {
		if mode != modeRing {
			r.fail("logger: max-buffer-size option is only supported with 'mode=%s'", modeRing)
		} else if _, err := parseSize(size); err != nil {
			r.fail("error parsing option max-buffer-size: %w", err)
		}
	}
	if v := r.cfg[keyNoCache]; v != "" {
		if _, err := strconv.ParseBool(v); err != nil {
			r.fail("invalid value for option %s: %s", keyNoCache, v)
		}
	}
}

func (r *reader) unknown() {
	all := known()
	for _, key := range slices.Sorted(maps.Keys(r.cfg)) {
		if all[key] {
			continue
		}
		hint := instead(key)
		if hint == "" {
			hint = strings.TrimSuffix(config.Suggest(key, all), "?")
		}
		if hint != "" {
			hint = " (" + hint + ")"
		}
		r.fail("unknown log opt '%s' for %s log driver%s", key, driver, hint)
	}
}

// service reads where events go, and as whom.
func (r *reader) service(o *Options) {
	o.CreateGroup = r.yes(keyNewGroup, false)
	o.CreateStream = r.yes(keyNewStream, true)
	o.Region = r.cfg[keyRegion]
	if o.Region != "" && !isRegion(o.Region) {
		r.value(keyRegion, "%s is not a region such as eu-west-1", quote(o.Region))
	}
	o.Endpoint = r.cfg[keyEndpoint]
	if o.Endpoint != "" && !isEndpoint(o.Endpoint) {
		r.value(keyEndpoint, "%s is not a URL such as https://logs.eu-west-1.amazonaws.com", quote(o.Endpoint))
	}
	o.CredentialsEndpoint, o.HasCredentials = r.cfg[keyCreds]
	if c := o.CredentialsEndpoint; c != "" && (c[0] != '/' || strings.ContainsFunc(c, unicode.IsControl)) {
		// Put behind the host's name, it would name another host.
		r.value(keyCreds, "%s is not a path that begins with /", quote(c))
	}
	o.Profile = r.cfg[keyProfile]
	if o.Profile != "" && o.HasCredentials {
		r.fail("you cannot configure log opt '%s' and '%s' at the same time", keyProfile, keyCreds)
	}
	o.RoleARN = r.cfg[keyRole]
	if o.RoleARN != "" && o.HasCredentials {
		r.fail("you cannot configure log opt '%s' and '%s' at the same time", keyRole, keyCreds)
	}
	if o.RoleARN != "" && !strings.HasPrefix(o.RoleARN, "arn:") {
		r.value(keyRole, "'%s' is not an ARN such as arn:aws:iam::123456789012:role/NAME", o.RoleARN)
	}
	o.RetentionDays = r.retention()
	if o.RetentionDays != 0 && !o.CreateGroup {
		r.fail("log opt '%s' is for groups that are created: it needs %s=true", keyRetention, keyNewGroup)
	}
}

// isRegion says whether s can be the name of a region: it becomes a part of a host's name.
func isRegion(s string) bool {
	return len(s) <= maxRegion && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

// isEndpoint says whether s is a URL that can be asked.
func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxEndpoint || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	_, err = strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil
}

// quote puts a value into an error text, not more of it than one wants to read.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return "'" + s + "'"
}

// lines reads how lines become events.
func (r *reader) lines(o *Options) {
	seconds := r.positive(keyFlush, int(defaultFlush/time.Second))
	o.FlushInterval = time.Duration(min(seconds, 1<<30)) * time.Second
	r.positive(keyQueue, 0) // checked only: the queue is on disk
	hasDatetime, hasMultiline := r.has(keyDatetime), r.has(keyMultiline)
	if hasDatetime && hasMultiline {
		r.fail("you cannot configure log opt '%s' and '%s' at the same time", keyDatetime, keyMultiline)
	}
	o.Format = r.cfg[keyFormat]
	if o.Format != "" && o.Format != formatEMF {
		r.fail("unsupported log format '%s'", o.Format)
	} else if o.Format != "" && (hasDatetime || hasMultiline) {
		r.fail("you cannot configure log opt '%s' or '%s' when log opt '%s' is set to '%s'", keyDatetime, keyMultiline, keyFormat, formatEMF)
	}
	o.MultilinePattern = r.cfg[keyMultiline]
	if o.DatetimeFormat = r.cfg[keyDatetime]; o.DatetimeFormat != "" {
		o.MultilinePattern = datetimePattern(o.DatetimeFormat)
	}
	o.DatetimeTimezone = r.oneOf(keyTimezone, timezoneUTC, timezoneLocal)
	o.DatetimeAsEventTime = r.yes(keyEventTime, false)
	if o.DatetimeAsEventTime && o.DatetimeFormat == "" {
		r.fail("log opt '%s' needs '%s'", keyEventTime, keyDatetime)
		o.DatetimeAsEventTime = false
	}
	if _, err := o.Compile(nil); err != nil {
		r.bad = append(r.bad, err)
	}
	o.EventSize = int(r.size(keyEventSize, defaultEventSize, minEventSize, maxEventSize))
}

// spool reads what happens while the service does not take events.
func (r *reader) spool(o *Options) {
	o.BufferSize = r.size(keyBuffer, defaultBuffer, minBuffer, 0)
	o.DropNewest = r.oneOf(keyOverflow, "drop-oldest", "drop-newest") == "drop-newest"
	o.LiveFirst = r.oneOf(keyDrain, "oldest-first", "live-first") == "live-first"
	if o.LiveFirst && o.BufferSize < minLiveFirst {
		r.fail("log opt '%s' live-first needs a '%s' of at least 16m", keyDrain, keyBuffer)
	}
	if r.cfg[keyNotice] != "" {
		o.LossNotice = r.oneOf(keyNotice, "text", "json")
		if o.Format == formatEMF {
			o.LossNotice = "json" // plain text would break those who read the stream as JSON
		}
	}
}

// value reports a bad value in the words of the original.
func (r *reader) value(key, format string, args ...any) {
	r.fail("must specify valid value for log opt '%s': %w", key, fmt.Errorf(format, args...))
}

func (r *reader) yes(key string, def bool) bool {
	v := r.cfg[key]
	if v == "" {
		return def
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		r.value(key, "%w", err)
		return def
	}
	return b
}

func (r *reader) positive(key string, def int) int {
	v := r.cfg[key]
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		r.fail("must specify a positive integer for log opt '%s': %v", key, v)
		return def
	}
	return n
}

// oneOf reads one of two words, of which def is the default.
func (r *reader) oneOf(key, def, other string) string {
	v := r.cfg[key]
	switch v {
	case "":
		return def
	case def, other:
		return v
	}
	r.value(key, "'%s' is neither %s nor %s", v, def, other)
	return def
}

// size reads a number of bytes; most 0 means any.
func (r *reader) size(key string, def, least, most int64) int64 {
	v := r.cfg[key]
	if v == "" {
		return def
	}
	n, err := parseSize(v)
	switch {
	case err != nil:
		r.value(key, "%w", err)
	case n < least:
		r.value(key, "%s is less than %d bytes", v, least)
	case most != 0 && n > most:
		r.value(key, "%s is more than %d bytes", v, most)
	default:
		return n
	}
	return def
}

// retention reads days that PutRetentionPolicy takes; 0 is none.
func (r *reader) retention() int {
	v := r.cfg[keyRetention]
	if v == "" {
		return 0
	}
	days := []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
	n, err := strconv.Atoi(v)
	if err != nil || !slices.Contains(days, n) {
		r.value(keyRetention, "%s is none of the numbers of days that CloudWatch Logs takes: %s", v, strings.Trim(fmt.Sprint(days), "[]"))
		return 0
	}
	return n
}

// parseSize reads a number of bytes as Docker reads sizes of memory: 64m, 1.5 GiB, 4096.
func parseSize(s string) (int64, error) {
	end := strings.LastIndexAny(s, "0123456789. ") + 1
	if end == 0 {
		return 0, fmt.Errorf("invalid size: '%s'", s)
	}
	number, unit := s[:end], strings.ToLower(s[end:])
	if number[end-1] == ' ' {
		number = number[:end-1]
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, err
	}
	if f < 0 {
		return 0, fmt.Errorf("invalid size: '%s'", s)
	}
	factor, ok := sizeUnit(unit)
	if !ok {
		return 0, fmt.Errorf("invalid suffix: '%s'", unit)
	}
	if f *= factor; !(f < 1<<63) { // NaN too
		return 0, errors.New("number too large")
	}
	return int64(f), nil
}

// sizeUnit gives the factor of k, kb, kib and the like, in lower case.
func sizeUnit(unit string) (float64, bool) {
	if unit == "" || unit == "b" {
		return 1, true
	}
	i := strings.IndexByte("kmgtp", unit[0])
	if i < 0 || unit[1:] != "" && unit[1:] != "b" && unit[1:] != "ib" {
		return 0, false
	}
	return float64(int64(1) << (10 * (i + 1))), true
}
