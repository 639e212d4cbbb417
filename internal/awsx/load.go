package awsx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
)

// sdkTimeout bounds one request for credentials (STS, SSO, container endpoint).
const sdkTimeout = 20 * time.Second

// loadOptions are the options of the SDK's loader that follow from the parameters.
func (p *Params) loadOptions() ([]func(*config.LoadOptions) error, error) {
	proxy, err := proxyFor(p.HTTPProxy)
	if err != nil {
		return nil, err
	}
	client := awshttp.NewBuildableClient().WithTimeout(sdkTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Proxy = proxy
	})
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithLogger(logging.Nop{}), // what goes wrong is returned; nothing writes to stderr behind our back
		config.WithCredentialsCacheOptions(cacheOptions),
	}
	if p.Region != "" {
		opts = append(opts, config.WithRegion(p.Region))
	}
	if p.SharedFile != "" {
		opts = append(opts, config.WithSharedCredentialsFiles([]string{p.SharedFile}))
	}
	if p.Profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(p.Profile))
	}
	if p.UseFIPS != nil {
		state := aws.FIPSEndpointStateDisabled
		if *p.UseFIPS {
			state = aws.FIPSEndpointStateEnabled
		}
		opts = append(opts, config.WithUseFIPSEndpoint(state))
	}
	if p.UseDualStack != nil {
		state := aws.DualStackEndpointStateDisabled
		if *p.UseDualStack {
			state = aws.DualStackEndpointStateEnabled
		}
		opts = append(opts, config.WithUseDualStackEndpoint(state))
	}
	return opts, nil
}

// cacheOptions renews credentials well before they expire, at slightly different moments
// in different processes.
func cacheOptions(o *aws.CredentialsCacheOptions) {
	o.ExpiryWindow = 5 * time.Minute
	o.ExpiryWindowJitterFrac = 0.5
}

// load reads region, endpoint settings and TLS roots. It reads files and the environment
// but uses no network: credentials are left out.
func (p *Params) load(ctx context.Context) (aws.Config, error) {
	opts, err := p.loadOptions()
	if err != nil {
		return aws.Config{}, err
	}
	opts = append(opts, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		var missing config.SharedConfigProfileNotExistError
		if errors.As(err, &missing) {
			return aws.Config{}, fmt.Errorf("AWS profile %q is not in %s: write another aws_profile or AWS_PROFILE", missing.Profile, configFile())
		}
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, regionError(p)
	}
	return cfg, nil
}
