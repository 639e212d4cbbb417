package s3

import (
	"net"
	"os"
	"strconv"
	"time"

	"weir/internal/awsx"
	"weir/internal/config"
	"weir/internal/fluentconf"
	"weir/internal/formatter"
)

// Params are the parameters of <match> @type s3: those of fluent-plugin-s3 1.8, and a few
// of ours. Fields that are pointers tell "not set" from a value.
type Params struct {
	config.OutputPlugin
	formatter.FlatParams
	UTC       bool `conf:"utc" default:"false" doc:"older form, for the format section only"`
	LocalTime bool `conf:"localtime" default:"true" doc:"older form, for the format section only"`

	Format *fluentconf.Section `section:"format" doc:"formatter of the lines; out_file without it"`
	Inject *fluentconf.Section `section:"inject" doc:"fields added to each record"`

	Bucket         string        `conf:"s3_bucket" required:"true" doc:"name of the bucket"`
	Region         string        `conf:"s3_region" doc:"region of the bucket; without it AWS_REGION, else us-east-1"`
	Endpoint       string        `conf:"s3_endpoint" doc:"URL of another service that speaks S3; without it AWS_ENDPOINT_URL_S3, else Amazon's"`
	PathStyle      bool          `conf:"force_path_style" default:"false" doc:"the bucket's name in the path instead of the host; always so for an endpoint whose host is an address or localhost"`
	Accelerate     bool          `conf:"enable_transfer_acceleration" default:"false" doc:"use the bucket's acceleration endpoint"`
	DualStack      bool          `conf:"enable_dual_stack" default:"false" doc:"use the endpoint that has IPv6 too"`
	Proxy          string        `conf:"proxy_uri" doc:"proxy URL for all AWS calls"`
	SSLVerifyPeer  bool          `conf:"ssl_verify_peer" default:"true" doc:"verify the service's certificate"`
	CABundle       string        `conf:"ssl_ca_bundle" doc:"file with the certificates of the authorities to trust"`
	CADirectory    string        `conf:"ssl_ca_directory" doc:"directory with such files"`
	BundledCert    bool          `conf:"use_bundled_cert" default:"false" doc:"accepted for compatibility: the system's authorities are used"`
	Signature      string        `conf:"signature_version" doc:"accepted for compatibility: requests are signed with version 4"`
	RequestTimeout time.Duration `conf:"request_timeout" default:"60s" doc:"longest time for one request, plus what its bytes take at 256 KiB a second"`

	Path            string `conf:"path" doc:"value of %{path}"`
	KeyFormat       string `conf:"s3_object_key_format" default:"%{path}%{time_slice}_%{index}.%{file_extension}" doc:"key of the objects; placeholders of the chunk keys, and %{…}"`
	TimeSliceFormat string `conf:"time_slice_format" doc:"time layout of %{time_slice}; without it one that fits timekey"`
	IndexFormat     string `conf:"index_format" default:"%d" doc:"how %{index} is written: %, 0 and a width if wanted, d, x or X"`
	HexLength       int    `conf:"hex_random_length" default:"4" doc:"digits of %{hex_random}, 1 to 16"`
	Overwrite       bool   `conf:"overwrite" default:"false" doc:"replace an object when its key has nothing that makes it new"`
	CheckObject     bool   `conf:"check_object" default:"true" doc:"find a key that is free; without it there is no %{index}"`
	CheckBucket     bool   `conf:"check_bucket" default:"true" doc:"take care of a missing bucket, at the first object instead of at start"`
	CreateBucket    bool   `conf:"auto_create_bucket" default:"true" doc:"create a missing bucket"`
	CheckAPIKey     bool   `conf:"check_apikey_on_start" default:"true" doc:"accepted for compatibility: credentials are used when the first object is sent"`
	SpoolPath       string `conf:"spool_path" doc:"directory for objects under construction that are too large for memory; the system's for temporary files if not set"`

	StoreAs  string    `conf:"store_as" default:"gzip" doc:"gzip, zstd, text or json"`
	Compress *Compress `section:"compress"`
	Command  string    `conf:"command_parameter" doc:"accepted for compatibility: no commands are run"`

	StorageClass      string            `conf:"storage_class" default:"STANDARD" doc:"storage class of the objects"`
	ReducedRedundancy bool              `conf:"reduced_redundancy" default:"false" doc:"older form of storage_class REDUCED_REDUNDANCY"`
	ACL               string            `conf:"acl" doc:"canned ACL of the objects, such as bucket-owner-full-control"`
	GrantFullControl  string            `conf:"grant_full_control" doc:"grantees, such as id=\"…\""`
	GrantRead         string            `conf:"grant_read" doc:"grantees"`
	GrantReadACP      string            `conf:"grant_read_acp" doc:"grantees"`
	GrantWriteACP     string            `conf:"grant_write_acp" doc:"grantees"`
	SSE               string            `conf:"use_server_side_encryption" doc:"AES256, aws:kms or aws:kms:dsse"`
	KMSKeyID          string            `conf:"ssekms_key_id" doc:"KMS key of aws:kms"`
	SSECAlgorithm     string            `conf:"sse_customer_algorithm" doc:"AES256, to encrypt with a key of yours"`
	SSECKey           string            `conf:"sse_customer_key" secret:"true" doc:"that key, 32 bytes, or their base64 form"`
	SSECKeyMD5        string            `conf:"sse_customer_key_md5" secret:"true" doc:"accepted for compatibility: it is computed"`
	Checksum          string            `conf:"checksum_algorithm" doc:"checksum that the service verifies and stores: CRC32, CRC32C, CRC64NVME, SHA1 or SHA256"`
	ComputeChecksums  *bool             `conf:"compute_checksums" doc:"false sends no checksum but Content-MD5"`
	Tagging           string            `conf:"tagging" doc:"tags of the objects: a=1&b=2"`
	Metadata          map[string]string `conf:"s3_metadata" doc:"metadata of the objects; placeholders and %{index} allowed in values"`
	WarnForDelay      time.Duration     `conf:"warn_for_delay" doc:"warn when an object has events older than this"`
	Lifecycle         []Lifecycle       `section:"bucket_lifecycle_rule"`

	KeyID      string           `conf:"aws_key_id" secret:"true" doc:"access key; used with aws_sec_key"`
	SecKey     string           `conf:"aws_sec_key" secret:"true" doc:"secret key; used with aws_key_id"`
	Profile    string           `conf:"aws_profile" doc:"profile of the shared configuration files"`
	Process    string           `conf:"aws_credential_process" doc:"command that prints credentials"`
	IAMRetries *int             `conf:"aws_iam_retries" doc:"how often a failed question to the instance metadata service is repeated"`
	AssumeRole *AssumeRole      `section:"assume_role_credentials"`
	Identity   *WebIdentity     `section:"web_identity_credentials"`
	Instance   *InstanceProfile `section:"instance_profile_credentials"`
	Shared     *Shared          `section:"shared_credentials"`
}

