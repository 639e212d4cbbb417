package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"weir/internal/buffer"
	"weir/internal/config"
	"weir/internal/event"
	"weir/internal/filter"
	"weir/internal/fluentconf"
	"weir/internal/input"
	"weir/internal/ledger"
	"weir/internal/retag"
	"weir/internal/vfs/vfstest"
)

// rewriter compiles rules of the form "pattern tag", all on field n.
func rewriter(t *testing.T, rules ...string) *retag.Rewriter {
	t.Helper()
	text := "<match **>\n"
	for _, r := range rules {
		pattern, tag, _ := strings.Cut(r, " ")
		text += fmt.Sprintf("<rule>\nkey n\npattern %s\ntag %s\n</rule>\n", pattern, tag)
	}
	root, errs, _ := fluentconf.Parse(fluentconf.Source{Name: "t", ReadFile: func(string) ([]byte, error) { return []byte(text + "</match>\n"), nil }})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	d := &config.Diagnostics{}
	var p retag.Params
	config.Decode(root.Sections[0], &p, d)
	rw := retag.New(root.Sections[0], p, "h", d)
	if rw == nil {
		t.Fatal(d.Errors[0])
	}
	return rw
}

func lost(book *ledger.Book, f ledger.Fate) *Target {
	return &Target{ID: "lost", Book: book, In: &Counter{}, End: f}
}

func TestRewrittenEventsGoOnByTheirNewTags(t *testing.T) {
	odd, even := newStore(t, "odd", 1<<20, buffer.Throw), newStore(t, "even", 1<<20, buffer.Throw)
	rest, unmatched := &ledger.Book{}, &ledger.Book{}
	second := &Rewrite{Rewriter: rewriter(t, "/[13579]$/ odd", "/[2468]$/ even", "/0$/ zero"),
		Rest: lost(rest, ledger.Fate{Class: ledger.Filtered}), Unmatched: lost(unmatched, ledger.Unmatched.Fate()),
		Route: func(_, tag string) *Node {
			switch tag {
			case "odd":
				return &Node{Ends: []End{end(odd)}}
			case "even":
				return &Node{Ends: []End{end(even)}}
			}
			return nil
		}}
	first := &Rewrite{Rewriter: rewriter(t, "/^.$/ short", "/^1/ teens"), Rest: second.Rest, Unmatched: second.Unmatched,
		Route: func(string, string) *Node { return &Node{Ends: []End{{Rewrite: second}}} }}
	in := ingress(&Node{Ends: []End{{Rewrite: first}}})
	b := entries(0, 30)
	b.Entries = slices.Clone(b.Entries)
	r, err := in.Emit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := odd.content(); !slices.Equal(got, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}) {
		t.Errorf("odd: %v", got)
	}
	if got := even.content(); !slices.Equal(got, []int{2, 4, 6, 8, 12, 14, 16, 18}) {
		t.Errorf("even: %v", got)
	}
	if s := rest.Sheet(); s.Filtered != 10 || s.Pending() != 0 { // 20 to 29 are taken by no rule of the first
		t.Errorf("rest: %+v", s)
	}
	if s := unmatched.Sheet(); s.Dropped[ledger.Unmatched] != 2 { // 0 and 10 have the tag zero
		t.Errorf("unmatched: %+v", s)
	}
}

func TestRewrittenEventsAreTakenTogetherOrNotAtAll(t *testing.T) {
	small := newStore(t, "small", 3<<10, buffer.Throw)
	book := &ledger.Book{}
	rw := &Rewrite{Rewriter: rewriter(t, "/(.+)/ t$1"), Rest: lost(book, ledger.Fate{Class: ledger.Filtered}), Unmatched: lost(book, ledger.Fate{Class: ledger.Dropped}),
		Route: func(string, string) *Node { return &Node{Ends: []End{end(small)}} }}
	in := ingress(&Node{Ends: []End{{Rewrite: rw}}})
	if _, err := in.Emit(context.Background(), entries(0, 10)); err != nil { // ten tags, ten batches
		t.Fatal(err)
	}
	_, err := in.Emit(context.Background(), entries(0, 100))
	if !errors.Is(err, input.ErrRefused) {
		t.Fatalf("got %v, want a refusal of all", err)
	}
	if s := small.Book.Sheet(); s.Admitted != 10 {
		t.Errorf("book: %+v", s)
	}
	if got := small.content(); len(got) != 10 {
		t.Errorf("%d events are in the buffer, want those of the first call", len(got))
	}
}

