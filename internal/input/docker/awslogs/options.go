// Package awslogs reads the log options of Docker's awslogs driver, and weir's own, with
// the meaning, the defaults and the error texts of the original. It is pure: no clock, no
// files, no network.
package awslogs

import (
	"strings"
	"time"
)

// Options are the log options of one container, checked and with all templates expanded.
// They can be stored as JSON; after reading them back call Compile. What an older weir has
// stored lacks the fields that are new: zero must be a proper value of these. They hold nothing
// of the container's environment or labels but what a template put into a name.
type Options struct {
	Group        string // legal name of the log group
	Stream       string // legal name of the log stream
	StderrStream string // stream of what is written to stderr; "" where there is one stream for both

	Region              string // "" where the options do not say
	Endpoint            string // URL; "" for the region's
	CredentialsEndpoint string // path below http://169.254.170.2; only if HasCredentials
	HasCredentials      bool   // awslogs-credentials-endpoint is present, even if empty
	Profile             string // weir-profile: of the shared configuration files; "" for the default
	RoleARN             string // weir-role-arn: role to assume; "" for none
	CreateGroup         bool   // default false
	CreateStream        bool   // default true
	Format              string // "" or "json/emf"
	RetentionDays       int    // of a group that is created; 0: leave it alone

	FlushInterval       time.Duration // awslogs-force-flush-interval-seconds, default 5 s
	MultilinePattern    string        // regular expression that begins an event; "" for plain lines
	DatetimeFormat      string        // as written; its regular expression is in MultilinePattern
	DatetimeAsEventTime bool          // DatetimeFormat is set then
	DatetimeTimezone    string        // "utc" (default) or "local"
	EventSize           int           // most bytes of one event, counted as the service does; default 262 118

	LossNotice string // "", "text" or "json"
	BufferSize int64  // bytes of spool, default 256 MiB
	DropNewest bool   // weir-overflow drop-newest; default: the oldest
	LiveFirst  bool   // weir-drain-order live-first
}

// Env is what the options of all containers of this host may refer to.
type Env struct {
	Hostname string // of the host, not of the plugin's own namespace
}

// Mistakes are all that is wrong with a container's options. As text they stand on one
// line, since Docker shows one.
type Mistakes []error

// Error joins the texts with "; ".
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives the single mistakes.
func (m Mistakes) Unwrap() []error { return m }
