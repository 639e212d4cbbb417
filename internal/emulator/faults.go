package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault kinds. docs/emulator.md says what each does to a request.
const (
	FaultThrottle     = "throttle"      // ThrottlingException, "Rate exceeded"
	Fault500          = "500"           // InternalFailure
	Fault503          = "503"           // ServiceUnavailableException
	FaultReset        = "reset"         // the connection is reset instead of an answer; nothing was done
	FaultHang         = "hang"          // no answer; after Duration (0: never) the connection is reset
	FaultDelay        = "delay"         // carried out and answered after Duration
	FaultResetBody    = "reset_body"    // the connection is reset while the body is read
	FaultSlowRead     = "slow_read"     // the body is read at BytesPerSecond
	FaultSlowAnswer   = "slow_answer"   // the answer is written at BytesPerSecond
	FaultLostAnswer   = "lost_answer"   // carried out, then the answer is lost, see Then
	FaultAccessDenied = "access_denied" // AccessDeniedException
	FaultExpiredToken = "expired_token" // ExpiredTokenException
	FaultUnrecognized = "unrecognized"  // UnrecognizedClientException
	FaultClockSkew    = "clock_skew"    // the service's clock is Skew ahead; signatures are judged by it
	FaultReject       = "reject"        // Share of the events come back in rejectedLogEventsInfo, see As
	FaultNotFound     = "not_found"     // ResourceNotFoundException for As "stream" or "group"
	FaultAborted      = "aborted"       // OperationAbortedException
	FaultLimit        = "limit"         // LimitExceededException
	FaultInvalid      = "invalid"       // InvalidParameterException with Message
)

func faultKinds() []string {
	return []string{FaultThrottle, Fault500, Fault503, FaultReset, FaultHang, FaultDelay, FaultResetBody,
		FaultSlowRead, FaultSlowAnswer, FaultLostAnswer, FaultAccessDenied, FaultExpiredToken, FaultUnrecognized,
		FaultClockSkew, FaultReject, FaultNotFound, FaultAborted, FaultLimit, FaultInvalid}
}

// Duration is a time.Duration that is written in JSON as "1m30s".
type Duration time.Duration

// UnmarshalJSON takes the form of time.ParseDuration; negative values fail.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`a duration is a string such as "250ms" or "1m30s", not %s`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`reading duration %q: write it as "250ms" or "1m30s"`, s)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// FaultScript is a list of rules. For each request the first rule that
// matches and strikes decides; the rest of the list is not looked at.
type FaultScript struct {
	// Seed makes probabilities repeatable. 0 is a seed like any other.
	Seed  uint64      `json:"seed"`
	Rules []FaultRule `json:"rules"`
}

// FaultRule is one kind of trouble and when it strikes.
type FaultRule struct {
	// Name is shown in statistics; empty: the kind.
	Name string `json:"name,omitempty"`
	// Kind is one of the Fault constants.
	Kind string `json:"kind"`

	// Operations lists operations such as "PutLogEvents"; empty means all.
	Operations []string `json:"operations,omitempty"`
	// Group and Stream are globs as in path.Match, except that * also
	// matches "/". Empty matches everything, also requests without a name.
	Group  string `json:"group,omitempty"`
	Stream string `json:"stream,omitempty"`

	// Probability between 0 and 1; 0 (absent) means 1.
	Probability float64 `json:"probability,omitempty"`
	// After lets the first so many matching requests pass.
	After int64 `json:"after,omitempty"`
	// Count ends the rule after it has struck so often; 0 means never.
	Count int64 `json:"count,omitempty"`
	// From and For bound the rule in time since the script was set; a For of
	// 0 means without end.
	From Duration `json:"from,omitempty"`
	For  Duration `json:"for,omitempty"`

	Duration       Duration `json:"duration,omitempty"`         // hang, delay
	Skew           Duration `json:"skew,omitempty"`             // clock_skew
	BytesPerSecond int64    `json:"bytes_per_second,omitempty"` // slow_read, slow_answer
	Share          float64  `json:"share,omitempty"`            // reject: 0 (absent) means 1
	As             string   `json:"as,omitempty"`               // reject: too_old, too_new, expired; not_found: stream, group
	Then           string   `json:"then,omitempty"`             // lost_answer: reset (default), hang, 500
	Message        string   `json:"message,omitempty"`          // replaces the text of the error
}

