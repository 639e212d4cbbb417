package fluentconf

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of one configuration. They exist so that a generated or hostile file ends in an
// error and not in exhausted memory; no public configuration comes near them.
const (
	maxDepth = 100     // nested sections
	maxFiles = 10_000  // files read through @include
	maxBytes = 1 << 26 // bytes of all files together
)

// Source is where a configuration comes from. The package does no I/O itself: it asks
// these functions.
type Source struct {
	// Name of the first file, as it is to appear in positions. Relative includes are
	// looked up in its directory.
	Name string
	// Form of the first file: "v1", "yaml", or "" to go by its name: .yaml and .yml are YAML.
	Form string
	// Inline is text in the v1 form that is read behind the first file.
	Inline string
	// More, if set, names files that are read behind the first one unless they have been
	// included before, and is asked once the first one has been read: its <system> may say
	// where they are.
	More func(root *Section) []string
	// ReadFile returns the content of a file.
	ReadFile func(name string) ([]byte, error)
	// Glob lists the files that match an include pattern, in any order. GlobFS is one for
	// an fs.FS. A plain path that does not exist gives no names and no error.
	Glob func(pattern string) ([]string, error)
	// Fetch returns the content behind an include of http:// or https://. Without it such an
	// include is left out, with a warning.
	Fetch func(url string) ([]byte, error)
	// Eval evaluates the Ruby expression of one "#{…}" and gives its text. Without it
	// embedded Ruby is an error. An error with a method Offset() int is shown at that
	// offset within the expression.
	Eval func(expr string, pos Pos) (text string, state State, err error)
	// End finds the end of an embedded expression: the offset in rest of the brace that
	// closes it, or -1. Without it the end is the first closing brace.
	End func(rest string) int
}

// Parse reads a configuration with everything it includes. It goes on after a mistake and
// reports as many as it can; the tree is complete only when errs is empty. Warnings concern
// what Fluentd accepts and the author probably did not mean.
func Parse(src Source) (root *Section, errs, warnings []*Error) {
	root = &Section{Pos: Pos{File: src.Name, Line: 1, Column: 1}}
	r := &run{src: src, read: map[string]bool{}}
	data, err := src.ReadFile(src.Name)
	if err != nil {
		r.fail(root.Pos, fmt.Sprintf("cannot read the configuration: %v", err), "")
		return root, r.errs, r.warnings
	}
	r.document(src.Name, src.Form == "yaml" || src.Form == "" && isYAML(src.Name), data, root)
	if src.Inline != "" {
		r.file("inline configuration", []byte(src.Inline), root, []string{src.Name})
	}
	if src.More != nil {
		for _, name := range src.More(root) {
			if r.read[name] { // an @include has brought it already; Fluentd would have everything in it twice
				continue
			}
			if data, ok := r.readIncluded(Pos{File: name, Line: 1, Column: 1}, name, nil); ok {
				r.document(name, isYAML(name), data, root)
			}
		}
	}
	return root, r.errs, r.warnings
}

// document reads a file of either form.
func (r *run) document(name string, yaml bool, data []byte, root *Section) {
	if yaml {
		r.yamlDocument(name, data, root, nil)
	} else {
		r.file(name, data, root, nil)
	}
}

// run is the state of one Parse over all its files.
type run struct {
	src      Source
	errs     []*Error
	warnings []*Error
	files    int
	bytes    int
	read     map[string]bool          // names of files read
	full     bool                     // it was too much, and that has been reported
	origin   map[*yaml.Node]*yamlFile // of values that an !include has taken in
}

func (r *run) fail(pos Pos, text, hint string) {
	r.errs = append(r.errs, &Error{Pos: pos, Text: text, Hint: hint})
}

func (r *run) warn(pos Pos, text, hint string) {
	r.warnings = append(r.warnings, &Error{Pos: pos, Text: text, Hint: hint})
}

