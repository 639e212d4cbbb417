package servertls

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// serverCert loads the server's certificate, or makes one, signed by an authority or by
// itself.
func serverCert(t *Params, hostname string) (tls.Certificate, error) {
	switch {
	case t.CertPath != "":
		return loadCert(t.CertPath, t.PrivateKeyPath, t.PrivateKeyPassphrase)
	case t.CACertPath != "":
		ca, err := loadCert(t.CACertPath, t.CAPrivateKeyPath, t.CAPrivateKeyPassphrase)
		if err != nil {
			return ca, err
		}
		return makeCert(t, hostname, &ca)
	}
	return makeCert(t, hostname, nil)
}

func loadCert(certPath, keyPath, passphrase string) (tls.Certificate, error) {
	var c tls.Certificate
	text, err := os.ReadFile(certPath)
	if err != nil {
		return c, fmt.Errorf("read certificate: %w", err)
	}
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		if b.Type == "CERTIFICATE" {
			c.Certificate = append(c.Certificate, b.Bytes)
		}
	}
	if len(c.Certificate) == 0 {
		return c, fmt.Errorf("read certificate: %s holds none in PEM form", certPath)
	}
	if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
		return c, fmt.Errorf("parse certificate %s: %w", certPath, err)
	}
	key, err := loadKey(keyPath, passphrase)
	if err != nil {
		return c, err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(c.Leaf.PublicKey) {
		return c, fmt.Errorf("the key in %s does not belong to the certificate in %s", keyPath, certPath)
	}
	c.PrivateKey = key
	return c, nil
}

func loadKey(path, passphrase string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return nil, fmt.Errorf("read private key: %s holds none in PEM form", path)
		}
		der := b.Bytes
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY":
			der, err = decryptPKCS8(der, passphrase)
		//lint:ignore SA1019 old files have this form, and Fluentd reads them
		case x509.IsEncryptedPEMBlock(b):
			//lint:ignore SA1019 likewise
			der, err = x509.DecryptPEMBlock(b, []byte(passphrase))
		case b.Type != "PRIVATE KEY" && b.Type != "RSA PRIVATE KEY" && b.Type != "EC PRIVATE KEY":
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("decrypt private key %s: %w; check the passphrase", path, err)
		}
		key, err := parseKey(der)
		if err != nil {
			return nil, fmt.Errorf("parse private key %s: %w", path, err)
		}
		return key, nil
	}
}

func parseKey(der []byte) (crypto.Signer, error) {
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	if s, ok := k.(crypto.Signer); ok {
		return s, nil
	}
	return nil, errors.New("this kind of key cannot sign")
}

// makeCert makes a certificate for this host, signed by ca or by itself.
func makeCert(t *Params, hostname string, ca *tls.Certificate) (tls.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, t.GenerateKeyLength)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key of %d bits: %w", t.GenerateKeyLength, err)
	}
	name := t.GenerateCommonName
	if name == "" {
		name = hostname
	}
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			name = "localhost"
		}
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	leaf := &x509.Certificate{
		SerialNumber: serial,
		Subject: pkix.Name{CommonName: name, Country: []string{t.GenerateCountry},
			Province: []string{t.GenerateState}, Locality: []string{t.GenerateLocality}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(t.GenerateExpiration),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SignatureAlgorithm:    signature(t.GenerateDigest),
	}
	if ip := net.ParseIP(name); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{name}
	}
	parent, signer, chain := leaf, crypto.Signer(key), [][]byte(nil)
	if ca != nil {
		parent, signer, chain = ca.Leaf, ca.PrivateKey.(crypto.Signer), ca.Certificate
		if _, isRSA := signer.(*rsa.PrivateKey); !isRSA {
			leaf.SignatureAlgorithm = 0 // as fits the authority's key
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: append([][]byte{der}, chain...), PrivateKey: key}, nil
}

func signature(digest string) x509.SignatureAlgorithm {
	switch digest {
	case "sha384":
		return x509.SHA384WithRSA
	case "sha512":
		return x509.SHA512WithRSA
	}
	return x509.SHA256WithRSA // sha1 too: Go does not sign with it any more
}
