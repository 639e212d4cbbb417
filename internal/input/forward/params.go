package forward

import (
	"time"

	"weir/internal/config"
)

// Params are the parameters of `<source> @type forward`. Names and defaults are those of
// Fluentd's in_forward; what is ours is marked so.
type Params struct {
	config.Plugin

	Port int    `conf:"port" default:"24224" doc:"TCP port to listen on, and UDP port for heartbeats"`
	Bind string `conf:"bind" default:"0.0.0.0" doc:"address to listen on"`

	Backlog          *int          `conf:"backlog" doc:"length of the kernel's queue of connections that wait to be accepted; the kernel's own limit applies"`
	LingerTimeout    *int          `conf:"linger_timeout" doc:"SO_LINGER in seconds; deprecated, belongs into <transport>"`
	BlockingTimeout  time.Duration `conf:"blocking_timeout" default:"0.5" doc:"accepted for compatibility; has no meaning here"`
	ResolveHostname  *bool         `conf:"resolve_hostname" doc:"look up the names of clients"`
	DenyKeepalive    bool          `conf:"deny_keepalive" default:"false" doc:"close a connection after its first response"`
	SendKeepalive    bool          `conf:"send_keepalive_packet" default:"false" doc:"TCP keep-alive; always on here"`
	SkipInvalidEvent bool          `conf:"skip_invalid_event" default:"true" doc:"drop invalid events with a warning; when false, a time of 0 in packed events stays 0"`

	ChunkSizeWarnLimit *config.Size `conf:"chunk_size_warn_limit" doc:"warn about larger messages"`
	ChunkSizeLimit     *config.Size `conf:"chunk_size_limit" doc:"drop larger messages, without an acknowledgement; 256m if not set"`
	DecompressionLimit config.Size  `conf:"decompression_size_limit" default:"256m" doc:"largest size of a compressed message after decompression"`

	SourceAddressKey  string  `conf:"source_address_key" doc:"key under which the client's address is put into each record"`
	SourceHostnameKey string  `conf:"source_hostname_key" doc:"key under which the client's name is put into each record"`
	Tag               string  `conf:"tag" doc:"replaces the tags of all events"`
	AddTagPrefix      *string `conf:"add_tag_prefix" doc:"put before all tags, with a dot between"`

	// AckAfter is ours.
	AckAfter string `conf:"ack_after" enum:"stored|delivered" default:"stored" doc:"what an acknowledgement promises: the events are in the buffer, or the destination accepted them"`

	Security  *Security  `section:"security"`
	Transport *Transport `section:"transport"`
}

// Security is `<security>`: with it clients must authenticate themselves.
type Security struct {
	SelfHostname         string   `conf:"self_hostname" required:"true" doc:"the name of this server in the handshake"`
	SharedKey            string   `conf:"shared_key" required:"true" secret:"true" doc:"secret that clients must know"`
	UserAuth             bool     `conf:"user_auth" default:"false" doc:"ask for user name and password too"`
	AllowAnonymousSource bool     `conf:"allow_anonymous_source" default:"true" doc:"accept clients that no <client> names"`
	Users                []User   `section:"user"`
	Clients              []Client `section:"client"`
}

// User is `<user>`.
type User struct {
	Username string `conf:"username" required:"true" doc:"name of the user"`
	Password string `conf:"password" required:"true" secret:"true" doc:"password of the user"`
}

// Client is `<client>`: a host or a network, with its own key and its own users.
type Client struct {
	Host      string   `conf:"host" doc:"address or name of the client"`
	Network   string   `conf:"network" doc:"network of the clients, as address/bits"`
	SharedKey string   `conf:"shared_key" secret:"true" doc:"key of these clients instead of the common one"`
	Users     []string `conf:"users" doc:"users that may log in from here; all if not set"`
}

// Transport is `<transport tcp>` or `<transport tls>`; the argument selects.
type Transport struct {
	Kind string `arg:"true" enum:"tcp|tls|udp" default:"tcp"`

	LingerTimeout     *int `conf:"linger_timeout" doc:"SO_LINGER in seconds; if not set, closing waits for nothing and resets nothing"`
	ReceiveBufferSize *int `conf:"receive_buffer_size" doc:"SO_RCVBUF in bytes"`

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
		Port: 24224, Bind: "0.0.0.0", BlockingTimeout: 500 * time.Millisecond,
		SkipInvalidEvent: true, DecompressionLimit: 256 << 20, AckAfter: "stored",
	}
}

// DefaultTransport returns the parameters of an empty `<transport kind>` section.
func DefaultTransport(kind string) Transport {
	return Transport{
		Kind: kind, Version: "TLSv1_2", Ciphers: defaultCiphers, GenerateKeyLength: 2048,
		GenerateCountry: "US", GenerateState: "CA", GenerateLocality: "Mountain View",
		GenerateExpiration: 10 * 365 * 24 * time.Hour, GenerateDigest: "sha256",
	}
}

const defaultCiphers = "ALL:!aNULL:!eNULL:!SSLv2"
