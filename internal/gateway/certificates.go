package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
)

// secured is a port that is encrypted. Its certificates are read again when their files
// change; connections that are there keep those that they began with.
type secured struct {
	port     string // in logs and metrics
	setting  string // in the configuration
	files    config.TLS
	optional bool // clients may come without a certificate, and see only what needs none
	logger   *slog.Logger
	counts   *telemetry.Certificates

	reloading sync.Mutex
	refusal   string // why what the files hold was last refused; guarded by reloading
	current   atomic.Pointer[config.Certificates]
}

// secure reads the certificates of a port; nil where it is not encrypted.
func (g *Gateway) secure(port, setting string, files config.TLS, optional bool) (*secured, error) {
	if !files.Enabled() {
		return nil, nil //nolint:nilnil // not encrypted, and nothing is wrong
	}
	s := &secured{port: port, setting: setting, files: files, optional: optional, logger: g.logger}
	read, err := s.read()
	if err != nil {
		return nil, err
	}
	s.current.Store(read)
	s.counts, err = g.telemetry.ReadCertificates(port, func() time.Time { return s.current.Load().NotAfter })
	return s, err
}

// read reads the files.
func (s *secured) read() (*config.Certificates, error) {
	c, err := s.files.Read()
	if err != nil {
		return nil, fmt.Errorf("%s.%w", s.setting, err)
	}
	if s.optional && c.Config.ClientAuth == tls.RequireAndVerifyClientCert {
		c.Config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}

// reload takes over what the files hold now, and reports whether it has. What cannot be used,
// or is not valid while what is there still is, is refused, and what is there stays. The same
// refusal is told again only if somebody asked.
func (s *secured) reload(asked bool) (taken bool) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	now, before := time.Now(), s.current.Load()
	read, err := s.read()
	if err == nil {
		if invalid := read.Valid(now); invalid != nil && before.Valid(now) == nil {
			err = fmt.Errorf("%s.cert_file: %w", s.setting, invalid)
		}
	}
	if err != nil && !asked && err.Error() == s.refusal {
		return false
	}
	s.counts.Reloaded(err == nil)
	if err != nil {
		s.refusal = err.Error()
		s.logger.Error("the certificates are not taken over: those before hold on",
			slog.String("port", s.port), slog.String("error", err.Error()), slog.Time("not_after", before.NotAfter))
		return false
	}
	s.refusal = ""
	s.current.Store(read)
	s.logger.Info("certificates read again", slog.String("port", s.port), slog.Time("not_after", read.NotAfter))
	return true
}

// watch reads the files again when they change, until ctx ends.
func (s *secured) watch(ctx context.Context) {
	s.files.Watch(ctx, s.current.Load(), s.logger, func() bool { return s.reload(false) })
}

// config is what the port's server works with: each handshake has the certificates of its
// moment.
func (s *secured) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return s.current.Load().Config, nil
		},
	}
}

// ReloadCertificates reads the certificates of the ports again, whether or not their files
// have changed.
func (g *Gateway) ReloadCertificates() {
	for _, s := range g.securedPorts() {
		s.reload(true)
	}
}

// securedPorts are the ports that are encrypted.
func (g *Gateway) securedPorts() []*secured {
	var all []*secured
	for _, s := range []*secured{g.dataTLS, g.adminTLS} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// watchCertificates reads certificates again when their files change, until ctx ends.
func (g *Gateway) watchCertificates(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, s := range g.securedPorts() {
		watches.Go(func() { s.watch(ctx) })
	}
	watches.Wait()
	return nil
}

// Secured reports whether the data plane and the admin port are encrypted.
func (g *Gateway) Secured() (data, admin bool) { return g.dataTLS != nil, g.adminTLS != nil }

// serve runs a server until it is closed, with TLS where its port is secured.
func serve(s *http.Server, l net.Listener) error {
	if s.TLSConfig != nil {
		return ignoreClosed(s.ServeTLS(l, "", ""))
	}
	return ignoreClosed(s.Serve(l))
}
