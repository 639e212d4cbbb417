package awsx

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
)

// LogsEndpoint is the URL of CloudWatch Logs for cfg: explicit if not "", else what the
// SDK makes of AWS_ENDPOINT_URL_CLOUDWATCH_LOGS, AWS_ENDPOINT_URL, the shared
// configuration, region, FIPS and dual stack.
func LogsEndpoint(ctx context.Context, cfg aws.Config, explicit string) (*url.URL, error) {
	o := cloudwatchlogs.NewFromConfig(cfg, func(o *cloudwatchlogs.Options) {
		if explicit != "" {
			o.BaseEndpoint = aws.String(explicit)
		}
	}).Options()
	params := cloudwatchlogs.EndpointParameters{
		Region:       aws.String(o.Region),
		UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		Endpoint:     o.BaseEndpoint,
	}
	if o.BaseEndpoint != nil {
		// An address that somebody wrote down is used as it is; the resolver refuses it
		// together with AWS_USE_FIPS_ENDPOINT or AWS_USE_DUALSTACK_ENDPOINT.
		params.UseFIPS, params.UseDualStack = aws.Bool(false), aws.Bool(false)
	}
	e, err := o.EndpointResolverV2.ResolveEndpoint(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("find the endpoint of CloudWatch Logs in region %q: %w", o.Region, err)
	}
	u := e.URI
	if u.Path == "" {
		u.Path = "/"
	}
	return &u, nil
}

// AmazonHost reports whether host belongs to AWS itself, so that the service's documented
// behaviour of today can be relied on.
func AmazonHost(host string) bool {
	for _, suffix := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".api.amazonwebservices.com.cn"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}
