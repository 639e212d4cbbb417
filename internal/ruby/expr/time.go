package expr

import (
	"math"
	"strings"
	"time"

	"weir/internal/ruby/timefmt"
)

func timeMethods() map[string]*method {
	out := map[string]*method{
		"strftime": {fn: timeStrftime, least: 1, most: 1}, "iso8601": {fn: timeISO, most: 1}, "xmlschema": {fn: timeISO, most: 1},
		"to_i": {fn: timeNumber}, "tv_sec": {fn: timeNumber}, "to_f": {fn: timeNumber}, "to_r": {fn: timeNumber},
		"utc": {fn: timeZone}, "gmtime": {fn: timeZone}, "localtime": {fn: timeZone, most: 1}, "getutc": {fn: timeZone}, "getgm": {fn: timeZone}, "getlocal": {fn: timeZone, most: 1},
		"+": {fn: timeAdd, least: 1, most: 1}, "-": {fn: timeAdd, least: 1, most: 1},
		"round": {fn: timeRound, most: 1}, "floor": {fn: timeRound, most: 1}, "ceil": {fn: timeRound, most: 1},
		"between?": {fn: between, least: 2, most: 2}, "to_time": {fn: itself},
		"httpdate": {fn: timeText}, "rfc2822": {fn: timeText}, "rfc822": {fn: timeText}, "ctime": {fn: timeText}, "asctime": {fn: timeText}, "zone": {fn: timeText},
		"utc?": {fn: timeIsUTC}, "gmt?": {fn: timeIsUTC},
		"dup": {fn: func(m *Machine, n *call, v Value, a []Value) (Value, error) {
			return m.timeValue(v.int(), v.o.loc), nil
		}},
	}
	for _, name := range []string{"year", "month", "mon", "day", "mday", "hour", "min", "sec", "usec", "tv_usec", "nsec", "tv_nsec", "wday", "yday", "utc_offset", "gmt_offset", "gmtoff"} {
		out[name] = &method{fn: timeField}
	}
	for _, name := range []string{"sunday?", "monday?", "tuesday?", "wednesday?", "thursday?", "friday?", "saturday?"} {
		out[name] = &method{fn: timeWeekday}
	}
	for _, op := range []string{"<", "<=", ">", ">="} {
		out[op] = &method{fn: ordered, least: 1, most: 1}
	}
	return out
}

// layout compiles a layout of strftime, or finds it among those compiled before.
func (m *Machine) layout(n node, s string) (*timefmt.Layout, error) {
	if l := m.layouts[s]; l != nil {
		return l, nil
	}
	l, err := timefmt.Compile(strings.Clone(s))
	if err != nil {
		return nil, m.raise(n, "ArgumentError", "%v", err)
	}
	const most = 64 // layouts that come from records must not pile up
	if m.layouts == nil || len(m.layouts) >= most {
		m.layouts = make(map[string]*timefmt.Layout)
	}
	m.layouts[strings.Clone(s)] = l
	return l, m.charge(n, 50)
}

func timeStrftime(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	l, err := m.layout(n, a[0].s.s)
	if err != nil {
		return Value{}, err
	}
	return m.str(view(l.Append(nil, v.time()))), nil
}

