package web

import (
	"strconv"
	"strings"
	"time"
)

// Size of a curve's drawing, in SVG units.
const (
	curveWidth  = 300
	curveHeight = 40
)

// curve is a small chart of the last minutes.
type curve struct {
	Name   string
	Lines  []line
	Max    string // what the top stands for
	Span   string // how much time it shows
	Width  int
	Height int
}

// line is one polyline of a curve; Class is its CSS class.
type line struct{ Class, Points string }

// curvesOf draws flow and backlog of an output. With fewer than three samples, or
// nothing but zeros, there is nothing to see.
func curvesOf(id string, all []sample) []curve {
	if len(all) < 3 {
		return nil
	}
	var in, out, pending []float64
	for i, s := range all {
		o := s.outputs[id]
		pending = append(pending, float64(o.pending))
		if i > 0 {
			p, over := all[i-1].outputs[id], s.at.Sub(all[i-1].at)
			in = append(in, rate(o.in, p.in, over))
			out = append(out, rate(o.out, p.out, over))
		}
	}
	span := duration(all[len(all)-1].at.Sub(all[0].at).Round(time.Second))
	top := max(peak(in), peak(out))
	if top == 0 && peak(pending) == 0 {
		return nil
	}
	return []curve{
		{Name: "flow", Max: perSecond(top) + "/s", Span: span, Width: curveWidth, Height: curveHeight,
			Lines: []line{{"in", points(in, top)}, {"out", points(out, top)}}},
		{Name: "waiting", Max: count(int64(peak(pending))), Span: span, Width: curveWidth, Height: curveHeight,
			Lines: []line{{"wait", points(pending, peak(pending))}}},
	}
}

func peak(v []float64) float64 {
	top := 0.0
	for _, x := range v {
		top = max(top, x)
	}
	return top
}

// points places values from left to right, 0 at the bottom and top at the top.
func points(v []float64, top float64) string {
	var b strings.Builder
	for i, x := range v {
		y := float64(curveHeight - 1)
		if top > 0 {
			y -= x / top * (curveHeight - 2)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatFloat(float64(i)*curveWidth/float64(max(1, len(v)-1)), 'f', 1, 64))
		b.WriteByte(',')
		b.WriteString(strconv.FormatFloat(y, 'f', 1, 64))
	}
	return b.String()
}