func TestRewritingInACircleEnds(t *testing.T) {
	var log strings.Builder
	unmatched := &ledger.Book{}
	rw := &Rewrite{Rewriter: rewriter(t, "/(.+)/ ${tag}x"), Rest: lost(unmatched, ledger.Fate{Class: ledger.Filtered}),
		Unmatched: lost(unmatched, ledger.Unmatched.Fate())}
	n := &Node{Ends: []End{{Rewrite: rw}}}
	rw.Route = func(string, string) *Node { return n }
	in := New(Options{Routes: NewRoutes(func(string) *Node { return n }), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 4 {
		if _, err := in.Emit(context.Background(), entries(0, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if s := unmatched.Sheet(); s.Dropped[ledger.Unmatched] != 12 {
		t.Errorf("book: %+v", s)
	}
	if n := strings.Count(log.String(), "in a circle"); n != 3 { // at the 1st, 2nd and 4th time
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

func TestRewritingAllocatesNothing(t *testing.T) {
	s := newStore(t, "a", 64<<20, buffer.DropNewest)
	book := &ledger.Book{}
	ends := &Node{Ends: []End{end(s)}}
	rw := &Rewrite{Rewriter: rewriter(t, "/(.+)/ t"), Rest: lost(book, ledger.Fate{}), Unmatched: lost(book, ledger.Fate{}),
		Route: func(string, string) *Node { return ends }}
	n := &Node{Ends: []End{{Rewrite: rw}}}
	w := &work{}
	b := event.Batch(entries(0, 100))
	w.walk(n, b, false, 0, 0)
	if got := testing.AllocsPerRun(100, func() {
		w.drops, w.appends, w.retagAt = w.drops[:0], w.appends[:0], 0
		w.walk(n, b, false, 0, 0)
	}); got > 0 {
		t.Errorf("%v allocations for a batch of 100", got)
	}
}

// TestRepeatAfterRestartGoesOnlyWhereItIsMissing: of two stores that a message was copied
// to, the process was killed when one of them had stored it.
func TestRepeatAfterRestartGoesOnlyWhereItIsMissing(t *testing.T) {
	ctx := context.Background()
	fs := vfstest.New()
	open := func(dir string, book *ledger.Book) *buffer.Buffer {
		b, err := buffer.Open(buffer.Options{FS: fs, Dir: dir, Book: book, Log: quiet(), Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	message := entries(1, 4)
	message.Chunk = event.Chunk{7}
	has := open("has", &ledger.Book{})
	seq, err := has.Append(ctx, message)
	if err != nil {
		t.Fatal(err)
	}
	if err := has.WaitStored(ctx, uint64(seq)); err != nil {
		t.Fatal(err)
	}
	if err := has.Close(ctx); err != nil {
		t.Fatal(err)
	}
	a, b := &ledger.Book{}, &ledger.Book{}
	has, lacks := open("has", a), open("lacks", b)
	defer has.Close(ctx)
	defer lacks.Close(ctx)
	ends := []End{{Target: &Target{ID: "has", Book: a, Buffer: has, In: &Counter{}}}, {Target: &Target{ID: "lacks", Book: b, Buffer: lacks, In: &Counter{}}}}
	in := ingress(&Node{Filters: []filter.Filter{rule{drop: 2}}, Ends: ends})
	r, err := in.Emit(ctx, message)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if s := a.Sheet(); s.Admitted != 4 || s.Filtered != 0 {
		t.Errorf("the store that has it: %+v", s)
	}
	if s := b.Sheet(); s.Admitted != 4 || s.Filtered != 2 {
		t.Errorf("the store that lacks it: %+v", s)
	}
	other := entries(1, 4)
	other.Chunk = event.Chunk{8}
	if _, err := in.Emit(ctx, other); err != nil {
		t.Fatal(err)
	}
	if s := a.Sheet(); s.Admitted != 8 {
		t.Errorf("another message: %+v", s)
	}
}
