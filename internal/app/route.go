package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/pipeline"
	"weir/internal/router"
)

// RouteParams are the parameters of the output route: events go on by their tags, under
// other tags, to labels.
type RouteParams struct {
	config.Plugin
	tagPrefixes
	MatchCache int         `conf:"match_cache_size" default:"256" doc:"accepted for compatibility: routes are remembered anyway"`
	TagCache   int         `conf:"tag_cache_size" default:"256" doc:"accepted for compatibility: routes are remembered anyway"`
	Routes     []RouteRule `section:"route" doc:"where events of a tag pattern go; the first that takes a tag is the last, unless it has copy"`
}

// RouteRule is one <route>.
type RouteRule struct {
	Pattern string `arg:"true"`
	Label   string `conf:"@label" doc:"label that they go to; by default where the section stands"`
	Copy    bool   `conf:"copy" default:"false" doc:"the routes after this one get them too"`
	tagPrefixes
}

// tagPrefixes changes a tag.
type tagPrefixes struct {
	Remove string `conf:"remove_tag_prefix" doc:"taken from the front of the tag, with the dot behind it"`
	Add    string `conf:"add_tag_prefix" doc:"put in front of the tag, with a dot between"`
}

func (t *tagPrefixes) apply(tag string) string {
	if t.Remove != "" {
		if tag == t.Remove {
			tag = ""
		} else if rest, ok := strings.CutPrefix(tag, t.Remove+"."); ok && rest != "" {
			tag = rest
		}
	}
	switch {
	case t.Add == "":
		return tag
	case tag == "":
		return t.Add
	}
	return t.Add + "." + tag
}

// routePlan is a route that has been understood.
type routePlan struct {
	tagPrefixes
	rules []routeRule
}

type routeRule struct {
	RouteRule
	pattern *router.Pattern
}

// maxRoutes bounds how often a tag may be routed on its way: more is a loop.
const maxRoutes = 16

// route reads an output route; nil after an error.
func (p *planner) route(s *fluentconf.Section) *endPlan {
	before := len(p.d.Errors)
	var params RouteParams
	config.Decode(s, &params, p.d)
	e := &endPlan{route: &routePlan{tagPrefixes: params.tagPrefixes}, pos: s.Pos, pass: p.pass(s, "route")}
	sections := s.All("route")
	if len(sections) == 0 {
		p.d.Error(s.Pos, "route has no <route>", "add one, <route **> takes everything")
	}
	for i, r := range params.Routes {
		pattern, err := router.Compile(r.Pattern)
		if err != nil {
			p.d.Error(sections[i].Pos, err.Error(), "see the rules for tag patterns in docs/fluentd-compat.md")
			continue
		}
		if r.Label == "" && r.Remove == "" && r.Add == "" && params.Remove == "" && params.Add == "" {
			p.d.Error(sections[i].Pos, "this <route> sends events back to where they come from", "add @label, or change the tag with add_tag_prefix or remove_tag_prefix")
		}
		if r.Label != "" {
			e.labels = append(e.labels, r.Label)
		}
		e.route.rules = append(e.route.rules, routeRule{r, pattern})
	}
	if len(p.d.Errors) > before {
		return nil
	}
	return e
}

// route finds where a route sends a tag: a node with an end for each <route> that takes it.
// It is nil when none does.
func (r *resolver) route(plan *routePlan, here, tag string, way []string) *pipeline.Node {
	if len(way) >= maxRoutes {
		r.log.Error("a route sends events back to itself, they are dropped", slog.String("tag", tag), slog.Any("way", way))
		return nil
	}
	tag = plan.apply(tag)
	n := &pipeline.Node{}
	for i := range plan.rules {
		rule := &plan.rules[i]
		if !rule.pattern.Match(tag) {
			continue
		}
		label, next := here, rule.apply(tag)
		if rule.Label != "" {
			label = rule.Label
		}
		end := pipeline.End{Next: r.node(label, next, slices.Clip(way)), Tag: next}
		if end.Next == nil {
			end.Target = r.unmatched
		}
		n.Ends = append(n.Ends, end)
		if !rule.Copy {
			break
		}
	}
	if len(n.Ends) == 0 {
		return nil
	}
	return n
}

// describe names the rules of a route for the summary.
func (r *routePlan) describe() string {
	var out []string
	for _, rule := range r.rules {
		to := rule.Label
		if to == "" {
			to = "here"
		}
		text := fmt.Sprintf("%s to %s", rule.Pattern, to)
		if rule.Copy {
			text += " (copy)"
		}
		out = append(out, text)
	}
	return "route " + strings.Join(out, ", ")
}
