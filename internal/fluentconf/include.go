package fluentconf

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// include splices the files that a pattern names into the section at hand. start is the
// offset of the directive, which stands on its line.
func (p *parser) include(start int, empty bool) {
	if empty || p.eof() {
		p.failAt(start, "write @include conf.d/*.conf", "@include needs a path")
		return
	}
	at := p.pos
	var v Value
	ok := true
	if c := p.text[at]; c == '"' || c == '\'' {
		v, ok = p.quoted()
	} else {
		v = p.plain()
	}
	if !ok {
		p.nextLine(start)
		return
	}
	if !p.lineEnd() {
		p.failAt(p.pos, "", "expected end of line")
		p.nextLine(p.pos)
		return
	}
	names, ok := p.included(v, p.file, "@include")
	if !ok {
		return
	}
	for _, name := range names {
		data, ok := p.readIncluded(v.Pos, name, p.open)
		switch {
		case !ok:
		case isYAML(name):
			p.yamlDocument(name, data, p.top(), p.open)
		default:
			p.run.file(name, data, p.top(), p.open)
		}
	}
}

// included lists the files that an include of the file from names, sorted. word is how the
// file writes it.
func (r *run) included(v Value, from, word string) (names []string, ok bool) {
	pattern, ok := r.includePattern(v, from, word)
	if !ok || r.full {
		return nil, false
	}
	if isURL(pattern) {
		if r.src.Fetch == nil {
			r.warn(v.Pos, fmt.Sprintf("%s %s is not fetched here, and what it says is not checked", word, v.Text), "weir run fetches it at its start and at each reload")
			return nil, false
		}
		return []string{pattern}, true
	}
	names, err := r.src.Glob(pattern)
	if err != nil {
		r.fail(v.Pos, fmt.Sprintf("cannot list the files of %s %s: %v", word, v.Text, err), "")
		return nil, false
	}
	slices.Sort(names)
	wild := strings.ContainsAny(pattern, "*?[{")
	if len(names) == 0 && !wild {
		r.warn(v.Pos, fmt.Sprintf("%s %s names no existing file", word, v.Text), "Fluentd ignores it silently")
	}
	for _, name := range names {
		base := strings.TrimSuffix(path.Base(name), path.Ext(name))
		if wild && (strings.HasSuffix(base, ".bak") || strings.HasSuffix(base, "_old") || strings.HasSuffix(base, ".old") || strings.HasSuffix(base, "_bak")) {
			r.warn(v.Pos, fmt.Sprintf("%s %s takes in %s, which looks like a backup copy", word, v.Text, name), "move it away or narrow the pattern")
		}
	}
	return names, true
}

