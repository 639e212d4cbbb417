package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"weir/internal/deliver"
	"weir/internal/input/docker"
	"weir/internal/ledger"
	"weir/internal/web"
)

// leave takes a container that is no more off the list and keeps its counters, in one step,
// so that no reader finds it in neither place and sums never fall. c.mu is held.
func (d *Docker) leave(c *dockerContainer) {
	t := c.totals()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(c)
	d.gone.add(&t)
	if c.out != nil {
		c.out.gone.add(&t)
	}
}

// keep adds counters to an output's of which the container sleeps. The container's mu is held.
func (d *Docker) keep(o *dockerOutput, t *dockerTotals) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o.gone.add(t)
	d.kept++
}

// totals are the counters of a container. mu is held.
func (c *dockerContainer) totals() dockerTotals {
	t := newDockerTotals()
	t.sheet.Merge(c.book.Sheet())
	t.sheet.Merge(c.slept.status.Sheet)
	for _, q := range c.queues {
		t.sheet.Merge(q.book.Sheet())
		if q.del != nil {
			t.stats.Add(q.del.Stats())
		}
	}
	return t
}

func newDockerTotals() dockerTotals {
	t := dockerTotals{stats: deliver.Stats{Failed: map[string]uint64{}, Retries: map[string]uint64{}}}
	t.stats.Latency.Counts = make([]uint64, len(deliver.LatencyBuckets)+1)
	t.stats.Fill.Counts = make([]uint64, len(deliver.FillBuckets)+1)
	return t
}

func (t *dockerTotals) add(o *dockerTotals) {
	if t.stats.Failed == nil {
		*t = newDockerTotals()
	}
	t.sheet.Merge(o.sheet)
	t.stats.Add(o.stats)
}

// Totals is the sum of the books of all containers since the start.
func (d *Docker) Totals() ledger.Sheet {
	d.mu.Lock()
	sum, all := d.gone.sheet, d.sorted()
	d.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		t := c.totals()
		c.mu.Unlock()
		sum.Merge(t.sheet)
	}
	return sum
}

// Status implements web.Source.
func (d *Docker) Status() web.Status {
	for range 3 {
		if s, whole := d.status(); whole {
			return s
		}
	}
	s, _ := d.status() // containers fall asleep all the time: a sum may be short of one
	return s
}

// status gathers what Status gives. It is not whole if a container has fallen asleep
// meanwhile: what it had sent may be in no sum.
func (d *Docker) status() (s web.Status, whole bool) {
	outputs := d.outputs.list()
	sums := map[*dockerOutput]*web.OutputStatus{}
	for _, o := range outputs {
		st := d.outputs.status(o)
		sums[o] = &st
	}
	d.mu.Lock()
	s = web.Status{Phase: web.Starting, Loaded: d.started}
	switch {
	case d.stopping:
		s.Phase = web.Stopping
	case d.ready:
		s.Phase = web.Running
	}
	kept, containers := d.kept, d.sorted()
	for o, sum := range sums {
		sum.Sheet.Merge(o.gone.sheet)
		addDelivery(sum, &o.gone.stats)
	}
	d.mu.Unlock()
	var sessions []docker.SessionStats
	var n docker.Counts
	if d.plugin != nil {
		sessions, n = d.plugin.Sessions(), d.plugin.Totals()
	}
	s.Inputs = []web.InputStatus{{ID: "docker", Type: "docker", Address: d.o.Socket, Listening: s.Phase != web.Stopping,
		Connections: int64(len(sessions)), Events: n.Events, Bytes: n.Bytes, Malformed: n.Lost, Repeats: n.Repeats}}
	for _, c := range containers {
		s.Containers = append(s.Containers, c.status(sessions, sums))
	}
	for _, o := range sums {
		s.Outputs = append(s.Outputs, *o)
	}
	slices.SortFunc(s.Outputs, func(a, b web.OutputStatus) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Containers, func(a, b web.ContainerStatus) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	return s, kept == d.kept
}

// status is an output's own part of its status, without any container's.
func (s *dockerOutputs) status(o *dockerOutput) web.OutputStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := web.OutputStatus{ID: o.key.String(), Type: "cloudwatch_logs", Detail: "for containers"}
	st.Buffer.Kind, st.Buffer.Dir, st.Buffer.Limit = "file", s.d.o.Spool, s.d.limits.limit
	if o.err != nil {
		st.LastError, st.LastErrorAt = o.err.Error(), time.Now()
	}
	t := newDockerTotals()
	addDelivery(&st, &t.stats)
	st.RateLimit, st.Throttled = o.throttle.Rate()
	return st
}

