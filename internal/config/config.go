// Package config turns one section of a configuration file into a typed struct and
// collects every mistake on the way, each with file, line, column and what to write.
//
// A plug-in declares its parameters as a struct whose fields carry tags:
//
//	type Params struct {
//		Port    int           `conf:"port" default:"24224" doc:"TCP port to listen on"`
//		Linger  time.Duration `conf:"linger_timeout" doc:"…"`
//		Limit   config.Size   `conf:"chunk_size_limit"`
//		Mode    string        `conf:"emit_mode" enum:"batch|record" default:"batch"`
//		Keys    []string      `conf:"message_keys"`
//		Tags    map[string]string `conf:"log_group_aws_tags"`
//		Key     string        `conf:"shared_key" required:"true" secret:"true"`
//		Retain  *int          `conf:"retention_in_days"` // pointer: nil when unset
//		Users   []User        `section:"user"`           // repeated section
//		Sec     *Security     `section:"security"`       // at most one; nil when absent
//	}
//
// Field types: string, bool, int, float64, time.Duration (Fluentd time: seconds), Size,
// []string, map[string]string, *rx.Regexp for regexps, pointers to these for "unset", and for sections struct
// pointers and slices of structs. Tags: conf (key), default (text as in a file), required,
// enum (a|b|c), alias (older names, a|b), min (least value), secret, doc. The field tagged
// arg:"true" (string or []string) takes the section's argument. A struct may embed another
// to share parameters. A field of type *fluentconf.Section or []*fluentconf.Section with a
// section tag takes a sub-section as it is, for the caller to decode.
package config

import "weir/internal/fluentconf"

// Size is a number of bytes, written 10, 10k, 8MB, 1g.
type Size int64

// Diagnostics collects what is wrong with a configuration. It is not safe for concurrent use.
type Diagnostics struct {
	Errors   []*fluentconf.Error
	Warnings []*fluentconf.Error
	Notes    []*fluentconf.Error // what is right and good to know, said once

	// Strict makes unknown parameters and sections errors instead of warnings.
	Strict bool
	// StrictValues makes numbers, sizes, times and regular expressions that are read in a
	// surprising way errors instead of warnings (Fluentd's strict_config_value).
	StrictValues bool
}

// Error notes a mistake at pos. hint says what to write instead.
func (d *Diagnostics) Error(pos fluentconf.Pos, text, hint string) {
	d.Errors = append(d.Errors, &fluentconf.Error{Pos: pos, Text: text, Hint: hint})
}

// Warn notes something that is legal but probably not meant.
func (d *Diagnostics) Warn(pos fluentconf.Pos, text, hint string) {
	d.Warnings = append(d.Warnings, &fluentconf.Error{Pos: pos, Text: text, Hint: hint})
}

// Note notes something that is as it should be and good to know.
func (d *Diagnostics) Note(pos fluentconf.Pos, text, hint string) {
	d.Notes = append(d.Notes, &fluentconf.Error{Pos: pos, Text: text, Hint: hint})
}
