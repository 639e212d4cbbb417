package weirtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir/test/forwardclient"
)

// Sender is a client that keeps what is not acknowledged and sends it again, in order, over
// a new connection when the old one breaks: as Fluent Bit and Fluentd do, but without
// giving up and without changing the order.
type Sender struct {
	Addr   string
	Tag    string
	Mode   forwardclient.Mode
	Events int // in a message
	Window int // messages that may wait for their acknowledgement
	First  uint64
	// Step is the time between two events; 0 gives all events of a message one time, so
	// that their order is not that of their times.
	Step time.Duration

	mu      sync.Mutex // guards what follows
	unacked []message
	acked   []bool // by message
	sent    int    // messages that were given to Send
	resent  map[int]bool
	dials   int

	client *forwardclient.Client
	nonce  uint32
}

type message struct {
	number  int
	payload *forwardclient.Payload
}

// Send sends the next message. It returns when the message has been written to a
// connection and there is room in the window; until then it connects as often as
// necessary, or until ctx ends.
func (s *Sender) Send(ctx context.Context) error {
	s.mu.Lock()
	if s.nonce == 0 {
		s.nonce, s.resent = rand.Uint32()|1, map[int]bool{}
	}
	n := s.sent
	s.sent++
	s.acked = append(s.acked, false)
	m := message{n, forwardclient.Encoding{Mode: s.Mode, Tag: s.Tag, Events: s.Events, Record: Record,
		First: s.First + uint64(n*s.Events), Step: s.Step, Acks: true}.Encode()}
	s.unacked = append(s.unacked, m)
	s.mu.Unlock()
	if s.client != nil && s.client.Send(m.payload, uint64(n)) == nil {
		return nil
	}
	return s.reconnect(ctx)
}

// Flush returns when everything sent has been acknowledged.
func (s *Sender) Flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		left := len(s.unacked)
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		if s.client == nil {
			if err := s.reconnect(ctx); err != nil {
				return err
			}
		}
		waited := make(chan error, 1)
		go func() { waited <- s.client.Wait() }()
		select {
		case err := <-waited:
			if err != nil {
				if err := s.reconnect(ctx); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return fmt.Errorf("%d messages are not acknowledged: %w", left, ctx.Err())
		}
	}
}

// Close closes the connection.
func (s *Sender) Close() {
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
}

// reconnect connects anew and sends all that is not acknowledged.
func (s *Sender) reconnect(ctx context.Context) error {
	for {
		s.Close()
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := forwardclient.Dial(ctx, forwardclient.Options{Addr: s.Addr, Window: max(s.Window, 1), Nonce: s.nonce, OnAck: s.ack})
		if err != nil {
			time.Sleep(5 * time.Millisecond) // nobody listens while weir restarts
			continue
		}
		s.client = c
		s.mu.Lock()
		again := append([]message(nil), s.unacked...)
		s.dials++
		for _, m := range again[:max(len(again)-1, 0)] {
			s.resent[m.number] = true
		}
		if n := len(again); n > 0 && s.dials > 1 {
			s.resent[again[n-1].number] = true
		}
		s.mu.Unlock()
		err = nil
		for _, m := range again {
			if err = c.Send(m.payload, uint64(m.number)); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
	}
}

func (s *Sender) ack(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[key] = true
	for i, m := range s.unacked {
		if m.number == int(key) {
			s.unacked = append(s.unacked[:i], s.unacked[i+1:]...)
			return
		}
	}
}

// IDs lists the events of all messages given to Send, in order.
func (s *Sender) IDs() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return IDs(s.First, s.sent*s.Events)
}

// Acked is how many messages are acknowledged.
func (s *Sender) Acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent - len(s.unacked)
}

// Resent says whether the sender itself sent the message of this event more than once.
func (s *Sender) Resent(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resent[int(id-s.First)/s.Events]
}

// Dials is how many connections there were.
func (s *Sender) Dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// SendAll sends so many messages and waits for all acknowledgements.
func (s *Sender) SendAll(t testing.TB, messages int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	if err := s.all(ctx, messages); err != nil {
		t.Fatal(err)
	}
}

func (s *Sender) all(ctx context.Context, messages int) error {
	for range messages {
		if err := s.Send(ctx); err != nil {
			return fmt.Errorf("send to %s: %w", s.Tag, err)
		}
	}
	if err := s.Flush(ctx); err != nil {
		return fmt.Errorf("send to %s: %w", s.Tag, err)
	}
	return nil
}

// Background is SendAll in the background; done is closed at its end. When the test ends
// first it is cut short.
func (s *Sender) Background(t testing.TB, messages int) (done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.all(ctx, messages); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return ended
}

// IDs lists n ids from first on.
func IDs(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// Pace calls f n times a second until ctx ends or f fails. The end of ctx is no error.
func Pace(ctx context.Context, perSecond float64, f func() error) error {
	begin := time.Now()
	for i := 0; ; i++ {
		next := begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		if err := f(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}