// addDelivery adds what a delivery has done to an output's status.
func addDelivery(st *web.OutputStatus, d *deliver.Stats) {
	if st.Puts == nil {
		st.Puts, st.Retries = map[string]uint64{}, map[string]uint64{}
		st.Latency = histogram(deliver.LatencyBuckets[:], deliver.Histogram{Counts: make([]uint64, len(deliver.LatencyBuckets)+1)})
		st.Fill = histogram(deliver.FillBuckets[:], deliver.Histogram{Counts: make([]uint64, len(deliver.FillBuckets)+1)})
	}
	st.Puts["accepted"] += d.Accepted
	for k, n := range d.Failed {
		st.Puts[k] += n
	}
	for k, n := range d.Retries {
		st.Retries[k] += n
	}
	addHistogram(&st.Latency, d.Latency)
	addHistogram(&st.Fill, d.Fill)
	st.BodyBytes += d.BodyBytes
	st.BytesOut += d.Bytes
	st.Resent += d.Resent
	st.InFlight += d.InFlight
	st.LaneCount += d.Lanes
	if d.LastSuccess.After(st.LastSuccess) {
		st.LastSuccess = d.LastSuccess
	}
	if d.LastErrorAt.After(st.LastErrorAt) {
		st.LastErrorAt, st.LastError = d.LastErrorAt, d.LastError
	}
}

func addHistogram(h *web.Histogram, o deliver.Histogram) {
	h.Sum += o.Sum
	for i := range o.Counts {
		h.Counts[i] += o.Counts[i]
	}
}

// status is the container's, which is also added to its output's in sums.
func (c *dockerContainer) status(sessions []docker.SessionStats, sums map[*dockerOutput]*web.OutputStatus) web.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slept.status
	s.ID, s.Name, s.Group, s.Stream = shortID(c.info.ID), c.info.Name, c.info.Options.Group, c.info.Options.Stream
	s.Sheet.Merge(c.book.Sheet())
	if s.Name == "" {
		s.Name = s.ID
	}
	if c.fault != nil {
		s.Fault = c.fault.Error()
	}
	for i := range sessions {
		if sessions[i].Container.ID == c.info.ID {
			s.Sessions++
			s.Frames += sessions[i].Frames
			s.LostPlaces += sessions[i].Lost
			s.Fault = cmp.Or(s.Fault, sessions[i].Fault)
		}
	}
	out := sums[c.out]
	for _, q := range c.queues {
		q.status(&s)
		if out != nil && q.del != nil {
			st := q.del.Stats()
			addDelivery(out, &st)
		}
	}
	if c.out != nil {
		s.Output = c.out.key.String()
	}
	if out != nil {
		out.Sheet.Merge(s.Sheet)
		out.Balance += s.Balance
		out.Buffer.Bytes += s.Buffer.Bytes
		out.Buffer.Segments += s.Buffer.Segments
		out.Buffer.PendingEvents += s.Buffer.PendingEvents
		out.Buffer.PendingBytes += s.Buffer.PendingBytes
		if !s.Buffer.Oldest.IsZero() && (out.Buffer.Oldest.IsZero() || s.Buffer.Oldest.Before(out.Buffer.Oldest)) {
			out.Buffer.Oldest = s.Buffer.Oldest
		}
	}
	return s
}

// status adds the queue to its container's.
func (q *dockerQueue) status(s *web.ContainerStatus) {
	st := q.buf.Stats()
	s.Sheet.Merge(q.book.Sheet())
	s.Balance += st.Balance
	s.Untold += st.Untold
	s.Buffer.Kind, s.Buffer.Dir = "file", q.c.dir
	s.Buffer.Bytes += st.Bytes
	s.Buffer.Limit += st.Limit
	s.Buffer.Segments += st.Segments
	s.Buffer.PendingEvents += st.PendingEvents
	s.Buffer.PendingBytes += st.PendingBytes
	if !st.Oldest.IsZero() && (s.Buffer.Oldest.IsZero() || st.Oldest.Before(s.Buffer.Oldest)) {
		s.Buffer.Oldest = st.Oldest
	}
	if st.Fault != nil && s.Fault == "" {
		s.Fault = st.Fault.Error()
	}
	if q.del == nil {
		return
	}
	d := q.del.Stats()
	s.BytesOut += d.Bytes
	s.Notices += d.Notices
	s.Noticed += d.Noticed
	if d.LastSuccess.After(s.LastSuccess) {
		s.LastSuccess = d.LastSuccess
	}
	if d.LastErrorAt.After(s.LastErrorAt) {
		s.LastErrorAt, s.LastError = d.LastErrorAt, d.LastError
	}
}
