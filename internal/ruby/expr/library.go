package expr

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"

	"weir/internal/ruby/rx"
)

func digest(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	b := bytesOf(a[0].s.s)
	var sum []byte
	switch n.recv {
	case "Digest::MD5":
		x := md5.Sum(b)
		sum = x[:]
	case "Digest::SHA1":
		x := sha1.Sum(b)
		sum = x[:]
	case "Digest::SHA256":
		x := sha256.Sum256(b)
		sum = x[:]
	case "Digest::SHA384":
		x := sha512.Sum384(b)
		sum = x[:]
	default:
		x := sha512.Sum512(b)
		sum = x[:]
	}
	if n.name == "base64digest" {
		return m.str(base64.StdEncoding.EncodeToString(sum)), nil
	}
	return m.str(hex.EncodeToString(sum)), m.charge(n, len(b)/256)
}

// random fills b.
func (m *Machine) random(n node, b []byte) error {
	if m.env.Random == nil {
		return m.exceed(n, "random numbers are not available here")
	}
	m.env.Random(b)
	return nil
}

// randomBelow is a random number below limit, which is not 0. The remainder of 64 bits is
// even enough.
func (m *Machine) randomBelow(n node, limit uint64) (uint64, error) {
	var b [8]byte
	if err := m.random(n, b[:]); err != nil {
		return 0, err
	}
	x := uint64(0)
	for _, c := range b {
		x = x<<8 | uint64(c)
	}
	return x % limit, nil
}

func secureRandom(m *Machine, n *constCall, a []Value) (Value, error) {
	if n.name == "random_number" {
		return randomRand(m, n, a)
	}
	size := 16
	if len(a) == 1 && !a[0].IsNil() {
		var err error
		if size, err = m.intArg(n, a[0]); err != nil {
			return Value{}, err
		}
		if size < 0 {
			return Value{}, m.raise(n, "ArgumentError", "negative string size (or size too big)")
		}
	}
	if err := m.checkText(n, 2*size); err != nil {
		return Value{}, err
	}
	b := make([]byte, size)
	if err := m.random(n, b); err != nil {
		return Value{}, err
	}
	switch n.name {
	case "uuid":
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		s := hex.EncodeToString(b)
		return m.str(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]), nil
	case "base64":
		return m.str(base64.StdEncoding.EncodeToString(b)), nil
	case "urlsafe_base64":
		return m.str(base64.RawURLEncoding.EncodeToString(b)), nil
	case "alphanumeric":
		const chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
		for i, c := range b {
			b[i] = chars[int(c)%len(chars)]
		}
		return m.str(string(b)), nil
	}
	return m.str(hex.EncodeToString(b)), nil
}

// randomRand is Random.rand and rand: a Float below 1, or an Integer below or within what is
// given.
func randomRand(m *Machine, n *constCall, a []Value) (Value, error) { return m.rand(n, a) }

func (m *Machine) rand(n node, a []Value) (Value, error) {
	var limit uint64
	from := int64(0)
	if len(a) == 1 {
		switch v := a[0]; v.kind {
		case Int:
			limit = uint64(max(v.int(), -v.int()))
		case Float:
			limit = 0
			x, err := m.randomBelow(n, 1<<53)
			return floatValue(float64(x) / (1 << 53) * v.float()), err
		case RangeKind:
			lo, hi := v.o.items[0], v.o.items[1]
			if lo.kind != Int || hi.kind != Int || hi.int()-int64(v.bits) < lo.int() {
				return Value{}, nil
			}
			from, limit = lo.int(), uint64(hi.int()-lo.int())+1-v.bits
		case Nil:
		default:
			return Value{}, m.noConversion(n, v, "Integer")
		}
	}
	if limit == 0 {
		x, err := m.randomBelow(n, 1<<53)
		return floatValue(float64(x) / (1 << 53)), err
	}
	x, err := m.randomBelow(n, limit)
	return intValue(from + int64(x)), err
}

// webText is the escaping of CGI and URI.
func webText(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	s := a[0].s.s
	switch n.name {
	case "escape":
		return m.str(percentEncode(s, "-_.~")), nil
	case "encode_www_form_component":
		return m.str(percentEncode(s, "*-._")), nil
	case "unescape":
		return m.str(percentDecode(s)), nil
	case "decode_www_form_component":
		if _, err := url.QueryUnescape(s); err != nil {
			return Value{}, m.raise(n, "ArgumentError", "invalid %%-encoding (%s)", s)
		}
		return m.str(percentDecode(s)), nil
	case "escapeHTML", "escape_html":
		return m.str(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)), nil
	}
	return m.str(strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&apos;", "'").Replace(s)), nil
}

