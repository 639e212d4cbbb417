package emulator

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// operations is the table of what the endpoint can do.
func operations() map[string]operation {
	return map[string]operation{
		"PutLogEvents":          putLogEvents,
		"GetLogEvents":          getLogEvents,
		"FilterLogEvents":       filterLogEvents,
		"CreateLogGroup":        createLogGroup,
		"DeleteLogGroup":        deleteLogGroup,
		"DescribeLogGroups":     describeLogGroups,
		"CreateLogStream":       createLogStream,
		"DeleteLogStream":       deleteLogStream,
		"DescribeLogStreams":    describeLogStreams,
		"PutRetentionPolicy":    putRetentionPolicy,
		"DeleteRetentionPolicy": deleteRetentionPolicy,
		"TagResource":           tagResource,
		"UntagResource":         untagResource,
		"ListTagsForResource":   listTagsForResource,
		"TagLogGroup":           tagLogGroup,
		"UntagLogGroup":         untagLogGroup,
		"ListTagsLogGroup":      listTagsLogGroup,
	}
}

func knownOperation(op string) bool { return operations()[op] != nil }

// groupName is the body of operations that only name a group.
type groupName struct {
	LogGroupName *string `json:"logGroupName"`
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func createLogGroup(s *Server, c *call) (any, *apiError) {
	var in struct {
		groupName
		KmsKeyID                  *string           `json:"kmsKeyId"`
		Tags                      map[string]string `json:"tags"`
		LogGroupClass             *string           `json:"logGroupClass"`
		DeletionProtectionEnabled bool              `json:"deletionProtectionEnabled"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	name := deref(in.LogGroupName)
	var p problems
	p.checkGroup(&s.lim, "logGroupName", name, in.LogGroupName != nil)
	if len(deref(in.KmsKeyID)) > 256 {
		p.addf(quoted(*in.KmsKeyID), "kmsKeyId", "Member must have length less than or equal to 256")
	}
	class := "STANDARD"
	if in.LogGroupClass != nil {
		if class = *in.LogGroupClass; class != "STANDARD" && class != "INFREQUENT_ACCESS" && class != "DELIVERY" {
			p.addf(quoted(class), "logGroupClass", "Member must satisfy enum value set: [STANDARD, INFREQUENT_ACCESS, DELIVERY]")
		}
	}
	if in.Tags != nil && len(in.Tags) == 0 {
		p.addf("'{}'", "tags", "Member must have length greater than or equal to 1")
	}
	s.checkTags(&p, in.Tags)
	if err := p.err(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.ToLower(name), "aws/") {
		return nil, errInvalid("Log groups starting with AWS/ are reserved for AWS.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[name] != nil {
		return nil, newAPIError("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	if len(s.groups) >= s.lim.Groups {
		return nil, errLimitExceeded()
	}
	g := &group{
		name: name, created: millis(c.now), class: class, kmsKey: deref(in.KmsKeyID), protected: in.DeletionProtectionEnabled,
		tags: in.Tags, streams: make(map[string]*stream),
	}
	if g.tags == nil {
		g.tags = make(map[string]string)
	}
	if err := s.saveMeta(g.record()); err != nil {
		return nil, err
	}
	s.groups[name] = g
	return nil, nil
}

func deleteLogGroup(s *Server, c *call) (any, *apiError) {
	var in groupName
	name, err := s.decodeGroup(c, &in)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	g := s.groups[name]
	switch {
	case g == nil:
		err = errGroupNotFound()
	case g.protected:
		err = newAPIError("ValidationException", "The specified log group has deletion protection enabled.")
	default:
		if err = s.saveMeta(metaRecord{Op: "delete_group", Group: name}); err == nil {
			delete(s.groups, name)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.drop(slices.Collect(maps.Values(g.streams)))
	return nil, nil
}

// drop marks streams that were taken out of their group and frees their
// events. A put that found the stream before gets "does not exist".
func (s *Server) drop(streams []*stream) {
	gone := make(map[*stream]bool, len(streams))
	for _, st := range streams {
		st.mu.Lock()
		st.deleted = true
		st.chunks, st.index, st.indexed = nil, nil, 0
		st.mu.Unlock()
		gone[st] = true
	}
	s.retained.remove(gone)
}

// decodeGroup reads a body that names a group and validates the name.
func (s *Server) decodeGroup(c *call, in *groupName) (string, *apiError) {
	if err := c.decode(in); err != nil {
		return "", err
	}
	var p problems
	p.checkGroup(&s.lim, "logGroupName", deref(in.LogGroupName), in.LogGroupName != nil)
	return deref(in.LogGroupName), p.err()
}

type groupOut struct {
	LogGroupName              string `json:"logGroupName"`
	CreationTime              int64  `json:"creationTime"`
	RetentionInDays           int    `json:"retentionInDays,omitempty"`
	MetricFilterCount         *int   `json:"metricFilterCount,omitempty"`
	Arn                       string `json:"arn"`
	StoredBytes               *int64 `json:"storedBytes,omitempty"`
	KmsKeyID                  string `json:"kmsKeyId,omitempty"`
	LogGroupClass             string `json:"logGroupClass,omitempty"`
	LogGroupArn               string `json:"logGroupArn,omitempty"`
	DeletionProtectionEnabled *bool  `json:"deletionProtectionEnabled,omitempty"`
}

func describeLogGroups(s *Server, c *call) (any, *apiError) {
	var in struct {
		LogGroupNamePrefix  *string  `json:"logGroupNamePrefix"`
		LogGroupNamePattern *string  `json:"logGroupNamePattern"`
		LogGroupClass       *string  `json:"logGroupClass"`
		LogGroupIdentifiers []string `json:"logGroupIdentifiers"`
		NextToken           *string  `json:"nextToken"`
		Limit               *int64   `json:"limit"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	p.checkGroupOptional(&s.lim, "logGroupNamePrefix", in.LogGroupNamePrefix)
	p.checkRange("limit", in.Limit, 1, 50)
	if err := p.err(); err != nil {
		return nil, err
	}
	if in.LogGroupNamePrefix != nil && in.LogGroupNamePattern != nil {
		return nil, errInvalid("LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
	}
	after, err := decodeNameToken(in.NextToken)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool)
	for _, id := range in.LogGroupIdentifiers {
		name, _ := groupFromIdentifier(id)
		wanted[name] = true
	}
	limit := 50
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	out := struct {
		LogGroups []groupOut `json:"logGroups"`
		NextToken string     `json:"nextToken,omitempty"`
	}{LogGroups: []groupOut{}}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, g := range s.sortedGroups(deref(in.LogGroupNamePrefix), deref(in.LogGroupNamePattern)) {
		if g.name <= after || len(wanted) > 0 && !wanted[g.name] || in.LogGroupClass != nil && *in.LogGroupClass != g.class {
			continue
		}
		if len(out.LogGroups) == limit {
			out.NextToken = encodeNameToken(out.LogGroups[limit-1].LogGroupName)
			break
		}
		out.LogGroups = append(out.LogGroups, s.describeGroup(g, c.region, in.LogGroupNamePattern != nil))
	}
	return out, nil
}

// describeGroup is one element of DescribeLogGroups; brief is the form of an
// answer to a search by pattern. The caller holds s.mu.
func (s *Server) describeGroup(g *group, region string, brief bool) groupOut {
	arn := s.groupARN(region, g.name)
	out := groupOut{LogGroupName: g.name, CreationTime: g.created, Arn: arn + ":*"}
	if brief {
		return out
	}
	zero, stored := 0, int64(0)
	for _, st := range g.streams {
		st.mu.Lock()
		stored += st.bytes
		st.mu.Unlock()
	}
	out.RetentionInDays, out.KmsKeyID, out.LogGroupClass = g.retention, g.kmsKey, g.class
	out.MetricFilterCount, out.StoredBytes, out.LogGroupArn = &zero, &stored, arn
	out.DeletionProtectionEnabled = &g.protected
	return out
}

// Tokens of the Describe operations name the last item of the page before.
func encodeNameToken(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name))
}

