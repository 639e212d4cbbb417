package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/buffer"
	"weir/internal/deliver"
	"weir/internal/event"
	"weir/internal/input/forward"
	"weir/internal/ledger"
	"weir/internal/output/cloudwatch"
	"weir/internal/web"
)

// lanesShown is how many lanes of each output the status page lists.
const lanesShown = 20

// Status implements web.Source.
func (a *App) Status() web.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := web.Status{Phase: web.Starting, Config: a.gen.plan.File, Loaded: a.loaded, Unmatched: a.unmatchedEvents()}
	if a.ready {
		s.Phase = web.Running
	}
	if a.stopped {
		s.Phase = web.Stopping
	}
	for _, in := range a.inputs {
		s.Inputs = append(s.Inputs, in.status())
	}
	a.gen.holds().Each(func(id string, held int64) { s.Filters = append(s.Filters, web.FilterStatus{ID: id, Held: held}) })
	slices.SortFunc(s.Filters, func(a, b web.FilterStatus) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range a.gen.order {
		s.Outputs = append(s.Outputs, r.status())
	}
	return s
}

func (a *App) unmatchedEvents() uint64 {
	s := a.unmatched.Sheet()
	return s.Admitted
}

// Totals is the sum of the books of all outputs; what was parked counts where it ends.
func (a *App) Totals() ledger.Sheet {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sum ledger.Sheet
	for _, r := range a.gen.order {
		sum.Merge(r.outputQueue.total())
		if r.backlog != nil {
			sum.Merge(r.backlog.total())
		}
	}
	return sum
}

func (r *runningInput) status() web.InputStatus {
	s := web.InputStatus{ID: r.plan.id, Type: r.plan.typ, Listening: true,
		Events: r.count.Events.Load(), Bytes: r.count.Bytes.Load()}
	if msg := r.failure.Load(); msg != nil {
		s.Listening, s.Error = false, *msg
	}
	if r.forward == nil {
		return s
	}
	f := r.forward.Stats()
	if s.Listening {
		s.Address = r.forward.Addr().String()
	}
	s.Connections, s.Bytes, s.Refused, s.Lost = f.Open, f.Bytes, f.Refused, f.Lost
	s.Malformed, s.Acks, s.Repeats = f.Malformed, f.Acks, f.Repeats
	s.AckLatency.Sum = f.AckLatencySum.Seconds()
	for _, b := range forward.LatencyBounds() {
		s.AckLatency.Bounds = append(s.AckLatency.Bounds, b.Seconds())
	}
	sum := uint64(0)
	for _, n := range f.AckLatency {
		sum += n
		s.AckLatency.Counts = append(s.AckLatency.Counts, sum)
	}
	return s
}

func (r *runningOutput) status() web.OutputStatus {
	s := web.OutputStatus{ID: r.plan.id, Type: r.plan.typ, Detail: r.plan.detail, EventsIn: r.target.In.Events.Load(), BytesIn: r.target.In.Bytes.Load(), Emits: r.target.In.Batches.Load()}
	if r.del == nil {
		s.Sheet = r.book.Sheet()
		return s
	}
	d := r.del.Stats()
	for _, q := range r.queues() {
		if q == r.backlog {
			d.Add(standing(&d, q.del.Stats()))
		}
		r.addBuffers(&s, q)
		if p := q.del.Parked(); p != nil {
			d.Add(p.Stats())
		}
		for _, l := range q.del.Lanes(lanesShown / len(r.queues())) {
			s.Lanes = append(s.Lanes, web.LaneStatus{Name: strings.ReplaceAll(l.Lane, "\x00", " "), Events: l.Events, Bytes: l.Bytes,
				Delivered: l.Delivered, Attempts: l.Attempts, LastError: l.LastError, Parked: l.Parked})
		}
	}
	s.Puts = d.Failed
	s.Puts["accepted"] = d.Accepted
	s.Retries = d.Retries
	s.Latency = histogram(deliver.LatencyBuckets[:], d.Latency)
	s.Fill = histogram(deliver.FillBuckets[:], d.Fill)
	s.BodyBytes, s.BytesOut, s.Resent, s.InFlight, s.SlowFlushes = d.BodyBytes, d.Bytes, d.Resent, d.InFlight, d.Slow
	s.Throttled, s.RateLimit, s.LaneCount, s.LanesParked = d.Throttled, d.Throttle, d.Lanes, d.LanesParked
	s.LastSuccess, s.LastError, s.LastErrorAt, s.PausedUntil = d.LastSuccess, d.LastError, d.LastErrorAt, d.GateUntil
	return s
}

