package awsx

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	wconfig "weir/internal/config"
	"weir/internal/fluentconf"
)

// Params are the parameters that every AWS output has. Their names are those of
// fluent-plugin-cloudwatch-logs where that has them. What is not set comes from the
// environment and the shared configuration files, as the AWS SDK reads them.
type Params struct {
	Region        string `conf:"region" doc:"AWS region; without it AWS_REGION, AWS_DEFAULT_REGION or the shared configuration"`
	Endpoint      string `conf:"endpoint" doc:"URL of the service, for a VPC endpoint or a local service"`
	SSLVerifyPeer bool   `conf:"ssl_verify_peer" default:"true" doc:"verify the service's certificate"`
	HTTPProxy     string `conf:"http_proxy" doc:"proxy URL for all AWS calls, credentials included; NO_PROXY excepts hosts"`
	Profile       string `conf:"aws_profile" doc:"profile of the shared configuration files"`
	UseFIPS       *bool  `conf:"use_fips_endpoint" doc:"use the FIPS endpoint; without it AWS_USE_FIPS_ENDPOINT"`
	UseDualStack  *bool  `conf:"use_dualstack_endpoint" doc:"use the dual-stack endpoint; without it AWS_USE_DUALSTACK_ENDPOINT"`

	KeyID           string `conf:"aws_key_id" secret:"true" doc:"access key; used with aws_sec_key"`
	SecKey          string `conf:"aws_sec_key" secret:"true" doc:"secret key; used with aws_key_id"`
	SessionToken    string `conf:"aws_session_token" secret:"true" doc:"session token of temporary static keys"`
	InstanceRetries *int   `conf:"aws_instance_profile_credentials_retries" doc:"how often a failed question to the instance metadata service is repeated"`

	UseSTS          bool          `conf:"aws_use_sts" default:"false" doc:"assume a role"`
	STSRoleARN      string        `conf:"aws_sts_role_arn" doc:"role to assume"`
	STSSessionName  string        `conf:"aws_sts_session_name" default:"fluentd"`
	STSExternalID   string        `conf:"aws_sts_external_id"`
	STSPolicy       string        `conf:"aws_sts_policy" doc:"inline session policy (JSON)"`
	STSDuration     time.Duration `conf:"aws_sts_duration_seconds"`
	STSEndpoint     string        `conf:"aws_sts_endpoint_url" doc:"URL of STS"`
	ECSAuth         bool          `conf:"aws_ecs_authentication" default:"false" doc:"credentials of the ECS task or EKS pod"`
	WebIdentity     *WebIdentity  `section:"web_identity_credentials"`
	RequestDeadline time.Duration `conf:"request_timeout" default:"60s" doc:"longest time for one request, connecting included"`

	Sources
}

// Sources are further ways to credentials. They have no parameters of their own: an output
// whose section names them sets the fields. What is set counts before the static keys, in
// this order.
type Sources struct {
	Process    string           // command that prints credentials, as credential_process of a profile
	Instance   *InstanceProfile // of this machine or container, and nothing else
	Container  string           // URL of a container endpoint, asked and nothing else
	SharedFile string           // file read instead of ~/.aws/credentials
	STSRegion  string           // region whose STS is asked; the session's if not set
	STSProxy   string           // proxy URL for STS alone
}

// InstanceProfile says how the instance metadata service is asked. In an ECS task, the
// container's endpoint is asked instead.
type InstanceProfile struct {
	Endpoint string        // URL; the usual one if empty
	Retries  int           // after the first question
	Timeout  time.Duration // for one question; 0 is the SDK's
}

// WebIdentity is <web_identity_credentials>.
type WebIdentity struct {
	RoleARN     string        `conf:"role_arn" required:"true"`
	SessionName string        `conf:"role_session_name" required:"true"`
	TokenFile   string        `conf:"web_identity_token_file" doc:"file with the token, read again at every refresh"`
	Policy      string        `conf:"policy"`
	Duration    time.Duration `conf:"duration_seconds"`
}

// Check finds mistakes that can be found without a network and reports them at the
// parameter's place in s, or at s itself.
func (p *Params) Check(s *fluentconf.Section, d *wconfig.Diagnostics) {
	at := func(key string) fluentconf.Pos {
		if v := s.Get(key); v != nil {
			return v.Value.Pos
		}
		return s.Pos
	}
	if p.UseSTS && p.STSRoleARN == "" {
		d.Error(at("aws_use_sts"), "aws_use_sts needs a role", "write aws_sts_role_arn arn:aws:iam::ACCOUNT:role/NAME")
	}
	if w := p.WebIdentity; w != nil && w.TokenFile == "" {
		d.Error(s.Pos, "<web_identity_credentials> has no web_identity_token_file", "write web_identity_token_file with the token's path")
	}
	if (p.KeyID == "") != (p.SecKey == "") {
		d.Warn(at("aws_key_id"), "aws_key_id and aws_sec_key are used only together", "write both, or neither")
	}
	for _, e := range []struct{ key, url string }{{"endpoint", p.Endpoint}, {"aws_sts_endpoint_url", p.STSEndpoint}} {
		if e.url == "" {
			continue
		}
		if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			d.Error(at(e.key), fmt.Sprintf("%s %q is not a URL", e.key, e.url), "write https://host or http://host:port")
		}
	}
	if !p.SSLVerifyPeer {
		d.Warn(at("ssl_verify_peer"), "the service's certificate is not verified", "remove ssl_verify_peer false in production")
	}
	if _, err := proxyFor(p.HTTPProxy); err != nil {
		d.Error(at("http_proxy"), err.Error(), "")
		return
	}
	if _, err := p.load(context.Background()); err != nil {
		d.Error(at("region"), err.Error(), "")
	}
}

// ErrRegion says that no region is known.
var ErrRegion = errors.New("no AWS region")

// regionError tells where a region was looked for.
func regionError(p *Params) error {
	profile := p.Profile
	if profile == "" {
		profile = firstEnv("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
	}
	if profile == "" {
		profile = "default"
	}
	return fmt.Errorf("%w: region is not set, nor are AWS_REGION and AWS_DEFAULT_REGION, and profile %q in %s has none; write region NAME",
		ErrRegion, profile, configFile())
}

func configFile() string {
	if f := os.Getenv("AWS_CONFIG_FILE"); f != "" {
		return f
	}
	return config.DefaultSharedConfigFilename()
}

func firstEnv(names ...string) string {
	for _, n := range names {
		if v := strings.TrimSpace(os.Getenv(n)); v != "" {
			return v
		}
	}
	return ""
}
