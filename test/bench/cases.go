package main

import (
	"fmt"
	"slices"
	"strings"

	fc "weir/test/forwardclient"
)

// benchCase is one row of the table.
type benchCase struct {
	name   string
	about  string
	target int // records per CPU second
	peer   int // of Fluent Bit 5.1, measured when the target was set
	job    job
	key    string // message_keys; "": the whole record as JSON
	// rewrite puts the filter and the two rewrite_tag_filter of pod-logs.conf in between.
	rewrite bool
}

// cases are the rows of the table, with the targets that the project has set itself.
func cases() []benchCase {
	return []benchCase{
		{"kubernetes", "PackedForward 1000 x Kubernetes record, whole record as JSON", 400_000, 185_000,
			job{Mode: fc.Packed, PerMessage: 1000, Record: "kubernetes"}, "", false},
		{"packed1000", "PackedForward 1000 x 256 bytes, one key as message", 700_000, 266_000,
			job{Mode: fc.Packed, PerMessage: 1000, Record: "docker", Size: 256}, "log", false},
		{"packed10", "PackedForward 10 x 256 bytes, one key", 400_000, 175_000,
			job{Mode: fc.Packed, PerMessage: 10, Record: "docker", Size: 256}, "log", false},
		{"message", "Message mode, one event a message", 350_000, 154_000,
			job{Mode: fc.Message, PerMessage: 100, Record: "docker", Size: 256}, "log", false},
		{"gzip", "gzip PackedForward 1000 x Kubernetes record", 300_000, 169_000,
			job{Mode: fc.Gzip, PerMessage: 1000, Record: "kubernetes"}, "", false},
		{"rewrite", "the first, by a Ruby record_transformer with two fields and two rewrite_tag_filter", 240_000, 0,
			job{Mode: fc.Packed, PerMessage: 1000, Record: "kubernetes"}, "", true},
	}
}

func caseNames() string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

func selectCases(list string) ([]benchCase, error) {
	switch list {
	case "all":
		return cases(), nil
	case "none", "":
		return nil, nil
	}
	var out []benchCase
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(cases(), func(c benchCase) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no case %q; there are %s", name, caseNames())
		}
		out = append(out, cases()[i])
	}
	return out, nil
}

// measure is something that is not a row of the table.
type measure struct {
	name   string
	fluent bool // can be had of Fluent Bit too
	run    measureFunc
}

func measures() []measure {
	return []measure{
		{"idle", true, measureIdle},
		{"allocs", false, measureAllocs},
		{"latency", true, measureLatency},
		{"ack", false, measureAck},
		{"streams", false, measureStreams},
		{"outage", false, measureOutage},
	}
}

func measureNames() string {
	var names []string
	for _, m := range measures() {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

func selectMeasures(list string) ([]measure, error) {
	switch list {
	case "all":
		return measures(), nil
	case "":
		return nil, nil
	}
	var out []measure
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(measures(), func(m measure) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q; there are %s", name, measureNames())
		}
		out = append(out, measures()[i])
	}
	return out, nil
}
