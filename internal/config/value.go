package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/internal/fluentconf"
	"weir/internal/ruby/rx"
)

// valueError is why a text is no value of a type, and what to write.
type valueError struct{ text, hint string }

func (e *valueError) Error() string { return e.text }

func wrong(hint, format string, args ...any) *valueError {
	return &valueError{text: fmt.Sprintf(format, args...), hint: hint}
}

// warner takes a warning about a value; hint says what to write.
type warner func(text, hint string)

// convert sets v from a text by the rules of Fluentd's parameter types.
func convert(v reflect.Value, val fluentconf.Value, tag reflect.StructTag, warn warner) *valueError {
	if warn == nil {
		warn = func(string, string) {}
	}
	show := val.Text
	if tag.Get("secret") == "true" {
		show = "xxxxxx"
		plain := warn
		warn = func(_, _ string) { plain("the value has an unusual form", "") }
	}
	if v.Type() == regexpType {
		return convertRegexp(v, val.Text, tag, warn)
	}
	if v.Kind() == reflect.Pointer {
		n := reflect.New(v.Type().Elem())
		if err := convert(n.Elem(), val, tag, warn); err != nil {
			return err
		}
		v.Set(n)
		return nil
	}
	switch v.Type() {
	case durationType:
		v.SetInt(int64(parseTime(val.Text, warn)))
		return nil
	case sizeType:
		v.SetInt(int64(parseSize(val.Text, warn)))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if e := tag.Get("enum"); e != "" && !contains(strings.Split(e, "|"), val.Text) {
			return wrong("write one of "+strings.ReplaceAll(e, "|", ", "), "valid options are %s but got %s", strings.ReplaceAll(e, "|", ","), show)
		}
		v.SetString(val.Text)
	case reflect.Bool:
		b, ok := parseBool(val.Text)
		if !ok {
			return wrong("write true or false", "%q is neither true nor false", show)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Int32:
		n := parseInt(val.Text, warn)
		if v.OverflowInt(n) {
			return wrong("", "%s is too large", show)
		}
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(parseFloat(val.Text, warn))
	case reflect.Slice:
		return convertArray(v, val, tag, warn)
	case reflect.Map:
		return convertHash(v, val)
	default:
		panic(fmt.Sprintf("config: no rule for a parameter of type %s", v.Type()))
	}
	return nil
}

func convertRegexp(v reflect.Value, text string, tag reflect.StructTag, warn warner) *valueError {
	re, err := rx.ParseLiteral(text)
	if err != nil {
		if tag.Get("secret") == "true" {
			return wrong("", "the regular expression is wrong or not supported")
		}
		how := ""
		if strings.LastIndexByte(text, '/') == 0 {
			how = "write it as /expression/, in single quotes if it has a #"
		}
		return wrong(how, "%v", err)
	}
	v.Set(reflect.ValueOf(re))
	if !strings.HasPrefix(text, "/") {
		return nil
	}
	end := strings.LastIndexByte(text, '/')
	switch {
	case end == 0:
		warn("the regular expression is empty: its closing slash is missing", "close it with /")
	case strings.Trim(text[end+1:], "im") != "":
		warn(fmt.Sprintf("the flags %q of the regular expression are ignored, as by Fluentd", strings.Trim(text[end+1:], "im")), "only i and m count; write (?x) into the expression for x")
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func convertArray(v reflect.Value, val fluentconf.Value, tag reflect.StructTag, warn warner) *valueError {
	texts, err := splitArray(val.Text)
	if err != nil {
		return err
	}
	out := reflect.MakeSlice(v.Type(), len(texts), len(texts))
	for i, t := range texts {
		if err := convert(out.Index(i), fluentconf.Value{Text: t, Pos: val.Pos}, tag, warn); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

// splitArray reads an array: JSON if it begins with a bracket, else a list with commas.
func splitArray(s string) ([]string, *valueError) {
	if !strings.HasPrefix(s, "[") {
		out := []string{}
		for _, part := range strings.Split(s, ",") {
			out = append(out, strings.TrimSpace(part))
		}
		// As Ruby's split: empty parts at the end do not count.
		for len(out) > 0 && out[len(out)-1] == "" {
			out = out[:len(out)-1]
		}
		return out, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(s), &raw); err != nil {
		return nil, wrong(`write ["a","b"] or a,b`, "the array is not valid JSON")
	}
	out := make([]string, len(raw))
	for i, r := range raw {
		out[i] = jsonText(r)
	}
	return out, nil
}

// jsonText gives a JSON value as text: strings without quotes, null as nothing, the rest as
// it is written.
func jsonText(r json.RawMessage) string {
	var s string
	if json.Unmarshal(r, &s) == nil {
		return s // null too: it leaves s empty
	}
	return string(r)
}

func convertHash(v reflect.Value, val fluentconf.Value) *valueError {
	m := map[string]string{}
	if strings.HasPrefix(val.Text, "{") {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(val.Text), &raw); err != nil {
			return wrong(`write {"a":"b"} or a:b,c:d`, "the hash is not valid JSON")
		}
		for k, r := range raw {
			m[k] = jsonText(r)
		}
	} else {
		parts, _ := splitArray(val.Text)
		for _, p := range parts {
			k, x, _ := strings.Cut(p, ":")
			m[k] = x // blanks around the colon belong to them
		}
	}
	v.Set(reflect.ValueOf(m).Convert(v.Type()))
	return nil
}

// parseBool reads a boolean; ok is false for texts that Fluentd takes for nil.
func parseBool(s string) (b, ok bool) {
	switch {
	case s == "true", s == "yes", s == "", strings.HasPrefix(s, "#"):
		return true, true
	case s == "false", s == "no":
		return false, true
	}
	return false, false
}

var (
	rubyInt   = regexp.MustCompile(`^\s*[+-]?[0-9](?:_?[0-9])*`)
	rubyFloat = regexp.MustCompile(`^\s*[+-]?(?:[0-9](?:_?[0-9])*(?:\.[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9]+)?`)
	plainInt  = regexp.MustCompile(`^\s*[+-]?[0-9](?:_?[0-9])*\s*$`)
	plainFlt  = regexp.MustCompile(`^\s*[+-]?(?:[0-9](?:_?[0-9])*)?(?:\.?[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9]+)?\s*$`)
	plainSize = regexp.MustCompile(`^\s*[0-9]+\s*$|^\s*[0-9]+[kmgtKMGT](?:[iI]?[bB])?\s*$`)
	plainTime = regexp.MustCompile(`^\s*[0-9]+[smhd]\s*$`)
	sizeUnits = []unit{{regexp.MustCompile(`([0-9]+)[kK]`), 1 << 10}, {regexp.MustCompile(`([0-9]+)[mM]`), 1 << 20}, {regexp.MustCompile(`([0-9]+)[gG]`), 1 << 30}, {regexp.MustCompile(`([0-9]+)[tT]`), 1 << 40}}
	timeUnits = []unit{{regexp.MustCompile(`([0-9]+)s`), 1}, {regexp.MustCompile(`([0-9]+)m`), 60}, {regexp.MustCompile(`([0-9]+)h`), 3600}, {regexp.MustCompile(`([0-9]+)d`), 86400}}
)

// unit is a suffix of sizes or times. Fluentd tries the units in order and takes the first
// hit anywhere in the text.
type unit struct {
	re     *regexp.Regexp
	factor int64
}

// byUnit finds the first unit that hits.
func byUnit(s string, units []unit) (int64, bool) {
	for _, u := range units {
		if m := u.re.FindStringSubmatch(s); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil || n > math.MaxInt64/u.factor {
				n = math.MaxInt64 / u.factor
			}
			return n * u.factor, true
		}
	}
	return 0, false
}

// toInt is Ruby's String#to_i.
func toInt(s string) int64 {
	m := strings.TrimSpace(strings.ReplaceAll(rubyInt.FindString(s), "_", ""))
	n, err := strconv.ParseInt(m, 10, 64)
	if err != nil && m != "" {
		n = math.MaxInt64
		if m[0] == '-' {
			n = math.MinInt64
		}
	}
	return n
}

// toFloat is Ruby's String#to_f.
func toFloat(s string) float64 {
	f, _ := strconv.ParseFloat(strings.TrimSpace(strings.ReplaceAll(rubyFloat.FindString(s), "_", "")), 64)
	return f
}

func parseInt(s string, warn warner) int64 {
	n := toInt(s)
	if !plainInt.MatchString(s) {
		warn(fmt.Sprintf("%q is read as the number %d, as by Fluentd", s, n), "write "+strconv.FormatInt(n, 10)+" or the number that is meant")
	}
	return n
}

func parseFloat(s string, warn warner) float64 {
	f := toFloat(s)
	if !plainFlt.MatchString(s) {
		t := strconv.FormatFloat(f, 'g', -1, 64)
		warn(fmt.Sprintf("%q is read as the number %s, as by Fluentd", s, t), "write "+t+" or the number that is meant")
	}
	return f
}

func parseSize(s string, warn warner) Size {
	n, ok := byUnit(s, sizeUnits)
	if !ok {
		n = toInt(s)
	}
	if !plainSize.MatchString(s) {
		hint := "write a whole number with k, m, g or t, such as 512k or 8m"
		if f := toFloat(s); ok && f > 0 && strings.Contains(s, ".") {
			if _, tail, _ := strings.Cut(s, "."); tail != "" {
				hint = "write a whole number of a smaller unit, such as 1536k for 1.5m"
			}
		}
		warn(fmt.Sprintf("%q is read as %d bytes, as by Fluentd", s, n), hint)
	}
	return Size(n)
}

func parseTime(s string, warn warner) time.Duration {
	var d time.Duration
	n, ok := byUnit(s, timeUnits)
	switch {
	case ok && n < int64(math.MaxInt64/time.Second):
		d = time.Duration(n) * time.Second
	case ok:
		d = math.MaxInt64
	default:
		f := toFloat(s) * float64(time.Second)
		switch {
		case f >= math.MaxInt64:
			d = math.MaxInt64
		case f <= math.MinInt64:
			d = math.MinInt64
		default:
			d = time.Duration(math.Round(f))
		}
	}
	if !plainTime.MatchString(s) && !plainFlt.MatchString(s) {
		warn(fmt.Sprintf("%q is read as %s, as by Fluentd", s, seconds(d)), timeHint(s))
	}
	return d
}

// seconds prints a duration as a Fluentd time.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " seconds"
}

// timeHint guesses what was meant.
func timeHint(s string) string {
	if d, err := time.ParseDuration(strings.ToLower(strings.TrimSpace(s))); err == nil {
		return "write " + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " for " + d.String()
	}
	return "write seconds (0.5) or a whole number with s, m, h or d (90s, 5m)"
}

// checkMin compares a number with the least value that its tag allows.
func checkMin(v reflect.Value, least string) *valueError {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if least == "" {
		return nil
	}
	var got, want float64
	switch {
	case v.Type() == durationType:
		got, want = time.Duration(v.Int()).Seconds(), parseTime(least, func(string, string) {}).Seconds()
	case v.Type() == sizeType:
		got, want = float64(v.Int()), float64(parseSize(least, func(string, string) {}))
	case v.CanInt():
		got, want = float64(v.Int()), toFloat(least)
	case v.CanFloat():
		got, want = v.Float(), toFloat(least)
	default:
		panic(fmt.Sprintf("config: min on a %s", v.Type()))
	}
	if got < want {
		return wrong("write "+least+" or more", "%s is too small", strconv.FormatFloat(got, 'f', -1, 64))
	}
	return nil
}
