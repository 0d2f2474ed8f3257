package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/dns"
	"github.com/warmroute/warmroute/backends/discovery/file"
	"github.com/warmroute/warmroute/backends/discovery/kubernetes"
)

// Discovery is where backends of a pool are found beside those that are listed. Of what
// several name, the first describes it: the list, then the files, then the names, then the
// services.
type Discovery struct {
	// Files are files that name backends, in the form of Prometheus' file_sd.
	Files []FileDiscovery `yaml:"files,omitempty"`
	// DNS are names whose addresses are backends.
	DNS []DNSDiscovery `yaml:"dns,omitempty"`
	// Kubernetes are services whose endpoints are backends.
	Kubernetes []KubernetesDiscovery `yaml:"kubernetes,omitempty"`
}

// FileDiscovery is a file that names backends, or several; [file.Config] says more.
type FileDiscovery struct {
	// Path is the file; its last element may be a pattern.
	Path string `yaml:"path"`
	// Interval is how often they are looked at without a sign of change. Default 10 s.
	Interval time.Duration `yaml:"interval"`
}

// DNSDiscovery is a name whose addresses, or services, are backends; [dns.Config] says more.
type DNSDiscovery struct {
	// Name is the name.
	Name string `yaml:"name"`
	// Type is what is asked for: a, aaaa or srv. Default a.
	Type string `yaml:"type"`
	// Port is the engines' port. SRV records have their own.
	Port int `yaml:"port,omitempty"`
	// Scheme is http or https. Default http.
	Scheme string `yaml:"scheme"`
	// Path is the engines' base path. Default none.
	Path string `yaml:"path,omitempty"`
	// Weight, ConcurrencyThreshold and DataParallelRanks are those of each backend, as in
	// [Backend].
	Weight               float64 `yaml:"weight"`
	ConcurrencyThreshold int     `yaml:"concurrency_threshold,omitempty"`
	DataParallelRanks    int     `yaml:"data_parallel_ranks,omitempty"`
	// Interval is the time between two lookups. Default 10 s.
	Interval time.Duration `yaml:"interval"`
	// Timeout bounds one lookup. Default 5 s.
	Timeout time.Duration `yaml:"timeout"`
	// Resolver is the server that is asked. Default: the machine's.
	Resolver string `yaml:"resolver,omitempty"`
}

// KubernetesDiscovery is a service whose endpoints are backends; [kubernetes.Config] says
// more.
type KubernetesDiscovery struct {
	// Namespace is the service's. Default: the router's own.
	Namespace string `yaml:"namespace,omitempty"`
	// Service is the name of the service.
	Service string `yaml:"service"`
	// Port is the name or number of the endpoints' port. Default: the only one.
	Port string `yaml:"port,omitempty"`
	// Scheme is http or https. Default http.
	Scheme string `yaml:"scheme"`
	// Path is the engines' base path. Default none.
	Path string `yaml:"path,omitempty"`
	// Weight, ConcurrencyThreshold and DataParallelRanks are those of each backend, as in
	// [Backend].
	Weight               float64 `yaml:"weight"`
	ConcurrencyThreshold int     `yaml:"concurrency_threshold,omitempty"`
	DataParallelRanks    int     `yaml:"data_parallel_ranks,omitempty"`
	// APIServer is the base URL of the API. Default: the cluster that the router runs in.
	APIServer string `yaml:"api_server,omitempty"`
	// TokenFile has the token for APIServer. Default none.
	TokenFile string `yaml:"token_file,omitempty"`
	// CAFile has the certificates that sign the API server's. Default: the system's.
	CAFile string `yaml:"ca_file,omitempty"`
}

// setDefaults implements defaulter.
func (k *KubernetesDiscovery) setDefaults() { *k = KubernetesDiscovery{Scheme: "http", Weight: 1} }

// setDefaults implements defaulter.
func (d *DNSDiscovery) setDefaults() {
	*d = DNSDiscovery{Type: string(dns.A), Scheme: "http", Weight: 1, Interval: dns.DefaultInterval, Timeout: dns.DefaultTimeout}
}

// setDefaults implements defaulter.
func (f *FileDiscovery) setDefaults() { f.Interval = file.DefaultInterval }

// finder is an entry of discovery.
type finder interface {
	// name is what logs and metrics call it.
	name() string
	// source returns the source that it describes; errors begin with the key at fault.
	source() (discovery.Source, error)
}

