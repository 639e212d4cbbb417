package web

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/ledger"
	"weir/internal/output"
)

var update = flag.Bool("update", false, "write the golden files and the table in docs/metrics.md anew")

// scrape gives weir's own series without values, sorted: name{label="value",…}.
func scrape(t *testing.T, s Status) []string {
	t.Helper()
	h, _, _ := newHandler(t, s)
	code, body, _ := get(t, h, "/metrics")
	if code != 200 {
		t.Fatalf("%d: %s", code, body)
	}
	var series []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "weir_") {
			series = append(series, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	sort.Strings(series)
	return series
}

func TestMetricsGolden(t *testing.T) {
	got := strings.Join(scrape(t, busy()), "\n") + "\n"
	i := strings.Index(got, `goversion="`) + len(`goversion="`)
	got = got[:i] + "go" + got[i+strings.IndexByte(got[i:], '"'):]
	const file = "testdata/metrics.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("series changed; users depend on them (go test -update writes the file anew):\n%s", diff)
	}
}

func TestAllReasonsAndKindsAreThereFromTheStart(t *testing.T) {
	all := strings.Join(scrape(t, Status{Outputs: []OutputStatus{{ID: "o"}}}), "\n")
	var want []string
	for _, r := range ledger.ReasonsOf(ledger.Dropped) {
		want = append(want, fmt.Sprintf(`weir_output_dropped_events_total{book="main",output="o",reason="%s"}`, r))
	}
	for _, r := range ledger.ReasonsOf(ledger.Rejected) {
		want = append(want, fmt.Sprintf(`weir_output_rejected_events_total{book="main",output="o",reason="%s"}`, r))
	}
	want = append(want, `weir_output_requests_total{outcome="accepted",output="o"}`)
	for _, k := range output.Kinds() {
		want = append(want, fmt.Sprintf(`weir_output_requests_total{outcome="%s",output="o"}`, k), fmt.Sprintf(`weir_output_retries_total{kind="%s",output="o"}`, k))
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("no %s", w)
		}
	}
}

func TestTwoOfOneNameDoNotSpoilTheScrape(t *testing.T) {
	s := busy()
	s.Outputs = append(s.Outputs, s.Outputs[0])
	s.Inputs = append(s.Inputs, s.Inputs[0])
	scrape(t, s)
}

func TestMetricsAreInOrder(t *testing.T) {
	h, _, _ := newHandler(t, busy())
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(h.status, &h.o, h.o.Started))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDocument compares the table in docs/metrics.md with the code.
func TestDocument(t *testing.T) {
	const file = "../../docs/metrics.md"
	const begin, end = "<!-- metrics: written by go test ./internal/web -update -->\n", "<!-- end of metrics -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no lines %q and %q", file, begin, end)
	}
	var b strings.Builder
	b.WriteString("| Name | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, f := range families() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, strings.Join(f.labels, ", "), f.help)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		table = b.String()
	}
	if diff := cmp.Diff(table, b.String()); diff != "" {
		t.Errorf("%s differs from the code:\n%s", file, diff)
	}
	for _, k := range output.Kinds() {
		if !strings.Contains(head+tail, "`"+k.String()+"`") {
			t.Errorf("%s does not explain the kind %s", file, k)
		}
	}
	for _, c := range []ledger.Class{ledger.Dropped, ledger.Rejected} {
		for _, r := range ledger.ReasonsOf(c) {
			if !strings.Contains(head+tail, "`"+r.String()+"`") {
				t.Errorf("%s does not explain the reason %s", file, r)
			}
		}
	}
}

func TestEveryFamilyIsScraped(t *testing.T) {
	all := strings.Join(scrape(t, busy()), "\n")
	for _, f := range families() {
		if !strings.Contains(all, f.name+"{") && !strings.Contains(all, f.name) {
			t.Errorf("%s is described and never sent", f.name)
		}
	}
}
