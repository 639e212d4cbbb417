package fluentconf

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// isYAML says whether a file is read as YAML, by its name.
func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// maxNodes bounds the values of one YAML file with its aliases written out: a small file
// can name itself a billion times.
const maxNodes = 1 << 18

// yamlFile reads one file in YAML form. Its tree is built as if the file were written in
// the v1 form.
type yamlFile struct {
	*run
	file  string
	open  []string // files being read, outermost first, this one included
	spent *spent   // over everything that this file includes
}

// spent is what has been visited of a file, its aliases written out.
type spent struct {
	nodes int // a long text counts as several
	over  bool
}

// yamlDocument reads a whole document, `system:` and `config:`, into a section. What is
// taken in by a file of the other form may be a bare list as well.
func (r *run) yamlDocument(name string, data []byte, into *Section, open []string) {
	if !r.admit(name, len(data)) {
		return
	}
	y := &yamlFile{run: r, file: name, open: append(open[:len(open):len(open)], name), spent: &spent{}}
	root := y.parse(data)
	if root == nil {
		return
	}
	y.document(root, into, len(open) > 0)
}

func (y *yamlFile) document(root *yaml.Node, into *Section, included bool) {
	switch {
	case root.Kind == yaml.SequenceNode && included:
		y.items(root, into, 0)
		return
	case root.Kind != yaml.MappingNode:
		y.fail(y.at(root), "a configuration in YAML form is a map with the key config", "begin the file with the line config: and list the sections below it")
		return
	}
	found := included
	for _, e := range y.entries(root, 0) {
		switch e.key {
		case "system":
			found = true
			if v := y.value(e.value); v.Kind == yaml.MappingNode {
				y.section("system", v, into, 1)
			} else {
				y.fail(y.at(v), "system: is to be a map", "write its parameters below it, two columns further right")
			}
		case "config":
			found = true
			y.items(e.value, into, 0)
		default:
			if holdsAnchor(e.value, 0) {
				continue // what it holds is for aliases
			}
			y.warn(y.at(e.keyNode), fmt.Sprintf("the key %s is not used: the top level has config and system only", e.key), "sections and parameters belong below one of them")
		}
	}
	if !found {
		y.fail(y.at(root), "the file has no config:", "list the sections below a key config")
	}
}

// holdsAnchor says whether a value, or one somewhere in it, is there to be named elsewhere.
func holdsAnchor(n *yaml.Node, depth int) bool {
	if n.Anchor != "" {
		return true
	}
	for _, c := range n.Content {
		if depth < 8 && holdsAnchor(c, depth+1) {
			return true
		}
	}
	return false
}

// parse gives the root of the first document in data; nil after an error or when it is empty.
func (y *yamlFile) parse(data []byte) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		pos := Pos{File: y.file, Line: 1, Column: 1}
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			pos.Line, _ = strconv.Atoi(m[1])
			text = m[2]
			if strings.HasPrefix(text, "did not find expected") {
				pos.Line++ // the library counts the lines of these from 0, and names where the construct begins
			}
		}
		y.fail(pos, "this is not YAML: "+text, "check indentation and quotes; blanks, not tabs, indent, and values that begin with one of @ ` % & * ! | > { [ need quotes")
		return nil
	}
	if len(doc.Content) == 0 {
		y.fail(Pos{File: y.file, Line: 1, Column: 1}, "the file holds nothing", "list sections below a key config")
		return nil
	}
	return doc.Content[0]
}

var yamlLine = regexp.MustCompile(`^line (\d+): (.*)$`)

func (y *yamlFile) at(n *yaml.Node) Pos {
	if o := y.origin[n]; o != nil {
		return Pos{File: o.file, Line: n.Line, Column: n.Column}
	}
	return Pos{File: y.file, Line: n.Line, Column: n.Column}
}

// value follows an alias.
func (y *yamlFile) value(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && i < maxDepth; i++ {
		n = n.Alias
	}
	return n
}

// count notes that a value is visited, and says whether that may go on. A refusal is
// reported once.
func (y *yamlFile) count(n *yaml.Node, depth int) bool {
	const textNode = 256 // bytes of text that count as a value
	y.spent.nodes += 1 + len(n.Value)/textNode
	if y.spent.over {
		return false
	}
	switch {
	case y.spent.nodes > maxNodes:
		y.fail(y.at(n), fmt.Sprintf("the file has more than %d values, its aliases written out", maxNodes), "")
	case depth > maxDepth:
		y.fail(y.at(n), fmt.Sprintf("values are nested deeper than %d", maxDepth), "")
	default:
		return true
	}
	y.spent.over = true // an alias that holds itself would go on for ever
	return false
}