// percentEncode escapes all but letters, digits and what is safe; a blank becomes +.
func percentEncode(s, safe string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			b.WriteByte('+')
		case c < 0x80 && c != '_' && isIdent(c), strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// percentDecode is the reverse; what is no escape stays.
func percentDecode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if x, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(x))
				i += 2
				continue
			}
		}
		if s[i] == '+' {
			b.WriteByte(' ')
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// webForm is encode_www_form and decode_www_form.
func webForm(m *Machine, n *constCall, a []Value) (Value, error) {
	if n.name == "decode_www_form" {
		if err := m.need(n, String, a[0]); err != nil {
			return Value{}, err
		}
		var items []Value
		for part := range strings.SplitSeq(a[0].s.s, "&") {
			k, v, _ := strings.Cut(part, "=")
			if part != "" {
				items = append(items, m.array([]Value{m.str(percentDecode(k)), m.str(percentDecode(v))}))
			}
		}
		return m.array(items), m.checkItems(n, len(items))
	}
	if a[0].kind != HashKind && a[0].kind != ArrayKind {
		return Value{}, m.raise(n, "ArgumentError", "invalid data of URI.encode_www_form")
	}
	pairs, err := m.elements(n, a[0])
	if err != nil {
		return Value{}, err
	}
	var parts []string
	for _, p := range pairs {
		if p.kind != ArrayKind || len(m.items(p)) != 2 {
			return Value{}, m.raise(n, "ArgumentError", "invalid data of URI.encode_www_form")
		}
		s := percentEncode(p.o.items[0].ToS(), "*-._")
		if v := p.o.items[1]; !v.IsNil() {
			s += "=" + percentEncode(v.ToS(), "*-._")
		}
		parts = append(parts, s)
	}
	return m.str(strings.Join(parts, "&")), nil
}

func uriParse(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	s := a[0].s.s
	bad := false
	for i := range len(s) {
		bad = bad || s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte("<>\"{}|\\^`", s[i]) >= 0
	}
	u, err := url.Parse(strings.Clone(s))
	if err != nil || bad {
		return Value{}, m.raise(n, "URI::InvalidURIError", "bad URI(is not URI?): %s", a[0].Inspect())
	}
	v, x := m.withExtra(URIKind)
	x.uri = u
	return v, nil
}

func base64Text(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	b := bytesOf(a[0].s.s)
	var out []byte
	var err error
	switch n.name {
	case "encode64": // lines of 60 characters
		s := base64.StdEncoding.EncodeToString(b)
		for len(s) > 0 {
			k := min(len(s), 60)
			out = append(append(out, s[:k]...), '\n')
			s = s[k:]
		}
		return m.str(view(out)), nil
	case "strict_encode64":
		return m.str(base64.StdEncoding.EncodeToString(b)), nil
	case "urlsafe_encode64":
		return m.str(base64.URLEncoding.EncodeToString(b)), nil
	case "strict_decode64":
		out, err = base64.StdEncoding.Strict().DecodeString(a[0].s.s)
	case "urlsafe_decode64":
		out, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(a[0].s.s, "="))
	default: // decode64
		out, err = lenientBase64(a[0].s.s)
	}
	if err != nil {
		return Value{}, m.raise(n, "ArgumentError", "invalid base64")
	}
	v := m.str(view(out))
	v.s.enc = binaryText
	return v, nil
}

// lenientBase64 passes over what does not belong.
func lenientBase64(s string) ([]byte, error) {
	s = strings.Map(func(r rune) rune {
		if r == '+' || r == '/' || r < 0x80 && r != '_' && isIdent(byte(r)) {
			return r
		}
		return -1
	}, s)
	if len(s)%4 == 1 {
		s = s[:len(s)-1]
	}
	return base64.RawStdEncoding.DecodeString(s)
}

func checksum(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	return intValue(int64(crc32.ChecksumIEEE(bytesOf(a[0].s.s)))), nil
}

// quoteRegexp escapes a text so that it stands for itself.
func quoteRegexp(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		case '\r':
			b.WriteString(`\r`)
		case '\f':
			b.WriteString(`\f`)
		case '\v':
			b.WriteString(`\v`)
		case '[', ']', '{', '}', '(', ')', '|', '-', '*', '.', '\\', '?', '+', '^', '$', '#', ' ':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func regexpText(m *Machine, n *constCall, a []Value) (Value, error) {
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	return m.str(quoteRegexp(a[0].s.s)), m.checkText(n, 2*len(a[0].s.s))
}

func regexpNew(m *Machine, n *constCall, a []Value) (Value, error) {
	if a[0].kind == RegexpKind {
		return a[0], nil
	}
	if err := m.need(n, String, a[0]); err != nil {
		return Value{}, err
	}
	var o rx.Options
	if len(a) == 2 {
		switch bits := a[1].int(); {
		case a[1].kind == Int:
			o = rx.Options{IgnoreCase: bits&1 != 0, Extended: bits&2 != 0, DotAll: bits&4 != 0}
		case a[1].Truthy():
			o.IgnoreCase = true
		}
	}
	return m.makeRegexp(n, a[0].s.s, o)
}

func (m *Machine) makeRegexp(n node, s string, o rx.Options) (Value, error) {
	if err := m.charge(n, 200); err != nil {
		return Value{}, err
	}
	re, err := rx.Compile(strings.Clone(s), o)
	if err != nil {
		return Value{}, m.raise(n, "RegexpError", "%v", err)
	}
	return regexpValue(&pattern{re: re}), nil
}

func regexpUnion(m *Machine, n *constCall, a []Value) (Value, error) {
	if len(a) == 1 && a[0].kind == ArrayKind {
		a = m.items(a[0])
	}
	if len(a) == 1 && a[0].kind == RegexpKind {
		return a[0], nil
	}
	var parts []string
	for _, v := range a {
		switch v.kind {
		case String:
			parts = append(parts, quoteRegexp(v.s.s))
		case RegexpKind:
			parts = append(parts, v.o.x.re.text())
		default:
			return Value{}, m.noConversion(n, v, "String")
		}
	}
	return m.makeRegexp(n, strings.Join(parts, "|"), rx.Options{})
}

func regexpLast(m *Machine, n *constCall, a []Value) (Value, error) {
	if m.last == nil {
		return Value{}, nil
	}
	if len(a) == 1 {
		return matchIndex(m, &call{off: n.off}, m.matchValue(m.last), a)
	}
	return m.matchValue(m.last), nil
}