// ParseFaults reads a script from JSON, strictly: unknown members, impossible
// values and trailing text are errors that name the rule.
func ParseFaults(r io.Reader) (*FaultScript, error) {
	b, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return nil, fmt.Errorf("reading fault script: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var fs FaultScript
	if err := dec.Decode(&fs); err != nil {
		return nil, fmt.Errorf("fault script, line %d: %w", 1+bytes.Count(b[:dec.InputOffset()], []byte("\n")), err)
	}
	if dec.More() {
		return nil, fmt.Errorf("fault script, line %d: text after the script", 1+bytes.Count(b[:dec.InputOffset()], []byte("\n")))
	}
	return &fs, fs.Validate()
}

// Validate reports the first impossible rule.
func (fs *FaultScript) Validate() error {
	for i := range fs.Rules {
		if err := fs.Rules[i].validate(); err != nil {
			return fmt.Errorf("fault script, rule %d (%s): %w", i+1, fs.Rules[i].title(), err)
		}
	}
	return nil
}

func (r *FaultRule) title() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Kind
}

func (r *FaultRule) validate() error {
	if !slices.Contains(faultKinds(), r.Kind) {
		return fmt.Errorf("unknown kind %q; one of %s", r.Kind, strings.Join(faultKinds(), ", "))
	}
	for _, glob := range []string{r.Group, r.Stream} {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("glob %q: %w", glob, err)
		}
	}
	for _, op := range r.Operations {
		if !knownOperation(op) {
			return fmt.Errorf("unknown operation %q; operations are written like PutLogEvents", op)
		}
	}
	switch {
	case r.early() && (r.Group != "" || r.Stream != ""):
		return fmt.Errorf("%s strikes before the body is read, so it can't depend on group or stream", r.Kind)
	case r.Probability < 0 || r.Probability > 1:
		return fmt.Errorf("probability %v is not between 0 and 1", r.Probability)
	case r.Share < 0 || r.Share > 1:
		return fmt.Errorf("share %v is not between 0 and 1", r.Share)
	case r.After < 0 || r.Count < 0 || r.From < 0 || r.For < 0 || r.Duration < 0 || r.BytesPerSecond < 0:
		return fmt.Errorf("after, count, from, for, duration and bytes_per_second can't be negative")
	}
	return r.validateArguments()
}

// validateArguments checks the members that only some kinds take.
func (r *FaultRule) validateArguments() error {
	need := func(member string, ok bool, kinds ...string) error {
		if is := slices.Contains(kinds, r.Kind); ok && !is {
			return fmt.Errorf("%s has no meaning for kind %s", member, r.Kind)
		}
		return nil
	}
	checks := []error{
		need("duration", r.Duration != 0, FaultHang, FaultDelay, FaultLostAnswer),
		need("skew", r.Skew != 0, FaultClockSkew),
		need("bytes_per_second", r.BytesPerSecond != 0, FaultSlowRead, FaultSlowAnswer),
		need("share", r.Share != 0, FaultReject),
		need("as", r.As != "", FaultReject, FaultNotFound),
		need("then", r.Then != "", FaultLostAnswer),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	oneOf := func(member, value string, allowed ...string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("%s %q; one of %s", member, value, strings.Join(allowed, ", "))
		}
		return nil
	}
	switch r.Kind {
	case FaultDelay:
		if r.Duration == 0 {
			return fmt.Errorf(`delay needs a duration, such as "duration": "2s"`)
		}
	case FaultClockSkew:
		if r.Skew == 0 {
			return fmt.Errorf(`clock_skew needs a skew, such as "skew": "20m" or "-20m"`)
		}
	case FaultSlowRead, FaultSlowAnswer:
		if r.BytesPerSecond == 0 {
			return fmt.Errorf("%s needs bytes_per_second", r.Kind)
		}
	case FaultReject:
		return oneOf("as", r.As, "too_old", "too_new", "expired")
	case FaultNotFound:
		return oneOf("as", r.As, "", "stream", "group")
	case FaultLostAnswer:
		return oneOf("then", r.Then, "", "reset", "hang", "500")
	}
	return nil
}

