package emulator

import (
	"strings"
	"unicode/utf8"
)

const (
	groupPattern  = `[\.\-_/#A-Za-z0-9]+`
	streamPattern = `[^:*]*`
	notNull       = "Member must not be null"
)

func groupChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' || c == '/' || c == '#'
}

// checkGroup validates the name of a log group under the member name path.
func (p *problems) checkGroup(lim *Limits, path, name string, set bool) {
	if !p.checkLength(lim, path, name, set) {
		return
	}
	for i := range len(name) {
		if !groupChar(name[i]) {
			p.addf(quoted(name), path, "Member must satisfy regular expression pattern: %s", groupPattern)
			return
		}
	}
}

// checkStream validates the name of a log stream under the member name path.
func (p *problems) checkStream(lim *Limits, path, name string, set bool) {
	if !p.checkLength(lim, path, name, set) {
		return
	}
	if strings.ContainsAny(name, ":*") {
		p.addf(quoted(name), path, "Member must satisfy regular expression pattern: %s", streamPattern)
	}
}

// checkLength says whether the name may be looked at further. Both of the
// service's findings for an empty group name (length and pattern) are
// reported by it; one is enough here.
func (p *problems) checkLength(lim *Limits, path, name string, set bool) bool {
	switch {
	case !set:
		p.addf("null", path, notNull)
	case name == "":
		p.addf("''", path, "Member must have length greater than or equal to 1")
	case len(name) > lim.NameLength && utf8.RuneCountInString(name) > lim.NameLength:
		p.addf(quoted(name), path, "Member must have length less than or equal to %d", lim.NameLength)
	default:
		return true
	}
	return false
}

// checkGroupOptional is checkGroup for a member that may be absent.
func (p *problems) checkGroupOptional(lim *Limits, path string, name *string) {
	if name != nil {
		p.checkGroup(lim, path, *name, true)
	}
}

// checkRange validates an optional integer.
func (p *problems) checkRange(path string, v *int64, low, high int64) {
	if v == nil {
		return
	}
	if *v < low {
		p.addf(quoted(itoa(*v)), path, "Member must have value greater than or equal to %d", low)
	}
	if *v > high {
		p.addf(quoted(itoa(*v)), path, "Member must have value less than or equal to %d", high)
	}
}

// groupFromIdentifier takes a name or an ARN (with or without the trailing
// ":*") and returns the name of the group.
func groupFromIdentifier(id string) (string, bool) {
	if !strings.HasPrefix(id, "arn:") {
		return id, id != ""
	}
	_, name, ok := strings.Cut(id, ":log-group:")
	if !ok {
		return "", false
	}
	name, _, _ = strings.Cut(name, ":")
	return name, name != ""
}
