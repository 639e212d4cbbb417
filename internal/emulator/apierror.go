package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// apiError is an answer of the service that is not success. It is written as
// AWS JSON 1.1: {"__type": Type, "message": Message} and Extra's members.
type apiError struct {
	Status  int
	Type    string
	Message string
	// Extra holds further members, such as expectedSequenceToken.
	Extra map[string]any
}

// Error gives type and text in one line.
func (e *apiError) Error() string { return e.Type + ": " + e.Message }

func newAPIError(typ, format string, args ...any) *apiError {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &apiError{Status: http.StatusBadRequest, Type: typ, Message: msg}
}

func errInvalid(format string, args ...any) *apiError {
	return newAPIError("InvalidParameterException", format, args...)
}

func errSerialization(format string, args ...any) *apiError {
	return newAPIError("SerializationException", format, args...)
}

func errGroupNotFound() *apiError {
	return newAPIError("ResourceNotFoundException", "The specified log group does not exist.")
}

func errStreamNotFound() *apiError {
	return newAPIError("ResourceNotFoundException", "The specified log stream does not exist.")
}

func errThrottled() *apiError { return newAPIError("ThrottlingException", "Rate exceeded") }

func errUnavailable() *apiError {
	e := newAPIError("ServiceUnavailableException", "The service cannot complete the request.")
	e.Status = http.StatusServiceUnavailable
	return e
}

func errInternal() *apiError {
	e := newAPIError("InternalFailure", "The request processing has failed because of an unknown error, exception or failure.")
	e.Status = http.StatusInternalServerError
	return e
}

func errAborted() *apiError {
	return newAPIError("OperationAbortedException", "A conflicting operation is currently in progress against this resource. Please try again.")
}

func errLimitExceeded() *apiError {
	return newAPIError("LimitExceededException", "Resource limit exceeded.")
}

func errExpiredToken() *apiError {
	return newAPIError("ExpiredTokenException", "The security token included in the request is expired")
}

func errUnrecognizedClient() *apiError {
	return newAPIError("UnrecognizedClientException", "The security token included in the request is invalid.")
}

// body is the JSON of the answer.
func (e *apiError) body() []byte {
	m := map[string]any{"__type": e.Type}
	if e.Message != "" {
		m["message"] = e.Message
	}
	for k, v := range e.Extra {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil { // only strings go in
		return []byte(`{"__type":"InternalFailure"}`)
	}
	return b
}

// problems collects what the service's model validation finds. The service
// reports all of them in one message, which clients parse out of logs.
type problems []string

// addf adds one finding: the shown value ('x', null, or nothing for lists), the
// member's path and the constraint.
func (p *problems) addf(value, path, constraint string, args ...any) {
	if value != "" {
		value += " "
	}
	*p = append(*p, fmt.Sprintf("Value %sat '%s' failed to satisfy constraint: %s", value, path, fmt.Sprintf(constraint, args...)))
}

// err is nil without findings.
func (p problems) err() *apiError {
	if len(p) == 0 {
		return nil
	}
	plural := ""
	if len(p) > 1 {
		plural = "s"
	}
	return errInvalid("%d validation error%s detected: %s", len(p), plural, strings.Join(p, "; "))
}

func quoted(s string) string { return "'" + s + "'" }
