package config

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// TLS is how a port proves who it is, and whom it lets in. Without files the port is not
// encrypted.
type TLS struct {
	// CertFile is the port's certificate in PEM, followed by those between it and what
	// clients trust. KeyFile is its key, in PEM and not encrypted.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// ClientCAFile has the certificates, in PEM, that sign those of clients. Default none:
	// clients need no certificate.
	ClientCAFile string `yaml:"client_ca_file,omitempty"`
}

// Enabled reports whether the port is encrypted.
func (t TLS) Enabled() bool { return t != (TLS{}) }

// maxPEM bounds the size of a file of certificates.
const maxPEM = 4 << 20

// Certificates are what the files of a port held when they were read.
type Certificates struct {
	// Config serves with them, from TLS 1.2 on, and has the ALPN names of HTTP/2 and
	// HTTP/1.1. Its ClientAuth is [tls.RequireAndVerifyClientCert] where clients need one.
	Config *tls.Config
	// NotBefore and NotAfter are between which moments all certificates that the port shows
	// are valid.
	NotBefore, NotAfter time.Time

	content [sha256.Size]byte
}

// Valid says why the certificates are not valid at a moment, nil where they are.
func (c *Certificates) Valid(now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// Read reads the files of a port that is encrypted. The error names the key that is at fault
// below those of the port.
func (t TLS) Read() (*Certificates, error) {
	switch {
	case t.CertFile == "":
		return nil, &tlsError{"cert_file", errors.New("is missing: the port needs a certificate")}
	case t.KeyFile == "":
		return nil, &tlsError{"key_file", errors.New("is missing: cert_file needs it")}
	}
	chain, err := readPEM(t.CertFile)
	if err != nil {
		return nil, &tlsError{"cert_file", err}
	}
	key, err := readPEM(t.KeyFile)
	if err != nil {
		return nil, &tlsError{"key_file", err}
	}
	own, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, &tlsError{"cert_file", fmt.Errorf("%s, with the key %s: %w", t.CertFile, t.KeyFile, err)}
	}
	c := &Certificates{Config: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"},
	}}
	if err := c.period(own.Certificate); err != nil {
		return nil, &tlsError{"cert_file", fmt.Errorf("%s: %w", t.CertFile, err)}
	}
	contents := [][]byte{chain, key}
	if t.ClientCAFile != "" {
		signers, err := readPEM(t.ClientCAFile)
		if err != nil {
			return nil, &tlsError{"client_ca_file", err}
		}
		c.Config.ClientCAs, c.Config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.Config.ClientCAs.AppendCertsFromPEM(signers) {
			return nil, &tlsError{"client_ca_file", noCertificate(t.ClientCAFile)}
		}
		// A session that is resumed is not asked for its certificate again, which may have
		// been signed by somebody who is not in the file any more.
		c.Config.SessionTicketsDisabled = true
		contents = append(contents, signers)
	}
	c.content = digest(contents...)
	return c, nil
}

// period finds between which moments all certificates of a chain are valid.
func (c *Certificates) period(chain [][]byte) error {
	for _, der := range chain {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		if c.NotBefore.IsZero() || one.NotBefore.After(c.NotBefore) {
			c.NotBefore = one.NotBefore
		}
		if c.NotAfter.IsZero() || one.NotAfter.Before(c.NotAfter) {
			c.NotAfter = one.NotAfter
		}
	}
	return nil
}

// Watch calls changed, until ctx ends, when one of the files has another content than these
// certificates were read from, or than changed last took over, as [Config.Watch] does. What is
// not taken over is offered again every 10 s: a certificate may be valid only in a while.
func (t TLS) Watch(ctx context.Context, c *Certificates, logger *slog.Logger, changed func() (taken bool)) {
	files := watched{what: "certificates", paths: []string{t.CertFile, t.KeyFile}}
	if t.ClientCAFile != "" {
		files.paths = append(files.paths, t.ClientCAFile)
	}
	files.watch(ctx, c.content, logger, changed)
}

func readPEM(path string) ([]byte, error) {
	return readFile(path, maxPEM)
}

func noCertificate(path string) error {
	return fmt.Errorf("%s: there is no certificate in it, in PEM", path)
}

// tlsError is what is wrong with one of the files of certificates.
type tlsError struct {
	key string
	err error
}

func (e *tlsError) Error() string { return e.key + ": " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// tls checks how a port is encrypted.
func (v *validation) tls(path string, t TLS) {
	if !t.Enabled() {
		return
	}
	c, err := t.Read()
	if at, ok := errors.AsType[*tlsError](err); ok {
		v.fail(path+"."+at.key, "%v", at.err)
		return
	}
	if err := c.Valid(time.Now()); err != nil {
		v.warn(path+".cert_file", "%s: %v", t.CertFile, err)
	}
}
