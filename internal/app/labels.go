package app

import (
	"fmt"
	"slices"
)

// unusedLabels warns about labels that no event can reach: nothing names them, or they are
// fed by something that weir does not have.
func (p *planner) unusedLabels() {
	named := map[string]bool{}
	for _, src := range p.Sources {
		named[src.label] = true
	}
	for _, c := range p.contexts {
		for _, r := range c.table.Rules() {
			for _, ref := range refers(r) {
				named[ref.label] = true
			}
		}
	}
	var labels []string
	for l, c := range p.contexts {
		if l != "" && !c.worker() && !named[l] {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	for _, l := range labels {
		pos := p.contexts[l].pos
		switch l {
		case "@ERROR", fluentLog: // get what filters could not process, and the own log
		default:
			p.d.Warn(pos, fmt.Sprintf("nothing sends events to label %s", l), fmt.Sprintf("add @label %s to a source or a relabel, or remove the label", l))
		}
	}
}
