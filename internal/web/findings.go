package web

import (
	"fmt"
	"time"

	"weir/internal/ledger"
)

// finding is something that a person on call should know, in a sentence.
type finding struct {
	Level string `json:"level"` // "error" or "warning"
	About string `json:"about"` // the input or output; empty for weir itself
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
}

// When a state becomes a finding.
const (
	stalledAfter = time.Minute
	nearlyFull   = 0.8
)

// findingsOf looks for what is wrong: errors first, each group in the order of the
// configuration. long is the sample that "lately" compares with.
func findingsOf(s *Status, long sample, now time.Time) []finding {
	f := finder{now: now, long: long}
	if s.Phase != Running {
		f.warn("", "weir is "+s.Phase.String()+".", "")
	}
	for i := range s.Inputs {
		f.input(&s.Inputs[i])
	}
	for i := range s.Outputs {
		f.output(&s.Outputs[i])
	}
	for i := range s.Containers {
		f.container(&s.Containers[i])
	}
	if s.Unmatched > 0 {
		f.warn("", fmt.Sprintf("%s events had a tag for which there is no <match>; they were dropped.", count(s.Unmatched)), "add <match **> at the end, to the null output if they are not wanted")
	}
	return append(append([]finding{}, f.errors...), f.warnings...)
}

type finder struct {
	now              time.Time
	long             sample
	errors, warnings []finding
}

func (f *finder) err(about, text, hint string) {
	f.errors = append(f.errors, finding{Level: "error", About: about, Text: text, Hint: hint})
}

func (f *finder) warn(about, text, hint string) {
	f.warnings = append(f.warnings, finding{Level: "warning", About: about, Text: text, Hint: hint})
}

func (f *finder) input(in *InputStatus) {
	if !in.Listening {
		text := "takes no events"
		if in.Error != "" {
			text += ": " + in.Error
		}
		f.err(in.ID, text+".", "")
	}
	if in.Lost > 0 {
		f.warn(in.ID, fmt.Sprintf("%s events were refused by a full buffer, and their sender could not keep them.", count(in.Lost)), "turn on acknowledgements in the sender (require_ack_response)")
	}
}

func (f *finder) output(o *OutputStatus) {
	balance := o.Balance
	if o.Parking != nil && balance == 0 {
		balance = o.Parking.Balance
	}
	if balance != 0 {
		f.err(o.ID, fmt.Sprintf("The books do not balance: %d events are unaccounted for.", balance), "this is a bug in weir; please report it with the text of /api/status")
	}
	if o.Fault != "" {
		f.err(o.ID, "cannot store events: "+o.Fault+".", "")
	}
	f.delivery(o)
	f.losses(o)
	if b := &o.Buffer; b.Limit > 0 && float64(b.Bytes) >= nearlyFull*float64(b.Limit) {
		f.warn(o.ID, fmt.Sprintf("The buffer is %.0f %% full.", 100*float64(b.Bytes)/float64(b.Limit)), "see why events leave slower than they come, or raise total_limit_size")
	}
}

// container tells what concerns one container alone; what fails for all is its output's.
func (f *finder) container(c *ContainerStatus) {
	if c.Balance != 0 {
		f.err(c.Name, fmt.Sprintf("The books do not balance: %d events are unaccounted for.", c.Balance), "this is a bug in weir; please report it with the text of /api/status")
	}
	if c.Fault != "" {
		f.err(c.Name, "events cannot be stored: "+c.Fault+".", "")
	}
	if b := &c.Buffer; b.Limit > 0 && float64(b.Bytes) >= nearlyFull*float64(b.Limit) {
		f.warn(c.Name, fmt.Sprintf("The spool is %.0f %% full.", 100*float64(b.Bytes)/float64(b.Limit)), "see why events leave slower than they come, or raise weir-buffer-size")
	}
}

func (f *finder) delivery(o *OutputStatus) {
	failing := o.LastError != "" && o.LastErrorAt.After(o.LastSuccess)
	switch stalled := o.stalled(f.now); {
	case failing && stalled >= stalledAfter:
		f.err(o.ID, fmt.Sprintf("Nothing was delivered for %s while %s events wait. They are kept and tried again.", duration(stalled), count(o.pending())), "")
	case f.now.Before(o.PausedUntil):
		f.warn(o.ID, "The destination fails; the next attempt is in "+duration(o.PausedUntil.Sub(f.now))+".", "")
	}
	bad := 0
	for i := range o.Lanes {
		if o.Lanes[i].Attempts > 0 && !o.Lanes[i].Parked {
			bad++
		}
	}
	if bad > 0 {
		f.warn(o.ID, fmt.Sprintf("%d of %d lanes %s; the events wait and are tried again.", bad, o.LaneCount, plural(bad, "fails", "fail")), "")
	}
	if o.LanesParked > 0 {
		f.warn(o.ID, fmt.Sprintf("%d %s failed for long and %s parked: the events wait apart.", o.LanesParked, plural(o.LanesParked, "lane has", "lanes have"), plural(o.LanesParked, "is", "are")), "")
	}
	if then, ok := f.long.outputs[o.ID]; ok && o.Throttled > then.throttled {
		f.warn(o.ID, fmt.Sprintf("%s requests were throttled in the last %s.", count(o.Throttled-then.throttled), duration(f.now.Sub(f.long.at))), "ask for a higher quota of the service if events pile up")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// losses tells what was lost lately, or at all.
func (f *finder) losses(o *OutputStatus) {
	lost := o.lost()
	if lost == 0 {
		return
	}
	why, most := mainReason(o)
	hint := lossHint(why)
	then, ok := f.long.outputs[o.ID]
	if ok && lost > then.lost {
		f.err(o.ID, fmt.Sprintf("%s events were lost in the last %s, %s since the start; most often: %s.", count(lost-then.lost), duration(f.now.Sub(f.long.at)), count(lost), why), hint)
		return
	}
	f.warn(o.ID, fmt.Sprintf("%s events were lost since the start (%s: %s), none lately.", count(lost), why, count(most)), hint)
}

// mainReason is the most frequent reason of loss.
func mainReason(o *OutputStatus) (why string, n uint64) {
	sheets := []*ledger.Sheet{&o.Sheet}
	if o.Parking != nil {
		sheets = append(sheets, &o.Parking.Sheet)
	}
	for _, c := range []ledger.Class{ledger.Dropped, ledger.Rejected} {
		for _, r := range ledger.ReasonsOf(c) {
			sum := uint64(0)
			for _, s := range sheets {
				if c == ledger.Dropped {
					sum += s.Dropped[r]
				} else {
					sum += s.Rejected[r]
				}
			}
			if sum > n {
				why, n = r.String(), sum
			}
		}
	}
	return why, n
}

func lossHint(reason string) string {
	switch reason {
	case ledger.BufferFull.String():
		return "raise total_limit_size, or set overflow_action to throw_exception with acknowledgements"
	case ledger.DiskFull.String():
		return "free space on the disk of the buffer"
	case ledger.Damaged.String():
		return "look at the disk: weir buffer verify DIR says what is damaged"
	case ledger.RetryLimit.String():
		return "raise retry_timeout, or set retry_forever"
	case ledger.NoName.String(), ledger.BadName.String():
		return "look at the placeholders of the names, and set a fallback"
	case ledger.TooOld.String(), ledger.TooNew.String(), ledger.Expired.String():
		return "look at the clocks and time formats of the senders"
	}
	return ""
}