// file parses one file into the section that includes it. open lists the files being
// read, outermost first.
func (r *run) file(name string, data []byte, into *Section, open []string) {
	pos := Pos{File: name, Line: 1, Column: 1}
	if !r.admit(name, len(data)) {
		return
	}
	text := string(data)
	if strings.HasPrefix(text, "\ufeff") {
		// Fluentd makes the byte order mark part of the first key, which then never works.
		text = text[len("\ufeff"):]
		r.warn(pos, "the file begins with a byte order mark", "save it as UTF-8 without BOM; Fluentd would read the mark as part of the first key")
	}
	if !utf8.ValidString(text) {
		r.warn(pos, "the file is not valid UTF-8", "save it as UTF-8")
	}
	p := &parser{run: r, file: name, text: text, open: append(open[:len(open):len(open)], name)}
	p.indexLines()
	p.body(into)
}

// admit counts a file and says whether the configuration may be that large.
func (r *run) admit(name string, size int) bool {
	r.files++
	r.bytes += size
	r.read[name] = true
	if r.files > maxFiles || r.bytes > maxBytes {
		if r.full {
			return false
		}
		r.full = true
		r.fail(Pos{File: name, Line: 1, Column: 1}, fmt.Sprintf("the configuration is larger than %d files or %d bytes", maxFiles, maxBytes), "")
		return false
	}
	return true
}

// parser reads one file.
type parser struct {
	*run
	file  string
	text  string
	pos   int   // offset of what comes next
	lines []int // offsets of line starts
	open  []string
	stack []*Section // open sections of this file, outermost first
}

func (p *parser) indexLines() {
	p.lines = append(p.lines, 0)
	for i := 0; i < len(p.text); i++ {
		if p.text[i] == '\n' {
			p.lines = append(p.lines, i+1)
		}
	}
}

