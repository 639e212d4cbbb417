package app

import (
	"fmt"
	"strings"

	"weir/internal/fluentconf"
)

// dump writes a section as text in one fixed form, so that two sections that mean the same
// compare equal whatever their blanks and comments.
func dump(s *fluentconf.Section) string {
	var b strings.Builder
	dumpTo(&b, s)
	return b.String()
}

func dumpTo(b *strings.Builder, s *fluentconf.Section) {
	fmt.Fprintf(b, "<%s %q>\n", s.Name, s.Arg)
	for _, p := range s.Params {
		fmt.Fprintf(b, "%q %d %q\n", p.Key, p.Value.State, p.Value.Text)
	}
	for _, c := range s.Sections {
		dumpTo(b, c)
	}
	b.WriteString("</>\n")
}
