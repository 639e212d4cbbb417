// Package servertls is the TLS of weir's listeners: the parameters of Fluentd's
// <transport tls> and the configuration that they give.
package servertls

import "time"

// Params are the parameters of `<transport tls>` that have to do with TLS.
type Params struct {
	Version    string `conf:"version" enum:"TLSv1_1|TLSv1_2|TLSv1_3" default:"TLSv1_2" doc:"oldest TLS version accepted"`
	MinVersion string `conf:"min_version" enum:"TLSv1_1|TLSv1_2|TLSv1_3" doc:"oldest TLS version accepted, together with max_version"`
	MaxVersion string `conf:"max_version" enum:"TLSv1_1|TLSv1_2|TLSv1_3" doc:"newest TLS version accepted, together with min_version"`
	Ciphers    string `conf:"ciphers" default:"ALL:!aNULL:!eNULL:!SSLv2" doc:"OpenSSL names of the cipher suites for TLS 1.2 and older"`
	Insecure   bool   `conf:"insecure" default:"false" doc:"use a certificate made at start that nobody has signed"`
	EnsureFIPS bool   `conf:"ensure_fips" default:"false" doc:"refuse to start unless the FIPS 140-3 module is active"`

	CertPath             string `conf:"cert_path" doc:"PEM file with the server's certificate and its chain"`
	PrivateKeyPath       string `conf:"private_key_path" doc:"PEM file with the key of cert_path"`
	PrivateKeyPassphrase string `conf:"private_key_passphrase" secret:"true" doc:"passphrase of private_key_path"`
	ClientCertAuth       bool   `conf:"client_cert_auth" default:"false" doc:"ask clients for a certificate signed by ca_path"`
	CAPath               string `conf:"ca_path" doc:"PEM file with the authorities that sign the clients' certificates"`
	CertVerifier         string `conf:"cert_verifier" doc:"a Ruby file; not supported"`

	CACertPath             string        `conf:"ca_cert_path" doc:"PEM file with an authority that signs a server certificate made at start"`
	CAPrivateKeyPath       string        `conf:"ca_private_key_path" doc:"PEM file with the key of ca_cert_path"`
	CAPrivateKeyPassphrase string        `conf:"ca_private_key_passphrase" secret:"true" doc:"passphrase of ca_private_key_path"`
	GenerateKeyLength      int           `conf:"generate_private_key_length" default:"2048" doc:"bits of the RSA key made at start"`
	GenerateCountry        string        `conf:"generate_cert_country" default:"US" doc:"country in a certificate made at start"`
	GenerateState          string        `conf:"generate_cert_state" default:"CA" doc:"state in a certificate made at start"`
	GenerateLocality       string        `conf:"generate_cert_locality" default:"Mountain View" doc:"locality in a certificate made at start"`
	GenerateCommonName     string        `conf:"generate_cert_common_name" doc:"common name in a certificate made at start; this host's name if not set"`
	GenerateExpiration     time.Duration `conf:"generate_cert_expiration" default:"315360000" doc:"how long a certificate made at start is valid"`
	GenerateDigest         string        `conf:"generate_cert_digest" enum:"sha1|sha256|sha384|sha512" default:"sha256" doc:"digest of a certificate made at start"`
}

// Defaults returns the parameters of an empty section.
func Defaults() Params {
	return Params{
		Version: "TLSv1_2", Ciphers: defaultCiphers, GenerateKeyLength: 2048,
		GenerateCountry: "US", GenerateState: "CA", GenerateLocality: "Mountain View",
		GenerateExpiration: 10 * 365 * 24 * time.Hour, GenerateDigest: "sha256",
	}
}

const defaultCiphers = "ALL:!aNULL:!eNULL:!SSLv2"
