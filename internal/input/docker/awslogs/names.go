package awslogs

import (
	"strings"
	"unicode/utf8"
)

// maxName is the most characters of a name of a group or stream.
const maxName = 512

// replacement stands for what is not allowed in a name. It is the same everywhere in weir.
const replacement = '_'

// names reads the group and the streams.
func (r *reader) names(o *Options) {
	literal := !r.yes(keyTemplates, true)
	sanitize := r.yes(keySanitize, true)

	if group := r.cfg[keyGroup]; group == "" {
		r.fail("must specify a value for log opt '%s'", keyGroup)
	} else {
		o.Group = r.name(keyGroup, r.template(keyGroup, group, literal, &r.info), badGroup, legalGroup, sanitize)
	}

	// As in awslogs, tag is expanded even if awslogs-stream then counts.
	key, tag := keyTag, r.cfg[keyTag]
	if tag == "" {
		tag = "{{.FullID}}"
	}
	stream := r.template("log-tag", tag, false, &r.info)
	if v := r.cfg[keyStream]; v != "" {
		key, stream = keyStream, r.template(keyStream, v, literal, &r.info)
	}
	o.Stream = r.name(key, stream, badStream, legalStream, sanitize)

	if v := r.cfg[keyStderr]; v != "" {
		o.StderrStream = r.name(keyStderr, r.template(keyStderr, v, literal, ofStderr{&r.info, o.Stream, "stderr"}), badStream, legalStream, sanitize)
		if o.StderrStream == o.Stream {
			o.StderrStream = ""
		}
	}
}

// ofStderr is what the template of weir-stderr-stream can use: all that the others can, the
// stream of stdout and the word stderr.
type ofStderr struct {
	*Info
	Stream string
	Source string
}

// template expands text. It returns nil where it has reported a mistake.
func (r *reader) template(name, text string, literal bool, data any) *string {
	if literal || !strings.Contains(text, "{{") {
		return &text
	}
	s, err := expand(name, text, data)
	if err != nil {
		r.bad = append(r.bad, err)
		return nil
	}
	return &s
}

// name makes a name legal, or reports why it is not. A nil name was reported before.
func (r *reader) name(key string, name *string, bad func(string) string, legal func(string) string, sanitize bool) string {
	if name == nil {
		return ""
	}
	s := *name
	if s == "" {
		r.value(key, "'%s' makes an empty name for this container", r.cfg[key])
		return ""
	}
	if sanitize {
		return legal(s)
	}
	if what := bad(s); what != "" {
		r.value(key, "the name '%s' %s (without %s=false it is made legal)", s, what, keySanitize)
	}
	return s
}

func groupChar(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-_/#", c)
}

// streamChar excludes what the service does, and NUL, which separates names here.
func streamChar(c rune) bool { return c != ':' && c != '*' && c != 0 }

// badGroup says what is wrong with a group's name, or "".
func badGroup(s string) string {
	switch {
	case utf8.RuneCountInString(s) > maxName:
		return "is longer than 512 characters"
	case reserved(s):
		return "begins with aws/, which is reserved"
	case strings.ContainsFunc(s, func(c rune) bool { return !groupChar(c) }):
		return "has characters other than letters, digits and . - _ / #"
	}
	return ""
}

// badStream says what is wrong with a stream's name, or "".
func badStream(s string) string {
	switch {
	case utf8.RuneCountInString(s) > maxName:
		return "is longer than 512 characters"
	case strings.ContainsFunc(s, func(c rune) bool { return !streamChar(c) }):
		return "has : or * or a NUL character"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// legalGroup makes a name legal: what is not allowed becomes _, what is too long is cut.
func legalGroup(s string) string {
	s = legal(s, groupChar)
	if reserved(s) {
		s = s[:3] + string(replacement) + s[len("aws/"):]
	}
	return s
}

// legalStream makes a name legal, like legalGroup.
func legalStream(s string) string { return legal(s, streamChar) }

// legal replaces each character that is not allowed, a byte outside UTF-8 too, and keeps
// the first maxName.
func legal(s string, allowed func(rune) bool) string {
	var b strings.Builder
	n := 0
	for i, c := range s {
		if n++; n > maxName {
			break
		}
		if c == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				c = replacement
			}
		}
		if !allowed(c) {
			c = replacement
		}
		b.WriteRune(c)
	}
	return b.String()
}

// reserved says whether a group's name begins as Amazon's own do, in either case: the
// service says AWS/ when it refuses one, and its documentation aws/.
func reserved(s string) bool { return len(s) >= 4 && strings.EqualFold(s[:4], "aws/") }
