package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/awsx"
	"weir/internal/deliver"
	"weir/internal/input/docker/awslogs"
	"weir/internal/ledger"
	"weir/internal/output/cloudwatch"
)

// dockerRetryMax is the longest wait between two attempts. There is a lane for each
// container, and after an outage people look at the log soon.
const dockerRetryMax = 10 * time.Second

// serviceKey is what containers must agree on to share an output.
type serviceKey struct {
	region, endpoint, credentials string
	ownCredentials                bool
	profile, role                 string
	format, notice                string
	createGroup, createStream     bool
	retention                     int
}

func keyOf(o *awslogs.Options) serviceKey {
	k := serviceKey{region: o.Region, endpoint: o.Endpoint, ownCredentials: o.HasCredentials, profile: o.Profile, role: o.RoleARN, format: o.Format, notice: o.LossNotice,
		createGroup: o.CreateGroup, createStream: o.CreateStream, retention: o.RetentionDays}
	if o.HasCredentials {
		k.credentials = o.CredentialsEndpoint
	}
	return k
}

// String is the output's id: the settings that are not the usual ones.
func (k serviceKey) String() string {
	parts := []string{"cloudwatch_logs"}
	add := func(on bool, text string) {
		if on {
			parts = append(parts, text)
		}
	}
	add(k.region != "", "region="+k.region)
	add(k.endpoint != "", "endpoint="+k.endpoint)
	add(k.ownCredentials, "credentials="+k.credentials)
	add(k.profile != "", "profile="+k.profile)
	add(k.role != "", "role="+k.role)
	add(k.format != "", "format="+k.format)
	add(k.notice != "", "notice="+k.notice)
	add(k.createGroup, "create-group")
	add(!k.createStream, "no-create-stream")
	add(k.retention != 0, fmt.Sprintf("retention=%d", k.retention))
	return strings.Join(parts, " ")
}

// dockerOutput is an output that containers share.
type dockerOutput struct {
	key    serviceKey
	users  int       // containers with this output, those that sleep too
	unused time.Time // since when there are none
	slots  *deliver.Slots
	end    context.CancelFunc // of the attempts to make it

	// What follows is set once, when the output could be made.
	out      *cloudwatch.Output
	throttle *deliver.Throttle

	waiting []*dockerContainer // for out
	err     error              // why it is not there yet
	gone    dockerTotals       // of containers that are no more; guarded by Docker.mu
}

// dockerOutputs are the outputs in use.
type dockerOutputs struct {
	d      *Docker
	ctx    context.Context // ends the attempts to make outputs
	tokens *cloudwatch.Tokens

	mu        sync.Mutex // guards what follows, and all of each output but what is set once
	all       map[serviceKey]*dockerOutput
	throttles map[string]*deliver.Throttle
	making    sync.WaitGroup
}

// acquire gives c the output of its settings, until release. c.begin is called when it is
// there, which may be at once, and never while acquire runs. c.mu is held.
func (s *dockerOutputs) acquire(c *dockerContainer) *dockerOutput {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(c.info.Options)
	o := s.all[key]
	if o == nil {
		o = &dockerOutput{key: key, slots: deliver.NewSlots(s.d.o.InFlight)}
		var ctx context.Context
		ctx, o.end = context.WithCancel(s.ctx)
		s.all[key] = o
		s.making.Go(func() { s.make(ctx, o) })
	}
	if c.out != o { // else it has slept
		o.users++
	}
	if o.out == nil {
		if !slices.Contains(o.waiting, c) {
			o.waiting = append(o.waiting, c)
		}
	} else {
		s.making.Go(func() { c.begin(o) })
	}
	return o
}

// nudge lets the containers of an output try at once whose endpoint has failed, when another
// has seen it answer since.
func (s *dockerOutputs) nudge(all []*dockerContainer) {
	well := map[*dockerOutput]time.Time{}
	type waiter struct {
		c      *dockerContainer
		q      *dockerQueue
		failed time.Time
	}
	var waiters []waiter
	for _, c := range all {
		c.mu.Lock()
		for _, q := range c.queues {
			if q.del == nil {
				continue
			}
			accepted, failed, waiting := q.del.Health()
			if accepted.After(well[c.out]) {
				well[c.out] = accepted
			}
			if waiting {
				waiters = append(waiters, waiter{c, q, failed})
			}
		}
		c.mu.Unlock()
	}
	for _, w := range waiters {
		w.c.mu.Lock()
		if !w.c.gone && well[w.c.out].After(w.failed) {
			w.q.del.Nudge()
		}
		w.c.mu.Unlock()
	}
}

// keptOutputs is how many outputs that no container has are kept for the next one that wants
// them. Settings may be of one container only, as its credentials are, and containers come
// and go.
const keptOutputs = 16

// release ends a container's use of an output.
func (s *dockerOutputs) release(c *dockerContainer, o *dockerOutput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.waiting = slices.DeleteFunc(o.waiting, func(w *dockerContainer) bool { return w == c })
	if o.users--; o.users > 0 {
		return
	}
	o.unused = time.Now()
	var unused []*dockerOutput
	for _, o := range s.all {
		if o.users == 0 {
			unused = append(unused, o)
		}
	}
	slices.SortFunc(unused, func(a, b *dockerOutput) int { return a.unused.Compare(b.unused) })
	for _, o := range unused[:max(len(unused)-keptOutputs, 0)] {
		s.forget(o)
	}
}

