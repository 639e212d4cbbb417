package s3

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"weir/internal/emulator"
	"weir/test/weirtest"
)

// stores is a copy to S3 and CloudWatch with the buffers of a configuration from the field.
const stores = `
<source>
  @type forward
  @id in
  port $PORT
  bind 127.0.0.1
</source>
<match **>
  @type copy
  <store>
    @type s3
    @id s3
    s3_bucket logs
    s3_region eu-west-1
    s3_object_key_format "stage/%Y-%m-%d/${tag}/%H_%{index}_%{uuid_flush}.%{file_extension}"
    <format>
      @type json
    </format>
    <buffer tag,time>
      timekey 1h
      @type memory
      flush_mode interval
      retry_type exponential_backoff
      flush_thread_count 4
      flush_interval 1s
      retry_forever false
      retry_max_interval 1
      chunk_limit_size 8MB
      chunk_full_threshold 0.90
      overflow_action throw_exception
      compress gzip
    </buffer>
  </store>
  <store>
    @type cloudwatch_logs
    @id cw
    log_group_name g
    log_stream_name ${tag}
    auto_create_stream true
    message_keys log
    <buffer tag,time>
      timekey 1m
      @type memory
      flush_mode interval
      flush_thread_count 4
      flush_interval 1s
      retry_max_interval 1
      chunk_limit_size 8MB
      compress gzip
    </buffer>
  </store>
</match>
`

// TestTwoStoresOneFails: S3 is away for a while. CloudWatch goes on, and both get every
// event once.
func TestTwoStoresOneFails(t *testing.T) {
	g := startGateway(t, "logs")
	e := weirtest.Endpoint(t, emulator.Options{})
	w := weirtest.New(t, e, stores)
	w.Env = append(w.Env, g.env()...)
	w.Start()
	const tags, messages = 4, 20
	all := func(first int) {
		var wg sync.WaitGroup
		for i := range tags {
			wg.Go(func() { feed(t, w, fmt.Sprint("tag", i), uint64((first+i)*messages*100), messages) })
		}
		wg.Wait()
	}
	all(0)
	weirtest.Eventually(t, "objects", func() (string, bool) { n := len(g.objects("logs")); return fmt.Sprint(n), n > 0 })
	g.stop()
	all(tags)
	weirtest.Eventually(t, "everything in CloudWatch", func() (string, bool) {
		b := w.Output("cw").Ledger
		return b.String(), b.Delivered == 2*tags*messages*100
	})
	if b := w.Output("s3").Ledger; b.Pending == 0 || b.Balance != 0 {
		t.Errorf("books of s3: %s", b.String())
	}
	g.start()
	w.Drained()
	w.Stop(20 * time.Second)
	g.want("logs", 2*tags*messages*100, 0)
	for i := range tags {
		ids := weirtest.IDs(uint64(i*messages*100), messages*100)
		ids = append(ids, weirtest.IDs(uint64((tags+i)*messages*100), messages*100)...)
		weirtest.Exactly(t, e, weirtest.Target{Group: "g", Stream: fmt.Sprint("tag", i)}, ids)
	}
	// Its keys are those of Fluentd.
	for _, o := range g.objects("logs") {
		ok, err := filepath.Match("stage/????-??-??/tag?/??_0_????????-????-4???-????-????????????.gz", o)
		if err != nil || !ok {
			t.Errorf("key %q", o)
		}
		if i, err := os.Stat(filepath.Join(g.root, "logs", o)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", o, err)
		}
	}
	w.LogAtMost(tags+1, 2) // S3 fails: each destination, or the endpoint once
}
