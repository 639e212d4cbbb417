package s3

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/awsx"
	"weir/internal/config"
)

// TestCredentialsInOrder: of all the ways that a section has, the first in Fluentd's order
// is used, and nothing of the others.
func TestCredentialsInOrder(t *testing.T) {
	newService(t, "") // for its environment
	ways := []struct {
		conf string
		want awsx.Params
	}{
		{"<assume_role_credentials>\nrole_arn arn:r\nrole_session_name s\npolicy {}\nduration_seconds 900\nexternal_id e\nsts_region eu-west-1\nsts_http_proxy http://p:1\nsts_endpoint_url http://sts\n</assume_role_credentials>",
			awsx.Params{
				UseSTS: true, STSRoleARN: "arn:r", STSSessionName: "s", STSPolicy: "{}", STSDuration: 900 * time.Second, STSExternalID: "e", STSEndpoint: "http://sts",
				KeyID: "AKID", SecKey: "secret", Sources: awsx.Sources{STSRegion: "eu-west-1", STSProxy: "http://p:1"},
			}},
		{"aws_key_id AKID\naws_sec_key secret", awsx.Params{KeyID: "AKID", SecKey: "secret"}},
		{"aws_profile prof", awsx.Params{Profile: "prof"}},
		{"aws_credential_process /bin/creds", awsx.Params{Sources: awsx.Sources{Process: "/bin/creds"}}},
		{"<web_identity_credentials>\nrole_arn arn:w\nrole_session_name ws\nweb_identity_token_file /t\nsts_region us-west-2\n</web_identity_credentials>",
			awsx.Params{WebIdentity: &awsx.WebIdentity{RoleARN: "arn:w", SessionName: "ws", TokenFile: "/t"}, Sources: awsx.Sources{STSRegion: "us-west-2"}}},
		{"<instance_profile_credentials>\nretries 3\nip_address 127.0.0.1\nport 99\nhttp_open_timeout 2\nhttp_read_timeout 3\n</instance_profile_credentials>",
			awsx.Params{Sources: awsx.Sources{Instance: &awsx.InstanceProfile{Endpoint: "http://127.0.0.1:99", Retries: 3, Timeout: 5 * time.Second}}}},
		{"<shared_credentials>\npath /c\nprofile_name sp\n</shared_credentials>", awsx.Params{Profile: "sp", Sources: awsx.Sources{SharedFile: "/c"}}},
	}
	for i := range ways {
		conf := "s3_bucket bkt\ns3_region ap-south-1\n"
		for _, w := range ways[i:] {
			conf += w.conf + "\n"
		}
		var p Params
		config.Decode(section(t, conf), &p, &config.Diagnostics{})
		want := ways[i].want
		want.Region, want.SSLVerifyPeer, want.RequestDeadline = "ap-south-1", true, time.Minute
		if want.STSSessionName == "" {
			want.STSSessionName = "fluentd"
		}
		if d := cmp.Diff(want, p.session()); d != "" {
			t.Errorf("%s:\n%s", ways[i].conf, d)
		}
	}
}