// early says whether the rule acts before the body is read.
func (r *FaultRule) early() bool {
	return r.Kind == FaultResetBody || r.Kind == FaultSlowRead || r.Kind == FaultClockSkew
}

// FaultState is a rule with what it has done so far.
type FaultState struct {
	FaultRule
	// Matched counts requests the rule applied to, Struck those it hit.
	Matched int64 `json:"matched"`
	Struck  int64 `json:"struck"`
}

// faults is a script in force.
type faults struct {
	start time.Time

	mu    sync.Mutex // guards rules' counters and rng
	rules []FaultState
	rng   *rand.Rand
}

func newFaults(fs *FaultScript, now time.Time) *faults {
	f := &faults{start: now, rng: rand.New(rand.NewPCG(fs.Seed, 0x9e3779b97f4a7c15))}
	for _, r := range fs.Rules {
		f.rules = append(f.rules, FaultState{FaultRule: r})
	}
	return f
}

// decide returns the rule that strikes this request at this stage, or nil.
func (f *faults) decide(early bool, op, group, stream string, now time.Time) *FaultRule {
	if f == nil {
		return nil
	}
	since := now.Sub(f.start)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.rules {
		r := &f.rules[i]
		if r.early() != early || since < time.Duration(r.From) || r.For > 0 && since >= time.Duration(r.From+r.For) {
			continue
		}
		if len(r.Operations) > 0 && !slices.Contains(r.Operations, op) || !glob(r.Group, group) || !glob(r.Stream, stream) {
			continue
		}
		if r.Kind == FaultReject && op != "PutLogEvents" {
			continue
		}
		if r.Count > 0 && r.Struck >= r.Count {
			continue
		}
		r.Matched++
		if r.Matched <= r.After || r.Probability > 0 && f.rng.Float64() >= r.Probability {
			continue
		}
		r.Struck++
		return &r.FaultRule
	}
	return nil
}

// glob is path.Match with "/" as an ordinary character.
func glob(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return err == nil && ok
}

// state copies the rules with their counters.
func (f *faults) state() []FaultState {
	if f == nil {
		return []FaultState{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.rules)
}

// apiError is the answer that the rule forges, nil when it acts otherwise.
func (r *FaultRule) apiError(op, group, region, account string) *apiError {
	var e *apiError
	switch r.Kind {
	case FaultThrottle:
		e = errThrottled()
	case Fault500:
		e = errInternal()
	case Fault503:
		e = errUnavailable()
	case FaultAccessDenied:
		e = newAPIError("AccessDeniedException",
			"User: arn:aws:iam::%s:user/weir is not authorized to perform: logs:%s on resource: arn:aws:logs:%s:%s:log-group:%s because no identity-based policy allows the logs:%s action",
			account, op, region, account, group, op)
	case FaultExpiredToken:
		e = errExpiredToken()
	case FaultUnrecognized:
		e = errUnrecognizedClient()
	case FaultNotFound:
		if e = errStreamNotFound(); r.As == "group" {
			e = errGroupNotFound()
		}
	case FaultAborted:
		e = errAborted()
	case FaultLimit:
		e = errLimitExceeded()
	case FaultInvalid:
		e = errInvalid("A parameter is specified incorrectly.")
	default:
		return nil
	}
	if r.Message != "" {
		e.Message = r.Message
	}
	return e
}
