package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"weir/internal/awsx"
)

// expectTimeout is how long a large body waits for the service to say whether it wants it:
// a put whose key is taken is then answered before its body is sent.
const expectTimeout = time.Second

// connect makes the client. It uses no network.
func (o *Output) connect(ctx context.Context, conns int) error {
	session, err := awsx.New(ctx, awsx.Options{Params: o.p.session(), Service: "s3", Log: o.log, Now: o.now, Conns: conns})
	if err != nil {
		return err
	}
	o.session = session
	o.transport = session.Transport.Clone()
	o.transport.ExpectContinueTimeout = expectTimeout
	roots, err := o.p.authorities()
	if err != nil {
		return err
	}
	if roots != nil {
		o.transport.TLSClientConfig.RootCAs = roots
	}
	cfg := session.Config()
	o.client = s3.NewFromConfig(cfg, o.options())
	opts := o.client.Options()
	switch {
	case o.p.Checksum != "":
		o.checksum = types.ChecksumAlgorithm(o.p.Checksum)
	case opts.RequestChecksumCalculation != aws.RequestChecksumCalculationWhenRequired:
		// The SDK's default. An upload in parts has to announce it, or its completion is
		// refused.
		o.checksum = types.ChecksumAlgorithmCrc32
	}
	if opts.BaseEndpoint != nil {
		if u, err := url.Parse(*opts.BaseEndpoint); err == nil {
			o.host = u.Host
		}
	}
	if o.host == "" || awsx.AmazonHost(hostname(o.host)) {
		o.support.Store(supported)
	}
	return nil
}

// options sets up the SDK's client.
func (o *Output) options() func(*s3.Options) {
	return func(opt *s3.Options) {
		opt.HTTPClient = &http.Client{Transport: o.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
		opt.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			c, err := o.session.Retrieve(ctx)
			if err != nil {
				return c, &credentialsError{err}
			}
			return c, nil
		})
		if o.p.Endpoint != "" {
			opt.BaseEndpoint = aws.String(o.p.Endpoint)
		}
		opt.UseAccelerate = o.p.Accelerate
		opt.UsePathStyle = o.p.PathStyle
		foreign := false
		if opt.BaseEndpoint != nil {
			u, err := url.Parse(*opt.BaseEndpoint)
			if err == nil && pathStyleHost(u.Hostname()) {
				opt.UsePathStyle = true
			}
			foreign = err == nil && !awsx.AmazonHost(u.Hostname())
			// An address that somebody wrote down is used as it is; the SDK refuses it
			// together with the settings that choose one of Amazon's.
			opt.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateUnset
			opt.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateUnset
		}
		// Other services often do not know the checksums that Amazon's computes with newer
		// SDKs; Content-MD5 they all know.
		if o.p.ComputeChecksums != nil && !*o.p.ComputeChecksums || foreign && os.Getenv("AWS_REQUEST_CHECKSUM_CALCULATION") == "" {
			opt.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}
		opt.DisableLogOutputChecksumValidationSkipped = true
	}
}

// pathStyleHost says whether a bucket's name cannot stand before the host's.
func pathStyleHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return u.Hostname()
}

// authorities reads ssl_ca_bundle and ssl_ca_directory; nil if there is neither.
func (p *Params) authorities() (*x509.CertPool, error) {
	var files []string
	if p.CABundle != "" {
		files = append(files, p.CABundle)
	}
	if p.CADirectory != "" {
		entries, err := os.ReadDir(p.CADirectory)
		if err != nil {
			return nil, fmt.Errorf("read ssl_ca_directory: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(p.CADirectory, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	pool, found := x509.NewCertPool(), false
	for _, f := range files {
		pem, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		found = pool.AppendCertsFromPEM(pem) || found
	}
	if !found {
		return nil, fmt.Errorf("no certificate in %s", strings.Join(files, ", "))
	}
	return pool, nil
}

// credentialsError marks what went wrong before a request could be signed.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

func isCredentials(err error) bool {
	var c *credentialsError
	return errors.As(err, &c)
}
