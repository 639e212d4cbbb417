package awsx

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"
)

// InstanceRegion asks the instance metadata service, once, for the region that this
// machine is in. Off EC2 nobody answers: give ctx a short limit.
func InstanceRegion(ctx context.Context) (string, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}), config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	if err != nil {
		return "", fmt.Errorf("read AWS configuration: %w", err)
	}
	client := imds.NewFromConfig(cfg, func(o *imds.Options) { o.Retryer = aws.NopRetryer{} })
	out, err := client.GetRegion(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("ask the instance metadata service for the region: %w", err)
	}
	return out.Region, nil
}
