package s3

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/placeholder"
)

// checker reports at the parameter a mistake is about.
type checker struct {
	s *fluentconf.Section
	d *config.Diagnostics
}

func (c *checker) at(key string) fluentconf.Pos {
	if p := c.s.Get(key); p != nil {
		return p.Value.Pos
	}
	return c.s.Pos
}

func (c *checker) fail(key, text, hint string) { c.d.Error(c.at(key), text, hint) }
func (c *checker) warn(key, text, hint string) { c.d.Warn(c.at(key), text, hint) }

// Check finds the mistakes in p that can be found without the network, all at once, and
// brings p into the form that New expects. s is the section that p was read from, names
// what the <buffer> section says about placeholders (New gets the same).
func (p *Params) Check(s *fluentconf.Section, names placeholder.Options, d *config.Diagnostics) {
	c := &checker{s, d}
	if !p.CheckObject && s.Get("s3_object_key_format") == nil {
		p.KeyFormat = "%{path}/%{time_slice}_%{hms_slice}.%{file_extension}"
	}
	a := p.session()
	a.Check(s, d)
	c.bucket(p)
	c.endpoint(p)
	c.store(p)
	c.encryption(p)
	c.access(p)
	if !indexFormat.MatchString(p.IndexFormat) {
		c.fail("index_format", fmt.Sprintf("index_format %q", p.IndexFormat), "write %, 0 and a width if wanted, and d, x or X, such as %04d")
		p.IndexFormat = "%d" // what follows is checked too
	}
	if p.HexLength < 1 || p.HexLength > 16 {
		c.fail("hex_random_length", fmt.Sprintf("hex_random_length %d", p.HexLength), "write a number from 1 to 16")
		p.HexLength = 4
	}
	c.key(p, names)
}

func (c *checker) problems(key, prefix string, problems []placeholder.Problem) {
	for _, pr := range problems {
		if pr.Warning {
			c.warn(key, prefix+pr.Text, pr.Hint)
		} else {
			c.fail(key, prefix+pr.Text, pr.Hint)
		}
	}
}

func (c *checker) key(p *Params, names placeholder.Options) {
	f, problems := p.compileKey(names)
	c.problems("s3_object_key_format", "", problems)
	for _, k := range slices.Sorted(maps.Keys(p.Metadata)) {
		_, problems := compileMeta(p.Metadata[k], names)
		c.problems("s3_metadata", "s3_metadata "+k+": ", problems)
		if !headerName.MatchString(k) {
			c.fail("s3_metadata", fmt.Sprintf("s3_metadata has the key %q", k), "use letters, digits and - _ .")
		}
	}
	if f.unique || f.indexed || f.random || f.timed {
		return
	}
	hint := "write %{index}, %{uuid_flush} or ${chunk_id} into s3_object_key_format"
	switch {
	case !p.CheckObject || p.Overwrite:
		c.warn("s3_object_key_format", fmt.Sprintf("nothing makes the keys of %q new: each object replaces the one before, whose events are gone", p.KeyFormat), hint)
	default:
		c.warn("s3_object_key_format", fmt.Sprintf("nothing makes the keys of %q new: only the first object of each can be put", p.KeyFormat), hint)
	}
}

