// Command certs writes the keys of one throw-away control plane into a folder: a certificate authority (ca.crt), a serving
// certificate for the loopback address (tls.crt, tls.key) and the key that signs service account tokens (sa.key).
// It is here because openssl is not on every machine and the Python standard library cannot sign.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: certs FOLDER")
	}
	folder := os.Args[1]
	ca, server, serviceAccount := newKey(), newKey(), newKey()
	begin := time.Now().Add(-time.Hour)

	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "gangplan test authority"},
		NotBefore:             begin,
		NotAfter:              begin.AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "gangplan test server"},
		NotBefore:    begin,
		NotAfter:     begin.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	write(folder, "ca.crt", "CERTIFICATE", sign(authority, authority, ca, ca))
	write(folder, "tls.crt", "CERTIFICATE", sign(serving, authority, server, ca))
	write(folder, "tls.key", "EC PRIVATE KEY", encode(server))
	write(folder, "sa.key", "EC PRIVATE KEY", encode(serviceAccount))
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	return key
}

func sign(certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	check(err)
	return der
}

func encode(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	check(err)
	return der
}

func write(folder, name, kind string, der []byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	check(os.WriteFile(filepath.Join(folder, name), text, 0o600))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
