package emulator

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed web
var webFiles embed.FS

const adminPrefix = "/_weir/"

// views are the parsed pages.
type views struct {
	tmpl *template.Template
}

func newViews() (*views, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"count": humanCount, "bytes": humanBytes, "stamp": stamp, "iso": iso, "ago": ago,
	}).ParseFS(webFiles, "web/*.html")
	if err != nil {
		return nil, err
	}
	return &views{tmpl: t}, nil
}

// serveView answers everything that is not the API.
func (s *Server) serveView(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.URL.Path == adminPrefix+"faults" {
		s.serveFaults(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this address takes GET; API calls are POST / with an X-Amz-Target header", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/":
		s.page(w, "groups.html", http.StatusOK, s.groupsPage(r))
	case "/group":
		s.serveGroup(w, r)
	case "/events":
		s.serveEvents(w, r, "events.html")
	case adminPrefix + "rows":
		s.serveEvents(w, r, "rows.html")
	case adminPrefix + "stats":
		s.writeJSON(w, s.Stats())
	case adminPrefix + "style.css", adminPrefix + "app.js":
		b, err := webFiles.ReadFile("web/" + strings.TrimPrefix(r.URL.Path, adminPrefix))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(b))
	default:
		s.page(w, "missing.html", http.StatusNotFound, map[string]any{"Title": "Not found", "What": "page " + r.URL.Path})
	}
}

// page renders into memory first, so that a failure is a clean 500.
func (s *Server) page(w http.ResponseWriter, name string, status int, data any) {
	var b bytes.Buffer
	if err := s.views.tmpl.ExecuteTemplate(&b, name, data); err != nil {
		s.log.Error("rendering a page failed", "page", name, "err", err)
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that has gone away is no concern of ours
}

func (s *Server) writeJSON(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encoding the answer failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}

// serveFaults shows (GET), replaces (POST, PUT) and ends (DELETE) the script
// in force. A script must be sent as application/json, which a foreign web
// page can't do without being asked first.
func (s *Server) serveFaults(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost, http.MethodPut:
		if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(t) != "application/json" {
			http.Error(w, "send the fault script with Content-Type: application/json", http.StatusUnsupportedMediaType)
			return
		}
		fs, err := ParseFaults(http.MaxBytesReader(w, r.Body, 4<<20))
		if err == nil {
			err = s.SetFaults(fs)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.log.Info("fault script replaced", "rules", len(fs.Rules))
	case http.MethodDelete:
		s.faults.Store(nil)
		s.log.Info("fault script ended")
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE")
		http.Error(w, "use GET, POST or DELETE", http.StatusMethodNotAllowed)
		return
	}
	s.writeJSON(w, map[string]any{"rules": s.Faults()})
}

type countLine struct {
	Operation, Outcome string
	Count              int64
	Bad                bool
}

func (s *Server) groupsPage(r *http.Request) any {
	q := r.FormValue("q")
	groups := slices.DeleteFunc(s.Groups(), func(g GroupInfo) bool { return !strings.Contains(g.Name, q) })
	st := s.Stats()
	var lines []countLine
	var puts int64
	for op, m := range st.Requests {
		for outcome, n := range m {
			lines = append(lines, countLine{op, outcome, n, outcome != "ok"})
			if op == "PutLogEvents" {
				puts += n
			}
		}
	}
	slices.SortFunc(lines, func(a, b countLine) int {
		return strings.Compare(a.Operation+"\x00"+a.Outcome, b.Operation+"\x00"+b.Outcome)
	})
	total := len(groups)
	groups = groups[:min(total, 1000)]
	return map[string]any{
		"Title": "Log groups", "Query": q, "Groups": groups, "More": total - len(groups), "Stats": st, "Puts": puts,
		"Counts": lines, "Faults": s.Faults(), "Now": s.clock(),
		"Rejected": st.RejectedTooOld + st.RejectedTooNew + st.RejectedExpired,
	}
}

func (s *Server) serveGroup(w http.ResponseWriter, r *http.Request) {
	name, q := r.FormValue("group"), r.FormValue("q")
	streams := s.Streams(name)
	if streams == nil {
		s.missing(w, "log group "+name)
		return
	}
	s.mu.RLock()
	var info GroupInfo
	if g := s.groups[name]; g != nil {
		info = g.info()
	}
	s.mu.RUnlock()
	streams = slices.DeleteFunc(streams, func(st StreamInfo) bool { return !strings.Contains(st.Name, q) })
	byName := r.FormValue("sort") == "name"
	if !byName {
		slices.SortStableFunc(streams, func(a, b StreamInfo) int { return b.LastIngestion.Compare(a.LastIngestion) })
	}
	total := len(streams)
	streams = streams[:min(total, 1000)]
	s.page(w, "group.html", http.StatusOK, map[string]any{
		"Title": name, "Group": info, "Streams": streams, "More": total - len(streams), "Query": q, "ByName": byName, "Now": s.clock(),
	})
}

func (s *Server) missing(w http.ResponseWriter, what string) {
	s.page(w, "missing.html", http.StatusNotFound, map[string]any{"Title": "Not found", "What": what})
}

// stamp is how the pages show the time of an event: UTC, to the millisecond.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ago is the age of t in one unit.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s ago"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min ago"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h ago"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days ago"
}

// humanCount groups digits by thousands with thin spaces.
func humanCount(v any) string {
	var n int64
	switch t := v.(type) {
	case int:
		n = int64(t)
	case int64:
		n = t
	}
	s := itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func humanBytes(n int64) string {
	if n < 1024 {
		return itoa(n) + " B"
	}
	v, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	u := 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[u]
}
