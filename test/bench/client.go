package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	fc "weir/test/forwardclient"
)

// job is what the client process is to send.
type job struct {
	Addr       string
	Mode       fc.Mode
	PerMessage int // events a payload; in Message mode that many messages are one write
	Record     string
	Size       int
	Events     int // in all, over all connections
	Conns      int // default 2
	Window     int // messages of a connection that may wait for their acks
	Tags       int // spread over that many tags, bench.0 …
	Rate       int // events a second in all; 0: as fast as it goes
	Fresh      bool
	Metadata   bool
	TimedAcks  bool // measure how long acknowledgements take
}

// sent is what the client process reports.
type sent struct {
	Events  int
	Acked   int // events
	Seconds float64
	// Acks are percentiles of the time from writing a message to its acknowledgement, in
	// seconds: p50, p90, p99, max.
	Acks [4]float64
}

// runClient reads a job, does it and writes the report.
func runClient(in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return err
	}
	r, err := j.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func (j *job) defaults() {
	j.Conns = max(j.Conns, 1)
	j.Tags = max(j.Tags, 1)
	j.PerMessage = max(j.PerMessage, 1)
	if j.Window == 0 {
		// Enough to keep the receiver busy: about 4 MB under way, never fewer than 8 messages.
		per := j.PerMessage
		if j.Mode == fc.Message {
			per = 1
		}
		j.Window = max(8, 8000/per)
	}
	if j.Mode == fc.Message {
		j.Window = max(j.Window, 2*j.PerMessage)
	}
}

func (j *job) payload(tag int) *fc.Payload {
	record := fc.Kubernetes()
	if j.Record == "docker" {
		record = fc.Docker(j.Size)
	}
	name := "bench"
	if j.Tags > 1 {
		name = fmt.Sprintf("bench.%d", tag)
	}
	return fc.Encoding{Mode: j.Mode, Tag: name, Events: j.PerMessage, Record: record, Acks: true, Metadata: j.Metadata}.Encode()
}

func (j *job) run() (sent, error) {
	j.defaults()
	start := time.Now()
	var (
		mu   sync.Mutex
		r    sent
		errs []error
		acks []time.Duration
		wg   sync.WaitGroup
	)
	for i := range j.Conns {
		wg.Go(func() {
			events, acked, times, err := j.connection(i)
			mu.Lock()
			defer mu.Unlock()
			r.Events += events
			r.Acked += acked
			acks = append(acks, times...)
			errs = append(errs, err)
		})
	}
	wg.Wait()
	r.Seconds = time.Since(start).Seconds()
	slices.Sort(acks)
	if n := len(acks); n > 0 {
		r.Acks = [4]float64{acks[n/2].Seconds(), acks[n*9/10].Seconds(), acks[n*99/100].Seconds(), acks[n-1].Seconds()}
	}
	return r, errors.Join(errs...)
}

// connection sends the share of connection i and waits for its acknowledgements.
func (j *job) connection(i int) (events, acked int, times []time.Duration, err error) {
	o := fc.Options{Addr: j.Addr, Window: j.Window}
	var stamps []time.Time // when each message was written; guarded by mu
	var mu sync.Mutex
	if j.TimedAcks {
		o.OnAck = func(key uint64) {
			mu.Lock()
			times = append(times, time.Since(stamps[key]))
			mu.Unlock()
		}
	}
	c, err := fc.Dial(context.Background(), o)
	if err != nil {
		return 0, 0, nil, err
	}
	defer c.Close()
	var payloads []*fc.Payload
	for t := i; t < j.Tags; t += j.Conns {
		payloads = append(payloads, j.payload(t))
	}
	if len(payloads) == 0 {
		payloads = append(payloads, j.payload(0))
	}
	perMessage := payloads[0].Events / payloads[0].Messages()
	share := j.Events / j.Conns
	start, key := time.Now(), uint64(0)
	for n := 0; events < share; n++ {
		p := payloads[n%len(payloads)]
		if j.Rate > 0 {
			due := start.Add(time.Duration(float64(events) / float64(j.Rate) * float64(j.Conns) * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		if j.Fresh {
			p.Renumber(uint64(events), time.Now())
		}
		if j.TimedAcks {
			now := time.Now()
			mu.Lock()
			for range p.Messages() {
				stamps = append(stamps, now)
			}
			mu.Unlock()
		}
		if err := c.Send(p, key); err != nil {
			return events, int(c.Acked()) * perMessage, times, fmt.Errorf("connection %d: %w", i, err)
		}
		key += uint64(p.Messages())
		events += p.Events
	}
	err = c.Wait()
	acked = int(c.Acked()) * perMessage
	_ = c.Close()
	return events, acked, times, err
}