func decodeNameToken(token *string) (string, *apiError) {
	if token == nil {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || len(b) == 0 {
		return "", errInvalid("The specified nextToken is invalid.")
	}
	return string(b), nil
}

func putRetentionPolicy(s *Server, c *call) (any, *apiError) {
	var in struct {
		groupName
		RetentionInDays *int64 `json:"retentionInDays"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	p.checkGroup(&s.lim, "logGroupName", deref(in.LogGroupName), in.LogGroupName != nil)
	if in.RetentionInDays == nil {
		p.addf("null", "retentionInDays", notNull)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if days := retentionDays(); !slices.Contains(days, int(*in.RetentionInDays)) {
		text := make([]string, len(days))
		for i, d := range days {
			text[i] = strconv.Itoa(d)
		}
		return nil, errInvalid("Invalid retention value. Valid values are: [%s]", strings.Join(text, ", "))
	}
	return nil, s.setRetention(*in.LogGroupName, int(*in.RetentionInDays))
}

func deleteRetentionPolicy(s *Server, c *call) (any, *apiError) {
	var in groupName
	name, err := s.decodeGroup(c, &in)
	if err != nil {
		return nil, err
	}
	return nil, s.setRetention(name, 0)
}

func (s *Server) setRetention(name string, days int) *apiError {
	return s.change(name, func(g *group) { g.retention = days })
}

// change alters the settings of a group: on a copy, then in the files, then
// for all to see.
func (s *Server) change(name string, set func(*group)) *apiError {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	if g == nil {
		return errGroupNotFound()
	}
	next := *g
	next.tags = maps.Clone(g.tags)
	set(&next)
	if err := s.saveMeta(next.record()); err != nil {
		return err
	}
	g.retention, g.tags = next.retention, next.tags
	return nil
}

// checkTags validates keys and values against the model and the reserved prefix.
func (s *Server) checkTags(p *problems, tags map[string]string) {
	if len(tags) > s.lim.Tags {
		p.addf("", "tags", "Member must have length less than or equal to %d", s.lim.Tags)
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		switch n := utf8.RuneCountInString(k); {
		case n < 1 || n > 128:
			p.addf("", "tags", "Map keys must satisfy constraint: [Member must have length less than or equal to 128, Member must have length greater than or equal to 1]")
		case !tagText(k):
			p.addf("", "tags", `Map keys must satisfy constraint: [Member must satisfy regular expression pattern: ^([\p{L}\p{Z}\p{N}_.:/=+\-@]+)$]`)
		case utf8.RuneCountInString(tags[k]) > 256:
			p.addf("", "tags", "Map value must satisfy constraint: [Member must have length less than or equal to 256]")
		case !tagText(tags[k]):
			p.addf("", "tags", `Map value must satisfy constraint: [Member must satisfy regular expression pattern: ^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$]`)
		}
	}
}

func tagText(s string) bool {
	for _, r := range s {
		if !unicode.In(r, unicode.L, unicode.Z, unicode.N) && !strings.ContainsRune("_.:/=+-@", r) {
			return false
		}
	}
	return true
}

func reservedTag(tags map[string]string) bool {
	for k := range tags {
		if strings.HasPrefix(strings.ToLower(k), "aws:") {
			return true
		}
	}
	return false
}
