package deliver

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/buffer"
	"weir/internal/ledger"
	"weir/internal/output"
)

// LatencyBuckets are the upper bounds, in seconds, of the put latency histogram.
var LatencyBuckets = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// FillBuckets are the upper bounds of the batch fill histogram, as a share of the limit.
var FillBuckets = [...]float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1}

// Histogram is a snapshot; Counts[i] is how many values were at most the ith bound, the
// last element is how many there were in all.
type Histogram struct {
	Counts []uint64
	Sum    float64
}

// Stats is what a Deliverer has done since its start, and how it stands.
type Stats struct {
	Accepted    uint64            // requests
	Failed      map[string]uint64 // requests, by kind
	Retries     map[string]uint64 // by kind
	Events      uint64            // delivered
	Bytes       uint64            // of entries delivered
	BodyBytes   uint64            // of request bodies sent
	Resent      uint64            // requests that may repeat an accepted one
	Slow        uint64            // requests that took longer than SlowFlush
	Notices     uint64            // of losses, accepted
	Noticed     uint64            // events of which they told
	Latency     Histogram
	Fill        Histogram
	InFlight    int
	Lanes       int
	LanesParked int
	LastSuccess time.Time
	LastError   string
	LastErrorAt time.Time
	GateUntil   time.Time // the output waits until then because its endpoint fails; zero when well
	Throttle    float64   // requests a second; 0: unlimited
	Throttled   uint64
}

// LaneStats describes one lane for the status page.
type LaneStats struct {
	Lane      string
	Events    int // waiting or under way
	Bytes     int
	Delivered uint64
	Attempts  int
	LastError string
	Parked    bool
}

type stats struct {
	accepted, events, bytes, body, resent atomic.Uint64
	slow                                  atomic.Uint64
	notices, noticed                      atomic.Uint64
	failed, retries                       [16]atomic.Uint64
	latency                               [len(LatencyBuckets) + 1]atomic.Uint64
	latencySum                            atomic.Int64 // microseconds
	fill                                  [len(FillBuckets) + 1]atomic.Uint64
	fillSum                               atomic.Int64 // millionths
	lastSuccess                           atomic.Int64 // Unix nanoseconds

	mu   sync.Mutex // guards the noise control below
	ill  map[output.Kind]*illness
	said map[string]time.Time
}

// illness is a kind of trouble that some lanes have at present.
type illness struct {
	lanes map[*lane]bool
	since time.Time
	told  bool // there was a line
}

// put counts a finished request.
func (s *stats) put(r output.Result, took time.Duration, f *flight) {
	sec := took.Seconds()
	i := 0
	for i < len(LatencyBuckets) && sec > LatencyBuckets[i] {
		i++
	}
	s.latency[i].Add(1)
	s.latencySum.Add(took.Microseconds())
	s.body.Add(uint64(r.Bytes))
	if r.Resent {
		s.resent.Add(1)
	}
	if r.Err != nil {
		s.failed[r.Err.Kind].Add(1)
		return
	}
	s.accepted.Add(1)
	s.lastSuccess.Store(time.Now().UnixNano())
	s.bytes.Add(uint64(f.raw))
	fill := f.req.Fill()
	for i = 0; i < len(FillBuckets) && fill > FillBuckets[i]; i++ {
	}
	s.fill[i].Add(1)
	s.fillSum.Add(int64(fill * 1e6))
}

// slowFlush notes a request that took longer than slow_flush_log_threshold.
func (s *stats) slowFlush(log *slog.Logger, id string, took, threshold time.Duration, f *flight) {
	s.slow.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("slow") {
		log.Warn("a request took long", "output", id, "lane", printable(f.lane.key), "took", took.Round(time.Millisecond), "threshold", threshold, "slow_requests", s.slow.Load())
	}
}

func (s *stats) retry(k output.Kind) { s.retries[k].Add(1) }

func (s *stats) ended(parts []buffer.Part) {
	n := uint64(0)
	for i := range parts {
		if parts[i].Fate.Class == ledger.Delivered {
			n += uint64(parts[i].Count)
		}
	}
	s.events.Add(n)
}

// saidLatelyLocked says whether a line of this class was written within the last ten seconds, and
// is left out now; else it notes that it is written. mu is held.
func (s *stats) saidLatelyLocked(class string) bool {
	now := time.Now()
	if s.said == nil {
		s.said = map[string]time.Time{}
	}
	if now.Sub(s.said[class]) < 10*time.Second {
		return true
	}
	s.said[class] = now
	return false
}