// forget ends an output that no container has. mu is held.
func (s *dockerOutputs) forget(o *dockerOutput) {
	delete(s.all, o.key)
	o.end()
	if o.out == nil {
		return
	}
	s.making.Go(func() { _ = o.out.Close() })
	for _, other := range s.all {
		if other.throttle == o.throttle {
			return
		}
	}
	maps.DeleteFunc(s.throttles, func(_ string, t *deliver.Throttle) bool { return t == o.throttle })
}

// ready says whether an output could be made.
func (s *dockerOutputs) ready(o *dockerOutput) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.out != nil
}

// make makes an output as soon as that is possible. It is logged once why it is not.
func (s *dockerOutputs) make(ctx context.Context, o *dockerOutput) {
	var since time.Time
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		out, err := s.try(ctx, o)
		if err == nil {
			if !since.IsZero() {
				s.d.o.Log.Info("the AWS settings of containers are complete now", "output", o.key.String(), "after", time.Since(since).Round(time.Second))
			}
			s.publish(o, out)
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		o.err = err
		s.mu.Unlock()
		if since.IsZero() {
			since = time.Now()
			s.d.o.Log.Error("events cannot be sent yet; they wait in the spool and it is tried again", "output", o.key.String(), "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

func (s *dockerOutputs) publish(o *dockerOutput, out *cloudwatch.Output) {
	s.mu.Lock()
	if s.all[o.key] != o { // it was forgotten meanwhile
		s.mu.Unlock()
		_ = out.Close()
		return
	}
	o.out, o.err = out, nil
	if scope := out.Scope(); scope != "" {
		if s.throttles == nil {
			s.throttles = map[string]*deliver.Throttle{}
		}
		if s.throttles[scope] == nil {
			s.throttles[scope] = &deliver.Throttle{}
		}
		o.throttle = s.throttles[scope]
	}
	waiting := o.waiting
	o.waiting = nil
	s.mu.Unlock()
	for _, c := range waiting {
		c.begin(o)
	}
}

// regionLimit is how long the metadata service is asked for the region.
const regionLimit = 2 * time.Second

// try makes the output if all it needs can be found.
func (s *dockerOutputs) try(ctx context.Context, o *dockerOutput) (*cloudwatch.Output, error) {
	p := s.params(&o.key)
	opt := cloudwatch.Options{
		Params: p, ID: o.key.String(), Log: s.d.log.With("output", o.key.String()), Tokens: s.tokens,
		LaneIsTag: true, Notice: o.key.notice, NoGroups: !o.key.createGroup,
	}
	out, err := cloudwatch.New(ctx, opt)
	if !errors.Is(err, awsx.ErrRegion) {
		return out, err
	}
	ask := s.d.o.regions
	if ask == nil {
		ask = []func(context.Context) (string, error){awsx.InstanceRegion}
	}
	for _, f := range ask {
		short, cancel := context.WithTimeout(ctx, regionLimit)
		region, rerr := f(short)
		cancel()
		if rerr == nil && region != "" {
			opt.Params.Region = region
			return cloudwatch.New(ctx, opt)
		}
		if rerr != nil {
			err = fmt.Errorf("%w: tried the option awslogs-region, AWS_REGION, AWS_DEFAULT_REGION, the profile, and the metadata service: %w", awsx.ErrRegion, rerr)
		}
	}
	return nil, err
}

// messageKey is the field of a container's record that is the message.
const messageKey = "m"

func (s *dockerOutputs) params(k *serviceKey) cloudwatch.Params {
	p := cloudwatch.Params{
		GroupName: "-", StreamName: "-", // lanes come from tags
		AutoCreate:  k.createStream, // without it awslogs does not create groups either
		MessageKeys: []string{messageKey}, MaxEvents: 10_000, LogFormat: k.format, OnOversize: "split", KeepEmptyFields: true,
	}
	p.Region, p.Endpoint, p.SSLVerifyPeer, p.RequestDeadline = k.region, k.endpoint, true, 30*time.Second
	p.Profile = k.profile
	if k.role != "" {
		p.UseSTS, p.STSRoleARN, p.STSSessionName = true, k.role, "weir"
	}
	if k.retention > 0 {
		p.RetentionDays = &k.retention
	}
	n := s.d.o.InFlight
	p.Concurrency = &n
	if k.ownCredentials {
		host := s.d.o.credentials
		if host == "" {
			host = dockerCredentials
		}
		p.Container = host + k.credentials
	}
	return p
}

// dockerCredentials is where Docker's driver asks awslogs-credentials-endpoint.
const dockerCredentials = "http://169.254.170.2"

// close closes all outputs, after the last delivery has ended.
func (s *dockerOutputs) close() {
	s.making.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.out != nil {
			_ = o.out.Close()
		}
	}
}

// list gives the outputs in use.
func (s *dockerOutputs) list() []*dockerOutput {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*dockerOutput, 0, len(s.all))
	for _, o := range s.all {
		all = append(all, o)
	}
	return all
}

// dockerTotals are the counters of containers that are no more, so that sums do not fall.
type dockerTotals struct {
	sheet ledger.Sheet
	stats deliver.Stats
}
