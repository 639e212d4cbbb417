package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"weir/internal/output"
)

// createPause is how long a bucket that was made is not made again.
const createPause = 30 * time.Second

// createBucket makes the bucket; of several requests that miss it one makes it.
func (o *Output) createBucket(ctx context.Context) *output.Error {
	o.bucketMu.Lock()
	defer o.bucketMu.Unlock()
	if o.now().Sub(o.created) < createPause {
		return nil // a moment ago: the caller's put was on its way before, or not all of S3 knows it yet
	}
	ctx, _, cancel := o.limited(ctx, 0)
	defer cancel()
	in := &s3.CreateBucketInput{Bucket: &o.bucket}
	if region := o.session.Region(); region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := o.client.CreateBucket(ctx, in)
	switch answerOf(err).code {
	case "BucketAlreadyOwnedByYou":
		err = nil
	case "AccessDenied":
		return &output.Error{Kind: output.NoTarget, Op: "make the bucket " + o.bucket, Hint: "make it yourself, or allow s3:CreateBucket", Err: err}
	case "BucketAlreadyExists":
		return &output.Error{Kind: output.NoTarget, Op: "make the bucket " + o.bucket, Hint: "somebody else has a bucket of this name: write another s3_bucket", Err: err}
	}
	if err != nil {
		return failure("make the bucket "+o.bucket, err)
	}
	o.created = o.now()
	o.log.Info("bucket made", "bucket", o.bucket)
	return nil
}

// lifecyclePause is how long weir waits before it tries again to set the bucket's rules.
const lifecyclePause = 10 * time.Minute

// setLifecycle sets the bucket's rules, once, after the first object. That it fails holds
// up nothing.
func (o *Output) setLifecycle(ctx context.Context) {
	o.bucketMu.Lock()
	defer o.bucketMu.Unlock()
	if o.lifecycle.IsZero() || o.now().Before(o.lifecycle) {
		return
	}
	var rules []types.LifecycleRule
	for _, l := range o.p.Lifecycle {
		rules = append(rules, types.LifecycleRule{
			ID: aws.String(l.ID), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String(l.Prefix)},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(int32(l.ExpirationDays))},
		})
	}
	ctx, _, cancel := o.limited(ctx, 0)
	defer cancel()
	_, err := o.client.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket: &o.bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules},
	})
	if err != nil {
		o.lifecycle = o.now().Add(lifecyclePause)
		o.log.Warn("the rules of <bucket_lifecycle_rule> could not be set; it is tried again", "bucket", o.bucket, "after", lifecyclePause.String(), "error", err)
		return
	}
	o.lifecycle = time.Time{}
	o.log.Info("the bucket's lifecycle rules are set", "bucket", o.bucket, "rules", len(rules))
}
