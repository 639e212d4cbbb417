package awsx

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestInstanceRegion(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			_, _ = w.Write([]byte("token"))
		case "/latest/dynamic/instance-identity/document":
			_, _ = w.Write([]byte(`{"region":"eu-north-1"}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	if r, err := InstanceRegion(context.Background()); err != nil || r != "eu-north-1" {
		t.Errorf("%q, %v", r, err)
	}
}

// TestInstanceRegionNobody: where nobody answers, it ends with the context.
func TestInstanceRegionNobody(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer s.Close()
	defer close(hang)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if r, err := InstanceRegion(ctx); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%q, %v after %v", r, err, time.Since(began))
	}
}