// at turns an offset into a position. Columns count characters.
func (p *parser) at(off int) Pos {
	lo, hi := 0, len(p.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; p.lines[mid] <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	return Pos{File: p.file, Line: lo + 1, Column: utf8.RuneCountInString(p.text[p.lines[lo]:off]) + 1}
}

func (p *parser) failAt(off int, hint, format string, args ...any) {
	p.fail(p.at(off), fmt.Sprintf(format, args...), hint)
}

func (p *parser) eof() bool { return p.pos >= len(p.text) }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// skipSpace passes over white space and, if asked, comments.
func (p *parser) skipSpace(comments bool) {
	for !p.eof() {
		switch c := p.text[p.pos]; {
		case isSpace(c):
			p.pos++
		case c == '#' && comments:
			p.toLineEnd()
		default:
			return
		}
	}
}

func (p *parser) toLineEnd() {
	if i := strings.IndexAny(p.text[p.pos:], "\r\n"); i >= 0 {
		p.pos += i
		return
	}
	p.pos = len(p.text)
}

// nextLine recovers after a mistake: it goes behind the end of the line of off.
func (p *parser) nextLine(off int) {
	p.pos = max(p.pos, off)
	if i := strings.IndexByte(p.text[off:], '\n'); i >= 0 {
		p.pos = off + i + 1
		return
	}
	p.pos = len(p.text)
}

// lineEnd passes over blanks, a comment and the line's end; false if something else stands there.
func (p *parser) lineEnd() bool {
	i := p.pos
	for i < len(p.text) && isBlank(p.text[i]) {
		i++
	}
	if i < len(p.text) && p.text[i] != '#' && p.text[i] != '\r' && p.text[i] != '\n' {
		return false
	}
	p.pos = i
	p.toLineEnd()
	return true
}

// body reads sections and parameters into root until the end of the file.
func (p *parser) body(root *Section) {
	p.stack = []*Section{root}
	for {
		p.skipSpace(true)
		if p.eof() {
			break
		}
		switch rest := p.text[p.pos:]; {
		case strings.HasPrefix(rest, "</"):
			p.closeTag()
		case rest[0] == '<':
			p.openTag()
		default:
			p.line()
		}
	}
	for i := len(p.stack) - 1; i > 0; i-- {
		s := p.stack[i]
		p.fail(s.Pos, fmt.Sprintf("section <%s> is not closed before the end of the file", s.Name), fmt.Sprintf("write </%s> on a line of its own", s.Name))
	}
}

func (p *parser) top() *Section { return p.stack[len(p.stack)-1] }

func (p *parser) closeTag() {
	start := p.pos
	p.pos += 2
	n := p.pos
	for !p.eof() && isName(p.text[p.pos]) {
		p.pos++
	}
	name := p.text[n:p.pos]
	for !p.eof() && isBlank(p.text[p.pos]) {
		p.pos++
	}
	if name == "" || p.eof() || p.text[p.pos] != '>' {
		bad := p.pos
		if name == "" {
			bad = n
		}
		p.failAt(bad, "write it like </match>", "expected character in tag name")
		p.nextLine(p.pos)
		// The section was surely meant to end here; going on inside it would only produce
		// mistakes that are none.
		if name == "" {
			p.stack = p.stack[:max(1, len(p.stack)-1)]
			return
		}
	} else {
		p.pos++
		if !p.lineEnd() {
			p.failAt(p.pos, "only a comment may follow on the line", "expected end of line after end tag")
			p.nextLine(p.pos)
		}
	}
	p.closeSection(name, start)
}

// closeSection leaves the innermost section of this name, complaining when others are open in it.
func (p *parser) closeSection(name string, start int) {
	i := len(p.stack) - 1
	for i > 0 && p.stack[i].Name != name {
		i--
	}
	if i == 0 {
		hint := "no section of this name is open here"
		if t := p.top(); len(p.stack) > 1 {
			hint = fmt.Sprintf("<%s> of %s is to be closed by </%s>", t.Name, t.Pos, t.Name)
		}
		p.failAt(start, hint, "unmatched end tag </%s>", name)
		return
	}
	for j := len(p.stack) - 1; j > i; j-- {
		s := p.stack[j]
		p.failAt(start, fmt.Sprintf("write </%s> before", s.Name), "unmatched end tag </%s>: <%s> of %s is still open", name, s.Name, s.Pos)
	}
	p.stack = p.stack[:i]
}

func (p *parser) openTag() {
	start := p.pos
	p.pos++
	n := p.pos
	for !p.eof() && isName(p.text[p.pos]) {
		p.pos++
	}
	s := &Section{Name: p.text[n:p.pos], Pos: p.at(start)}
	if s.Name == "" {
		p.failAt(start, "write it like <match app.**>", "expected a section name after '<'")
		p.nextLine(start)
		return
	}
	if len(p.stack) > maxDepth {
		p.failAt(start, "", "sections are nested deeper than %d", maxDepth)
		p.pos = len(p.text)
		p.stack = p.stack[:1]
		return
	}
	ok := p.tagArg(s)
	top := p.top()
	top.Sections = append(top.Sections, s)
	p.stack = append(p.stack, s)
	if !ok {
		p.nextLine(start)
		return
	}
	if !p.lineEnd() {
		p.failAt(p.pos, "the opening tag, each parameter and the closing tag stand on lines of their own", "expected end of line after tag")
		end := p.pos
		p.nextLine(start)
		if strings.Contains(p.text[end:p.pos], "</"+s.Name+">") {
			p.stack = p.stack[:len(p.stack)-1]
		}
	}
}

// tagArg reads the argument of an opening tag and its '>'.
func (p *parser) tagArg(s *Section) bool {
	for !p.eof() && isBlank(p.text[p.pos]) {
		p.pos++
	}
	if p.eof() {
		p.failAt(p.pos, "", "expected '>'")
		return false
	}
	if c := p.text[p.pos]; c == '"' || c == '\'' {
		s.HasArg = true
		v, ok := p.quoted()
		s.Arg = v.Text
		if !ok {
			return false
		}
		for !p.eof() && isBlank(p.text[p.pos]) {
			p.pos++
		}
	} else {
		start := p.pos
		for !p.eof() && p.text[p.pos] != '>' && p.text[p.pos] != '\n' && p.text[p.pos] != '\r' {
			p.pos++
		}
		s.Arg = strings.TrimRight(p.text[start:p.pos], " \t")
		s.HasArg = s.Arg != ""
	}
	if p.eof() || p.text[p.pos] != '>' {
		p.failAt(p.pos, "an opening tag ends with '>' on its own line", "expected '>'")
		return false
	}
	p.pos++
	return true
}