// standing adds to d what stands in the delivery of a backlog, and gives its counters, which
// are still to be added.
func standing(d *deliver.Stats, k deliver.Stats) deliver.Stats {
	d.Lanes += k.Lanes
	d.LanesParked += k.LanesParked
	if k.LastSuccess.After(d.LastSuccess) {
		d.LastSuccess = k.LastSuccess
	}
	if k.LastErrorAt.After(d.LastErrorAt) {
		d.LastError, d.LastErrorAt = k.LastError, k.LastErrorAt
	}
	return k
}

// addBuffers adds the buffers of a queue to the status of its output.
func (r *runningOutput) addBuffers(s *web.OutputStatus, q *outputQueue) {
	st := q.buf.Stats()
	s.Sheet.Merge(q.book.Sheet())
	s.Balance += st.Balance
	if st.Fault != nil && s.Fault == "" {
		s.Fault = st.Fault.Error()
	}
	r.addBuffer(&s.Buffer, st, q.dir)
	if q.lot == nil {
		return
	}
	lot := q.lot.Stats()
	if s.Parking == nil {
		s.Parking = &web.ParkingStatus{}
	}
	s.Parking.Sheet.Merge(q.lotBook.Sheet())
	s.Parking.Balance += lot.Balance
	dir := ""
	if q.dir != "" {
		dir = q.lotDir()
	}
	r.addBuffer(&s.Parking.Buffer, lot, dir)
}

// addBuffer adds a buffer to b, which shows the place of the first one.
func (r *runningOutput) addBuffer(b *web.BufferStatus, st buffer.Stats, dir string) {
	if b.Kind == "" {
		if b.Kind, b.Dir = "memory", dir; dir != "" {
			b.Kind = "file"
		}
	}
	b.Bytes += st.Bytes
	b.Limit += st.Limit
	b.Segments += st.Segments
	b.PendingEvents += st.PendingEvents
	b.PendingBytes += st.PendingBytes
	if st.Oldest.IsZero() || !b.Oldest.IsZero() && b.Oldest.Before(st.Oldest) {
		return
	}
	b.Oldest = st.Oldest
	if plan := &r.plan.buffer; plan.ByTime && plan.Timekey > 0 {
		end := r.plan.window()
		for i, at := range [...]time.Time{st.Oldest, time.Now()} {
			b.Windows[i] = end(event.FromTime(at)).Time().Add(-plan.Timekey)
		}
	}
}

func histogram(bounds []float64, h deliver.Histogram) web.Histogram {
	return web.Histogram{Bounds: bounds, Counts: h.Counts, Sum: h.Sum}
}

// collectors are the metrics that only one kind of output has.
func (a *App) collectors() []web.Collector {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []web.Collector
	for _, r := range a.gen.order {
		if cw, ok := r.out.(*cloudwatch.Output); ok {
			all = append(all, cw.Metrics())
		}
	}
	return all
}

// webServer serves the status page.
type webServer struct {
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// startWeb opens the status address. The default one may be taken: then weir runs without.
func startWeb(a *App) (*webServer, error) {
	w := &webServer{}
	addr := a.o.HTTP
	switch addr {
	case "off":
		return w, nil
	case "":
		addr = DefaultHTTP
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if a.o.HTTP == "" {
			a.o.Log.Warn("the status address is taken, weir runs without status page and metrics", "error", err, "hint", "choose another with --http, or --http off")
			return w, nil
		}
		return nil, fmt.Errorf("open the status address: %w", err)
	}
	h := web.New(web.Options{Log: a.o.Log, Source: a, Version: a.o.Version, Collectors: a.collectors, Started: a.started})
	w.listener = l
	w.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() { h.Run(ctx) })
	w.wg.Go(func() {
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.o.Log.Error("the status page has ended", "error", err)
		}
	})
	return w, nil
}

func (w *webServer) address() string {
	if w.listener == nil {
		return "off"
	}
	return "http://" + w.listener.Addr().String()
}

func (w *webServer) close() {
	if w.listener == nil {
		return
	}
	w.stop()
	_ = w.server.Close()
	w.wg.Wait()
}

// StatusURL is the address of the status page, or "off".
func (a *App) StatusURL() string { return a.web.address() }
