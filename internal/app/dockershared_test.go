package app

import (
	"strings"
	"testing"

	"weir/internal/input/docker/awslogs"
)

// TestDockerSharedStream has several containers on one stream: that is said once.
func TestDockerSharedStream(t *testing.T) {
	s := cloud(t)
	d := openDocker(t, DockerOptions{Spool: t.TempDir()})
	named := func(n int, stream, stderr string) func() {
		sp := d.spool(t, testContainer(s.URL(), n, func(o *awslogs.Options) { o.Stream, o.StderrStream = stream, stderr }))
		return sp.Release
	}
	said := func() int { return strings.Count(d.log.String(), "several containers write to one log stream") }
	named(1, "a", "")()
	named(1, "a", "") // again: it is the same one
	end := named(2, "b", "")
	end()
	named(3, "b", "") // the other one has ended
	if n := said(); n != 0 {
		t.Errorf("said %d times of containers with streams of their own", n)
	}
	named(4, "a", "")
	named(5, "a", "")
	if n := said(); n != 1 {
		t.Errorf("said %d times of one stream", n)
	}
	d.crowd.flush(true)
	named(6, "c", "b")
	if text := d.log.String(); !strings.Contains(text, "stream=b") && !strings.Contains(text, "times=1") {
		t.Errorf("nothing was said of a stream of stderr: %s", text)
	}
}
