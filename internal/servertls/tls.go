package servertls

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"weir/internal/config"
	"weir/internal/fluentconf"
)

func tlsVersion(name string) uint16 {
	switch name {
	case "TLSv1_1":
		return tls.VersionTLS11
	case "TLSv1_3":
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// Check notes what is wrong with the parameters as a whole. at is the section they come
// from, or nil. It touches no files.
func (t *Params) Check(at *fluentconf.Section, d *config.Diagnostics) {
	if t.CertVerifier != "" {
		d.Error(place(at, "cert_verifier"), "cert_verifier names a Ruby program, which weir cannot run",
			"remove it; client_cert_auth with ca_path checks client certificates")
	}
	if (t.MinVersion == "") != (t.MaxVersion == "") {
		d.Error(place(at, "min_version"), "min_version and max_version go together", "write both or none")
	} else if t.MinVersion != "" && tlsVersion(t.MinVersion) > tlsVersion(t.MaxVersion) {
		d.Error(place(at, "min_version"), "min_version is newer than max_version", "exchange them")
	}
	if t.EnsureFIPS && !fips140.Enabled() {
		d.Error(place(at, "ensure_fips"), "ensure_fips is true, but the FIPS 140-3 module is not active", "start weir with GODEBUG=fips140=on")
	}
	switch {
	case t.CertPath != "" && t.PrivateKeyPath == "":
		d.Error(place(at, "cert_path"), "cert_path needs private_key_path", "write the file with the key")
	case t.CACertPath != "" && t.CAPrivateKeyPath == "":
		d.Error(place(at, "ca_cert_path"), "ca_cert_path needs ca_private_key_path", "write the file with the key")
	case t.CertPath == "" && t.CACertPath == "" && !t.Insecure:
		d.Error(place(at, ""), "<transport tls> has no certificate", "write cert_path and private_key_path, or ca_cert_path and ca_private_key_path, or insecure true for one made at start")
	}
	if t.ClientCertAuth && t.CAPath == "" {
		d.Error(place(at, "client_cert_auth"), "client_cert_auth needs ca_path", "write the file with the authorities that sign client certificates")
	}
	if _, unknown := cipherSuites(t.Ciphers); len(unknown) > 0 {
		d.Warn(place(at, "ciphers"), "ciphers: ignored "+strings.Join(unknown, ", "), "name suites as OpenSSL does, for example ECDHE-RSA-AES128-GCM-SHA256; the choice for TLS 1.3 is fixed")
	}
}

// Config makes the server's configuration. It reads files.
func (t *Params) Config(hostname string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tlsVersion(t.Version)}
	if t.MinVersion != "" {
		c.MinVersion, c.MaxVersion = tlsVersion(t.MinVersion), tlsVersion(t.MaxVersion)
	}
	c.CipherSuites, _ = cipherSuites(t.Ciphers)
	cert, err := serverCert(t, hostname)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{cert}
	if t.ClientCertAuth {
		text, err := os.ReadFile(t.CAPath)
		if err != nil {
			return nil, fmt.Errorf("read ca_path: %w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read ca_path: %s holds no certificate in PEM form", t.CAPath)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// cipherSuites translates a list of OpenSSL names. Group names such as ALL or HIGH leave
// the choice to Go, which offers safe suites only; exclusions of what Go does not have are
// met anyway.
func cipherSuites(list string) (ids []uint16, unknown []string) {
	if list == "" || list == defaultCiphers {
		return nil, nil
	}
	all := false
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' }) {
		switch id, ok := opensslSuite(name); {
		case ok:
			ids = append(ids, id)
		case strings.HasPrefix(name, "!") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "@"):
		case name == "ALL" || name == "HIGH" || name == "DEFAULT" || strings.HasPrefix(name, "TLS_"):
			all = true
		default:
			unknown = append(unknown, name)
		}
	}
	if all {
		ids = nil
	}
	return ids, unknown
}

// opensslSuite finds Go's number of a cipher suite by its OpenSSL name: what Go calls
// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 there.
func opensslSuite(name string) (uint16, bool) {
	for _, s := range tls.CipherSuites() {
		n := strings.TrimPrefix(s.Name, "TLS_")
		n = strings.TrimPrefix(strings.Replace(n, "_WITH_", "_", 1), "RSA_AES")
		if n != strings.Replace(strings.TrimPrefix(s.Name, "TLS_"), "_WITH_", "_", 1) {
			n = "AES" + n // key exchange by RSA has no name
		}
		n = strings.NewReplacer("AES_128_", "AES128-", "AES_256_", "AES256-", "CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305",
			"CBC_", "", "_", "-").Replace(n)
		if n == name {
			return s.ID, true
		}
	}
	return 0, false
}

// place is where a parameter stands, or else where its section begins.
func place(s *fluentconf.Section, key string) fluentconf.Pos {
	if s == nil {
		return fluentconf.Pos{}
	}
	if p := s.Get(key); p != nil {
		return p.Pos
	}
	return s.Pos
}