func timeISO(m *Machine, n *call, v Value, a []Value) (Value, error) {
	digits := 0
	if len(a) == 1 {
		var err error
		if digits, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	t := v.time()
	s := t.Format("2006-01-02T15:04:05")
	if digits > 0 {
		s += (t.Format(".000000000") + strings.Repeat("0", min(max(digits-9, 0), 100)))[:1+min(digits, 109)]
	}
	if t.Location() == time.UTC {
		return m.str(s + "Z"), nil
	}
	return m.str(s + t.Format("-07:00")), nil
}

func timeNumber(m *Machine, n *call, v Value, a []Value) (Value, error) {
	sec := v.time().Unix()
	switch n.name {
	case "to_f", "to_r":
		return floatValue(float64(v.int()) / 1e9), nil
	}
	return intValue(sec), nil
}

func timeField(m *Machine, n *call, v Value, a []Value) (Value, error) {
	t := v.time()
	i := 0
	switch n.name {
	case "year":
		i = t.Year()
	case "month", "mon":
		i = int(t.Month())
	case "day", "mday":
		i = t.Day()
	case "hour":
		i = t.Hour()
	case "min":
		i = t.Minute()
	case "sec":
		i = t.Second()
	case "usec", "tv_usec":
		i = t.Nanosecond() / 1000
	case "nsec", "tv_nsec":
		i = t.Nanosecond()
	case "wday":
		i = int(t.Weekday())
	case "yday":
		i = t.YearDay()
	default:
		_, i = t.Zone()
	}
	return intValue(int64(i)), nil
}

func timeWeekday(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return boolValue(strings.ToLower(v.time().Weekday().String())+"?" == n.name), nil
}

func timeIsUTC(m *Machine, n *call, v Value, a []Value) (Value, error) {
	return boolValue(v.o.loc == time.UTC), nil
}

// timeZone is utc and localtime, which change the Time, and getutc and getlocal, which do not.
func timeZone(m *Machine, n *call, v Value, a []Value) (Value, error) {
	loc := time.UTC
	if strings.HasSuffix(n.name, "local") || strings.HasPrefix(n.name, "local") {
		loc = m.local
		if len(a) == 1 && !a[0].IsNil() {
			var err error
			if loc, err = m.offset(n, a[0]); err != nil {
				return Value{}, err
			}
		}
	}
	if strings.HasPrefix(n.name, "get") {
		return m.timeValue(v.int(), loc), nil
	}
	v.o.loc = loc
	return v, nil
}

// offset reads a zone argument: "+09:00", "UTC", or seconds.
func (m *Machine) offset(n node, v Value) (*time.Location, error) {
	if v.kind == Int {
		if v.int() <= -86400 || v.int() >= 86400 {
			return nil, m.raise(n, "ArgumentError", "utc_offset out of range")
		}
		if v.int()%60 != 0 {
			return nil, m.exceed(n, "an offset of seconds is not supported")
		}
		return time.FixedZone("", int(v.int()%86400)), nil
	}
	if v.text() == "UTC" || v.text() == "Z" {
		return time.UTC, nil
	}
	loc, err := timefmt.ParseZone(v.text())
	if err != nil {
		return nil, m.raise(n, "ArgumentError", `"+HH:MM", "-HH:MM", "UTC" or "A".."I","K".."Z" expected for utc_offset: %s`, v.ToS())
	}
	return loc, nil
}

func timeAdd(m *Machine, n *call, v Value, a []Value) (Value, error) {
	if n.name == "-" && a[0].kind == TimeKind {
		return floatValue(float64(v.int()-a[0].int()) / 1e9), nil
	}
	if !a[0].number() {
		return Value{}, m.raise(n, "TypeError", "can't convert %s into an exact number", a[0].class())
	}
	if f := a[0].asFloat(); math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, m.raise(n, "FloatDomainError", "%s", formatFloat(f))
	}
	ns := math.Round(a[0].asFloat() * 1e9)
	if n.name == "-" {
		ns = -ns
	}
	if math.Abs(ns+float64(v.int())) >= math.MaxInt64 {
		return Value{}, m.exceed(n, "the time is out of range")
	}
	add := int64(ns)
	if a[0].kind == Int {
		add = a[0].int() * 1e9
		if n.name == "-" {
			add = -add
		}
	}
	return m.timeValue(v.int()+add, v.o.loc), nil
}

func timeRound(m *Machine, n *call, v Value, a []Value) (Value, error) {
	digits := 0
	if len(a) == 1 {
		var err error
		if digits, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
	}
	if digits < 0 {
		return Value{}, m.raise(n, "ArgumentError", "negative ndigits given")
	}
	unit := int64(1)
	for i := max(digits, 0); i < 9; i++ {
		unit *= 10
	}
	rest := ((v.int() % unit) + unit) % unit
	ns := v.int() - rest
	if n.name == "round" && rest*2 >= unit || n.name == "ceil" && rest > 0 {
		ns += unit
	}
	return m.timeValue(ns, v.o.loc), nil
}

