package servertls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// The shapes of an encrypted private key (RFC 5208) with PBES2 and PBKDF2 (RFC 8018), the
// form that OpenSSL writes.
type (
	encryptedKey struct {
		Algo pkix.AlgorithmIdentifier
		Data []byte
	}
	pbes2Params struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	kdfParams   struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// maxIterations keeps a damaged file from keeping weir busy for hours. OpenSSL uses 2048,
// cautious people a million.
const maxIterations = 20_000_000

// decryptPKCS8 returns the PKCS #8 key inside der.
func decryptPKCS8(der []byte, passphrase string) ([]byte, error) {
	var e encryptedKey
	var p pbes2Params
	var k kdfParams
	if _, err := asn1.Unmarshal(der, &e); err != nil {
		return nil, err
	}
	if !e.Algo.Algorithm.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}) {
		return nil, fmt.Errorf("encrypted with %s; convert it with openssl pkcs8 -topk8 -v2 aes-256-cbc", e.Algo.Algorithm)
	}
	if _, err := asn1.Unmarshal(e.Algo.Parameters.FullBytes, &p); err != nil {
		return nil, err
	}
	if !p.KDF.Algorithm.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}) {
		return nil, fmt.Errorf("its key derivation %s is not PBKDF2; convert it with openssl pkcs8 -topk8 -v2 aes-256-cbc", p.KDF.Algorithm)
	}
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &k); err != nil {
		return nil, err
	}
	keyLen, err := aesKeyLen(p.Cipher.Algorithm)
	if err != nil {
		return nil, err
	}
	if k.Iterations < 1 || k.Iterations > maxIterations {
		return nil, fmt.Errorf("%d rounds of key derivation", k.Iterations)
	}
	key, err := pbkdf2.Key(prf(k.PRF.Algorithm), passphrase, k.Salt, k.Iterations, keyLen)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	return decryptCBC(key, iv, e.Data)
}

func aesKeyLen(id asn1.ObjectIdentifier) (int, error) {
	aesCBC := asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1}
	if len(id) == 9 && id[:8].Equal(aesCBC) {
		switch id[8] {
		case 2:
			return 16, nil
		case 22:
			return 24, nil
		case 42:
			return 32, nil
		}
	}
	return 0, fmt.Errorf("its cipher %s is not AES-CBC; convert it with openssl pkcs8 -topk8 -v2 aes-256-cbc", id)
}

func prf(id asn1.ObjectIdentifier) func() hash.Hash {
	if len(id) == 6 && id[:5].Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 2}) {
		switch id[5] {
		case 9:
			return sha256.New
		case 10:
			return sha512.New384
		case 11:
			return sha512.New
		}
	}
	return sha1.New // the default of RFC 8018
}

func decryptCBC(key, iv, data []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	wrong := errors.New("wrong passphrase or damaged file")
	if len(iv) != aes.BlockSize || len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil, wrong
	}
	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
	pad := int(out[len(out)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, wrong
	}
	return out[:len(out)-pad], nil
}
