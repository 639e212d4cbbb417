package cloudwatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"
)

// This validator is written from the service's API reference for PutLogEvents. It shares
// nothing with the encoder: its numbers are typed again on purpose.

type sentEvent struct {
	Timestamp *int64  `json:"timestamp"`
	Message   *string `json:"message"`
}

type sentBody struct {
	Group         string          `json:"logGroupName"`
	Stream        string          `json:"logStreamName"`
	Events        []sentEvent     `json:"logEvents"`
	SequenceToken *string         `json:"sequenceToken"`
	Entity        json.RawMessage `json:"entity"`
}

var (
	legalGroup  = regexp.MustCompile(`^[\.\-_/#A-Za-z0-9]{1,512}$`)
	legalStream = regexp.MustCompile(`^[^:*]{1,512}$`)
)

// validate decodes a request body and says what the service would refuse it for.
func validate(raw []byte) (*sentBody, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("the body is not UTF-8")
	}
	var b sentBody
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("SerializationException: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("SerializationException: something follows the body")
	}
	switch {
	case !legalGroup.MatchString(b.Group):
		return nil, fmt.Errorf("illegal group name %q", b.Group)
	case !legalStream.MatchString(b.Stream):
		return nil, fmt.Errorf("illegal stream name %q", b.Stream)
	case len(b.Events) < 1 || len(b.Events) > 10000:
		return nil, fmt.Errorf("%d events", len(b.Events))
	}
	total := 0
	for i, e := range b.Events {
		switch {
		case e.Timestamp == nil || *e.Timestamp < 0:
			return nil, fmt.Errorf("event %d has no legal timestamp", i)
		case e.Message == nil || len(*e.Message) < 1:
			return nil, fmt.Errorf("event %d has an empty message", i)
		case len(*e.Message)+26 > 1048576:
			return nil, fmt.Errorf("Log event too large: %d bytes exceeds limit of 1048576", len(*e.Message)+26)
		case i > 0 && *e.Timestamp < *b.Events[i-1].Timestamp:
			return nil, fmt.Errorf("Log events in a single PutLogEvents request must be in chronological order (event %d)", i)
		}
		total += len(*e.Message) + 26
	}
	if total > 1048576 {
		return nil, fmt.Errorf("Upload too large: %d bytes exceeds limit of 1048576", total)
	}
	if span := *b.Events[len(b.Events)-1].Timestamp - *b.Events[0].Timestamp; span > 86400000 {
		return nil, fmt.Errorf("the events span %d ms", span)
	}
	return &b, nil
}
