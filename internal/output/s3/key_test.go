package s3

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/event"
	"weir/internal/ledger"
	"weir/internal/output"
	"weir/internal/placeholder"
)

// someFresh has fixed random parts.
func someFresh(index int) fresh {
	f := fresh{index: index, at: time.Date(2026, 11, 30, 1, 2, 3, 0, time.FixedZone("", 3600))}
	for i := range f.chunk {
		f.chunk[i], f.uuid[i] = byte(i*17), byte(i)
	}
	return f
}

// expanded is the key of an event that is sent with someFresh.
func expanded(t *testing.T, text string, b event.Batch, index int) string {
	t.Helper()
	o := open(t, "s3_bucket logs\n"+text, nil)
	key, _ := o.laneParts(laneOf(t, o, b), nil)
	f := someFresh(index)
	return o.key.expand(key, &f)
}

func TestKeys(t *testing.T) {
	const hour = "<buffer tag,time>\ntimekey 1h\n</buffer>\n"
	uuid := "00010203-0405-0607-0809-0a0b0c0d0e0f"
	for _, c := range []struct{ name, conf, want string }{
		{"default", "", "20261130_3.gz"},
		{"path", "path logs/", "logs/20261130_3.gz"},
		{"path with time and tag", "path %Y/${tag}/\n" + hour, "2026/a.b/2026113012_3.gz"},
		{"path with late placeholders", "path x%{index}/", "x3/20261130_3.gz"},
		{"minute", "<buffer time>\ntimekey 5m\n</buffer>", "202611301230_3.gz"},
		{"second", "<buffer time>\ntimekey 10\n</buffer>", "20261130123450_3.gz"},
		{"zone", "<buffer time>\ntimekey 1h\ntimekey_zone +09:00\n</buffer>", "2026113012_3.gz"},
		{"slice format", "time_slice_format %d-%H\n" + hour, "30-12_3.gz"},
		{"no time", "<buffer tag>\n</buffer>", "_3.gz"},
		{"index format", "index_format %04x", "20261130_0003.gz"},
		{"index format upper", "index_format %X", "20261130_3.gz"},
		{"text", "store_as text", "20261130_3.txt"},
		{"json", "store_as json", "20261130_3.json"},
		{"zstd", "store_as zstd", "20261130_3.zst"},
		{"unknown store", "store_as rar", "20261130_3.txt"},
		{"tag parts", "s3_object_key_format ${tag[0]}/${tag[-1]}/${tag[9]}%{index}\n" + hour, "a/b/3"},
		{"field", "s3_object_key_format ${$.k.n}_%{index}\n<buffer $.k.n>\n</buffer>", "v_3"},
		{"uuid", "s3_object_key_format %H_%{index}_%{uuid_flush}.%{file_extension}\n" + hour, "12_3_" + uuid + ".gz"},
		{"hex", "s3_object_key_format %{hex_random}_%{index}\n", "ffee_3"},
		{"hex long", "hex_random_length 16\ns3_object_key_format %{hex_random}_%{index}\n", "ffeeddccbbaa9988_3"},
		{"chunk id", "s3_object_key_format ${chunk_id}", "00112233445566778899aabbccddeeff"},
		{"unknown vanishes", "s3_object_key_format x%{nonsense}y%{index}", "xy3"},
		{"only without check", "s3_object_key_format x%{hms_slice}%{date_slice}_%{index}", "x_3"},
		{"without check", "check_object false\npath p", "p/20261130_000203.gz"},
		{"without check no index", "check_object false\ns3_object_key_format %{date_slice}%{index}-%{hms_slice}", "20261130-000203"},
		{"percent", "s3_object_key_format 100%%_%{index}", "100%_3"},
		{"percent without time", "s3_object_key_format %Y_%{index}\n<buffer tag>\n</buffer>", "%Y_3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := event.AppendMapHeader(nil, 1)
			r = event.AppendMapHeader(event.AppendStr(r, "k"), 1)
			r = event.AppendStr(event.AppendStr(r, "n"), "v")
			b := batchOf("a.b", event.AppendEntry(nil, event.FromTime(noon), r))
			if got := expanded(t, c.conf, b, 3); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestPodLogsKeys compares with the keys of the recorded case.
func TestPodLogsKeys(t *testing.T) {
	conf := `s3_object_key_format "stage/eks-pod-logs/%Y-%m-%d/${tag}/%H_%{index}_%{uuid_flush}.%{file_extension}"
<format>
@type json
</format>
<buffer tag,time>
timekey 1h
</buffer>`
	for tag, want := range map[string]string{
		"42_n-0":                     "stage/eks-pod-logs/2026-11-30/42_n-0/12_0_00010203-0405-0607-0809-0a0b0c0d0e0f.gz",
		"kube-system_we$ird_pod.0-x": "stage/eks-pod-logs/2026-11-30/kube-system_we$ird_pod.0-x/12_0_00010203-0405-0607-0809-0a0b0c0d0e0f.gz",
	} {
		if got := expanded(t, conf, batchOf(tag, entry(noon, "m", "x")), 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLanesByChunkKeys(t *testing.T) {
	o := open(t, "s3_bucket logs\ns3_object_key_format x_%{index}\n<buffer tag,time,n>\ntimekey 1h\n</buffer>", nil)
	lanes := map[string]bool{}
	for _, b := range []event.Batch{
		batchOf("a", entry(noon, "n", "1")), batchOf("b", entry(noon, "n", "1")),
		batchOf("a", entry(noon.Add(time.Hour), "n", "1")), batchOf("a", entry(noon, "n", "2")),
		batchOf("a", entry(noon.Add(time.Minute), "n", "1")), // the same as the first
	} {
		lanes[laneOf(t, o, b)] = true
	}
	if len(lanes) != 4 {
		t.Errorf("%d lanes, want 4: %v", len(lanes), lanes)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	o := open(t, "s3_bucket logs\ns3_object_key_format a/${tag}/%{index}_%{uuid_flush}\n<buffer tag>\n</buffer>", nil)
	for tag, want := range map[string]ledger.Reason{
		"../etc": ledger.BadName, "/root": ledger.BadName, "x/../../y": ledger.BadName, `\x`: ledger.BadName, "a\x00b": ledger.BadName,
		strings.Repeat("x", 1024-36-4): ledger.BadName, strings.Repeat("x", 1024-36-10): ledger.None, "a..b": ledger.None, "": ledger.None,
		"caf\xe9": ledger.None,
	} {
		o.Splitter().Split(batchOf(tag, entry(noon, "m", "x")), func(lane []byte, r output.Run) {
			if r.Fate.Reason != want || (lane == nil) != (want != ledger.None) {
				t.Errorf("tag %q: lane %q, fate %+v, want %v", tag, lane, r.Fate, want)
			}
		})
	}
	empty := open(t, "s3_bucket logs\ns3_object_key_format ${tag}\n<buffer tag>\n</buffer>", nil)
	empty.Splitter().Split(batchOf("", entry(noon, "m", "x")), func(lane []byte, r output.Run) {
		if lane != nil || r.Fate.Reason != ledger.NoName {
			t.Errorf("an empty key: lane %q, fate %+v", lane, r.Fate)
		}
	})
}

// TestSplitCovers: whatever the tags, times and fields are, runs cover the batch in order,
// every event is in the lane that it has alone, and no lane has two zero bytes in a row.
func TestSplitCovers(t *testing.T) {
	o := open(t, "s3_bucket logs\ns3_object_key_format ${tag}/%H/${n}_%{index}\ns3_metadata {\"tag\":\"${tag}\",\"n\":\"${n} %{index}\"}\n<buffer tag,time,n>\ntimekey 1h\n</buffer>", nil)
	rapid.Check(t, func(t *rapid.T) {
		tag := rapid.StringOf(rapid.SampledFrom([]rune("ab/.\x00é\n"))).Draw(t, "tag")
		var entries [][]byte
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			at := noon.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "half hours")) * 30 * time.Minute)
			entries = append(entries, entry(at, "n", rapid.SampledFrom([]string{"", "1", "2", "../", "\x00", "\x00{index}"}).Draw(t, "n")))
		}
		alone := func(e []byte) (lane string) {
			o.Splitter().Split(batchOf(tag, e), func(l []byte, r output.Run) { lane = fmt.Sprintf("%q %v", l, r.Fate) })
			return lane
		}
		b := batchOf(tag, entries...)
		end, n := 0, 0
		o.Splitter().Split(b, func(l []byte, r output.Run) {
			if r.Off != end || r.Count == 0 {
				t.Fatalf("run %+v at %d", r, end)
			}
			if strings.Contains(string(l), "\x00\x00") {
				t.Fatalf("lane %q", l)
			}
			for range r.Count {
				if got := fmt.Sprintf("%q %v", l, r.Fate); got != alone(entries[n]) {
					t.Fatalf("event %d in %s, alone in %s", n, got, alone(entries[n]))
				}
				n++
			}
			end += r.Len
		})
		if end != len(b.Entries) || n != b.Count {
			t.Fatalf("%d bytes and %d events of %d and %d", end, n, len(b.Entries), b.Count)
		}
	})
}

func TestFreshIsDifferentAndStable(t *testing.T) {
	f := keyFormat{index: "%d", hexLen: 16}
	text := markUUID + "/" + markHex + "/" + markChunk
	seen := map[string]bool{}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/[0-9a-f]{16}/[0-9a-f]{32}$`)
	for range 1000 {
		v := newFresh()
		k := f.expand(text, &v)
		if seen[k] || !form.MatchString(k) || f.expand(text, &v) != k {
			t.Fatalf("key %q", k)
		}
		seen[k] = true
	}
}

func TestKeyLengthIsKnown(t *testing.T) {
	for _, format := range []string{"abc", "%{index}", "%{uuid_flush}%{hex_random}${chunk_id}", "x%{index}/%{hex_random}"} {
		p := Params{KeyFormat: format, CheckObject: true, IndexFormat: "%08d", HexLength: 16}
		f, _ := p.compileKey(placeholder.Options{})
		v := someFresh(12345)
		text := f.template.String()
		if got, n := len(text)+f.grow, len(f.expand(text, &v)); got != n {
			t.Errorf("%q: %d, but it is %d long", text, got, n)
		}
	}
}

func TestCheckFindsMistakes(t *testing.T) {
	for conf, want := range map[string]string{
		"index_format %q\ns3_bucket bkt\ns3_object_key_format %{uuid}": "no longer exists",
		"":                   "needs the parameter s3_bucket",
		"s3_bucket s3://x/y": "is no name of a bucket",
		"s3_bucket bkt\ns3_object_key_format %{uuid}":                                               "no longer exists",
		"s3_bucket bkt\ns3_object_key_format %{uuid:hostname}":                                      "no longer exists",
		"s3_bucket bkt\nstore_as lzo":                                                               "needs another program",
		"s3_bucket bkt\nstore_as parquet":                                                           "needs another program",
		"s3_bucket bkt\nindex_format %f":                                                            "index_format",
		"s3_bucket bkt\nindex_format %5d":                                                           "index_format",
		"s3_bucket bkt\nhex_random_length 17":                                                       "hex_random_length",
		"s3_bucket bkt\ns3_endpoint s3.amazonaws.com":                                               "is not a URL",
		"s3_bucket bkt\ns3_endpoint https://s3.eu-west-1.amazonaws.com":                             "is Amazon's own",
		"s3_bucket bkt\nacl everybody":                                                              "no canned ACL",
		"s3_bucket bkt\nchecksum_algorithm MD4":                                                     "checksum_algorithm MD4",
		"s3_bucket bkt\nuse_server_side_encryption rot13":                                           "use_server_side_encryption",
		"s3_bucket bkt\nsse_customer_algorithm AES256\nsse_customer_key short":                      "has not 32 bytes",
		"s3_bucket bkt\nssl_ca_bundle /does/not/exist":                                              "read certificate authorities",
		"s3_bucket bkt\nproxy_uri ://":                                                              "is not a URL",
		"s3_bucket bkt\n<assume_role_credentials>\nrole_session_name x\n</assume_role_credentials>": "needs the parameter role_arn",
		"s3_bucket bkt\n<bucket_lifecycle_rule>\nid x\n</bucket_lifecycle_rule>":                    "expiration_days",
	} {
		_, d := read(t, conf)
		text := ""
		for _, e := range d.Errors {
			text += e.Error() + "\n"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q: errors %q, want %q", conf, text, want)
		}
	}
	for _, ok := range []string{
		"s3_endpoint https://bucket.vpce-1a2b3c4d-5e6f.s3.us-east-1.vpce.amazonaws.com", "s3_endpoint https://s3-fips.us-gov-west-1.amazonaws.com",
		"s3_endpoint http://localhost:9000", "acl bucket_owner_full_control", "store_as gzip_command\ncommand_parameter -9", "index_format %012X",
	} {
		if _, d := read(t, "s3_bucket bkt\n"+ok); len(d.Errors) > 0 {
			t.Errorf("%q: %v", ok, d.Errors[0])
		}
	}
}

func TestWarnings(t *testing.T) {
	for conf, want := range map[string]string{
		"s3_object_key_format %{path}static":                 "only the first object of each can be put",
		"s3_object_key_format static\noverwrite true":        "each object replaces the one before",
		"s3_object_key_format static\ncheck_object false":    "each object replaces the one before",
		"s3_object_key_format x%{index}\ncheck_object false": "%{index} in s3_object_key_format becomes the empty text",
		"s3_object_key_format x%{hms_slice}%{index}":         "unless check_object is false",
		"s3_object_key_format x%{hostname}%{index}":          "becomes the empty text",
		"s3_object_key_format ${tag}%{index}":                "tag is no chunk key",
		"store_as snappy":                                    "is not known",
		"ssekms_key_id k":                                    "no effect without aws:kms",
		"s3_endpoint http://minio:9000":                      "write force_path_style true",
		"signature_version s3":                               "signed with version 4",
	} {
		_, d := read(t, "s3_bucket bkt\n"+conf)
		text := ""
		for _, e := range d.Warnings {
			text += e.Error() + "\n"
		}
		if len(d.Errors) > 0 || !strings.Contains(text, want) {
			t.Errorf("%q: errors %v, warnings %q, want %q", conf, d.Errors, text, want)
		}
	}
}

func TestNamesOfOneBatchAreSplitByWindow(t *testing.T) {
	o := open(t, "s3_bucket logs\n<buffer time>\ntimekey 1h\n</buffer>", nil)
	var counts []int
	o.Splitter().Split(batchOf("t", entry(noon), entry(noon.Add(time.Minute)), entry(noon.Add(time.Hour)), entry(noon)), func(_ []byte, r output.Run) {
		counts = append(counts, r.Count)
	})
	if fmt.Sprint(counts) != "[2 1 1]" {
		t.Errorf("runs of %v", counts)
	}
}
