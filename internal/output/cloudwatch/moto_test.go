package cloudwatch

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/awsx"
	"weir/internal/event"
)

// Against moto, somebody else's idea of the service, where it is installed.
func TestMoto(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("moto_server is not installed (pip install 'moto[server]'): the check against another implementation of the service is left out")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", port)
	if err := cmd.Start(); err != nil {
		t.Skipf("moto_server does not start (%v): the check against another implementation of the service is left out", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if !await(address) {
		t.Skip("moto_server does not answer within 60 s: the check against another implementation of the service is left out")
	}
	s := newService(t)
	days := 7
	o := s.open(Params{Params: awsx.Params{Endpoint: "http://" + address}, AutoCreate: true, RetentionDays: &days, Tags: map[string]string{"team": "a"}})
	var want []string
	for i := range 5 {
		text := fmt.Sprintf("event %d: \"quoted\" é €", i)
		r := o.Request()
		r.Reset(lane)
		r.Add(encodeEntries([]entry{{event.FromTime(time.Now()), text}}), 1) // moto rejects what is too old
		if res := sendOK(t, r); res.Ended != nil {
			t.Errorf("rejected: %v", res.Ended)
		}
		want = append(want, text)
	}
	body := []byte(`{"logGroupName":"/app/g","logStreamName":"s","startFromHead":true}`)
	a, err := o.client.call(t.Context(), &message{op: "GetLogEvents", body: body, sum: hexSum(body)})
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("get: %v %+v", err, a)
	}
	var list struct{ Events []struct{ Message string } }
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Events {
		got = append(got, e.Message)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// await waits until something listens at the address.
func await(address string) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			return true
		}
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
}
