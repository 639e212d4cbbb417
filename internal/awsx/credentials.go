package awsx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// chain builds the provider that the parameters ask for, in Fluentd's precedence: assume
// role, web identity, container endpoint, static keys, and otherwise the SDK's own chain.
// It reads files again each time it is called: that is how keys which somebody rotated in
// a shared file are found.
func (p *Params) chain(ctx context.Context, base aws.Config) (*aws.CredentialsCache, error) {
	switch {
	case p.UseSTS:
		source, err := p.source(ctx, base)
		if err != nil {
			return nil, err
		}
		client := p.stsClient(base, source)
		return cached(stscreds.NewAssumeRoleProvider(client, p.STSRoleARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = p.STSSessionName
			o.Duration = p.STSDuration
			if p.STSExternalID != "" {
				o.ExternalID = aws.String(p.STSExternalID)
			}
			if p.STSPolicy != "" {
				o.Policy = aws.String(p.STSPolicy)
			}
		})), nil
	case p.WebIdentity != nil:
		w := p.WebIdentity
		client := p.stsClient(base, aws.AnonymousCredentials{})
		return cached(stscreds.NewWebIdentityRoleProvider(client, w.RoleARN, stscreds.IdentityTokenFile(w.TokenFile),
			func(o *stscreds.WebIdentityRoleOptions) {
				o.RoleSessionName = w.SessionName
				o.Duration = w.Duration
				if w.Policy != "" {
					o.Policy = aws.String(w.Policy)
				}
			})), nil
	case p.ECSAuth:
		return p.container(base)
	case p.Process != "":
		return cached(processcreds.NewProvider(p.Process)), nil
	case p.Container != "":
		return cached(endpointcreds.New(p.Container, func(o *endpointcreds.Options) { o.HTTPClient = base.HTTPClient })), nil
	case p.Instance != nil:
		if firstEnv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" {
			return p.container(base)
		}
		return cached(ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = p.Instance.client(base) })), nil
	}
	source, err := p.source(ctx, base)
	if err != nil {
		return nil, err
	}
	if c, ok := source.(*aws.CredentialsCache); ok {
		return c, nil
	}
	return cached(source), nil
}

func cached(p aws.CredentialsProvider) *aws.CredentialsCache {
	return aws.NewCredentialsCache(p, cacheOptions)
}

// source is the static pair, or else the SDK's chain. Under aws_use_sts these are the
// credentials with which the role is assumed.
func (p *Params) source(ctx context.Context, base aws.Config) (aws.CredentialsProvider, error) {
	if p.KeyID != "" && p.SecKey != "" {
		return credentials.NewStaticCredentialsProvider(p.KeyID, p.SecKey, p.SessionToken), nil
	}
	opts, err := p.loadOptions()
	if err != nil {
		return nil, err
	}
	if p.InstanceRetries != nil {
		client := imds.NewFromConfig(base, func(o *imds.Options) {
			o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = max(1, *p.InstanceRetries+1) })
		})
		opts = append(opts, config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = client }))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("read AWS credentials: %w", err)
	}
	return cfg.Credentials, nil
}

// client asks the metadata service as configured.
func (i *InstanceProfile) client(base aws.Config) *imds.Client {
	return imds.NewFromConfig(base, func(o *imds.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = max(1, i.Retries+1) })
		if i.Endpoint != "" {
			o.Endpoint = i.Endpoint
		}
		if i.Timeout > 0 {
			o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(i.Timeout)
		}
	})
}

func (p *Params) stsClient(base aws.Config, creds aws.CredentialsProvider) *sts.Client {
	return sts.NewFromConfig(base, func(o *sts.Options) {
		o.Credentials = creds
		if p.STSRegion != "" {
			o.Region = p.STSRegion
		}
		if proxy, err := proxyFor(p.STSProxy); err == nil && p.STSProxy != "" { // a wrong one was found by Check
			o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(sdkTimeout).WithTransportOptions(func(t *http.Transport) { t.Proxy = proxy })
		}
		if p.STSEndpoint != "" {
			o.BaseEndpoint = aws.String(p.STSEndpoint)
		}
	})
}

// containerHost is the address at which ECS serves AWS_CONTAINER_CREDENTIALS_RELATIVE_URI.
const containerHost = "http://169.254.170.2"

// container asks the endpoint that ECS (RELATIVE_URI) or EKS Pod Identity (FULL_URI with
// a token file) names in the environment. Unlike Fluentd's, these credentials are renewed.
func (p *Params) container(base aws.Config) (*aws.CredentialsCache, error) {
	endpoint := ""
	if rel := firstEnv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); rel != "" {
		endpoint = containerHost + rel
	} else if full := firstEnv("AWS_CONTAINER_CREDENTIALS_FULL_URI"); full != "" {
		if err := checkContainerURI(full); err != nil {
			return nil, err
		}
		endpoint = full
	} else {
		return nil, errors.New("aws_ecs_authentication is true, but neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor " +
			"AWS_CONTAINER_CREDENTIALS_FULL_URI is set: is this an ECS task or an EKS pod with an identity?")
	}
	return cached(endpointcreds.New(endpoint, func(o *endpointcreds.Options) {
		o.HTTPClient = base.HTTPClient
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(containerToken)
	})), nil
}

func containerToken() (string, error) {
	if file := firstEnv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	return firstEnv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), nil
}

// checkContainerURI refuses to send the pod's token in the clear to anything but the
// addresses that ECS and EKS use and this machine itself.
func checkContainerURI(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI %q is not a URL", text)
	}
	if u.Scheme == "https" || strings.EqualFold(u.Hostname(), "localhost") {
		return nil
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err == nil && (a.IsLoopback() || a == netip.MustParseAddr("169.254.170.2") ||
		a == netip.MustParseAddr("169.254.170.23") || a == netip.MustParseAddr("fd00:ec2::23")) {
		return nil
	}
	return fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI names %q: over plain http only this machine and the ECS and EKS addresses are asked", u.Hostname())
}

// tried says in one line where credentials were looked for, and what was there.
func (p *Params) tried() string {
	switch {
	case p.UseSTS:
		return fmt.Sprintf("assuming role %s (aws_use_sts)", p.STSRoleARN)
	case p.WebIdentity != nil:
		return fmt.Sprintf("web identity of role %s with the token in %s", p.WebIdentity.RoleARN, p.WebIdentity.TokenFile)
	case p.ECSAuth:
		return "the container credential endpoint (aws_ecs_authentication)"
	case p.Process != "":
		return "the credential process " + p.Process
	case p.Container != "":
		return "the container credential endpoint " + p.Container
	case p.Instance != nil:
		return "the instance metadata service, or the container's endpoint"
	case p.KeyID != "" && p.SecKey != "":
		return "aws_key_id and aws_sec_key"
	}
	state := func(names ...string) string {
		for _, n := range names {
			if os.Getenv(n) == "" {
				return n + " is not set"
			}
		}
		return strings.Join(names, " and ") + " are set"
	}
	file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if p.SharedFile != "" {
		file = p.SharedFile
	}
	if file == "" {
		file = config.DefaultSharedCredentialsFilename()
	}
	container := "the container endpoint (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set)"
	if firstEnv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		container = "the container endpoint"
	}
	profile := p.Profile
	if profile == "" {
		profile = firstEnv("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
	}
	if profile == "" {
		profile = "default"
	}
	return fmt.Sprintf("the environment (%s), web identity (%s), profile %q in %s and %s, %s, and the instance metadata service",
		state("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), state("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
		profile, file, configFile(), container)
}