// entry is one key of a map with merges worked in.
type entry struct {
	key            string
	keyNode, value *yaml.Node
}

// entries lists the keys of a map in order, with `<<` merged where it stands: of two equal
// keys the later one counts, at the place of the first, as in Fluentd.
func (y *yamlFile) entries(m *yaml.Node, depth int) []entry {
	var out []entry
	if !y.count(m, depth) {
		return nil
	}
	set := func(e entry) {
		for i := range out {
			if out[i].key == e.key {
				out[i] = e
				return
			}
		}
		out = append(out, e)
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		k, v := m.Content[i], m.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
			for _, e := range y.merged(v, depth+1) {
				set(e)
			}
			continue
		}
		k = y.value(k)
		if k.Kind != yaml.ScalarNode {
			y.fail(y.at(k), "a key is to be a text", "write KEY: VALUE")
			continue
		}
		set(entry{k.Value, k, v})
	}
	return out
}

// merged gives the keys that `<<` brings: of a map, of several, or of included files.
func (y *yamlFile) merged(n *yaml.Node, depth int) []entry {
	if !y.count(n, depth) {
		return nil
	}
	v := y.value(n)
	switch {
	case v.Tag == "!include":
		var out []entry
		for _, root := range y.includeNodes(v, depth) {
			out = append(out, y.merged(root, depth+1)...)
		}
		return out
	case v.Kind == yaml.MappingNode:
		return y.entries(v, depth)
	case v.Kind == yaml.SequenceNode:
		var out []entry
		for _, c := range v.Content {
			out = append(out, y.merged(c, depth+1)...)
		}
		return out
	}
	y.fail(y.at(v), "<< takes in a map", "write << : *NAME where &NAME marks a map")
	return nil
}

// items reads a list of sections, as `config:` has it, into a section.
func (y *yamlFile) items(n *yaml.Node, into *Section, depth int) {
	if !y.count(n, depth) {
		return
	}
	v := y.value(n)
	switch {
	case v.Tag == "!include":
		y.includeItems(v, into, depth)
	case v.Kind == yaml.SequenceNode:
		for _, c := range v.Content {
			y.item(c, into, depth+1)
		}
	case v.Kind == yaml.ScalarNode && isNull(v):
	default:
		y.fail(y.at(v), "config: is to be a list", "write each section as an item: - source: …")
	}
}

func (y *yamlFile) item(n *yaml.Node, into *Section, depth int) {
	v := y.value(n)
	if v.Kind == yaml.SequenceNode || v.Tag == "!include" {
		y.items(v, into, depth)
		return
	}
	if v.Kind != yaml.MappingNode {
		y.fail(y.at(v), "an item of config: is to be a section", "write - source:, - filter:, - match:, - label: or - worker: with its parameters below")
		return
	}
	for _, e := range y.entries(v, depth) {
		body := y.value(e.value)
		if body.Kind != yaml.MappingNode {
			y.fail(y.at(e.keyNode), fmt.Sprintf("%s: is to be a map", e.key), "write its parameters below it, further right")
			continue
		}
		s := y.section(e.key, body, into, depth+1)
		s.Pos = y.at(e.keyNode)
		if missing := argKey(e.key); missing != "" && !s.HasArg {
			y.fail(s.Pos, fmt.Sprintf("%s: has no %s", e.key, missing), missingHint(missing))
		}
	}
}

// argKey is the key that a section of the top level must have; match and filter without $tag
// take all tags, as in the v1 form.
func argKey(section string) string {
	switch section {
	case "label":
		return "$name"
	case "worker":
		return "$arg"
	}
	return ""
}

func missingHint(key string) string {
	if key == "$name" {
		return `write $name: "@NAME"`
	}
	return "write $arg: 0"
}

// section reads a map as a section below into. Nothing of a section is an error by itself:
// what its parameters mean is for others.
func (y *yamlFile) section(name string, m *yaml.Node, into *Section, depth int) *Section {
	s := &Section{Name: name, Pos: y.at(m)}
	into.Sections = append(into.Sections, s)
	for _, e := range y.entries(m, depth) {
		switch e.key {
		case "$tag", "$name", "$arg":
			y.argument(s, e, depth+1)
			continue
		case "config":
			if name == "label" || name == "worker" {
				y.items(e.value, s, depth+1)
				continue
			}
		case "$type", "$id", "$label", "$log_level":
			e.key = "@" + e.key[1:]
		}
		y.parameter(s, e, depth+1)
	}
	return s
}

