package router

// Rule is one <match> or <filter> of a routing context.
type Rule[F, M any] struct {
	Pattern *Pattern
	Filter  F
	Match   M
	IsMatch bool
}

// Table holds the rules of one routing context (the root or a label) in the order in which
// they stand in the file. Add rules first; then it may be used from any goroutine.
type Table[F, M any] struct {
	rules []Rule[F, M]
}

// AddFilter appends a filter.
func (t *Table[F, M]) AddFilter(p *Pattern, f F) {
	t.rules = append(t.rules, Rule[F, M]{Pattern: p, Filter: f})
}

// AddMatch appends a match.
func (t *Table[F, M]) AddMatch(p *Pattern, m M) {
	t.rules = append(t.rules, Rule[F, M]{Pattern: p, Match: m, IsMatch: true})
}

// Rules returns the rules in order. The slice belongs to the table.
func (t *Table[F, M]) Rules() []Rule[F, M] { return t.rules }

// Lookup finds the way of a tag: the first match that takes it and all filters standing
// before that match which take it too, in order. ok is false when no match takes the tag:
// the filters are then all that take it. Lookup does not remember; the caller caches.
func (t *Table[F, M]) Lookup(tag string) (filters []F, match M, ok bool) {
	for i := range t.rules {
		r := &t.rules[i]
		if !r.Pattern.Match(tag) {
			continue
		}
		if r.IsMatch {
			return filters, r.Match, true
		}
		filters = append(filters, r.Filter)
	}
	return filters, match, false
}

// Shadow is a rule that can never act.
type Shadow struct {
	Rule int // index of the rule in Rules
	By   int // index of the match before it that takes every tag
}

// Shadowed lists the rules that stand behind a match which takes all their tags. It looks
// at plain tags and at patterns that begin with one, not at everything that could be told
// of two patterns: what it lists is certain, what it does not list may still be dead.
func (t *Table[F, M]) Shadowed() []Shadow {
	var out []Shadow
	for i := range t.rules {
		for j := range i {
			if t.rules[j].IsMatch && t.rules[j].Pattern.covers(t.rules[i].Pattern) {
				out = append(out, Shadow{Rule: i, By: j})
				break
			}
		}
	}
	return out
}