func TestRegion(t *testing.T) {
	newService(t, "")
	for _, c := range []struct{ conf, env, want string }{
		{"", "", "us-east-1"}, {"", "eu-west-1", "eu-west-1"}, {"s3_region us-west-2", "eu-west-1", "us-west-2"},
	} {
		t.Setenv("AWS_REGION", c.env)
		o := open(t, "s3_bucket logs\n"+c.conf, nil)
		if got := o.client.Options().Region; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestEndpoints(t *testing.T) {
	newService(t, "")
	for _, c := range []struct {
		conf, env string
		path      bool
		support   int32
	}{
		{"", "", false, supported},
		{"force_path_style true", "", true, supported},
		{"s3_endpoint http://127.0.0.1:9000", "", true, unknown},
		{"s3_endpoint http://[::1]:9000", "", true, unknown},
		{"s3_endpoint http://localhost:9000", "", true, unknown},
		{"s3_endpoint http://minio.example.com:9000", "", false, unknown},
		{"", "http://127.0.0.1:9000", true, unknown},
		{"", "http://s3.example.com", false, unknown},
		{"s3_endpoint https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com", "", false, supported},
	} {
		t.Setenv("AWS_ENDPOINT_URL_S3", c.env)
		o := open(t, "s3_bucket logs\n"+c.conf, nil)
		if got := o.client.Options().UsePathStyle; got != c.path {
			t.Errorf("%+v: path style %v", c, got)
		}
		if got := o.support.Load(); got != c.support {
			t.Errorf("%+v: support %v", c, got)
		}
	}
}

// capture is a service that takes everything and keeps the headers of the first put.
func capture(t *testing.T) (*httptest.Server, func() http.Header) {
	var first http.Header
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut && first == nil {
			first = r.Header.Clone()
		}
		w.Header().Set("ETag", `"x"`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is one of the tests
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, func() http.Header { return first }
}

func TestHeadersAndAuthorities(t *testing.T) {
	newService(t, "")
	s, headers := capture(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "s3_bucket logs\ns3_endpoint " + s.URL + "\ns3_object_key_format %{uuid_flush}\n"
	o := open(t, base+"ssl_ca_directory "+filepath.Dir(ca)+`
storage_class STANDARD_IA
acl bucket_owner_full_control
use_server_side_encryption aws:kms
ssekms_key_id arn:key
tagging a=1&b=2
checksum_algorithm CRC32C
`, nil)
	send(t, o, batchOf("a", one("1")))
	h := headers()
	for k, want := range map[string]string{
		"X-Amz-Storage-Class": "STANDARD_IA", "X-Amz-Acl": "bucket-owner-full-control", "X-Amz-Server-Side-Encryption": "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "arn:key", "X-Amz-Tagging": "a=1&b=2", "Content-Type": "application/x-gzip",
		"X-Amz-Sdk-Checksum-Algorithm": "CRC32C", "Content-Md5": "",
	} {
		if got := h.Get(k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	// Without the authority the certificate is refused, with ssl_verify_peer false it is not
	// looked at.
	o = open(t, base, nil)
	if res := fill(t, o, batchOf("a", one("1"))).Send(t.Context()); res.Err == nil || !strings.Contains(res.Err.Hint, "authority") {
		t.Errorf("%+v", res.Err)
	}
	send(t, open(t, base+"ssl_verify_peer false", nil), batchOf("a", one("1")))
}

func TestCustomerKeyGrantsAndMD5(t *testing.T) {
	newService(t, "")
	s, headers := capture(t)
	o := open(t, "s3_bucket logs\nssl_verify_peer false\ns3_endpoint "+s.URL+`
s3_object_key_format %{uuid_flush}
sse_customer_algorithm AES256
sse_customer_key 0123456789abcdef0123456789abcdef
grant_read id="abc"
reduced_redundancy true
`, nil)
	send(t, o, batchOf("a", one("1")))
	h := headers()
	for k, want := range map[string]string{
		"X-Amz-Server-Side-Encryption-Customer-Key":     "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"X-Amz-Server-Side-Encryption-Customer-Key-Md5": "PQrjbOtT4jOg4YbNzdHpzQ==",
		"X-Amz-Grant-Read":                              `id="abc"`, "X-Amz-Storage-Class": "REDUCED_REDUNDANCY", "X-Amz-Sdk-Checksum-Algorithm": "",
	} {
		if got := h.Get(k); got != want && k != "X-Amz-Server-Side-Encryption-Customer-Key-Md5" {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	if h.Get("Content-Md5") == "" || h.Get("X-Amz-Server-Side-Encryption-Customer-Key-Md5") == "" {
		t.Error("no MD5 sum")
	}
}

// TestCredentialsFromElsewhere signs with what a process and the metadata service give.
func TestCredentialsFromElsewhere(t *testing.T) {
	newService(t, "")
	meta := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/api/token"):
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
			_, _ = io.WriteString(w, "token")
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			_, _ = io.WriteString(w, "role")
		default:
			_ = json.NewEncoder(w).Encode(map[string]string{
				"Code": "Success", "AccessKeyId": "FROMINSTANCE", "SecretAccessKey": "s", "Token": "t", "Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			})
		}
	}))
	defer meta.Close()
	port := meta.URL[strings.LastIndexByte(meta.URL, ':')+1:]
	dir := t.TempDir()
	shared := filepath.Join(dir, "creds")
	if err := os.WriteFile(shared, []byte("[mine]\naws_access_key_id=FROMFILE\naws_secret_access_key=s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for conf, want := range map[string]string{
		`aws_credential_process "echo '{\"Version\":1,\"AccessKeyId\":\"FROMPROCESS\",\"SecretAccessKey\":\"s\"}'"`: "FROMPROCESS",
		"<instance_profile_credentials>\nip_address 127.0.0.1\nport " + port + "\n</instance_profile_credentials>":  "FROMINSTANCE",
		"<shared_credentials>\npath " + shared + "\nprofile_name mine\n</shared_credentials>":                       "FROMFILE",
	} {
		s, headers := capture(t)
		opt, d := read(t, "s3_bucket logs\nssl_verify_peer false\ns3_object_key_format %{uuid_flush}\ns3_endpoint "+s.URL+"\n"+conf)
		for _, e := range d.Errors {
			t.Fatal(e)
		}
		opt.Log = quiet()
		o, err := New(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		send(t, o, batchOf("a", one("1")))
		if got := headers().Get("Authorization"); !strings.Contains(got, "Credential="+want+"/") {
			t.Errorf("%s: %q", want, got)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFlatFormat(t *testing.T) {
	for conf, want := range map[string]string{
		"format json": `{"m":"1"}` + "\n",
		"format single_value\nmessage_key m\nadd_newline false": "1",
		"format json\ninclude_tag_key true\ntag_key t":          `{"m":"1","t":"tag"}` + "\n",
	} {
		opt, d := read(t, "s3_bucket logs\ntime_slice_format %Y%m%d%H\n"+conf)
		if len(d.Errors)+len(d.Warnings) > 0 {
			t.Errorf("%q: %v %v", conf, d.Errors, d.Warnings)
			continue
		}
		e := batchOf("tag", one("1"))
		if got := string(opt.Formatter.Append(nil, "tag", e.First, e.Entries[11:])); got != want {
			t.Errorf("%q: %q, want %q", conf, got, want)
		}
	}
}

// sts answers AssumeRole and AssumeRoleWithWebIdentity, as a proxy for http://sts.example.com.
func sts(t *testing.T, check func(r *http.Request)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		check(r)
		action := r.Form.Get("Action")
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, "<"+action+"Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><"+action+"Result><Credentials><AccessKeyId>FROMSTS</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>"+
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+"</Expiration></Credentials></"+action+"Result></"+action+"Response>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestRolesByTheirOwnSTS: the region, the proxy and the endpoint of STS are its section's,
// not the bucket's.
func TestRolesByTheirOwnSTS(t *testing.T) {
	newService(t, "")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string][]string{
		"assume_role_credentials":  {"AssumeRole", "ExternalId=e", "RoleArn=arn", "DurationSeconds=1200"},
		"web_identity_credentials": {"AssumeRoleWithWebIdentity", "WebIdentityToken=the+token", "RoleArn=arn", "DurationSeconds=1200"},
	} {
		asked := 0
		proxy := sts(t, func(r *http.Request) {
			asked++
			if r.URL.Host != "sts.example.com" {
				t.Errorf("%s: the proxy is asked for %s", section, r.URL)
			}
			for _, w := range want {
				if !strings.Contains(r.Form.Encode(), w) {
					t.Errorf("%s: %s lacks %s", section, r.Form.Encode(), w)
				}
			}
			if auth := r.Header.Get("Authorization"); section[0] == 'a' && (!strings.Contains(auth, "/ap-south-1/sts/") || !strings.Contains(auth, "AKID/")) {
				t.Errorf("%s: %s", section, auth)
			}
		})
		more := "web_identity_token_file " + token
		if section[0] == 'a' {
			more = "external_id e"
		}
		conf := "<" + section + ">\nrole_arn arn\nrole_session_name s\nduration_seconds 1200\nsts_region ap-south-1\nsts_http_proxy " + proxy +
			"\nsts_endpoint_url http://sts.example.com\n" + more + "\n</" + section + ">\n"
		if section[0] == 'a' {
			conf += keys
		}
		s, headers := capture(t)
		opt, d := read(t, "s3_bucket logs\nssl_verify_peer false\ns3_object_key_format %{uuid_flush}\ns3_endpoint "+s.URL+"\n"+conf)
		for _, e := range d.Errors {
			t.Fatal(e)
		}
		opt.Log = quiet()
		o, err := New(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		send(t, o, batchOf("a", one("1")))
		send(t, o, batchOf("a", one("2")))
		if got := headers().Get("Authorization"); !strings.Contains(got, "Credential=FROMSTS/") || asked != 1 {
			t.Errorf("%s: %q, asked %d times", section, got, asked)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestProxyAndVirtualHost: requests to another service's name go through proxy_uri, with the
// bucket's name before the host's.
func TestProxyAndVirtualHost(t *testing.T) {
	newService(t, "")
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hosts = append(hosts, r.URL.Host+r.URL.Path)
		w.Header().Set("ETag", `"x"`)
	}))
	defer proxy.Close()
	for conf, want := range map[string]string{"": "logs.s3.example.com/k", "force_path_style true": "s3.example.com/logs/k"} {
		hosts = nil
		o := open(t, "s3_bucket logs\ncheck_object false\ns3_object_key_format k\ns3_endpoint http://s3.example.com\nproxy_uri "+proxy.URL+"\n"+conf, nil)
		send(t, o, batchOf("a", one("1")))
		if len(hosts) != 1 || hosts[0] != want {
			t.Errorf("%s: %q, want %q", conf, hosts, want)
		}
	}
}