// argument sets the argument of a section: alternatives for $tag, a comma list otherwise.
func (y *yamlFile) argument(s *Section, e entry, depth int) {
	v := y.value(e.value)
	s.HasArg = true
	if v.Kind != yaml.SequenceNode {
		s.Arg = y.scalar(v, depth).text
		return
	}
	sep := ","
	if e.key == "$tag" {
		sep = " " // Fluentd joins with a comma, and the pattern then matches nothing
	}
	var parts []string
	for _, c := range v.Content {
		parts = append(parts, y.scalar(y.value(c), depth+1).text)
	}
	s.Arg = strings.Join(parts, sep)
}

// parameter adds a key of a section: a sub-section, several, or a value.
func (y *yamlFile) parameter(s *Section, e entry, depth int) {
	v := y.value(e.value)
	if v.Tag == "!include" {
		v = y.includeValue(v, depth)
		if v == nil {
			return
		}
	}
	switch {
	case v.Tag == "!fluent/json":
	case v.Kind == yaml.MappingNode:
		y.section(e.key, v, s, depth).Pos = y.at(e.keyNode)
		return
	case v.Kind == yaml.SequenceNode && len(v.Content) > 0 && y.value(v.Content[0]).Kind == yaml.MappingNode && y.value(v.Content[0]).Tag != "!fluent/json":
		for _, c := range v.Content {
			c = y.value(c)
			if c.Kind != yaml.MappingNode {
				y.fail(y.at(c), fmt.Sprintf("the items of %s are sections, this is none", e.key), "write it as a map, or all of them as values")
				continue
			}
			y.section(e.key, c, s, depth)
		}
		return
	}
	if !strings.HasPrefix(e.key, "@") || reserved(e.key) {
		val := y.text(v, depth)
		val.Pos = y.at(v)
		s.Params = append(s.Params, Param{Key: e.key, Value: val, Pos: y.at(e.keyNode)})
		return
	}
	y.fail(y.at(e.keyNode), "'@' is the system reserved prefix. Don't use '@' prefix parameter in the configuration: "+e.key, "only $type, $id, $label and $log_level exist")
}

// include lists the files of an !include, and reads each with f.
func (y *yamlFile) include(n *yaml.Node, depth int, f func(name string, data []byte)) {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		y.fail(y.at(n), "!include needs a path", "write !include conf.d/*.yaml")
		return
	}
	v := Value{Text: n.Value, Pos: y.at(n)}
	from := y
	if o := y.origin[n]; o != nil {
		from = o
	}
	names, ok := y.included(v, from.file, "!include")
	if !ok || !y.count(n, depth) {
		return
	}
	for _, name := range names {
		if data, ok := y.readIncluded(v.Pos, name, from.open); ok {
			f(name, data)
		}
	}
}

// includeItems takes in files where sections stand: lists, whole documents, and files in
// the v1 form.
func (y *yamlFile) includeItems(n *yaml.Node, into *Section, depth int) {
	y.include(n, depth, func(name string, data []byte) {
		if isYAML(name) {
			y.yamlDocument(name, data, into, y.open)
		} else {
			y.run.file(name, data, into, y.open)
		}
	})
}

// includeNodes gives the roots of included files.
func (y *yamlFile) includeNodes(n *yaml.Node, depth int) (roots []*yaml.Node) {
	y.include(n, depth, func(name string, data []byte) {
		if !y.admit(name, len(data)) {
			return
		}
		in := &yamlFile{run: y.run, file: name, spent: y.spent}
		root := in.parse(data)
		if root == nil {
			return
		}
		in.open = append(slices.Clip(y.open), name)
		if o := y.origin[n]; o != nil {
			in.open = append(slices.Clip(o.open), name)
		}
		in.claim(root, 0)
		roots = append(roots, root)
	})
	return roots
}

// claim notes that values come from this file, for positions and includes of their own.
func (y *yamlFile) claim(n *yaml.Node, depth int) {
	if y.origin[n] != nil || !y.count(n, depth) {
		return
	}
	if y.origin == nil {
		y.origin = map[*yaml.Node]*yamlFile{}
	}
	y.origin[n] = y
	for _, c := range n.Content {
		y.claim(c, depth+1)
	}
}

// includeValue is the value that an !include stands for: the map of one file, or the items
// of all of them.
func (y *yamlFile) includeValue(n *yaml.Node, depth int) *yaml.Node {
	roots := y.includeNodes(n, depth)
	if len(roots) == 1 {
		return roots[0]
	}
	all := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Column: n.Column}
	for _, r := range roots {
		if r.Kind == yaml.SequenceNode {
			all.Content = append(all.Content, r.Content...)
		} else {
			all.Content = append(all.Content, r)
		}
	}
	return all
}
