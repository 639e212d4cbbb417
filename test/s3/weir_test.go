package s3

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/test/forwardclient"
	"weir/test/weirtest"
)

// config is a forward source and an s3 output with lines of <match> and of <buffer>.
func config(match, buffer string) string {
	return `
<source>
  @type forward
  @id in
  port $PORT
  bind 127.0.0.1
</source>
<match **>
  @type s3
  @id out
  s3_bucket logs
  ` + match + `
  <format>
    @type json
  </format>
  <buffer tag,time>
    timekey 1d
    flush_mode interval
    flush_thread_count 4
    ` + buffer + `
  </buffer>
</match>
`
}

const (
	memory  = "@type memory\nflush_interval 0.2"
	file    = "@type file\npath $DIR/buffer\nflush_interval 0.2"
	byIndex = "s3_object_key_format a/%Y/%{index}.%{file_extension}"
)

// start starts a weir against a server.
func start(t *testing.T, g *gateway, conf string) *weirtest.Weir {
	t.Helper()
	w := weirtest.New(t, nil, conf)
	w.Env = g.env()
	w.Start()
	return w
}

// feed sends n messages of 100 events of a tag, the first with id first.
func feed(t *testing.T, w *weirtest.Weir, tag string, first uint64, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &weirtest.Sender{Addr: w.Addr(), Tag: tag, Mode: forwardclient.Packed, Events: 100, Window: 8, First: first}
	defer s.Close()
	for range n {
		if err := s.Send(ctx); err != nil {
			t.Error(err)
			return
		}
	}
	if err := s.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// TestTwoReplicasOneSeries: two replicas with four threads each write objects that only an
// index tells apart. Nothing is overwritten, nothing arrives twice, and nobody complains.
func TestTwoReplicasOneSeries(t *testing.T) {
	g := startGateway(t, "logs")
	const tags, messages = 5, 30
	var wg sync.WaitGroup
	var weirs []*weirtest.Weir
	for r := range 2 {
		w := start(t, g, config(byIndex, memory))
		weirs = append(weirs, w)
		for i := range tags {
			wg.Go(func() { feed(t, w, fmt.Sprint("tag", i), uint64((r*tags+i)*messages*100), messages) })
		}
	}
	wg.Wait()
	for _, w := range weirs {
		w.Drained()
		w.Ends("out", tags*messages*100, nil)
		w.Stop(10 * time.Second)
		w.LogAtMost(0, 1) // the memory buffer's warning
	}
	g.want("logs", 2*tags*messages*100, 0)
	// Indexes without holes: as many objects as the highest says.
	objects := g.objects("logs")
	for i := range objects {
		if name := fmt.Sprintf("a/%s/%d.gz", time.Now().UTC().Format("2006"), i); !contains(objects, name) {
			t.Errorf("there are %d objects, but no %s", len(objects), name)
		}
	}
	t.Logf("%d objects", len(objects))
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestAnswersGetLost: one answer in four to a put is lost. Nothing is missing and nothing
// is there twice.
func TestAnswersGetLost(t *testing.T) {
	g := startGateway(t, "logs")
	var n, lost atomic.Int64
	p := newProxy(t, g.addr, func(r *http.Request) bool {
		if r.Method != http.MethodPut || n.Add(1)%4 != 0 {
			return false
		}
		lost.Add(1)
		return true
	})
	w := weirtest.New(t, nil, config(byIndex, "@type memory\nflush_interval 0.05\nchunk_limit_records 200\nretry_wait 0.1\nretry_max_interval 0.2"))
	w.Env = []string{"AWS_ENDPOINT_URL_S3=" + p.url}
	w.Start()
	const messages = 40
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { feed(t, w, fmt.Sprint("tag", i), uint64(i*messages*100), messages) })
	}
	wg.Wait()
	w.Drained()
	g.want("logs", 4*messages*100, 0)
	if lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	t.Logf("%d answers lost of %d", lost.Load(), n.Load())
}

// TestServerComesLater: neither a server that is not there nor wrong keys keep weir from
// starting, and what was accepted arrives when the server is there. The bucket is made.
func TestServerComesLater(t *testing.T) {
	g := newGateway(t)
	w := start(t, g, config(byIndex, file+"\nretry_wait 0.1\nretry_max_interval 0.2"))
	feed(t, w, "a", 0, 10)
	weirtest.Eventually(t, "an error of the output", func() (string, bool) {
		e := w.Output("out").LastError
		return fmt.Sprint(e), e != nil
	})
	g.start()
	w.Drained()
	w.Stop(10 * time.Second)
	g.want("logs", 1000, 0)
	w.LogAtMost(1, 0) // that it fails, once
}

