package forward

import (
	"errors"
	"strings"
)

// first looks at the first bytes of a connection. They decide whether it speaks JSON, and
// tell the most frequent mistakes apart: a health check or a browser speaking HTTP, and a
// client that speaks TLS to a plain port.
func (c *conn) first(b []byte) error {
	switch {
	case b[0] == '[' || b[0] == '{':
		c.json = c.set.auth == nil
		return nil
	case b[0] == 0x16:
		if len(b) < 2 {
			return errMore
		}
		if b[1] == 0x03 {
			return c.malformed(0, "this is a TLS client on a plain port: use <transport tls> here, or switch TLS off in the client", errTLS)
		}
	case b[0] >= 'A' && b[0] <= 'Z':
		switch looksLikeHTTP(b) {
		case yes:
			return c.malformed(0, "this is HTTP, not the forward protocol: a health check or a client for another port", errHTTP)
		case maybe:
			return errMore
		}
	}
	return nil
}

var (
	errTLS  = errors.New("starts with a TLS ClientHello")
	errHTTP = errors.New("starts with an HTTP request")
)

type answer uint8

const (
	no answer = iota
	maybe
	yes
)

func looksLikeHTTP(b []byte) answer {
	head := string(b[:min(len(b), 8)])
	found := no
	for _, method := range [...]string{"GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ", "DELETE ", "CONNECT ", "TRACE ", "PATCH ", "PRI * "} {
		switch {
		case strings.HasPrefix(head, method):
			return yes
		case strings.HasPrefix(method, head):
			found = maybe
		}
	}
	return found
}
