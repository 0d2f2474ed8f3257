package kubernetes

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/warmroute/warmroute/backends/discovery"
)

// Config says which endpoints are backends.
type Config struct {
	// Namespace is the service's. Default: the router's own, as its service account says.
	Namespace string
	// Service is the name of the service.
	Service string
	// Port is the name or number of the endpoints' port: what containers listen on, not
	// what the service maps to it. Default: the only one.
	Port string
	// Form is what is made of each address.
	Form discovery.Form
	// APIServer is the base URL of the API. Default: the cluster that the router runs in,
	// with its service account.
	APIServer string
	// TokenFile has the token for APIServer; it is read again when it changes. Default none.
	TokenFile string
	// CAFile has the certificates, in PEM, that sign the API server's. Default: the
	// system's.
	CAFile string
}

// label is what namespaces, services and ports may be called.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Service == "":
		return errors.New("service: is missing")
	case !label.MatchString(c.Service):
		return fmt.Errorf("service: %q is not the name of a service", c.Service)
	case c.Namespace != "" && !label.MatchString(c.Namespace):
		return fmt.Errorf("namespace: %q is not the name of a namespace", c.Namespace)
	case c.Port != "" && !label.MatchString(c.Port):
		return fmt.Errorf("port: %q is not the name or number of a port", c.Port)
	}
	if c.APIServer == "" {
		if c.TokenFile != "" || c.CAFile != "" {
			return errors.New("api_server: is missing: token_file and ca_file are for it")
		}
		return c.Form.Validate()
	}
	u, err := url.Parse(c.APIServer)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return errors.New("api_server: want https://host:port, without credentials")
	}
	if c.Namespace == "" {
		return errors.New("namespace: is missing: with api_server there is no default")
	}
	if c.TokenFile != "" && strings.ToLower(u.Scheme) != "https" {
		return errors.New("token_file: would be sent unencrypted: want an api_server with https")
	}
	return c.Form.Validate()
}
