package awslogs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode"
)

// A template is written by the operator, and a slip in it must not cost the plugin its
// memory or its time: the texts that it makes and the steps that it takes are bounded.
const (
	maxTemplate = 8 << 10  // bytes of a template
	maxText     = 64 << 10 // bytes of anything that it makes
	maxSteps    = 10_000   // turns of loops and calls of templates
	maxDigits   = 4        // of a width or precision in printf
)

// expand executes text on data with the functions that Docker gives to templates. name
// stands in error texts.
func expand(name, text string, data any) (string, error) {
	if len(text) > maxTemplate {
		return "", fmt.Errorf("template: %s: longer than %d bytes", name, maxTemplate)
	}
	steps := 0
	funcs := functions()
	funcs[stepFunc] = func() (string, error) {
		if steps++; steps > maxSteps {
			return "", fmt.Errorf("more than %d turns of a loop", maxSteps)
		}
		return "", nil
	}
	t, err := template.New(name).Funcs(funcs).Parse(text)
	if err != nil {
		return "", err
	}
	if err := count(t, funcs); err != nil {
		return "", err
	}
	var out bounded
	if err := t.Execute(&out, data); err != nil {
		// Docker's words: there the type is another package's.
		return "", errors.New(strings.ReplaceAll(err.Error(), "*awslogs.Info", "*logger.Info"))
	}
	return out.b.String(), nil
}

// functions are Docker's functions, and Go's that make text, with a bound.
func functions() template.FuncMap {
	return template.FuncMap{
		"json":     toJSON,
		"split":    split,
		"join":     join,
		"title":    title,
		"lower":    strings.ToLower,
		"upper":    strings.ToUpper,
		"pad":      pad,
		"truncate": truncate,

		"print":    func(a ...any) (string, error) { return within(fmt.Sprint(a...)) },
		"println":  func(a ...any) (string, error) { return within(fmt.Sprintln(a...)) },
		"printf":   printf,
		"html":     func(a ...any) (string, error) { return within(template.HTMLEscaper(a...)) },
		"js":       func(a ...any) (string, error) { return within(template.JSEscaper(a...)) },
		"urlquery": func(a ...any) (string, error) { return within(template.URLQueryEscaper(a...)) },
	}
}

// bounded is the output of a template.
type bounded struct{ b strings.Builder }

func (o *bounded) Write(p []byte) (int, error) {
	if o.b.Len()+len(p) > maxText {
		return 0, errTooLong()
	}
	return o.b.Write(p)
}

func errTooLong() error { return fmt.Errorf("makes a text longer than %d bytes", maxText) }

func within(s string) (string, error) {
	if len(s) > maxText {
		return "", errTooLong()
	}
	return s, nil
}

// stepFunc counts steps. Calling it from a template counts one more.
const stepFunc = "weir_step"

// count puts a call of stepFunc at the beginning of each loop and of each template.
func count(t *template.Template, funcs template.FuncMap) error {
	helper, err := template.New("").Funcs(funcs).Parse("{{" + stepFunc + "}}")
	if err != nil {
		return err
	}
	step := helper.Root.Nodes[0]
	for _, sub := range t.Templates() {
		if sub.Tree != nil && sub.Root != nil {
			countList(sub.Root, step)
			sub.Root.Nodes = append([]parse.Node{step}, sub.Root.Nodes...)
		}
	}
	return nil
}

func countList(l *parse.ListNode, step parse.Node) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.IfNode:
			countList(n.List, step)
			countList(n.ElseList, step)
		case *parse.WithNode:
			countList(n.List, step)
			countList(n.ElseList, step)
		case *parse.RangeNode:
			countList(n.List, step)
			countList(n.ElseList, step)
			n.List.Nodes = append([]parse.Node{step}, n.List.Nodes...)
		}
	}
}

func toJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return within(strings.TrimSpace(b.String()))
}

func split(s, sep string) ([]string, error) {
	if strings.Count(s, sep) > maxSteps {
		return nil, fmt.Errorf("more than %d parts", maxSteps)
	}
	return strings.Split(s, sep), nil
}

func join(parts []string, sep string) (string, error) {
	n := 0
	for _, p := range parts {
		if n += len(p) + len(sep); n > maxText+len(sep) {
			return "", errTooLong()
		}
	}
	return strings.Join(parts, sep), nil
}

// title makes the first letter of each word a capital. Words are parted by spaces and by
// ASCII punctuation other than _.
func title(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		first := !inWord
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_':
			inWord = true
		case c <= unicode.MaxASCII:
			inWord = false
		default:
			inWord = !unicode.IsSpace(c)
		}
		if first {
			return unicode.ToTitle(c)
		}
		return c
	}, s)
}

// pad puts spaces around a text that is not empty.
func pad(s string, before, after int) (string, error) {
	if s == "" {
		return s, nil
	}
	if before < 0 || after < 0 || before > maxText || after > maxText {
		return "", fmt.Errorf("cannot put %d and %d spaces around a text", before, after)
	}
	return within(strings.Repeat(" ", before) + s + strings.Repeat(" ", after))
}

// truncate keeps the first n bytes.
func truncate(s string, n int) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("cannot keep %d bytes", n)
	}
	return s[:min(len(s), n)], nil
}

// printf refuses widths that would cost memory before anything is written.
func printf(format string, a ...any) (string, error) {
	digits := 0
	for _, c := range format {
		if c < '0' || c > '9' {
			digits = 0
		} else if digits++; digits > maxDigits {
			return "", fmt.Errorf("a number with more than %d digits in %q", maxDigits, format)
		}
	}
	if strings.Contains(format, "*") {
		for _, v := range a {
			if n, ok := v.(int); ok && (n > 9999 || n < -9999) {
				return "", fmt.Errorf("a number with more than %d digits for %q", maxDigits, format)
			}
		}
	}
	return within(fmt.Sprintf(format, a...))
}
