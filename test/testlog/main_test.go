package main

import (
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	in := `# a line that is no JSON
{"Action":"build-output","ImportPath":"weir/b","Output":"b.go:1:1: syntax error\n"}
{"Action":"start","Package":"weir/a"}
{"Action":"run","Package":"weir/a","Test":"TestGood"}
{"Action":"output","Package":"weir/a","Test":"TestGood","Output":"chatter\n"}
{"Action":"output","Package":"weir/a","Test":"TestBad","Output":"    a_test.go:7: it is bad\n"}
{"Action":"output","Package":"weir/a","Test":"TestBad","Output":"--- FAIL: TestBad (1.00s)\n"}
{"Action":"pass","Package":"weir/a","Test":"TestGood","Elapsed":3}
{"Action":"fail","Package":"weir/a","Test":"TestBad","Elapsed":1}
{"Action":"output","Package":"weir/a","Test":"TestOther/part","Output":"    a_test.go:9: no engine  here\n"}
{"Action":"skip","Package":"weir/a","Test":"TestOther/part"}
{"Action":"skip","Package":"weir/a","Test":"TestSilent"}
{"Action":"output","Package":"weir/a","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"weir/a","Output":"FAIL\tweir/a\t5.000s\n"}
{"Action":"fail","Package":"weir/a","Elapsed":5}
{"Action":"output","Package":"weir/c","Output":"PASS\n"}
{"Action":"output","Package":"weir/c","Output":"ok  \tweir/c\t0.100s\n"}
{"Action":"pass","Package":"weir/c","Elapsed":0.1}
`
	want := `# a line that is no JSON
b.go:1:1: syntax error
    a_test.go:7: it is bad
--- FAIL: TestBad (1.00s)
panic: test timed out
FAIL	weir/a	5.000s
ok  	weir/c	0.100s
slowest: TestGood 3 s TestBad 1 s
`
	var out strings.Builder
	l := newLog(&out)
	if err := l.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	l.slowest(2)
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if got, want := l.skips(), "TestOther/part: no engine here\nTestSilent: no reason given\n"; got != want {
		t.Errorf("skips %q, want %q", got, want)
	}
}
