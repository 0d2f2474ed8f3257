package ops

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/internal/cli"
)

// access is how a command shows who it is, and finds out whom it talks to.
type access struct {
	key, keyFrom           string // --key, and the environment variable that stands in for it
	caFile                 string
	certificate, secretKey string // files
}

// flags adds the flags of access to a command.
func (c *call) accessFlags(keyFrom, what string) {
	c.access.keyFrom = keyFrom
	f := c.cmd.Flags()
	f.StringVar(&c.access.key, "key", "", "show the API `KEY` "+what+"; other users of this machine see it there, and do not in the environment variable "+keyFrom)
	f.StringVar(&c.access.caFile, "ca-file", "", "trust the certificates, in PEM, in `FILE` (default those of the system)")
	f.StringVar(&c.access.certificate, "client-cert", "", "show the certificate, in PEM, in `FILE`")
	f.StringVar(&c.access.secretKey, "client-key", "", "whose key, in PEM, is in `FILE`")
}

// secured reports whether flags speak of TLS.
func (a *access) secured() bool { return a.caFile != "" || a.certificate != "" }

// transport is how requests are carried.
func (a *access) transport() (http.RoundTripper, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok || !a.secured() && a.secretKey == "" {
		return http.DefaultTransport, nil
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if a.caFile != "" {
		pem, err := os.ReadFile(a.caFile)
		if err != nil {
			return nil, cli.BadUsage(fmt.Errorf("--ca-file: %w", err))
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, cli.BadUsage(fmt.Errorf("--ca-file: %s: there is no certificate in it, in PEM", a.caFile))
		}
	}
	switch {
	case a.certificate == "" && a.secretKey == "":
		return t, nil
	case a.certificate == "" || a.secretKey == "":
		return nil, cli.BadUsage(errors.New("--client-cert and --client-key go together"))
	}
	own, err := tls.LoadX509KeyPair(a.certificate, a.secretKey)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--client-cert: %w", err))
	}
	t.TLSClientConfig.Certificates = []tls.Certificate{own}
	return t, nil
}

// shown carries requests that show a key.
type shown struct {
	http.RoundTripper

	key string
}

// RoundTrip implements [http.RoundTripper].
func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.key)
	return s.RoundTripper.RoundTrip(r)
}

// client is what a command asks a router with.
func (a *access) client() (*http.Client, error) {
	carrier, err := a.transport()
	if err != nil {
		return nil, err
	}
	if key := cmp.Or(a.key, os.Getenv(a.keyFrom)); key != "" {
		carrier = shown{carrier, key}
	}
	return &http.Client{
		Transport: carrier,
		// Calls are not led on, and the key is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// refused adds to what a router says of who asks what to do about it.
func (a *access) refused(e *connect.Error) error {
	if cmp.Or(a.key, os.Getenv(a.keyFrom)) == "" {
		return fmt.Errorf("%s: put the key into the environment variable %s", e.Message(), a.keyFrom)
	}
	return errors.New(e.Message())
}

// mistrusted adds to why a connection was not made what to do about it.
func mistrusted(err error) string {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return ": name the file of who signed it with --ca-file"
	}
	return ""
}
