package rx

import (
	"strings"
	"unicode"
)

// Shorthand classes. By default Ruby keeps \w, \d and \s to ASCII; (?u) widens them.

func digits() set { return set{{'0', '9'}} }

func hexDigits() set { return set{{'0', '9'}, {'A', 'F'}, {'a', 'f'}} }

func spaces() set { return set{{'\t', '\r'}, {' ', ' '}} }

func wordASCII() set { return set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}} }

func ascii() set { return set{{0, 0x7f}} }

func alphabetic() set {
	return fromTable(unicode.L, unicode.Nl, unicode.Other_Alphabetic)
}

func wordUnicode() set {
	return alphabetic().union(fromTable(unicode.M, unicode.Nd, unicode.Pc))
}

func spaceUnicode() set { return fromTable(unicode.White_Space) }

// assigned holds the characters of all general categories but "not assigned".
func assigned() set {
	return fromTable(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// posix gives the set of a POSIX bracket such as [:alpha:], Unicode-aware.
func posix(name string) (set, bool) {
	switch name {
	case "alnum":
		return alphabetic().union(fromTable(unicode.Nd)), true
	case "alpha":
		return alphabetic(), true
	case "ascii":
		return ascii(), true
	case "blank":
		return fromTable(unicode.Zs).union(oneOf("\t")), true
	case "cntrl":
		return fromTable(unicode.Cc), true
	case "digit":
		return fromTable(unicode.Nd), true
	case "graph":
		return assigned().intersect(spaceUnicode().union(fromTable(unicode.Cc, unicode.Cs)).negate()), true
	case "lower":
		return fromTable(unicode.Ll, unicode.Other_Lowercase), true
	case "print":
		g, _ := posix("graph")
		return g.union(fromTable(unicode.Zs)), true
	case "punct":
		return fromTable(unicode.P).union(oneOf("$+<=>^`|~")), true
	case "space":
		return spaceUnicode(), true
	case "upper":
		return fromTable(unicode.Lu, unicode.Other_Uppercase), true
	case "xdigit":
		return hexDigits(), true
	case "word":
		return wordUnicode(), true
	}
	return nil, false
}

// property gives the set of \p{name}. Case, blanks, '-' and '_' in the name do not matter.
func property(name string) (set, bool) {
	key := squeeze(name)
	if s, ok := posix(key); ok {
		return s, true
	}
	switch key {
	case "any":
		return everything(), true
	case "assigned":
		return assigned(), true
	case "alphabetic":
		return alphabetic(), true
	case "uppercase":
		return posix("upper")
	case "lowercase":
		return posix("lower")
	case "xposixpunct":
		return posix("punct")
	case "unassigned", "cn":
		return assigned().negate(), true
	case "other", "c":
		return assigned().negate().union(fromTable(unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)), true
	}
	if short, ok := longCategory(key); ok {
		key = short
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
		for n, t := range tables {
			if squeeze(n) == key && n != "Cn" && n != "C" {
				return fromTable(t), true
			}
		}
	}
	return nil, false
}

func squeeze(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// longCategory gives the short name of a general category.
func longCategory(key string) (string, bool) {
	names := [...][2]string{
		{"letter", "l"}, {"casedletter", "lc"}, {"uppercaseletter", "lu"}, {"lowercaseletter", "ll"}, {"titlecaseletter", "lt"}, {"modifierletter", "lm"}, {"otherletter", "lo"},
		{"mark", "m"}, {"combiningmark", "m"}, {"nonspacingmark", "mn"}, {"spacingmark", "mc"}, {"enclosingmark", "me"},
		{"number", "n"}, {"decimalnumber", "nd"}, {"letternumber", "nl"}, {"othernumber", "no"},
		{"punctuation", "p"}, {"connectorpunctuation", "pc"}, {"dashpunctuation", "pd"}, {"openpunctuation", "ps"}, {"closepunctuation", "pe"},
		{"initialpunctuation", "pi"}, {"finalpunctuation", "pf"}, {"otherpunctuation", "po"},
		{"symbol", "s"}, {"mathsymbol", "sm"}, {"currencysymbol", "sc"}, {"modifiersymbol", "sk"}, {"othersymbol", "so"},
		{"separator", "z"}, {"spaceseparator", "zs"}, {"lineseparator", "zl"}, {"paragraphseparator", "zp"},
		{"control", "cc"}, {"format", "cf"}, {"surrogate", "cs"}, {"privateuse", "co"},
	}
	for _, n := range names {
		if n[0] == key {
			return n[1], true
		}
	}
	return "", false
}
