package awslogs

// The names of the options; each stands in known and in docs/docker.md as well. Those without
// a prefix and those of awslogs are Docker's. No option of weir's is called max-size, max-file
// or compress: Docker's local cache reads these names from the same map.
const (
	keyMode      = "mode"
	keyRing      = "max-buffer-size"
	keyNoCache   = "cache-disabled"
	keyTag       = "tag"
	keyGroup     = "awslogs-group"
	keyStream    = "awslogs-stream"
	keyRegion    = "awslogs-region"
	keyEndpoint  = "awslogs-endpoint"
	keyCreds     = "awslogs-credentials-endpoint"
	keyNewGroup  = "awslogs-create-group"
	keyNewStream = "awslogs-create-stream"
	keyFormat    = "awslogs-format"
	keyMultiline = "awslogs-multiline-pattern"
	keyDatetime  = "awslogs-datetime-format"
	keyEventTime = "awslogs-datetime-as-event-time"
	keyTimezone  = "awslogs-datetime-timezone"
	keyFlush     = "awslogs-force-flush-interval-seconds"
	keyQueue     = "awslogs-max-buffered-events"

	keyNotice    = "weir-loss-notice"
	keyBuffer    = "weir-buffer-size"
	keyOverflow  = "weir-overflow"
	keyDrain     = "weir-drain-order"
	keyRetention = "weir-retention-days"
	keyEventSize = "weir-event-size"
	keyStderr    = "weir-stderr-stream"
	keyTemplates = "weir-templates"
	keySanitize  = "weir-sanitize-names"
	keyProfile   = "weir-profile"
	keyRole      = "weir-role-arn"
)

// Values of options.
const (
	formatEMF     = "json/emf"
	modeRing      = "non-blocking"
	modeDirect    = "blocking"
	timezoneUTC   = "utc"
	timezoneLocal = "local"
)

// known lists all options that are accepted.
func known() map[string]bool {
	all := map[string]bool{}
	for _, k := range []string{
		keyMode, keyRing, keyNoCache, keyTag, keyGroup, keyStream, keyRegion, keyEndpoint, keyCreds, keyNewGroup, keyNewStream,
		keyFormat, keyMultiline, keyDatetime, keyEventTime, keyTimezone, keyFlush, keyQueue,
		keyNotice, keyBuffer, keyOverflow, keyDrain, keyRetention, keyEventSize, keyStderr, keyTemplates, keySanitize, keyProfile, keyRole,
		// Docker's cache for "docker logs"; Docker reads them itself.
		"cache-max-size", "cache-max-file", "cache-compress", "cache-labels", "cache-labels-regex", "cache-env", "cache-env-regex", "cache-tag",
	} {
		all[k] = true
	}
	return all
}

// instead says what to write for options that users of other drivers know.
func instead(key string) string {
	switch key {
	case "labels", "labels-regex":
		return "awslogs refuses it too; put a label into a name, as in tag={{index .ContainerLabels \"NAME\"}}"
	case "env", "env-regex":
		return "awslogs refuses it too; give the container a label, and put that into a name, as in tag={{index .ContainerLabels \"NAME\"}}"
	case "awslogs-stream-prefix":
		return "only Amazon ECS knows it; write awslogs-stream=PREFIX/{{.Name}}/{{.ID}}"
	case "max-size", "max-file", "compress":
		return "it belongs to other drivers; the disk that weir uses is weir-buffer-size"
	}
	return ""
}
