package servertls

import (
	"crypto/ecdsa"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCiphers(t *testing.T) {
	ids, unknown := cipherSuites("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-SHA:!aNULL:KRB5-DES")
	if d := cmp.Diff(ids, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA}); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(unknown, []string{"KRB5-DES"}); d != "" {
		t.Error(d)
	}
}

// TestKeys reads keys as openssl writes them, plain and encrypted. All are the same key.
func TestKeys(t *testing.T) {
	want, err := loadKey("testdata/plain.key", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		passphrase string
		fails      string
	}{
		"pkcs8.key":        {"open", ""},
		"pkcs8-sha512.key": {"open", ""},
		"legacy.key":       {"open", ""},
		"pkcs8-v1.key":     {"open", "convert it with openssl"},
		"none.key":         {"", "read private key"},
	} {
		got, err := loadKey("testdata/"+name, c.passphrase)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !want.Public().(*ecdsa.PublicKey).Equal(got.Public()) {
			t.Errorf("%s is another key", name)
		}
		if _, err := loadKey("testdata/"+name, "wrong"); err == nil {
			t.Errorf("%s opens with a wrong passphrase", name)
		}
	}
}
