package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// TestAWSCLIReadsBack sends through weir and reads with the AWS CLI: an independent client
// sees the same events.
func TestAWSCLIReadsBack(t *testing.T) {
	t.Parallel()
	aws, err := exec.LookPath("aws")
	if err != nil {
		t.Log("left out: aws is not on the PATH, so the AWS CLI did not read anything back")
		return
	}
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.Start(t, e, weirtest.Config{Match: "retention_in_days 5"}.String())
	l := newLoad(w, "app", 2, 50)
	defer l.close()
	l.sendAll(t, 10)
	w.Drained()

	run := func(v any, args ...string) {
		t.Helper()
		cmd := exec.Command(aws, append([]string{"--endpoint-url", e.URL(), "--output", "json", "logs"}, args...)...)
		cmd.Env = append(weirtest.CleanEnv(), "AWS_PAGER=", "AWS_DEFAULT_REGION=eu-west-1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("aws logs %v: %v", args, err)
		}
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("aws logs %v printed %.200s", args, out)
		}
	}
	var groups struct {
		LogGroups []struct {
			LogGroupName    string
			RetentionInDays int
		}
	}
	run(&groups, "describe-log-groups")
	if g := groups.LogGroups; len(g) != 1 || g[0].LogGroupName != "g" || g[0].RetentionInDays != 5 {
		t.Errorf("describe-log-groups: %+v", g)
	}
	for _, s := range l {
		var read struct{ Events []struct{ Message string } }
		run(&read, "filter-log-events", "--log-group-name", "g", "--log-stream-names", s.Tag)
		var ids []uint64
		for _, ev := range read.Events {
			id, err := weirtest.ID(ev.Message)
			if err != nil {
				t.Error(err)
			}
			ids = append(ids, id)
		}
		to := weirtest.Target{Group: "g", Stream: s.Tag}
		weirtest.SameSet(t, to, ids, s.IDs())
		weirtest.InOrder(t, to, ids, s.IDs())
	}
	var found struct{ Events []struct{ Message string } }
	run(&found, "filter-log-events", "--log-group-name", "g", "--filter-pattern", `"id=000010000007"`)
	if len(found.Events) != 1 || found.Events[0].Message != weirtest.Message(10_000_007) {
		t.Errorf("filter-log-events with a pattern found %+v", found.Events)
	}
}