// Compress is <compress>.
type Compress struct {
	Level int `conf:"level" default:"3" doc:"level of zstd, 1 to 22"`
}

// Lifecycle is <bucket_lifecycle_rule>.
type Lifecycle struct {
	ID             string `conf:"id" required:"true" doc:"name of the rule"`
	Prefix         string `conf:"prefix" doc:"beginning of the keys that it is for"`
	ExpirationDays int    `conf:"expiration_days" required:"true" min:"1" doc:"days after which objects expire"`
}

// STS says which STS is asked, and how.
type STS struct {
	Region   string `conf:"sts_region" doc:"region of STS; the bucket's if not set"`
	Proxy    string `conf:"sts_http_proxy" doc:"proxy URL for STS"`
	Endpoint string `conf:"sts_endpoint_url" doc:"URL of STS"`
}

// AssumeRole is <assume_role_credentials>.
type AssumeRole struct {
	RoleARN     string        `conf:"role_arn" required:"true"`
	SessionName string        `conf:"role_session_name" required:"true"`
	Policy      string        `conf:"policy"`
	Duration    time.Duration `conf:"duration_seconds"`
	ExternalID  string        `conf:"external_id"`
	STS
}

// WebIdentity is <web_identity_credentials>.
type WebIdentity struct {
	RoleARN     string        `conf:"role_arn" required:"true"`
	SessionName string        `conf:"role_session_name" required:"true"`
	TokenFile   string        `conf:"web_identity_token_file" required:"true" doc:"file with the token, read again at every refresh"`
	Policy      string        `conf:"policy"`
	Duration    time.Duration `conf:"duration_seconds"`
	STS
}