func (f FileDiscovery) name() string { return "file:" + f.Path }

func (f FileDiscovery) source() (discovery.Source, error) {
	if f.Interval <= 0 {
		return nil, notPositive("interval", f.Interval)
	}
	return file.New(file.Config{Path: f.Path, Interval: f.Interval})
}

func (d DNSDiscovery) name() string {
	name := "dns:" + d.Name
	if d.Port != 0 {
		name += ":" + strconv.Itoa(d.Port)
	}
	return name
}

func (d DNSDiscovery) source() (discovery.Source, error) {
	switch {
	case d.Interval <= 0:
		return nil, notPositive("interval", d.Interval)
	case d.Timeout <= 0:
		return nil, notPositive("timeout", d.Timeout)
	}
	form, err := formOf(d.Scheme, d.Path, d.Weight, d.ConcurrencyThreshold, d.DataParallelRanks)
	if err != nil {
		return nil, err
	}
	return dns.New(dns.Config{
		Name: d.Name, Type: dns.Type(d.Type), Port: d.Port, Form: form, Interval: d.Interval, Timeout: d.Timeout, Resolver: d.Resolver,
	})
}

func (k KubernetesDiscovery) name() string {
	name := "kubernetes:" + k.Service
	if k.Namespace != "" {
		name = "kubernetes:" + k.Namespace + "/" + k.Service
	}
	if k.Port != "" {
		name += ":" + k.Port
	}
	return name
}

func (k KubernetesDiscovery) source() (discovery.Source, error) {
	form, err := formOf(k.Scheme, k.Path, k.Weight, k.ConcurrencyThreshold, k.DataParallelRanks)
	if err != nil {
		return nil, err
	}
	return kubernetes.New(kubernetes.Config{
		Namespace: k.Namespace, Service: k.Service, Port: k.Port, Form: form,
		APIServer: k.APIServer, TokenFile: k.TokenFile, CAFile: k.CAFile,
	})
}

// formOf is what is made of addresses that are found.
func formOf(scheme, path string, weight float64, threshold, ranks int) (discovery.Form, error) {
	if !(weight > 0) {
		return discovery.Form{}, fmt.Errorf("weight: %v is not above 0", weight)
	}
	form := discovery.Form{Scheme: scheme, Path: path, Weight: weight, ConcurrencyThreshold: threshold, DataParallelRanks: ranks}
	return form, form.Validate()
}

// each calls use for every entry with its path below discovery, in order of precedence.
func (d Discovery) each(use func(at string, f finder)) {
	for i, f := range d.Files {
		use("files["+strconv.Itoa(i)+"]", f)
	}
	for i, n := range d.DNS {
		use("dns["+strconv.Itoa(i)+"]", n)
	}
	for i, k := range d.Kubernetes {
		use("kubernetes["+strconv.Itoa(i)+"]", k)
	}
}

// notPositive says that a duration must be above 0. The sources themselves take 0 as their
// default, but a file that says 0 means something else.
func notPositive(key string, d time.Duration) error {
	return fmt.Errorf("%s: %v is not above 0", key, d)
}

// any reports whether there is an entry.
func (d Discovery) any() bool {
	some := false
	d.each(func(string, finder) { some = true })
	return some
}

// Sources returns who knows the pool's backends, the listed ones first. There is only that
// one where nothing is to be discovered.
func (p *Pool) Sources() ([]discovery.Named, error) {
	sources := []discovery.Named{{Name: "static", Source: discovery.Static(p.specs())}}
	var failed error
	p.Discovery.each(func(at string, f finder) {
		source, err := f.source()
		if err != nil && failed == nil {
			failed = fmt.Errorf("pool %q: discovery.%s.%w", p.Name, at, err)
		}
		sources = append(sources, discovery.Named{Name: f.name(), Source: source})
	})
	return sources, failed
}

// discovery checks where backends of one pool are found.
func (v *validation) discovery(p *Pool, path string) {
	named := make(map[string]string)
	p.Discovery.each(func(at string, f finder) {
		at = path + ".discovery." + at
		if _, err := f.source(); err != nil {
			key, message, _ := strings.Cut(err.Error(), ": ")
			v.fail(at+"."+key, "%s", message)
		}
		if earlier, twice := named[f.name()]; twice {
			v.fail(at, "%s is there already, by %s", f.name(), v.where(earlier))
		}
		named[f.name()] = at
	})
}
