// Package certtest makes certificates for tests: an authority, and what it signs.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// serial is the number of the certificate that was made last.
var serial atomic.Int64

// New returns an authority with a name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = a.make(template, nil, nil)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	return a
}

// make makes a certificate that signer signed; nil is itself.
func (a *Authority) make(template, signer *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, key
}

// Pool is what trusts the authority and nobody else.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// Issue signs a certificate, valid until a moment from a day before it or an hour ago, for
// servers at localhost, 127.0.0.1 and ::1, and for clients.
func (a *Authority) Issue(name string, until time.Time) Pair {
	from := time.Now().Add(-time.Hour)
	if until.Before(from) {
		from = until.Add(-24 * time.Hour)
	}
	return a.IssueFrom(name, from, until)
}

// IssueFrom is Issue of a certificate that is valid from a moment on.
func (a *Authority) IssueFrom(name string, from, until time.Time) Pair {
	a.t.Helper()
	certificate, key := a.make(&x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, a.certificate, a.key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// Client is the configuration of a client that trusts the authority and shows these pairs.
func (a *Authority) Client(pairs ...Pair) *tls.Config {
	a.t.Helper()
	c := &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
	for _, p := range pairs {
		own, err := tls.X509KeyPair(p.Certificate, p.Key)
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = append(c.Certificates, own)
	}
	return c
}

// Write writes a file into a directory and returns its path.
func Write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Write writes tls.crt and tls.key into a directory, as Kubernetes calls them.
func (p Pair) Write(t testing.TB, dir string) (certificate, key string) {
	t.Helper()
	return Write(t, dir, "tls.crt", p.Certificate), Write(t, dir, "tls.key", p.Key)
}
