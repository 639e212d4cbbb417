package cloudwatch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	"weir/internal/awsx"
	"weir/internal/output"
)

// What we send means the same as what the SDK's own client sends: body, target and headers
// of every operation.
func TestSameAsSDK(t *testing.T) {
	t.Parallel()
	type sent struct {
		Method, Path, Target, Type string
		Body                       any
	}
	var got []sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s := sent{Method: r.Method, Path: r.URL.Path, Target: r.Header.Get("X-Amz-Target"), Type: r.Header.Get("Content-Type")}
		if err := json.Unmarshal(b, &s.Body); err != nil {
			t.Error(err)
		}
		got = append(got, s)
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	sdk := cloudwatchlogs.New(cloudwatchlogs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
	days := 30
	s := newService(t)
	o := s.open(Params{
		Params: awsx.Params{Endpoint: server.URL}, KMSKeyID: "key", GroupClass: "DELIVERY", RetentionDays: &days, Tags: map[string]string{"a": "b"},
		EntityKeyAttributes: map[string]string{"Type": "Service", "Name": "n"}, EntityAttributes: map[string]string{"x": "y"},
	})
	texts := []string{"plain", "quote \" backslash \\ newline \n tab \t", "\u2028 é € 𝄞 <&>", "\x00\x1f\x7f"}
	var events []types.InputLogEvent
	for i, text := range texts {
		events = append(events, types.InputLogEvent{Timestamp: aws.Int64(1_796_000_000_000 + int64(i)*1000), Message: aws.String(text)})
	}
	ctx := t.Context()
	for _, c := range []struct {
		name  string
		sdk   func() error
		weirs func() *output.Error
	}{
		{"PutLogEvents", func() error {
			_, err := sdk.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{
				LogGroupName: aws.String("/app/g"), LogStreamName: aws.String("s"), LogEvents: events,
				Entity: &types.Entity{KeyAttributes: map[string]string{"Type": "Service", "Name": "n"}, Attributes: map[string]string{"x": "y"}},
			})
			return err
		}, func() *output.Error { return filled(t, o, lane, texts...).Send(ctx).Err }},
		{"CreateLogStream", func() error {
			_, err := sdk.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String("/app/g"), LogStreamName: aws.String("s\"x")})
			return err
		}, func() *output.Error { return o.create(ctx, "/app/g", "s\"x", groupSettings{}) }},
		{"CreateLogGroup", func() error {
			_, err := sdk.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{
				LogGroupName: aws.String("/app/g"), KmsKeyId: aws.String("key"), LogGroupClass: types.LogGroupClassDelivery, Tags: map[string]string{"a": "b"},
			})
			return err
		}, func() *output.Error {
			return o.operation(ctx, "", "CreateLogGroup", o.groupBody("/app/g", groupSettings{}))
		}},
		{"PutRetentionPolicy", func() error {
			_, err := sdk.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: aws.String("/app/g"), RetentionInDays: aws.Int32(30)})
			return err
		}, func() *output.Error { return o.setRetention(ctx, "/app/g", 30) }},
		{"DescribeLogStreams", func() error {
			_, err := sdk.DescribeLogStreams(ctx, &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String("/app/g"), LogStreamNamePrefix: aws.String("s")})
			return err
		}, func() *output.Error { o.uploadToken(context.WithoutCancel(ctx), "/app/g", "s"); return nil }},
	} {
		got = nil
		if err := c.sdk(); err != nil {
			t.Fatal(err)
		}
		if err := c.weirs(); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 {
			t.Fatalf("%s: %d requests", c.name, len(got))
		}
		if d := cmp.Diff(got[0], got[1]); d != "" {
			t.Errorf("%s: SDK -, weir +\n%s", c.name, d)
		}
	}
}
