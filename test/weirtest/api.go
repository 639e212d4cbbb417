package weirtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"weir/internal/emulator"
)

// Call calls an operation of the endpoint, such as DeleteLogGroup, as somebody else with
// an AWS client would.
func Call(t testing.TB, e *emulator.Server, operation string, in map[string]any) map[string]any {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, e.URL(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "Logs_20140328."+operation)
	req.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	// The endpoint checks the form of a signature only, unless it is given secrets.
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/%s/eu-west-1/logs/aws4_request, SignedHeaders=host;x-amz-date, Signature=%064d",
		now.Format("20060102"), 0))
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v: %s", operation, r.Status, err, b)
	}
	out := map[string]any{}
	if len(bytes.TrimSpace(b)) > 0 {
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatalf("%s answered %s", operation, b)
		}
	}
	return out
}