// InstanceProfile is <instance_profile_credentials>.
type InstanceProfile struct {
	Retries     *int          `conf:"retries" doc:"how often a failed question is repeated"`
	Address     string        `conf:"ip_address" default:"169.254.169.254" doc:"address of the metadata service"`
	Port        int           `conf:"port" default:"80" doc:"its port"`
	OpenTimeout time.Duration `conf:"http_open_timeout" doc:"longest time to connect"`
	ReadTimeout time.Duration `conf:"http_read_timeout" doc:"longest time for an answer"`
}

// Shared is <shared_credentials>.
type Shared struct {
	Path    string `conf:"path" doc:"file; ~/.aws/credentials if not set"`
	Profile string `conf:"profile_name" doc:"profile in it; AWS_PROFILE, else default, if not set"`
}

// region is that of the bucket, by Fluentd's rule.
func (p *Params) region() string {
	for _, r := range []string{p.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")} {
		if r != "" {
			return r
		}
	}
	return "us-east-1"
}

// session is what awsx makes of the parameters: of the ways to credentials exactly the
// first that is configured, in Fluentd's order.
func (p *Params) session() awsx.Params {
	a := awsx.Params{
		Region: p.region(), SSLVerifyPeer: p.SSLVerifyPeer, HTTPProxy: p.Proxy, InstanceRetries: p.IAMRetries,
		RequestDeadline: p.RequestTimeout, STSSessionName: "fluentd",
	}
	if p.DualStack {
		a.UseDualStack = &p.DualStack
	}
	static := p.KeyID != "" && p.SecKey != ""
	switch {
	case p.AssumeRole != nil:
		r := p.AssumeRole
		a.UseSTS, a.STSRoleARN, a.STSSessionName, a.STSPolicy, a.STSDuration = true, r.RoleARN, r.SessionName, r.Policy, r.Duration
		a.STSExternalID = r.ExternalID
		r.STS.apply(&a)
		if static {
			a.KeyID, a.SecKey = p.KeyID, p.SecKey
		} else {
			a.Profile = p.Profile
		}
	case static:
		a.KeyID, a.SecKey = p.KeyID, p.SecKey
	case p.Profile != "":
		a.Profile = p.Profile
	case p.Process != "":
		a.Process = p.Process
	case p.Identity != nil:
		w := p.Identity
		a.WebIdentity = &awsx.WebIdentity{RoleARN: w.RoleARN, SessionName: w.SessionName, TokenFile: w.TokenFile, Policy: w.Policy, Duration: w.Duration}
		w.STS.apply(&a)
	case p.Instance != nil:
		a.Instance = p.Instance.source(p.IAMRetries)
	case p.Shared != nil:
		a.SharedFile, a.Profile = p.Shared.Path, p.Shared.Profile
	}
	return a
}

func (s *STS) apply(a *awsx.Params) {
	a.STSRegion, a.STSProxy, a.STSEndpoint = s.Region, s.Proxy, s.Endpoint
}

func (i *InstanceProfile) source(retries *int) *awsx.InstanceProfile {
	out := &awsx.InstanceProfile{Timeout: i.OpenTimeout + i.ReadTimeout}
	if i.Address != "169.254.169.254" || i.Port != 80 {
		out.Endpoint = "http://" + net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
	}
	switch {
	case i.Retries != nil:
		out.Retries = *i.Retries
	case retries != nil:
		out.Retries = *retries
	}
	return out
}
