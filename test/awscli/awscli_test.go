// Package awscli tests the local endpoint against programs that others wrote:
// the AWS CLI as a client, and moto as a second implementation of the service.
// Neither is needed to build weir; a test whose program is not on the PATH
// says what it leaves out and passes.
package awscli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/emulator"
)

type obj = map[string]any

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// cli runs `aws logs` against one endpoint.
type cli struct {
	t      *testing.T
	path   string
	url    string
	secret string
	v2     bool
}

func newCLI(t *testing.T, s *emulator.Server) *cli {
	t.Helper()
	path, err := exec.LookPath("aws")
	if err != nil {
		t.Log("left out: aws is not on the PATH, so the AWS CLI was not run against the endpoint")
		return nil
	}
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("aws --version: %v: %s", err, out)
	}
	return &cli{t: t, path: path, url: s.URL(), secret: secretKey, v2: bytes.HasPrefix(out, []byte("aws-cli/2"))}
}

func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.path, append([]string{"--endpoint-url", c.url, "--output", "json", "logs"}, args...)...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+c.secret, "AWS_SESSION_TOKEN=",
		"AWS_REGION=eu-west-1", "AWS_DEFAULT_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=127.0.0.1")
	return cmd
}

// ok runs a command that has to succeed and decodes what it prints.
func (c *cli) ok(args ...string) obj {
	c.t.Helper()
	var stderr bytes.Buffer
	cmd := c.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("aws logs %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	v := obj{}
	if len(bytes.TrimSpace(out)) > 0 {
		if err := json.Unmarshal(out, &v); err != nil {
			c.t.Fatalf("aws logs %s printed %s", strings.Join(args, " "), out)
		}
	}
	return v
}

// fails runs a command that has to fail with this error.
func (c *cli) fails(want string, args ...string) {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), want) {
		c.t.Errorf("aws logs %s: %v: %s\nwant …%s…", strings.Join(args, " "), err, out, want)
	}
}

func serve(t *testing.T, opt emulator.Options) *emulator.Server {
	t.Helper()
	s, err := emulator.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	if err := s.Listen("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func texts(v obj) string {
	var out []string
	events, _ := v["events"].([]any)
	for _, e := range events {
		out = append(out, e.(obj)["message"].(string))
	}
	return strings.Join(out, "|")
}

func TestAWSCLI(t *testing.T) {
	s := serve(t, emulator.Options{Secrets: map[string]string{accessKey: secretKey}})
	c := newCLI(t, s)
	if c == nil {
		return
	}
	now := time.Now().UnixMilli()
	group, stream := []string{"--log-group-name", "/demo/app"}, []string{"--log-stream-name", "pod/1"}
	with := func(op string, parts ...[]string) []string {
		args := []string{op}
		for _, p := range parts {
			args = append(args, p...)
		}
		return args
	}
	c.ok(with("create-log-group", group, []string{"--tags", "team=platform"})...)
	c.fails("ResourceAlreadyExistsException", with("create-log-group", group)...)
	c.fails("The specified log stream does not exist.", with("put-log-events", group, stream, []string{"--log-events", fmt.Sprintf("timestamp=%d,message=a", now)})...)
	c.ok(with("create-log-stream", group, stream)...)
	put := c.ok(with("put-log-events", group, stream, []string{"--log-events",
		fmt.Sprintf("timestamp=%d,message=first", now-2), fmt.Sprintf("timestamp=%d,message=second ERROR", now-1), fmt.Sprintf(`{"timestamp":%d,"message":"{\"level\":\"error\",\"text\":\"żółw\"}"}`, now)}[0:3])...)
	if put["nextSequenceToken"] == nil {
		t.Errorf("put-log-events printed %v", put)
	}
	c.ok(with("put-log-events", group, stream, []string{"--log-events", fmt.Sprintf(`[{"timestamp":%d,"message":"{\"level\":\"error\",\"text\":\"żółw\"}"}]`, now)})...)
	old := c.ok(with("put-log-events", group, stream, []string{"--log-events", "timestamp=1,message=old"})...)
	if info, _ := old["rejectedLogEventsInfo"].(obj); info["tooOldLogEventEndIndex"] != 1.0 {
		t.Errorf("an old event: %v", old)
	}
	const all = `first|second ERROR|{"level":"error","text":"żółw"}`
	if got := texts(c.ok(with("get-log-events", group, stream, []string{"--start-from-head"})...)); got != all {
		t.Errorf("get-log-events: %s", got)
	}
	for pattern, want := range map[string]string{"": all, "ERROR": "second ERROR", `{ $.level = "error" }`: `{"level":"error","text":"żółw"}`} {
		if got := texts(c.ok(with("filter-log-events", group, []string{"--filter-pattern", pattern, "--page-size", "1"})...)); got != want {
			t.Errorf("filter-log-events %q: %s", pattern, got)
		}
	}
	c.ok(with("put-retention-policy", group, []string{"--retention-in-days", "7"})...)
	c.fails("Invalid retention value.", with("put-retention-policy", group, []string{"--retention-in-days", "8"})...)
	groups := c.ok("describe-log-groups", "--log-group-name-prefix", "/demo")["logGroups"].([]any)
	if len(groups) != 1 || groups[0].(obj)["retentionInDays"] != 7.0 {
		t.Errorf("describe-log-groups: %v", groups)
	}
	streams := c.ok(with("describe-log-streams", group, []string{"--order-by", "LastEventTime", "--descending"})...)["logStreams"].([]any)
	if len(streams) != 1 || streams[0].(obj)["lastEventTimestamp"] != float64(now) {
		t.Errorf("describe-log-streams: %v", streams)
	}
	// Older versions of the CLI do not know logGroupArn, and arn ends in ":*".
	arn := strings.TrimSuffix(groups[0].(obj)["arn"].(string), ":*")
	if tags := c.ok("list-tags-for-resource", "--resource-arn", arn)["tags"]; fmt.Sprint(tags) != "map[team:platform]" {
		t.Errorf("list-tags-for-resource: %v", tags)
	}
	c.fails("UnknownOperationException", "describe-metric-filters")
	tail(c, s)
	c.ok(with("delete-log-stream", group, stream)...)
	c.ok(with("delete-log-group", group)...)

	c.secret = "wrong"
	c.fails("The request signature we calculated does not match", "describe-log-groups")
}

// tail runs `aws logs tail` once and with --follow, which only version 2 has.
func tail(c *cli, s *emulator.Server) {
	c.t.Helper()
	if !c.v2 {
		c.t.Log("left out: this is version 1 of the AWS CLI, which has no `logs tail`")
		return
	}
	out, err := c.command("tail", "/demo/app", "--since", "1h").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "second ERROR") {
		c.t.Errorf("aws logs tail: %v: %s", err, out)
	}
	cmd := c.command("tail", "/demo/app", "--follow", "--since", "1h", "--format", "short")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	put := func(text string) {
		c.ok("put-log-events", "--log-group-name", "/demo/app", "--log-stream-name", "pod/1", "--log-events", fmt.Sprintf("timestamp=%d,message=%s", time.Now().UnixMilli(), text))
	}
	seen, buf := "", make([]byte, 4096)
	for sent := false; !strings.Contains(seen, "while-following"); {
		n, err := pipe.Read(buf)
		if err != nil {
			c.t.Errorf("aws logs tail --follow ended: %v after %q", err, seen)
			break
		}
		seen += string(buf[:n])
		if !sent && strings.Contains(seen, "second ERROR") {
			put("while-following")
			sent = true
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}