// TestWrongSecret: signatures are verified, and wrong keys are the output's trouble.
func TestWrongSecret(t *testing.T) {
	g := startGateway(t, "logs")
	w := start(t, g, config(byIndex+"\naws_key_id AKIDEXAMPLE\naws_sec_key wrong", file))
	feed(t, w, "a", 0, 1)
	weirtest.Eventually(t, "the service's refusal", func() (string, bool) {
		e := w.Output("out").LastError
		return fmt.Sprint(e), e != nil && strings.Contains(e.Text, "SignatureDoesNotMatch")
	})
	if r := w.Output("out").Retries["credentials"]; r == 0 {
		t.Errorf("retries %v", w.Output("out").Retries)
	}
	// The right secret after a reload takes over the buffer.
	w.SetConfig(config(byIndex+"\naws_key_id AKIDEXAMPLE\naws_sec_key secret", file))
	w.Signal(syscall.SIGHUP)
	w.Drained()
	g.want("logs", 100, 0)
}

// TestLargeObjectGoesInParts: a chunk of 40 MB is one object, put in parts from a file.
func TestLargeObjectGoesInParts(t *testing.T) {
	g := startGateway(t, "logs")
	w := start(t, g, config("store_as text\n"+byIndex, "@type memory\nflush_interval 60\nchunk_limit_size 40m"))
	var wg sync.WaitGroup
	const messages = 1000
	for i := range 4 {
		wg.Go(func() { feed(t, w, "big", uint64(i*messages*100), messages) })
	}
	wg.Wait()
	w.Stop(30 * time.Second) // flushes the rest
	g.want("logs", 4*messages*100, 0)
	var largest int64
	for _, o := range g.objects("logs") {
		i, err := os.Stat(filepath.Join(g.root, "logs", o))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, i.Size())
	}
	if n := len(g.objects("logs")); n > 2 || largest < 30<<20 {
		t.Errorf("%d objects, the largest of %d bytes", n, largest)
	}
	w.LogAtMost(0, 1)
}

// TestKilled: what was acknowledged is there after SIGKILL; only the objects in flight may
// be there twice.
func TestKilled(t *testing.T) {
	g := startGateway(t, "logs")
	w := start(t, g, config(byIndex, "@type file\npath $DIR/buffer\nflush_interval 0.05\nchunk_limit_records 200"))
	const rounds, messages = 6, 60
	for r := range rounds {
		feed(t, w, "a", uint64(r*messages*100), messages)
		w.Kill()
		w.Start()
	}
	w.Drained()
	w.Stop(10 * time.Second)
	// One object of the one lane is in flight, of 200 events or a little more.
	g.want("logs", rounds*messages*100, rounds*500)
	if len(w.Lines("", "not the buffer's")) > 0 {
		t.Error("the notes of objects under way are taken for strange files")
	}
}

// TestOddNames: keys with all that signatures and URLs stumble over.
func TestOddNames(t *testing.T) {
	g := startGateway(t, "logs")
	w := start(t, g, config("s3_object_key_format ${tag}/%{index}.%{file_extension}\ns3_metadata {\"tag\":\"${tag}\"}", memory))
	tags := []string{"plain", "kube-system_we$ird_pod.0-x", "a b", "a+b&c=d?e#f", "100%41;,:@", "é日本", "(x)!*'~", "a\"b<c>"}
	for i, tag := range tags {
		feed(t, w, tag, uint64(i*100), 1)
	}
	w.Drained()
	g.want("logs", len(tags)*100, 0)
	for _, tag := range tags {
		if !contains(g.objects("logs"), tag+"/0.gz") {
			t.Errorf("no object of tag %q: %q", tag, g.objects("logs"))
		}
	}
}

// TestChecksumsOverTLS sends as to Amazon's service: TLS, and the SDK's checksums behind the
// body instead of a signature over it, in one piece and in parts.
func TestChecksumsOverTLS(t *testing.T) {
	for _, algorithm := range []string{"", "CRC32C", "CRC64NVME", "SHA1", "SHA256"} {
		t.Run("algorithm="+algorithm, func(t *testing.T) {
			g := newGateway(t)
			g.useTLS()
			g.start()
			match := "store_as text\nssl_ca_bundle " + g.cert + "\n" + byIndex
			if algorithm != "" {
				match += "\nchecksum_algorithm " + algorithm
			}
			w := weirtest.New(t, nil, config(match, "@type memory\nflush_interval 60\nchunk_limit_size 40m"))
			w.Env = append(g.env(), "AWS_REQUEST_CHECKSUM_CALCULATION=when_supported")
			w.Start()
			feed(t, w, "small", 0, 1)
			w.Signal(syscall.SIGUSR1)
			weirtest.Eventually(t, "an object", func() (string, bool) { n := len(g.objects("logs")); return fmt.Sprint(n), n == 1 })
			const messages = 2500
			feed(t, w, "big", 100, messages)
			w.Stop(30 * time.Second)
			g.want("logs", 100+messages*100, 0)
			if n := len(g.objects("logs")); n != 2 {
				t.Errorf("%d objects: %q", n, g.objects("logs"))
			}
			w.LogAtMost(0, 1)
		})
	}
}
