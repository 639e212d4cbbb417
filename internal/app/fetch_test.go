package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestIncludeOverHTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/conf/in.conf", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<source>\n  @type forward\n</source>\n@include out.conf\n"))
	})
	mux.HandleFunc("/conf/out.conf", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<match **>\n  @type null\n</match>\n"))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	load := func(text string, fetch func(string) ([]byte, error)) (*Plan, string) {
		p, d := Load("test.conf", Env{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }, Fetch: fetch}, false)
		var said strings.Builder
		for _, e := range append(d.Errors, d.Warnings...) {
			said.WriteString(e.Error() + "\n")
		}
		return p, said.String()
	}
	p, said := load("@include "+srv.URL+"/conf/in.conf\n", Fetch)
	if p == nil || said != "" || !strings.Contains(p.Summary(), "match **: null") {
		t.Errorf("a relative include behind a fetched one: %v %s", p, said)
	}
	if _, said := load("@include "+srv.URL+"/missing.conf\n<match **>\n  @type null\n</match>\n", Fetch); !strings.Contains(said, "404") {
		t.Errorf("a missing one: %s", said)
	}
	if _, said := load("@include "+srv.URL+"/conf/in.conf\n<match **>\n  @type null\n</match>\n", nil); !strings.Contains(said, "1:10: @include "+srv.URL+"/conf/in.conf is not fetched here") {
		t.Errorf("without the network: %s", said)
	}
}