// saidLately is the same for callers that do not hold s.mu.
func (s *stats) saidLately(class string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saidLatelyLocked(class)
}

// illClass is the class of lines about a kind of trouble. An endpoint that fails now and
// then is seen by the output and by some of its lanes, again and again: that is one class.
func illClass(k output.Kind) string { return "ill " + k.String() }

// laneIll notes that a lane fails. The first lane with a kind of trouble is a line; more
// of them are one line in ten seconds, and so is an endpoint that comes and goes. A single
// transient failure is none.
func (s *stats) laneIll(log *slog.Logger, id string, l *lane, e *output.Error) {
	if l.attempts <= gateAfter && e.Kind != output.Denied && e.Kind != output.NoTarget {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill == nil {
		s.ill = map[output.Kind]*illness{}
	}
	i := s.ill[e.Kind]
	if i == nil {
		i = &illness{lanes: map[*lane]bool{}, since: time.Now()}
		s.ill[e.Kind] = i
	}
	if i.lanes[l] && i.told {
		return
	}
	i.lanes[l] = true
	if (i.told || e.Kind == output.Unavailable) && s.saidLatelyLocked(illClass(e.Kind)) {
		return
	}
	i.told = true
	log.Error("delivery to a destination fails; its events wait and it is tried again", "output", id, "lane", printable(l.key),
		"kind", e.Kind.String(), "lanes_failing", len(i.lanes), "error", e)
}

// laneWell notes that a lane delivers again; the last one of a kind is a line.
func (s *stats) laneWell(log *slog.Logger, id string, l *lane, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, i := range s.ill {
		if !i.lanes[l] {
			continue
		}
		delete(i.lanes, l)
		if len(i.lanes) == 0 {
			delete(s.ill, k)
			if !i.told {
				continue
			}
			log.Info("delivery to all destinations works again", "output", id, "kind", k.String(), "lane", printable(l.key),
				"attempts", l.attempts, "after", now.Sub(i.since).Round(time.Millisecond))
		}
	}
}

func (s *stats) laneParked(log *slog.Logger, id string, l *lane, e error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, i := range s.ill {
		if delete(i.lanes, l); len(i.lanes) == 0 {
			delete(s.ill, k)
		}
	}
	if !s.saidLatelyLocked("parked") {
		log.Warn("a destination has failed for long and is parked: its events wait apart and are tried slowly", "output", id,
			"lane", printable(l.key), "failing_for", time.Since(l.failing).Round(time.Second), "error", e)
	}
}

func (s *stats) secondaryFails(log *slog.Logger, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("secondary") {
		log.Error("the secondary fails too; the events wait and it is tried again", "output", id, "error", err)
	}
}

func (s *stats) cannotRead(log *slog.Logger, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("read") {
		log.Error("a part of the buffer cannot be read just now; its events wait and it is tried again", "output", id, "error", err)
	}
}

func (s *stats) laneBack(log *slog.Logger, id string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("back") {
		log.Info("a parked destination is back", "output", id, "lane", printable(l.key))
	}
}

func (s *stats) lotFull(log *slog.Logger, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("lot") {
		log.Warn("the parking lot takes no more; failing destinations wait in the main buffer", "output", id, "error", err)
	}
}

func (s *stats) gaveUp(log *slog.Logger, id string, f *flight, err error, fate ledger.Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("gave up " + fate.Reason.String()) {
		log.Error("events are given up", "output", id, "lane", printable(f.lane.key), "events", f.events, "as", fate.Class.String(),
			"reason", fate.Reason.String(), "error", err)
	}
}

func (s *stats) tookSecond(log *slog.Logger, id, lane string, events int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("secondary") {
		log.Error("events went to the <secondary>", "output", id, "lane", printable(lane), "events", events, "error", err)
	}
}

// told counts a notice that was accepted.
func (s *stats) told(o *loss) {
	s.notices.Add(1)
	s.noticed.Add(o.Events)
}

func (s *stats) untold(log *slog.Logger, id, lane string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times > 1 && !s.saidLatelyLocked("untold") {
		log.Warn("the service takes events but not the notice of those that are missing; it is tried again", "output", id, "lane", printable(lane), "refused", times)
	}
}

func (s *stats) released(log *slog.Logger, id, lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("released") {
		log.Warn("notices of missing events cannot be sent just now and do not hold the buffer any longer; a restart before they are sent would lose them", "output", id, "lane", printable(lane))
	}
}

func (s *stats) noticeLost(log *slog.Logger, id string, f *flight, e *output.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("notice lost") {
		log.Error("a notice of missing events is refused and given up", "output", id, "lane", printable(f.lane.key), "missing", f.told.Events,
			"reasons", fmt.Sprint(f.told.Reasons), "error", e)
	}
}

func (s *stats) cannotTell(log *slog.Logger, id string, n uint64, r ledger.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("cannot tell " + r.String()) {
		log.Warn("it is not known from which destinations events are missing: no notice of them is sent", "output", id, "events", n, "reason", r.String())
	}
}

func (s *stats) settleFailed(log *slog.Logger, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saidLatelyLocked("settle") {
		log.Error("writing the settle journal failed; after a crash delivered events would be sent again", "output", id, "error", err)
	}
}

// printable makes a lane's key fit for a log line.
func printable(key string) string { return strings.ReplaceAll(key, "\x00", " ") }

// Stats returns a snapshot.
func (d *Deliverer) Stats() Stats {
	s := &d.stat
	out := Stats{
		Accepted: s.accepted.Load(), Events: s.events.Load(), Bytes: s.bytes.Load(), BodyBytes: s.body.Load(), Resent: s.resent.Load(), Slow: s.slow.Load(),
		Notices: s.notices.Load(), Noticed: s.noticed.Load(),
		Failed: map[string]uint64{}, Retries: map[string]uint64{},
		Latency: Histogram{Sum: float64(s.latencySum.Load()) / 1e6}, Fill: Histogram{Sum: float64(s.fillSum.Load()) / 1e6},
	}
	for _, k := range output.Kinds() {
		out.Failed[k.String()] = s.failed[k].Load()
		out.Retries[k.String()] = s.retries[k].Load()
	}
	out.Latency.Counts = cumulate(s.latency[:])
	out.Fill.Counts = cumulate(s.fill[:])
	if ns := s.lastSuccess.Load(); ns != 0 {
		out.LastSuccess = time.Unix(0, ns)
	}
	out.Throttle, out.Throttled = d.o.Throttle.Rate()
	d.mu.Lock()
	defer d.mu.Unlock()
	out.InFlight, out.Lanes = d.inFlight, len(d.lanes)
	for _, l := range d.lanes {
		if l.parked {
			out.LanesParked++
		}
	}
	out.LastError, out.LastErrorAt = d.last.text, d.last.at
	if d.gate.until > 0 {
		out.GateUntil = d.moment(d.gate.until)
	}
	return out
}

func cumulate(c []atomic.Uint64) []uint64 {
	out := make([]uint64, len(c))
	n := uint64(0)
	for i := range c {
		n += c[i].Load()
		out[i] = n
	}
	return out
}

// Parked returns the statistics of the parking lot's delivery; nil without one.
func (d *Deliverer) Parked() *Deliverer {
	if d.parking == nil {
		return nil
	}
	return d.parking.slow
}

// Lanes describes up to n lanes, those in trouble or with most waiting first.
func (d *Deliverer) Lanes(n int) []LaneStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	top := newTop(n)
	for _, l := range d.lanes {
		top.offer(l)
	}
	return top.stats()
}

// Add adds the counters of another Deliverer, such as the parking lot's; what stands
// (lanes, last error, gate) is left as it is.
func (s *Stats) Add(o Stats) {
	s.Accepted += o.Accepted
	s.Events += o.Events
	s.Bytes += o.Bytes
	s.BodyBytes += o.BodyBytes
	s.Resent += o.Resent
	s.Slow += o.Slow
	s.Notices += o.Notices
	s.Noticed += o.Noticed
	s.InFlight += o.InFlight
	for k, n := range o.Failed {
		s.Failed[k] += n
	}
	for k, n := range o.Retries {
		s.Retries[k] += n
	}
	s.Latency.add(o.Latency)
	s.Fill.add(o.Fill)
}

func (h *Histogram) add(o Histogram) {
	h.Sum += o.Sum
	for i := range h.Counts {
		h.Counts[i] += o.Counts[i]
	}
}
