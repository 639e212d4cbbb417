package web

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"time"
)

//go:embed page.html style.css page.js
var assets embed.FS

type page struct{ template *template.Template }

func newPage() page {
	funcs := template.FuncMap{
		"count":    func(n any) string { return anyCount(n) },
		"rate":     perSecond,
		"bytes":    func(n any) string { return anySize(n) },
		"seconds":  seconds,
		"percent":  func(part, whole int64) int64 { return 100 * part / max(1, whole) },
		"ratio":    func(f float64) int { return int(f*100 + 0.5) },
		"positive": positive,
		"clock":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"ago":      func(now, t time.Time) string { return duration(now.Sub(t)) },
		"until":    func(now, t time.Time) string { return duration(t.Sub(now)) },
		"curves":   func(o outputReport) []curve { return o.curves },
		"sum":      func(m map[string]uint64) uint64 { return sum(m) },
		"lost":     func(o outputReport) uint64 { return o.lost() },
		"waiting":  func(o outputReport) int64 { return o.waiting() },
		"troubled": func(o outputReport) bool { return o.troubled() },
	}
	return page{template.Must(template.New("page.html").Funcs(funcs).ParseFS(assets, "page.html"))}
}

// pageView is what the template sees.
type pageView struct {
	*report
	Errors, Warnings int
	In, Out          float64 // events a second, all inputs and outputs
	Waiting          int64
	Oldest           float64 // seconds
	Lost             uint64
}

func (h *Handler) servePage(w http.ResponseWriter, _ *http.Request) {
	r := h.report()
	v := pageView{report: r}
	for _, f := range r.Findings {
		if f.Level == "error" {
			v.Errors++
		} else {
			v.Warnings++
		}
	}
	for _, in := range r.Inputs {
		v.In += in.Rate
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		v.Out += o.Rates.EventsOut
		v.Waiting += o.waiting()
		v.Lost += o.lost()
		v.Oldest = max(v.Oldest, o.Buffer.OldestAge)
	}
	var b bytes.Buffer // so that a failure is an answer of its own, and not half a page
	if err := h.page.template.Execute(&b, v); err != nil {
		h.o.Log.Error("the status page could not be made", "error", err)
		http.Error(w, "the status page could not be made; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the client has gone; nobody to tell
}

func (h *Handler) apiStatus(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(h.report(), "", "  ")
	if err != nil {
		h.o.Log.Error("the status could not be encoded", "error", err)
		http.Error(w, "the status could not be encoded; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // the client has gone; nobody to tell
}

func (page) asset(name, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := assets.ReadFile(name)
		if err != nil {
			http.NotFound(w, nil)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(b)
	}
}

func (o *outputReport) lost() uint64 {
	n := sum(o.Ledger.Dropped) + sum(o.Ledger.Rejected)
	if o.Parking != nil {
		n += sum(o.Parking.Ledger.Dropped) + sum(o.Parking.Ledger.Rejected)
	}
	return n
}

func (o *outputReport) waiting() int64 {
	n := o.Ledger.Pending
	if o.Parking != nil {
		n += o.Parking.Ledger.Pending
	}
	return n
}

// troubled says whether a lane shown fails: it is then what people look for.
func (o *outputReport) troubled() bool {
	return slices.ContainsFunc(o.Lanes, func(l laneReport) bool { return l.Attempts > 0 || l.Parked })
}

// named is a count with its name.
type named struct {
	Name string
	N    uint64
}

// positive gives the counts above 0, the largest first.
func positive(ms ...map[string]uint64) []named {
	var out []named
	for _, m := range ms {
		for k, n := range m {
			if n > 0 {
				out = append(out, named{k, n})
			}
		}
	}
	slices.SortFunc(out, func(a, b named) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	return out
}

func sum(m map[string]uint64) uint64 {
	n := uint64(0)
	for _, v := range m {
		n += v
	}
	return n
}

func anyCount(n any) string {
	switch n := n.(type) {
	case uint64:
		return count(n)
	case int64:
		return count(n)
	case int:
		return count(n)
	}
	return "?"
}

func anySize(n any) string {
	switch n := n.(type) {
	case uint64:
		return size(n)
	case int64:
		return size(n)
	case int:
		return size(n)
	case float64:
		return size(n)
	}
	return "?"
}
