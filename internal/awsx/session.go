package awsx

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// Options configures a Session. Log is required.
type Options struct {
	Params  Params
	Service string           // signing name, for example "logs"
	Log     *slog.Logger     //
	Now     func() time.Time // nil: time.Now
	Conns   int              // requests in flight: connections kept open for them
}

// Session signs requests of one service with one set of credentials. It may be used from
// any goroutine.
type Session struct {
	params  Params
	service string
	log     *slog.Logger
	now     func() time.Time
	base    aws.Config
	signer  *v4.Signer

	Transport *http.Transport // for requests of the service itself

	mu     sync.Mutex // serialises building of cache, guards source
	cache  atomic.Pointer[aws.CredentialsCache]
	source string // of the credentials last taken

	offset atomic.Int64 // nanoseconds by which the service's clock is ahead of ours, when it matters
}

// New reads the configuration. It uses no network; a missing region or profile is an
// error here, missing credentials are one at the first request.
func New(ctx context.Context, o Options) (*Session, error) {
	cfg, err := o.Params.load(ctx)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Session{params: o.Params, service: o.Service, log: o.Log, now: o.Now, base: cfg, signer: v4.NewSigner()}
	client, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return nil, fmt.Errorf("read AWS configuration: the SDK made an HTTP client of type %T", cfg.HTTPClient)
	}
	s.Transport = tune(client.GetTransport(), o.Params, max(o.Conns, 1))
	return s, nil
}

// tune adapts the SDK's transport, which carries proxy and certificate authorities, to
// few large requests on long-lived connections.
func tune(t *http.Transport, p Params, conns int) *http.Transport {
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 10 * time.Second
	// The service closes idle connections after about six seconds. Ours are gone before, so
	// that a request seldom meets a connection that is being closed.
	t.IdleConnTimeout = 4 * time.Second
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = conns
	t.MaxConnsPerHost = 0
	t.ResponseHeaderTimeout = 0 // the request's deadline bounds everything
	t.ExpectContinueTimeout = 0
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = false // one connection a request in flight: no head-of-line blocking, no stream windows
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	t.WriteBufferSize = 64 << 10
	t.ReadBufferSize = 4 << 10
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.InsecureSkipVerify = !p.SSLVerifyPeer
	t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(conns)
	return t
}

// Region is the region requests are signed for.
func (s *Session) Region() string { return s.base.Region }

// Config is the SDK's configuration with this session's credentials, for SDK clients. The
// SDK's own retries are off: delivery retries.
func (s *Session) Config() aws.Config {
	cfg := s.base.Copy()
	cfg.Credentials = aws.CredentialsProviderFunc(s.Retrieve)
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return cfg
}

// Retrieve returns credentials that are not about to expire, and logs once from where
// they came.
func (s *Session) Retrieve(ctx context.Context) (aws.Credentials, error) {
	cache := s.cache.Load()
	if cache == nil {
		var err error
		if cache, err = s.build(ctx); err != nil {
			return aws.Credentials{}, fmt.Errorf("no AWS credentials: tried %s: %w", s.params.tried(), err)
		}
	}
	creds, err := cache.Retrieve(ctx)
	if err != nil {
		s.drop(cache) // a chain that found nothing is built anew: files and environment may have changed
		return aws.Credentials{}, fmt.Errorf("no AWS credentials: tried %s: %w", s.params.tried(), err)
	}
	s.announce(creds.Source)
	return creds, nil
}

func (s *Session) build(ctx context.Context) (*aws.CredentialsCache, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cache.Load(); c != nil {
		return c, nil
	}
	c, err := s.params.chain(ctx, s.base)
	if err != nil {
		return nil, err
	}
	s.cache.Store(c)
	return c, nil
}

func (s *Session) drop(c *aws.CredentialsCache) { s.cache.CompareAndSwap(c, nil) }

func (s *Session) announce(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if source == s.source {
		return
	}
	s.source = source
	s.log.Info("AWS credentials taken", "source", source, "region", s.base.Region)
}

// Source is where the credentials in use came from; "" before the first request.
func (s *Session) Source() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source
}

// Refresh forgets the credentials after the service refused those used, reads everything
// again and reports whether others came of it, in which case a retry makes sense at once.
func (s *Session) Refresh(ctx context.Context, used aws.Credentials) bool {
	if c := s.cache.Load(); c != nil {
		now, err := c.Retrieve(ctx)
		if err == nil && sameKeys(now, used) {
			s.drop(c)
		}
	}
	now, err := s.Retrieve(ctx)
	return err == nil && !sameKeys(now, used)
}

func sameKeys(a, b aws.Credentials) bool {
	return a.AccessKeyID == b.AccessKeyID && a.SecretAccessKey == b.SecretAccessKey && a.SessionToken == b.SessionToken
}

// Sign signs r, whose body has the hexadecimal SHA-256 sum given, and returns the
// credentials used.
func (s *Session) Sign(ctx context.Context, r *http.Request, sum string) (aws.Credentials, error) {
	creds, err := s.Retrieve(ctx)
	if err != nil {
		return creds, err
	}
	at := s.now().Add(time.Duration(s.offset.Load()))
	if err := s.signer.SignHTTP(ctx, creds, r, sum, s.service, s.base.Region, at); err != nil {
		return creds, fmt.Errorf("sign request: %w", err)
	}
	return creds, nil
}

// amzDate is the form of the header X-Amz-Date.
const amzDate = "20060102T150405Z"

// skewTolerated is how far clocks may differ before AWS refuses a signature (it says five
// minutes), less a margin.
const skewTolerated = 4 * time.Minute

// Skewed is called with the Date header of an answer that refused a signature, and with
// the X-Amz-Date header of the request. When the two differ by more than AWS tolerates,
// signing continues by the service's clock and the result is true: try again at once.
func (s *Session) Skewed(date, signed string) bool {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return false
	}
	ours, err := time.Parse(amzDate, signed)
	if err != nil {
		return false
	}
	tolerated := func(d time.Duration) bool { return d < skewTolerated && d > -skewTolerated }
	if tolerated(theirs.Sub(ours)) {
		return false
	}
	ahead := theirs.Sub(s.now())
	if tolerated(ahead) {
		ahead = 0 // our clock was set right meanwhile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.Skew(); tolerated(ahead-old) && (ahead == 0) == (old == 0) {
		return true // another request has just found that out
	}
	switch s.offset.Store(int64(ahead)); ahead {
	case 0:
		s.log.Info("this machine's clock agrees with the service's again")
	default:
		s.log.Warn("this machine's clock differs from the service's; signing by the service's clock",
			"difference", (-ahead).Round(time.Second).String(), "hint", "set the clock (NTP): event times are taken from it too")
	}
	return true
}

// Skew is the correction in use, 0 when the clocks agree well enough.
func (s *Session) Skew() time.Duration { return time.Duration(s.offset.Load()) }

// Close closes idle connections.
func (s *Session) Close() { s.Transport.CloseIdleConnections() }

// Account tells accounts apart without asking AWS for their numbers: outputs with the same
// Account use the same credentials. It shows no secret.
func (s *Session) Account() string {
	p := &s.params
	switch {
	case p.UseSTS:
		return p.STSRoleARN
	case p.WebIdentity != nil:
		return p.WebIdentity.RoleARN
	case p.ECSAuth:
		return "container"
	case p.Process != "":
		return "process " + p.Process
	case p.Instance != nil:
		return "instance"
	case p.KeyID != "" && p.SecKey != "":
		return p.KeyID
	case p.Profile != "":
		return "profile " + p.Profile + p.SharedFile
	}
	return "default"
}
