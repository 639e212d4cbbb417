package awsx

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	wconfig "weir/internal/config"
	"weir/internal/fluentconf"
)

// environment clears everything that could find real credentials and returns a directory
// in which the shared files are looked for.
func environment(t *testing.T, set ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range os.Environ() {
		if k, _, _ := strings.Cut(e, "="); strings.HasPrefix(k, "AWS_") || strings.HasSuffix(strings.ToUpper(k), "_PROXY") {
			t.Setenv(k, "")
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for i := 0; i+1 < len(set); i += 2 {
		t.Setenv(set[i], set[i+1])
	}
	return dir
}

func open(t *testing.T, p Params) *Session {
	t.Helper()
	if p.Region == "" {
		p.Region = "eu-west-1"
	}
	s, err := New(t.Context(), Options{Params: p, Service: "logs", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func retrieve(t *testing.T, s *Session) aws.Credentials {
	t.Helper()
	c, err := s.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRegion(t *testing.T) {
	dir := environment(t)
	load := func(p Params) string {
		cfg, err := p.load(t.Context())
		if err != nil {
			return err.Error()
		}
		return cfg.Region
	}
	if got := load(Params{}); !strings.Contains(got, "no AWS region") || !strings.Contains(got, "config") {
		t.Errorf("got %q", got)
	}
	write(t, filepath.Join(dir, "config"), "[default]\nregion = from-file\n[profile p]\nregion = from-profile\n")
	for _, c := range []struct {
		p    Params
		env  string
		want string
	}{
		{Params{}, "", "from-file"}, {Params{Profile: "p"}, "", "from-profile"},
		{Params{}, "from-env", "from-env"}, {Params{Region: "given"}, "from-env", "given"},
	} {
		t.Setenv("AWS_REGION", c.env)
		if got := load(c.p); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := load(Params{Profile: "none"}); !strings.Contains(got, `AWS profile "none" is not in`) {
		t.Errorf("got %q", got)
	}
}

func TestEndpoint(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name string
		p    Params
		env  []string
		want string
	}{
		{"plain", Params{}, nil, "https://logs.eu-west-1.amazonaws.com/"},
		{"china", Params{Region: "cn-north-1"}, nil, "https://logs.cn-north-1.amazonaws.com.cn/"},
		{"FIPS", Params{Region: "us-east-1", UseFIPS: &yes}, nil, "https://logs-fips.us-east-1.amazonaws.com/"},
		{"FIPS by environment", Params{Region: "us-east-1"}, []string{"AWS_USE_FIPS_ENDPOINT", "true"}, "https://logs-fips.us-east-1.amazonaws.com/"},
		{"dual stack", Params{UseDualStack: &yes}, nil, "https://logs.eu-west-1.api.aws/"},
		{"dual stack by environment", Params{}, []string{"AWS_USE_DUALSTACK_ENDPOINT", "true"}, "https://logs.eu-west-1.api.aws/"},
		{"environment", Params{}, []string{"AWS_ENDPOINT_URL", "http://localhost:4566"}, "http://localhost:4566/"},
		{"service's environment", Params{}, []string{"AWS_ENDPOINT_URL", "http://localhost:1", "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", "http://localhost:2"}, "http://localhost:2/"},
		{"parameter", Params{Endpoint: "https://vpce.example", UseFIPS: &yes}, []string{"AWS_ENDPOINT_URL", "http://localhost:1"}, "https://vpce.example/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			environment(t, c.env...)
			u, err := LogsEndpoint(t.Context(), open(t, c.p).Config(), c.p.Endpoint)
			if err != nil || u.String() != c.want {
				t.Errorf("got %v, %v; want %s", u, err, c.want)
			}
		})
	}
}

func TestAmazonHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"logs.eu-west-1.amazonaws.com": true, "logs.cn-north-1.amazonaws.com.cn": true, "vpce-1-2.logs.eu-west-1.vpce.amazonaws.com": true,
		"logs.eu-west-1.api.aws": true, "localhost": false, "notamazonaws.com": false, "amazonaws.com.evil.example": false,
	} {
		if AmazonHost(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
}

// stsServer answers AssumeRole and AssumeRoleWithWebIdentity and keeps what it was asked.
func stsServer(t *testing.T, life time.Duration) (string, func() []url.Values) {
	var mu sync.Mutex
	var asked []url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v, _ := url.ParseQuery(string(body))
		v.Set("Authorization", r.Header.Get("Authorization"))
		mu.Lock()
		asked = append(asked, v)
		n := len(asked)
		mu.Unlock()
		op := v.Get("Action")
		fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials><AccessKeyId>ASSUMED%[2]d</AccessKeyId>
<SecretAccessKey>s</SecretAccessKey><SessionToken>t%[2]d</SessionToken><Expiration>%[3]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`,
			op, n, time.Now().Add(life).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []url.Values {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

func TestStatic(t *testing.T) {
	environment(t, "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "x")
	c := retrieve(t, open(t, Params{KeyID: "AK", SecKey: "SK", SessionToken: "ST"}))
	if c.AccessKeyID != "AK" || c.SecretAccessKey != "SK" || c.SessionToken != "ST" {
		t.Errorf("got %+v", c)
	}
	if c = retrieve(t, open(t, Params{KeyID: "AK"})); c.AccessKeyID != "ENV" { // half a pair does not count
		t.Errorf("got %+v", c)
	}
}

func TestAssumeRole(t *testing.T) {
	environment(t, "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "x")
	endpoint, asked := stsServer(t, time.Hour)
	p := Params{UseSTS: true, STSRoleARN: "arn:aws:iam::123456789012:role/r", STSSessionName: "fluentd", STSExternalID: "ext", STSPolicy: "{}",
		STSDuration: 20 * time.Minute, STSEndpoint: endpoint}
	s := open(t, p)
	for range 3 { // one question for many requests
		if c := retrieve(t, s); c.AccessKeyID != "ASSUMED1" || c.SessionToken != "t1" {
			t.Errorf("got %+v", c)
		}
	}
	v := asked()
	if len(v) != 1 {
		t.Fatalf("asked %d times", len(v))
	}
	got := map[string]string{}
	for _, k := range []string{"Action", "RoleArn", "RoleSessionName", "ExternalId", "Policy", "DurationSeconds"} {
		got[k] = v[0].Get(k)
	}
	want := map[string]string{"Action": "AssumeRole", "RoleArn": p.STSRoleARN, "RoleSessionName": "fluentd", "ExternalId": "ext", "Policy": "{}", "DurationSeconds": "1200"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !strings.Contains(v[0].Get("Authorization"), "Credential=ENV/") {
		t.Errorf("signed with %s", v[0].Get("Authorization"))
	}
	p.KeyID, p.SecKey = "STATIC", "y" // the static pair is the source of the role
	retrieve(t, open(t, p))
	if a := asked(); !strings.Contains(a[1].Get("Authorization"), "Credential=STATIC/") {
		t.Errorf("signed with %s", a[1].Get("Authorization"))
	}
}

func TestWebIdentity(t *testing.T) {
	dir := environment(t)
	endpoint, asked := stsServer(t, time.Minute) // expires within the refresh window: asked each time
	file := filepath.Join(dir, "token")
	s := open(t, Params{STSEndpoint: endpoint, WebIdentity: &WebIdentity{RoleARN: "arn:r", SessionName: "n", TokenFile: file, Duration: time.Hour}})
	for _, token := range []string{"one", "two"} { // the file is read at every refresh
		write(t, file, token)
		retrieve(t, s)
	}
	v := asked()
	if len(v) != 2 || v[0].Get("WebIdentityToken") != "one" || v[1].Get("WebIdentityToken") != "two" || v[0].Get("DurationSeconds") != "3600" {
		t.Errorf("asked %v", v)
	}
}

// containerServer serves ECS and EKS credentials; each answer has another key.
func containerServer(t *testing.T, life time.Duration) (address string, tokens func() []string) {
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		_ = json.NewEncoder(w).Encode(map[string]string{"AccessKeyId": fmt.Sprint("TASK", len(seen)), "SecretAccessKey": "s", "Token": "t",
			"Expiration": time.Now().Add(life).UTC().Format(time.RFC3339)})
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(seen) }
}

// Unlike Fluentd's, credentials of a task are renewed, and the pod's token is read again.
func TestContainer(t *testing.T) {
	dir := environment(t)
	address, tokens := containerServer(t, time.Minute)
	file := filepath.Join(dir, "token")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", address+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file)
	write(t, file, "one")
	for _, p := range []Params{{ECSAuth: true}, {}} { // asked for, and by the SDK's own chain
		before := len(tokens())
		s := open(t, p)
		first := retrieve(t, s)
		write(t, file, "two")
		if second := retrieve(t, s); second.AccessKeyID == first.AccessKeyID {
			t.Errorf("not renewed: %+v", second)
		}
		if got := tokens()[before:]; len(got) != 2 || got[1] != "two" {
			t.Errorf("tokens %v", got)
		}
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://198.51.100.1/steal")
	if _, err := open(t, Params{ECSAuth: true}).Retrieve(t.Context()); err == nil || !strings.Contains(err.Error(), "198.51.100.1") {
		t.Errorf("the token would go anywhere: %v", err)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
	if _, err := open(t, Params{ECSAuth: true}).Retrieve(t.Context()); err == nil || !strings.Contains(err.Error(), "is this an ECS task") {
		t.Errorf("got %v", err)
	}
}

// The instance metadata service: version 2 with its session token, and repeats after failures.
func TestInstanceMetadata(t *testing.T) {
	environment(t)
	var mu sync.Mutex
	failures, withToken := 2, 0
	imds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == http.MethodPut:
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			io.WriteString(w, "TOKEN")
			return
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "TOKEN":
			w.WriteHeader(401)
			return
		case failures > 0:
			failures--
			w.WriteHeader(503)
			return
		}
		withToken++
		if strings.HasSuffix(r.URL.Path, "/security-credentials/") {
			io.WriteString(w, "role")
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"Code": "Success", "AccessKeyId": "INSTANCE", "SecretAccessKey": "s", "Token": "t",
			"Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	}))
	defer imds.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.URL)
	retries := 2
	s := open(t, Params{InstanceRetries: &retries})
	if c := retrieve(t, s); c.AccessKeyID != "INSTANCE" || withToken != 2 {
		t.Errorf("got %+v after %d answers", c, withToken)
	}
	if s.Source() == "" {
		t.Error("the source is not known")
	}
	mu.Lock()
	failures = 2
	mu.Unlock()
	retries = 0
	if _, err := open(t, Params{InstanceRetries: &retries}).Retrieve(t.Context()); err == nil {
		t.Error("0 retries, and yet it was asked again")
	}
}

// Keys in a shared file that somebody rotated are found after the service refused the old ones.
func TestRefresh(t *testing.T) {
	dir := environment(t)
	file := filepath.Join(dir, "credentials")
	keys := func(id string) string {
		return "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = x\n"
	}
	write(t, file, keys("OLD"))
	s := open(t, Params{})
	used := retrieve(t, s)
	if used.AccessKeyID != "OLD" {
		t.Fatalf("got %+v", used)
	}
	if s.Refresh(t.Context(), used) {
		t.Error("nothing changed, and yet there are other credentials")
	}
	write(t, file, keys("NEW"))
	if c := retrieve(t, s); c.AccessKeyID != "NEW" && c.AccessKeyID != "OLD" {
		t.Errorf("got %+v", c)
	}
	if !s.Refresh(t.Context(), used) || retrieve(t, s).AccessKeyID != "NEW" {
		t.Error("the new keys are not found")
	}
}

func TestNoCredentials(t *testing.T) {
	environment(t)
	start := time.Now()
	_, err := open(t, Params{}).Retrieve(t.Context())
	if err == nil {
		t.Fatal("credentials out of nowhere")
	}
	for _, want := range []string{"no AWS credentials: tried the environment (AWS_ACCESS_KEY_ID is not set)", "web identity", `profile "default"`, "container endpoint", "instance metadata"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if time.Since(start) > 30*time.Second {
		t.Error("that took too long")
	}
}

func TestSkewed(t *testing.T) {
	environment(t)
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	s, err := New(context.Background(), Options{Params: Params{Region: "r"}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for i, c := range []struct {
		date   string
		signed time.Duration // how far the signature was from our clock
		want   bool
		skew   time.Duration
	}{
		{"", 0, false, 0}, {date(time.Minute), 0, false, 0}, {date(-time.Minute), 0, false, 0},
		{date(time.Hour), 0, true, time.Hour},
		{date(time.Hour), 0, true, time.Hour}, // another request, signed before that was known
		{date(time.Hour + time.Minute), time.Hour, false, time.Hour},
		{date(30 * time.Second), time.Hour, true, 0}, // our clock was set right
		{date(30 * time.Second), time.Hour, true, 0},
		{date(-24 * time.Hour), 0, true, -24 * time.Hour},
	} {
		if got := s.Skewed(c.date, now.Add(c.signed).Format(amzDate)); got != c.want || s.Skew() != c.skew {
			t.Errorf("case %d: %v, skew %v; want %v, %v", i, got, s.Skew(), c.want, c.skew)
		}
	}
	if s.Skewed(date(time.Hour), "nonsense") {
		t.Error("a signature without a time")
	}
}

// AWS_CA_BUNDLE and ssl_verify_peer reach the transport.
func TestTLS(t *testing.T) {
	dir := environment(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	get := func(p Params) error {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		resp, err := open(t, p).Transport.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(Params{SSLVerifyPeer: true}); err == nil || NetworkHint(err) == "" {
		t.Errorf("got %v", err)
	}
	if err := get(Params{}); err != nil {
		t.Error(err)
	}
	bundle := filepath.Join(dir, "ca.pem")
	write(t, bundle, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	t.Setenv("AWS_CA_BUNDLE", bundle)
	if err := get(Params{SSLVerifyPeer: true}); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	environment(t)
	for _, c := range []struct {
		p    Params
		want string
	}{
		{Params{Region: "r", SSLVerifyPeer: true, WebIdentity: &WebIdentity{}}, "no web_identity_token_file"},
		{Params{Region: "r", SSLVerifyPeer: true, UseSTS: true}, "aws_use_sts needs a role"},
		{Params{Region: "r", SSLVerifyPeer: true, Endpoint: "ftp://x"}, `endpoint "ftp://x" is not a URL`},
		{Params{Region: "r", SSLVerifyPeer: true, STSEndpoint: "x"}, `aws_sts_endpoint_url "x" is not a URL`},
		{Params{SSLVerifyPeer: true}, "no AWS region"},
	} {
		var d wconfig.Diagnostics
		c.p.Check(&fluentconf.Section{}, &d)
		if len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Text, c.want) {
			t.Errorf("%v, want %q", d.Errors, c.want)
		}
	}
	var d wconfig.Diagnostics
	(&Params{Region: "r", KeyID: "half"}).Check(&fluentconf.Section{}, &d)
	if len(d.Errors) != 0 || len(d.Warnings) != 2 {
		t.Errorf("errors %v, warnings %v", d.Errors, d.Warnings)
	}
}
