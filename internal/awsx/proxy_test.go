package awsx

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProxyFor(t *testing.T) {
	t.Setenv("NO_PROXY", "internal.example, .sub.example ,10.0.0.0/8,192.0.2.7,only.example:8443,::1")
	proxy, err := proxyFor("user:pw@proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]bool{
		"https://logs.eu-west-1.amazonaws.com/": true,
		"https://internal.example/":             false,
		"https://a.internal.example/":           false,
		"https://notinternal.example/":          true,
		"https://sub.example/":                  true,
		"https://a.sub.example/":                false,
		"http://10.1.2.3/":                      false,
		"http://192.0.2.7:99/":                  false,
		"http://192.0.2.8/":                     true,
		"https://only.example:8443/":            false,
		"https://only.example/":                 true,
		"http://169.254.169.254/latest":         false,
		"http://169.254.170.2/":                 false,
		"http://[fd00:ec2::254]/":               false,
		"http://127.0.0.1:4566/":                false,
		"http://localhost:4566/":                false,
	} {
		u, err := proxy(httptest.NewRequest(http.MethodPost, url, nil))
		if err != nil || (u != nil) != want {
			t.Errorf("%s: proxy %v, err %v, want one: %v", url, u, err, want)
		}
		if u != nil && u.String() != "http://user:pw@proxy.example:3128" {
			t.Errorf("proxy %s", u)
		}
	}
}

func TestProxyMistake(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"http://", "http://user:secret@:x y/"} {
		if _, err := proxyFor(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if got := redact("http://user:secret@host:1"); got != "…@host:1" {
		t.Errorf("redacted to %q", got)
	}
}

// With NO_PROXY * nothing goes through the proxy.
func TestProxyNone(t *testing.T) {
	t.Setenv("NO_PROXY", "*")
	proxy, err := proxyFor("http://proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	if u, _ := proxy(httptest.NewRequest(http.MethodPost, "https://logs.eu-west-1.amazonaws.com/", nil)); u != nil {
		t.Errorf("proxy %s", u)
	}
}
