package emulator

import "time"

// Limits are the bounds that the service documents. New uses DefaultLimits;
// tests may shrink them to reach a bound cheaply.
type Limits struct {
	// BatchBytes bounds one PutLogEvents call: the sum over its events of
	// message bytes in UTF-8 plus EventOverhead. (API reference, PutLogEvents.)
	BatchBytes int
	// BatchEvents is the largest number of events in one call.
	BatchEvents int
	// EventBytes bounds one event, EventOverhead included. (1 MB since 2025,
	// 256 KB before.)
	EventBytes int
	// EventOverhead is what each event costs on top of its message.
	EventOverhead int
	// BatchSpan is the longest time between the first and the last valid
	// event of a call.
	BatchSpan time.Duration
	// MaxAge and MaxFuture bound a timestamp relative to the service's clock;
	// events outside are rejected one by one.
	MaxAge, MaxFuture time.Duration
	// NameBytes is the longest name of a group or a stream, in characters.
	NameLength int
	// Tags is the largest number of tags on one log group.
	Tags int
	// Groups is the largest number of log groups of the account.
	Groups int
	// PageEvents and PageBytes bound one page of GetLogEvents and FilterLogEvents.
	PageEvents, PageBytes int
	// RequestBytes bounds a request body, before and after decompression. The
	// service documents none; a full batch of characters that all need six
	// bytes of JSON fits into this one.
	RequestBytes int
	// ClockSkew is how far the date of a signature may be off.
	ClockSkew time.Duration
}

// DefaultLimits returns the limits of the service as documented in 2026.
func DefaultLimits() Limits {
	return Limits{
		BatchBytes:    1048576,
		BatchEvents:   10000,
		EventBytes:    1048576,
		EventOverhead: 26,
		BatchSpan:     24 * time.Hour,
		MaxAge:        14 * 24 * time.Hour,
		MaxFuture:     2 * time.Hour,
		NameLength:    512,
		Tags:          50,
		Groups:        1000000,
		PageEvents:    10000,
		PageBytes:     1 << 20,
		RequestBytes:  8 << 20,
		ClockSkew:     5 * time.Minute,
	}
}

// retentionDays are the values that PutRetentionPolicy takes, in the order in
// which the service's error text lists them.
func retentionDays() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}