func timeText(m *Machine, n *call, v Value, a []Value) (Value, error) {
	t := v.time()
	switch n.name {
	case "httpdate":
		return m.str(t.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")), nil
	case "ctime", "asctime":
		return m.str(t.Format("Mon Jan _2 15:04:05 2006")), nil
	case "zone":
		name, _ := t.Zone()
		if t.Location() == time.UTC {
			name = "UTC"
		}
		if name == "" {
			return Value{}, nil
		}
		return m.str(name), nil
	}
	if t.Location() == time.UTC {
		return m.str(t.Format("Mon, 02 Jan 2006 15:04:05 -0000")), nil
	}
	return m.str(t.Format("Mon, 02 Jan 2006 15:04:05 -0700")), nil
}

// now is the present time.
func (m *Machine) now(n node) (time.Time, error) {
	if m.env.Now == nil {
		return time.Time{}, m.exceed(n, "the present time is not available here")
	}
	return m.env.Now().In(m.local), nil
}

func timeNow(m *Machine, n *constCall, a []Value) (Value, error) {
	t, err := m.now(n)
	if err != nil {
		return Value{}, err
	}
	return m.timeValue(t.UnixNano(), t.Location()), nil
}

// timeAt is Time.at(seconds or Time, fraction, unit).
func timeAt(m *Machine, n *constCall, a []Value) (Value, error) {
	loc := m.local
	if last := a[len(a)-1]; last.kind == HashKind {
		if zone, ok := m.get(last.o, Value{kind: Symbol, s: &text{s: "in"}}); ok {
			var err error
			if loc, err = m.offset(n, zone); err != nil {
				return Value{}, err
			}
		}
		a = a[:len(a)-1]
	}
	if len(a) == 0 {
		return Value{}, m.wrongCount(n, 0, 1, 3)
	}
	ns, ok := int64(0), true
	switch v := a[0]; v.kind {
	case TimeKind:
		ns = v.int()
	case RawKind:
		t, is := v.eventTime()
		if !is {
			return Value{}, m.raise(n, "TypeError", "can't convert %s into an exact number", v.class())
		}
		ns = int64(t)
	case Int:
		ns, ok = nanos(v.int(), 0)
	case Float:
		f := math.Floor(v.float())
		if ok = math.Abs(f) < 9e9; ok {
			ns, ok = nanos(int64(f), int64((v.float()-f)*1e9))
		}
	default:
		return Value{}, m.raise(n, "TypeError", "can't convert %s into an exact number", v.class())
	}
	if len(a) > 1 && ok {
		unit := 1e3 // microseconds
		if len(a) > 2 {
			switch a[2].text() {
			case "millisecond":
				unit = 1e6
			case "nsec", "nanosecond":
				unit = 1
			}
		}
		if !a[1].number() {
			return Value{}, m.raise(n, "TypeError", "can't convert %s into an exact number", a[1].class())
		}
		ns += int64(a[1].asFloat() * unit)
	}
	if !ok {
		return Value{}, m.exceed(n, "the time %s is out of range", a[0].ToS())
	}
	return m.timeValue(ns, loc), nil
}

// timeNew is Time.new, Time.local and Time.utc with the parts of a time.
func timeNew(m *Machine, n *constCall, a []Value) (Value, error) {
	if len(a) == 0 {
		return timeNow(m, n, a)
	}
	loc := m.local
	if n.name == "utc" || n.name == "gm" {
		loc = time.UTC
	}
	parts, nsec := [6]int{0, 1, 1, 0, 0, 0}, 0
	for i, v := range a {
		if i == 6 {
			var err error
			if loc, err = m.offset(n, v); err != nil {
				return Value{}, err
			}
			break
		}
		x, err := m.intArg(n, v)
		if err != nil {
			return Value{}, err
		}
		if parts[i] = x; i == 5 && v.kind == Float {
			nsec = int((v.float() - math.Floor(v.float())) * 1e9)
		}
	}
	if parts[0] < 1678 || parts[0] > 2261 {
		return Value{}, m.exceed(n, "the year %d is out of range", parts[0])
	}
	t := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], nsec, loc)
	return m.timeValue(t.UnixNano(), loc), nil
}

// timeParse is Time.parse and Time.iso8601, for the common forms.
func timeParse(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	if n.name == "parse" {
		if r, ok := timefmt.ParseAny(bytesOf(a[0].s.s), m.local, m.env.Now); ok {
			return m.moment(n, r)
		}
	} else if r, ok := timefmt.ParseISO(bytesOf(a[0].s.s), m.local); ok {
		return m.moment(n, r)
	}
	if n.name != "parse" {
		return Value{}, m.raise(n, "ArgumentError", "invalid xmlschema format: %s", a[0].Inspect())
	}
	return Value{}, m.raise(n, "ArgumentError", "no time information in %s", a[0].Inspect())
}

func (m *Machine) moment(n node, r timefmt.Moment) (Value, error) {
	loc := m.local
	if r.Zoned {
		if loc = time.UTC; !r.UTC {
			loc = time.FixedZone("", r.Offset)
		}
	}
	ns, ok := nanos(r.Sec, r.Nsec)
	if !ok {
		return Value{}, m.exceed(n, "the time is out of range")
	}
	return m.timeValue(ns, loc), nil
}

func timeStrptime(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0], a[1]); err != nil {
		return Value{}, err
	}
	if err := m.charge(n, 50); err != nil {
		return Value{}, err
	}
	p, err := timefmt.CompileParser(strings.Clone(a[1].s.s))
	if err != nil {
		return Value{}, m.raise(n, "ArgumentError", "%v", err)
	}
	r, ok := p.Parse(bytesOf(a[0].s.s), m.local, m.env.Now)
	if !ok {
		return Value{}, m.raise(n, "ArgumentError", "invalid date or strptime format - `%s' `%s'", a[0].s.s, a[1].s.s)
	}
	return m.moment(n, r)
}
