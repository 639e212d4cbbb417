package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"weir/internal/input/docker/awslogs"
)

// TestUnusedOutputsAreForgotten: settings that are of one container only, as its credentials
// can be, cost something for as long as it is there.
func TestUnusedOutputsAreForgotten(t *testing.T) {
	d := NewDocker(DockerOptions{Spool: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	s := &d.outputs
	s.ctx = ctx
	d.o.regions = []func(context.Context) (string, error){func(context.Context) (string, error) { return "", errors.New("nowhere") }}
	use := func(n int, region string) *dockerContainer {
		c := newDockerContainer(d, testContainer("http://127.0.0.1:1", n, func(o *awslogs.Options) {
			o.Region, o.HasCredentials, o.CredentialsEndpoint = region, true, "/"+o.Stream
		}))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out = s.acquire(c)
		return c
	}
	first := use(0, "eu-west-1")
	for n := range 3 * keptOutputs {
		region := "eu-west-1"
		if n%2 == 1 {
			region = "" // its output cannot be made
		}
		c := use(n+1, region)
		c.mu.Lock()
		if again := s.acquire(c); again != c.out || again.users != 1 { // it has slept
			t.Errorf("container %d has two outputs, or one twice", n)
		}
		c.mu.Unlock()
		s.release(c, c.out)
		if len(c.out.waiting) > 0 {
			t.Errorf("container %d waits though it is gone", n)
		}
	}
	s.mu.Lock()
	if len(s.all) != keptOutputs+1 || s.all[first.out.key] != first.out || len(s.throttles) > len(s.all) {
		t.Errorf("%d outputs and %d throttles are kept", len(s.all), len(s.throttles))
	}
	s.mu.Unlock()
	cancel()
	s.close()
}

// TestRetentionsAgree: the driver and the output know the same numbers of days, each from a
// list of its own.
func TestRetentionsAgree(t *testing.T) {
	var driver []int
	for days := 1; days < 4000; days++ {
		_, err := awslogs.Parse(&awslogs.Info{ContainerID: strings.Repeat("a", 64), ContainerName: "/c", Config: map[string]string{
			"awslogs-group": "g", "awslogs-create-group": "true", "weir-retention-days": strconv.Itoa(days),
		}}, awslogs.Env{})
		if err == nil {
			driver = append(driver, days)
		}
	}
	conf := "<match>\n@type cloudwatch_logs\nlog_group_name g\nlog_stream_name s\nregion r\nauto_create_stream true\nretention_in_days 2\n</match>\n"
	_, d := Load("f", Env{ReadFile: func(string) ([]byte, error) { return []byte(conf), nil }}, false)
	if len(d.Errors) != 1 || len(driver) < 20 || !strings.HasSuffix(d.Errors[0].Hint, fmt.Sprint(driver)) {
		t.Errorf("the driver takes %v, the output says %v", driver, d.Errors)
	}
}
