package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Server. The zero value is a server in memory with
// today's behaviour of the service, no faults and no quotas.
type Options struct {
	// Dir keeps groups, streams and events in files so that they survive a
	// restart, kill -9 included; empty keeps them in memory only.
	Dir string
	// StrictTokens enforces sequence tokens as the service did before 2023.
	StrictTokens bool
	// Quotas enforces the documented default request rates of an account
	// (and, with StrictTokens, 5 puts per second and stream).
	Quotas bool
	// Faults is in force from the start; nil: none. See SetFaults.
	Faults *FaultScript
	// Log gets a line per change of state, never one per request; nil: none.
	Log *slog.Logger
	// Clock replaces time.Now for timestamps, windows, signatures and the dates of
	// answers.
	Clock func() time.Time
	// Secrets maps access keys to secret keys. When it is not empty,
	// signatures are verified and other keys refused; otherwise only the
	// shape and the date of the Authorization header are checked.
	Secrets map[string]string
	// Region is used in ARNs on the page; ARNs in answers carry the region of
	// the request's signature. Default us-east-1.
	Region string
	// Account is the account number in ARNs. Default 000000000000.
	Account string
	// MaxBytes bounds the memory for events (about: messages and 12 bytes
	// each); beyond it the oldest accepted calls are forgotten. Default 512 MiB.
	MaxBytes int64
	// Discard counts events but forgets them at once, for benchmarks. It
	// can't be combined with Dir.
	Discard bool
	// Limits replaces DefaultLimits, for tests only.
	Limits *Limits
}

// Server is the endpoint. It implements http.Handler. All methods may be
// called at the same time from several goroutines.
type Server struct {
	opt   Options
	lim   Limits
	log   *slog.Logger
	clock func() time.Time
	ops   map[string]operation
	views *views
	seed  maphash.Seed

	mu     sync.RWMutex
	groups map[string]*group
	nextID uint64 // of streams

	requests atomic.Int64  // accepted PutLogEvents calls
	ordinals atomic.Uint64 // accepted events
	calls    atomic.Uint64 // all requests, for request ids

	retained retained
	faults   atomic.Pointer[faults]
	quotas   *quotas
	stats    stats
	journal  *journal // nil without Dir
	pool     sync.Pool

	running   sync.RWMutex // held for reading by each API request, so that Close can wait
	closeOnce sync.Once
	closing   chan struct{} // closed first: lets requests go that a fault holds back
	serving   serving
}

// operation carries out one decoded call. The result is encoded as JSON; nil
// stands for an empty body, []byte is written as it is.
type operation func(s *Server, c *call) (any, *apiError)

// New makes a server. With Options.Dir it loads what is there; the error then
// says what could not be read or written.
func New(opt Options) (*Server, error) {
	if opt.Discard && opt.Dir != "" {
		return nil, errors.New("emulator: Discard and Dir exclude each other")
	}
	s := &Server{
		opt: opt, lim: DefaultLimits(), log: opt.Log, clock: opt.Clock,
		ops: operations(), groups: make(map[string]*group), seed: maphash.MakeSeed(),
		closing: make(chan struct{}),
	}
	if opt.Limits != nil {
		s.lim = *opt.Limits
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.opt.Region == "" {
		s.opt.Region = "us-east-1"
	}
	if s.opt.Account == "" {
		s.opt.Account = "000000000000"
	}
	if s.retained.max = opt.MaxBytes; s.retained.max <= 0 {
		s.retained.max = 512 << 20
	}
	if opt.Quotas {
		s.quotas = newQuotas(opt.StrictTokens)
	}
	s.pool.New = func() any { return new(call) }
	s.stats.start = s.clock()
	var err error
	if s.views, err = newViews(); err != nil {
		return nil, fmt.Errorf("emulator: parsing the pages: %w", err)
	}
	if opt.Faults != nil {
		if err := s.SetFaults(opt.Faults); err != nil {
			return nil, err
		}
	}
	if opt.Dir != "" {
		if err := s.openDir(); err != nil {
			return nil, fmt.Errorf("emulator: opening %s: %w", opt.Dir, err)
		}
	}
	return s, nil
}

// SetFaults replaces the script in force; nil ends all faults. The times of
// its rules count from now.
func (s *Server) SetFaults(fs *FaultScript) error {
	if fs == nil {
		s.faults.Store(nil)
		return nil
	}
	if err := fs.Validate(); err != nil {
		return err
	}
	s.faults.Store(newFaults(fs, s.clock()))
	return nil
}

// Faults returns the rules in force and how often each has struck.
func (s *Server) Faults() []FaultState { return s.faults.Load().state() }

// ServeHTTP answers the API on POST, the pages and /_weir/… otherwise.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && !strings.HasPrefix(r.URL.Path, adminPrefix) {
		s.serveAPI(w, r)
		return
	}
	s.serveView(w, r)
}

// call is one request on its way. It is reused.
type call struct {
	op     string
	now    time.Time // the service's clock when the request arrived
	region string
	body   []byte // uncompressed; lies in wire or in plain
	wire   []byte // as received
	plain  []byte // uncompressed, when wire is compressed
	put    putRequest

	group, stream string // as far as known, for faults and quotas

	reject      string // rule of kind reject: As and Share
	rejectShare float64
}

func (c *call) reset(op string, now time.Time) {
	*c = call{op: op, now: now, wire: c.wire[:0], plain: c.plain[:0], put: c.put} // scanPut resets put
}

// decode reads the body of a small operation into v.
func (c *call) decode(v any) *apiError {
	if len(c.body) == 0 {
		return errSerialization("Unexpected end of input")
	}
	err := json.Unmarshal(c.body, v)
	var typeErr *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typeErr):
		return errSerialization("%s can not be converted to %s", strings.ToUpper(typeErr.Value)+"_VALUE", article(typeErr.Type.Kind().String()))
	}
	return errSerialization("Unable to parse the request body as JSON")
}

func article(kind string) string {
	switch {
	case kind == "string":
		return "a String"
	case strings.HasPrefix(kind, "int"):
		return "a Long"
	case kind == "bool":
		return "a Boolean"
	}
	return "the expected type"
}

func itoa(v int64) string { return strconv.FormatInt(v, 10) }

func millis(t time.Time) int64 { return t.UnixMilli() }

func (s *Server) groupARN(region, name string) string {
	return "arn:aws:logs:" + region + ":" + s.opt.Account + ":log-group:" + name
}