// includePattern turns what stands behind @include into a path pattern.
func (r *run) includePattern(v Value, from, word string) (string, bool) {
	s := v.Text
	if isURL(s) || isURL(from) && !strings.Contains(s, "://") && !path.IsAbs(s) {
		base, err := url.Parse(from)
		var u *url.URL
		if err == nil {
			u, err = base.Parse(s)
		}
		if err != nil {
			r.fail(v.Pos, fmt.Sprintf("%s %s: %v", word, s, err), "write a whole address, such as https://host/path/file.conf")
			return "", false
		}
		return u.String(), true
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if scheme != "file" {
			r.fail(v.Pos, fmt.Sprintf("%s from %s:// is not supported", word, scheme), "include a file by its path, or by http:// or https://")
			return "", false
		}
		s = rest
		if host, tail, ok := strings.Cut(rest, "/"); ok && (host == "" || host == "localhost") {
			s = "/" + tail
		}
	} else {
		s = strings.TrimPrefix(s, "file:")
	}
	// Fluentd reads the path as a URL: blanks are let through, %xx is decoded.
	if u, err := url.PathUnescape(s); err == nil {
		s = u
	}
	if s == "" {
		r.fail(v.Pos, word+" needs a path", "write "+word+" conf.d/*.conf")
		return "", false
	}
	if !path.IsAbs(s) {
		s = path.Join(path.Dir(from), s)
	}
	return path.Clean(s), true
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// readIncluded reads an included file. open lists the files being read.
func (r *run) readIncluded(at Pos, name string, open []string) (data []byte, ok bool) {
	if slices.Contains(open, name) {
		r.fail(at, fmt.Sprintf("@include loop: %s includes itself", strings.Join(append(slices.Clone(open), name), " -> ")), "")
		return nil, false
	}
	if len(open) > maxDepth {
		r.fail(at, fmt.Sprintf("@include is nested deeper than %d files", maxDepth), "")
		return nil, false
	}
	read, how := r.src.ReadFile, ""
	if isURL(name) {
		read, how = r.src.Fetch, "weir does not start without it: see whether the address answers from this machine"
	}
	data, err := read(name)
	if err != nil {
		r.fail(at, fmt.Sprintf("cannot read the included file %s: %v", name, err), how)
		return nil, false
	}
	return data, true
}

// GlobFS lists the files of fsys that match a pattern as Ruby's Dir.glob does: *, ?, [a-z],
// {a,b} and ** for any number of directories; names that begin with a dot are matched by a
// literal dot only. The pattern is a path within fsys (no leading slash). It is meant for
// Source.Glob.
func GlobFS(fsys fs.FS, pattern string) ([]string, error) {
	var out []string
	for _, alt := range expandBraces(pattern) {
		if err := globParts(fsys, ".", strings.Split(alt, "/"), &out); err != nil {
			return nil, fmt.Errorf("listing %s: %w", pattern, err)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func globParts(fsys fs.FS, dir string, parts []string, out *[]string) error {
	part, rest := parts[0], parts[1:]
	if part == "" || part == "." {
		if len(rest) == 0 {
			return nil
		}
		return globParts(fsys, dir, rest, out)
	}
	if !strings.ContainsAny(part, "*?[\\") {
		name := path.Join(dir, part)
		info, err := fs.Stat(fsys, name)
		switch {
		case err != nil:
			return nil // nothing there, or not to be read: it matches nothing
		case len(rest) > 0 && info.IsDir():
			return globParts(fsys, name, rest, out)
		case len(rest) == 0 && !info.IsDir():
			*out = append(*out, name)
		}
		return nil
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	if part == "**" && len(rest) > 0 {
		if err := globParts(fsys, dir, rest, out); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(part, ".") {
			continue
		}
		name := path.Join(dir, e.Name())
		if part == "**" && len(rest) > 0 {
			if e.IsDir() {
				if err := globParts(fsys, name, parts, out); err != nil {
					return err
				}
			}
			continue
		}
		ok, err := path.Match(part, e.Name())
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		info, err := fs.Stat(fsys, name) // through symbolic links: Kubernetes mounts files so
		if err != nil {
			continue
		}
		if len(rest) == 0 && !info.IsDir() {
			*out = append(*out, name)
		} else if len(rest) > 0 && info.IsDir() {
			if err := globParts(fsys, name, rest, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxAlternatives bounds what {a,b}{c,d}… can multiply to.
const maxAlternatives = 1024

// expandBraces writes out {a,b}.
func expandBraces(s string) []string {
	out := []string{s}
	for i := 0; i < len(out) && len(out) < maxAlternatives; {
		open := strings.IndexByte(out[i], '{')
		if open < 0 {
			i++
			continue
		}
		depth, end := 0, -1
		cuts := []int{open}
	scan:
		for j := open; j < len(out[i]); j++ {
			switch out[i][j] {
			case '{':
				depth++
			case ',':
				if depth == 1 {
					cuts = append(cuts, j)
				}
			case '}':
				if depth--; depth == 0 {
					end = j
					break scan
				}
			}
		}
		if end < 0 {
			i++
			continue
		}
		head, tail := out[i][:open], out[i][end+1:]
		cuts = append(cuts, end)
		var alts []string
		for k := 0; k+1 < len(cuts); k++ {
			alts = append(alts, head+out[i][cuts[k]+1:cuts[k+1]]+tail)
		}
		out = slices.Replace(out, i, i+1, alts...)
	}
	return out
}
