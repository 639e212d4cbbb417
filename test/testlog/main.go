// Command testlog makes the output of go test -json short: a line for each package, all that
// a failed test has written, and the slowest tests. With -skipped it writes to a file which
// tests have left themselves out and why, those with the same reason on one line:
//
//	go test -json ./... | go run ./test/testlog -skipped build/skipped
//
// It ends with code 0 whatever the tests said: go test's own code counts.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	skipped := flag.String("skipped", "", "write to `file` which tests were left out: names, a colon, the reason")
	slow := flag.Int("slow", 5, "name the slowest `n` tests")
	flag.Parse()
	l := newLog(os.Stdout)
	err := l.read(os.Stdin)
	l.slowest(*slow)
	if err == nil && *skipped != "" {
		err = os.WriteFile(*skipped, []byte(l.skips()), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// log is what is known of the tests so far.
type log struct {
	w    io.Writer
	open map[string]map[string]string // of tests without a result, by package and name, what they wrote; "": the package itself
	took []event                      // tests that have a result
	why  map[string][]string          // tests that left themselves out, by reason
}

func newLog(w io.Writer) *log {
	return &log{w: w, open: map[string]map[string]string{}, why: map[string][]string{}}
}

// read takes lines until the end. What is not JSON is shown as it is.
func (l *log) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(l.w, line)
			} else {
				l.take(&e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (l *log) take(e *event) {
	open := l.open[e.Package]
	if open == nil {
		open = map[string]string{}
		l.open[e.Package] = open
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(l.w, e.Output)
	case "output":
		if e.Test == "" && result.MatchString(e.Output) {
			fmt.Fprint(l.w, e.Output)
			return
		}
		open[e.Test] += e.Output
	case "pass", "fail", "skip":
		l.end(e, open)
	}
}

// result is the line of a package that does not fail.
var result = regexp.MustCompile(`^(ok|\?) +\t`)

// end takes the result of a test or of a package.
func (l *log) end(e *event, open map[string]string) {
	if e.Test == "" {
		if e.Action == "fail" {
			l.failed(open)
		}
		delete(l.open, e.Package)
		return
	}
	switch e.Action {
	case "fail":
		fmt.Fprint(l.w, open[e.Test])
	case "skip":
		reason := reasonOf(open[e.Test])
		l.why[reason] = append(l.why[reason], e.Test)
	}
	delete(open, e.Test)
	l.took = append(l.took, *e)
}

// failed shows what the tests wrote that never came to an end, then what the package wrote.
func (l *log) failed(open map[string]string) {
	var names []string
	for name := range open {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range append(names, "") {
		fmt.Fprint(l.w, open[name])
	}
}

var (
	said  = regexp.MustCompile(`(?m)^ +[\w.-]+\.go:\d+: (.*)$`)
	blank = regexp.MustCompile(`\s+`)
)

// reasonOf gives the last thing that a test said.
func reasonOf(output string) string {
	all := said.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return "no reason given"
	}
	return blank.ReplaceAllString(all[len(all)-1][1], " ")
}

// skips gives the tests that left themselves out, a line for each reason.
func (l *log) skips() string {
	var lines []string
	for reason, names := range l.why {
		slices.Sort(names)
		lines = append(lines, strings.Join(slices.Compact(names), ", ")+": "+reason+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// slowest names the n tests that took longest, each without its parts.
func (l *log) slowest(n int) {
	tests := slices.DeleteFunc(l.took, func(e event) bool { return strings.Contains(e.Test, "/") || e.Elapsed < 1 })
	slices.SortFunc(tests, func(a, b event) int {
		if a.Elapsed > b.Elapsed {
			return -1
		}
		return 1
	})
	if len(tests) == 0 || n <= 0 {
		return
	}
	fmt.Fprint(l.w, "slowest:")
	for _, e := range tests[:min(n, len(tests))] {
		fmt.Fprintf(l.w, " %s %.0f s", e.Test, e.Elapsed)
	}
	fmt.Fprintln(l.w)
}
