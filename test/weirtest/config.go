package weirtest

import "strings"

// Config is a configuration of the usual form: a forward source, one cloudwatch_logs output
// with @id out whose streams are the tags, and a file buffer.
type Config struct {
	System string // lines of <system>
	Source string // more lines of <source>
	Group  string // default g
	Match  string // more lines of <match>
	Buffer string // more lines of <buffer>
	Memory bool   // a memory buffer instead of a file
	Flush  string // flush_interval; default 0.1 (seconds)
	More   string // further sections, before <match **>
}

// String gives the configuration file, with $PORT and $DIR as New replaces them.
func (c Config) String() string {
	kind := "@type file\n    path $DIR/buffer"
	if c.Memory {
		kind = "@type memory"
	}
	if c.Group == "" {
		c.Group = "g"
	}
	if c.Flush == "" {
		c.Flush = "0.1"
	}
	return strings.NewReplacer("{system}", c.System, "{source}", c.Source, "{group}", c.Group, "{match}", c.Match,
		"{buffer}", c.Buffer, "{kind}", kind, "{flush}", c.Flush, "{more}", c.More).Replace(`<system>
  {system}
</system>
<source>
  @type forward
  @id in
  port $PORT
  bind 127.0.0.1
  {source}
</source>
{more}
<match **>
  @type cloudwatch_logs
  @id out
  log_group_name {group}
  log_stream_name ${tag}
  auto_create_stream true
  message_keys log
  {match}
  <buffer tag>
    {kind}
    flush_interval {flush}
    {buffer}
  </buffer>
</match>
`)
}
