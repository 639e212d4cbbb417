package forward

import (
	"time"

	"weir/internal/config"
	"weir/internal/servertls"
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

	servertls.Params
}
