// Package awslogs reads the log options of Docker's awslogs driver, and weir's own, with
// the meaning, the defaults and the error texts of the original. It is pure: no clock, no
// files, no network.
package awslogs

import "time"

// Options are the log options of one container, checked and with all templates expanded.
// They can be stored as JSON; after reading them back call Compile.
type Options struct {
	Group        string // legal name of the log group
	Stream       string // legal name of the log stream
	StderrStream string // stream of what is written to stderr; "" where there is one stream for both

	Region              string // "" where the options do not say
	Endpoint            string // URL; "" for the region's
	CredentialsEndpoint string // path below http://169.254.170.2; only if HasCredentialsEndpoint
	HasCredentials      bool   // awslogs-credentials-endpoint is present
	CreateGroup         bool   // default false
	CreateStream        bool   // default true
	Format              string // "" or "json/emf"
	RetentionDays       int    // 0: leave it alone

	FlushInterval       time.Duration // awslogs-force-flush-interval-seconds, default 5 s
	MultilinePattern    string        // regular expression that begins an event; "" for plain lines
	DatetimeFormat      string        // as written; its regular expression is in MultilinePattern
	DatetimeAsEventTime bool
	DatetimeTimezone    string // "utc" (default) or "local"
	EventSize           int    // most bytes of one event, counted as the service does; default 262 118

	LossNotice string // "", "text" or "json"
	BufferSize int64  // bytes of spool, default 256 MiB
	DropNewest bool   // weir-overflow drop-newest; default: the oldest
	LiveFirst  bool   // weir-drain-order live-first
}
