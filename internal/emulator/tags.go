package emulator

import "maps"

type tagInput struct {
	groupName
	ResourceArn *string           `json:"resourceArn"`
	Tags        map[string]string `json:"tags"`
}

func tagResource(s *Server, c *call) (any, *apiError) {
	var in tagInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	if in.ResourceArn == nil {
		p.addf("null", "resourceArn", notNull)
	}
	s.checkNewTags(&p, in.Tags)
	if err := p.err(); err != nil {
		return nil, err
	}
	name, err := groupFromARN(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return nil, s.addTags(name, in.Tags, func() *apiError {
		e := newAPIError("TooManyTagsException", "The number of tags exceeds the maximum of %d for the resource.", s.lim.Tags)
		e.Extra = map[string]any{"resourceName": *in.ResourceArn}
		return e
	})
}

func tagLogGroup(s *Server, c *call) (any, *apiError) {
	var in tagInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	p.checkGroup(&s.lim, "logGroupName", deref(in.LogGroupName), in.LogGroupName != nil)
	s.checkNewTags(&p, in.Tags)
	if err := p.err(); err != nil {
		return nil, err
	}
	return nil, s.addTags(*in.LogGroupName, in.Tags, func() *apiError {
		return errInvalid("Too many tags: a log group can have up to %d tags.", s.lim.Tags)
	})
}

func (s *Server) checkNewTags(p *problems, tags map[string]string) {
	switch {
	case tags == nil:
		p.addf("null", "tags", notNull)
	case len(tags) == 0:
		p.addf("'{}'", "tags", "Member must have length greater than or equal to 1")
	default:
		s.checkTags(p, tags)
	}
}

// addTags merges tags into those of a group, all or none.
func (s *Server) addTags(name string, tags map[string]string, tooMany func() *apiError) *apiError {
	if reservedTag(tags) {
		return errInvalid("aws: prefixed tag key names are not allowed for external use.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	if g == nil {
		return errGroupNotFound()
	}
	next := *g
	next.tags = maps.Clone(g.tags)
	maps.Copy(next.tags, tags)
	if len(next.tags) > s.lim.Tags {
		return tooMany()
	}
	if err := s.saveMeta(next.record()); err != nil {
		return err
	}
	g.tags = next.tags
	return nil
}

func untagResource(s *Server, c *call) (any, *apiError) {
	var in struct {
		ResourceArn *string  `json:"resourceArn"`
		TagKeys     []string `json:"tagKeys"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	if in.ResourceArn == nil {
		p.addf("null", "resourceArn", notNull)
	}
	if in.TagKeys == nil {
		p.addf("null", "tagKeys", notNull)
	}
	if len(in.TagKeys) > s.lim.Tags {
		p.addf("", "tagKeys", "Member must have length less than or equal to %d", s.lim.Tags)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	name, err := groupFromARN(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return nil, s.removeTags(name, in.TagKeys)
}

func untagLogGroup(s *Server, c *call) (any, *apiError) {
	var in struct {
		groupName
		Tags []string `json:"tags"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	var p problems
	p.checkGroup(&s.lim, "logGroupName", deref(in.LogGroupName), in.LogGroupName != nil)
	if in.Tags == nil {
		p.addf("null", "tags", notNull)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return nil, s.removeTags(*in.LogGroupName, in.Tags)
}

func (s *Server) removeTags(name string, keys []string) *apiError {
	return s.change(name, func(g *group) {
		for _, k := range keys {
			delete(g.tags, k)
		}
	})
}

func listTagsForResource(s *Server, c *call) (any, *apiError) {
	var in tagInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.ResourceArn == nil {
		var p problems
		p.addf("null", "resourceArn", notNull)
		return nil, p.err()
	}
	name, err := groupFromARN(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	return s.listTags(name)
}

func listTagsLogGroup(s *Server, c *call) (any, *apiError) {
	var in groupName
	name, err := s.decodeGroup(c, &in)
	if err != nil {
		return nil, err
	}
	return s.listTags(name)
}

func (s *Server) listTags(name string) (any, *apiError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[name]
	if g == nil {
		return nil, errGroupNotFound()
	}
	return map[string]any{"tags": maps.Clone(g.tags)}, nil
}

// groupFromARN takes the ARN of a log group; other ARNs name nothing here.
func groupFromARN(arn string) (string, *apiError) {
	if len(arn) < 4 || arn[:4] != "arn:" {
		return "", errInvalid("1 validation error detected: Value '%s' at 'resourceArn' failed to satisfy constraint: Member must be an ARN", arn)
	}
	name, ok := groupFromIdentifier(arn)
	if !ok {
		return "", newAPIError("ResourceNotFoundException", "The specified resource does not exist.")
	}
	return name, nil
}
