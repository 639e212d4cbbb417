package awsx

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// proxyFor returns the proxy chooser for all AWS calls. With an explicit http_proxy that
// one is used, with the hosts of NO_PROXY excepted; without, the environment decides as
// usual. Metadata and container credential endpoints are link-local: they are never asked
// through a proxy, whatever the environment says.
func proxyFor(explicit string) (func(*http.Request) (*url.URL, error), error) {
	if explicit == "" {
		return func(r *http.Request) (*url.URL, error) {
			if localHost(r.URL.Hostname()) {
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		}, nil
	}
	text := explicit
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("http_proxy %q is not a URL: write http://host:port", redact(explicit))
	}
	except := noProxy()
	return func(r *http.Request) (*url.URL, error) {
		if localHost(r.URL.Hostname()) || except.match(r.URL) {
			return nil, nil
		}
		return u, nil
	}, nil
}

// redact hides the password of a proxy URL that is shown in an error.
func redact(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "…@" + s[i+1:]
	}
	return s
}

// localHost reports whether host is reached without any network worth a proxy: loopback
// and link-local addresses and the two metadata addresses of IPv6.
func localHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	a = a.Unmap()
	return a.IsLoopback() || a.IsLinkLocalUnicast() ||
		a == netip.MustParseAddr("fd00:ec2::254") || a == netip.MustParseAddr("fd00:ec2::23")
}

// exceptions are the entries of NO_PROXY.
type exceptions []string

func noProxy() exceptions {
	text := os.Getenv("NO_PROXY")
	if text == "" {
		text = os.Getenv("no_proxy")
	}
	var out exceptions
	for _, e := range strings.Split(text, ",") {
		if e = strings.ToLower(strings.TrimSpace(e)); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// match follows the usual reading of NO_PROXY: "*", an address, a network, a domain with
// all below it (with or without a leading dot), each optionally with a port.
func (x exceptions) match(u *url.URL) bool {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	addr, addrErr := netip.ParseAddr(host)
	for _, e := range x {
		if e == "*" {
			return true
		}
		if n, err := netip.ParsePrefix(e); err == nil {
			if addrErr == nil && n.Contains(addr.Unmap()) {
				return true
			}
			continue
		}
		if h, p, err := net.SplitHostPort(e); err == nil {
			if p != port {
				continue
			}
			e = h
		}
		if a, err := netip.ParseAddr(strings.Trim(e, "[]")); err == nil {
			if addrErr == nil && a.Unmap() == addr.Unmap() {
				return true
			}
			continue
		}
		domain := strings.TrimPrefix(strings.TrimPrefix(e, "*"), ".")
		if strings.HasSuffix(host, "."+domain) || host == domain && !strings.HasPrefix(e, ".") && !strings.HasPrefix(e, "*") {
			return true
		}
	}
	return false
}