var (
	bucketName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{1,253}[a-zA-Z0-9]$`)
	headerName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

func (c *checker) bucket(p *Params) {
	if p.Bucket == "" && c.s.Get("s3_bucket") == nil {
		return // reported as missing
	}
	if !bucketName.MatchString(p.Bucket) && !strings.HasPrefix(p.Bucket, "arn:") {
		c.fail("s3_bucket", fmt.Sprintf("s3_bucket %q is no name of a bucket", p.Bucket), "write the name only, without s3:// and without a path")
	}
	ids := map[string]bool{}
	for _, l := range p.Lifecycle {
		if ids[l.ID] {
			c.d.Error(c.s.Pos, fmt.Sprintf("two <bucket_lifecycle_rule> have the id %q", l.ID), "give each an id of its own")
		}
		ids[l.ID] = true
	}
	if len(p.Lifecycle) > 0 {
		c.d.Warn(c.s.Pos, "the bucket's lifecycle rules are replaced by those of <bucket_lifecycle_rule>", "remove the sections if something else takes care of the bucket")
	}
}

func (c *checker) endpoint(p *Params) {
	if p.Endpoint != "" {
		u, err := url.Parse(p.Endpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			c.fail("s3_endpoint", fmt.Sprintf("s3_endpoint %q is not a URL", p.Endpoint), "write https://host or http://host:port")
		case ownEndpoint(u.Hostname()):
			c.fail("s3_endpoint", fmt.Sprintf("s3_endpoint %q is Amazon's own", p.Endpoint), "remove it and write s3_region; s3_endpoint is for other services and for VPC endpoints")
		case !p.PathStyle && !pathStyleHost(u.Hostname()) && !strings.Contains(u.Hostname(), "."):
			c.warn("s3_endpoint", fmt.Sprintf("requests go to the host %s.%s, which a name server has to know", p.Bucket, u.Hostname()), "write force_path_style true")
		case p.Accelerate:
			c.fail("enable_transfer_acceleration", "enable_transfer_acceleration and s3_endpoint are both set", "keep one of them")
		}
	}
	if p.Accelerate && p.PathStyle {
		c.fail("enable_transfer_acceleration", "enable_transfer_acceleration does not go with force_path_style", "keep one of them")
	}
	if p.Accelerate && strings.Contains(p.Bucket, ".") {
		c.fail("enable_transfer_acceleration", fmt.Sprintf("the bucket %q has a dot, which transfer acceleration does not take", p.Bucket), "")
	}
	if p.Signature != "" && p.Signature != "v4" {
		c.warn("signature_version", fmt.Sprintf("signature_version %s: requests are signed with version 4", p.Signature), "remove it")
	}
	if p.BundledCert {
		c.warn("use_bundled_cert", "use_bundled_cert has no effect: the system's authorities are used", "write ssl_ca_bundle with a file of yours")
	}
	if _, err := p.authorities(); err != nil {
		key := "ssl_ca_bundle"
		if p.CABundle == "" {
			key = "ssl_ca_directory"
		}
		c.fail(key, err.Error(), "")
	}
}

// ownEndpoint says whether a host is one that the region stands for.
func ownEndpoint(host string) bool {
	if !strings.HasSuffix(host, "amazonaws.com") {
		return false
	}
	return !strings.Contains(host, ".vpce.") && !strings.Contains(host, "fips") && !strings.Contains(host, "gov")
}

func (c *checker) store(p *Params) {
	switch {
	case refused(p.StoreAs):
		c.fail("store_as", fmt.Sprintf("store_as %s needs another program, and weir runs none", p.StoreAs), "write gzip, zstd, text or json")
	case p.StoreAs == "gzip_command":
		c.warn("store_as", "store_as gzip_command runs no command: weir compresses by itself, on all cores", "write gzip")
	case p.StoreAs != "gzip" && p.StoreAs != "zstd" && p.StoreAs != "text" && p.StoreAs != "json":
		c.warn("store_as", fmt.Sprintf("store_as %s is not known: objects are stored as text, as by Fluentd", p.StoreAs), "write gzip, zstd, text or json")
	}
	if p.Command != "" && !refused(p.StoreAs) && p.StoreAs != "gzip_command" {
		c.warn("command_parameter", "command_parameter has no effect: no command is run", "remove it")
	}
	if l := p.level(); l < 1 || l > 22 {
		c.d.Error(c.s.Pos, fmt.Sprintf("<compress> has level %d", l), "write a number from 1 to 22")
	}
}

// level is that of zstd.
func (p *Params) level() int {
	if p.Compress == nil {
		return 3
	}
	return p.Compress.Level
}

func (c *checker) encryption(p *Params) {
	switch p.SSE {
	case "", "AES256", "aws:kms", "aws:kms:dsse":
	default:
		c.fail("use_server_side_encryption", fmt.Sprintf("use_server_side_encryption %s", p.SSE), "write AES256, aws:kms or aws:kms:dsse")
	}
	if p.KMSKeyID != "" && !strings.HasPrefix(p.SSE, "aws:kms") {
		c.warn("ssekms_key_id", "ssekms_key_id has no effect without aws:kms", "write use_server_side_encryption aws:kms")
	}
	if (p.SSECAlgorithm == "") != (p.SSECKey == "") {
		c.fail("sse_customer_key", "sse_customer_algorithm and sse_customer_key go together", "write both, or neither")
	}
	if p.SSECKey != "" && len(customerKeyBytes(p.SSECKey)) != 32 {
		c.fail("sse_customer_key", "sse_customer_key has not 32 bytes", "write 32 characters, or the base64 form of 32 bytes")
	}
	if p.SSECKey != "" && p.SSE != "" {
		c.fail("sse_customer_key", "sse_customer_key and use_server_side_encryption are both set", "keep one of them")
	}
	switch p.Checksum {
	case "", "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256":
	default:
		c.fail("checksum_algorithm", fmt.Sprintf("checksum_algorithm %s", p.Checksum), "write CRC32, CRC32C, CRC64NVME, SHA1 or SHA256")
	}
}

func (c *checker) access(p *Params) {
	switch strings.ReplaceAll(p.ACL, "_", "-") {
	case "", "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read", "bucket-owner-full-control":
	default:
		c.fail("acl", fmt.Sprintf("acl %s is no canned ACL", p.ACL), "write private, bucket-owner-full-control or another of S3's canned ACLs")
	}
	if p.ACL != "" && p.GrantFullControl+p.GrantRead+p.GrantReadACP+p.GrantWriteACP != "" {
		c.fail("acl", "acl and grant_… are both set", "keep one of them")
	}
	if p.Tagging != "" {
		if _, err := url.ParseQuery(p.Tagging); err != nil {
			c.fail("tagging", fmt.Sprintf("tagging %q: %v", p.Tagging, err), "write a=1&b=2")
		}
	}
	if i := p.Instance; i != nil {
		if _, err := netip.ParseAddr(i.Address); err != nil || i.Port < 1 || i.Port > 65535 {
			c.d.Error(c.s.Pos, "<instance_profile_credentials> has no address and port that can be asked", "remove ip_address and port")
		}
	}
}

// customerKeyBytes is sse_customer_key, which is the key or its base64 form.
func customerKeyBytes(text string) []byte {
	if len(text) != 32 {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && len(b) == 32 {
			return b
		}
	}
	return []byte(text)
}

// customerKey gives the headers for encryption with a key of the customer's.
func (p *Params) customerKey() (algorithm, key, sum *string) {
	if p.SSECKey == "" {
		return nil, nil, nil
	}
	raw := customerKeyBytes(p.SSECKey)
	digest := md5.Sum(raw)
	k, s := base64.StdEncoding.EncodeToString(raw), base64.StdEncoding.EncodeToString(digest[:])
	return &p.SSECAlgorithm, &k, &s
}
