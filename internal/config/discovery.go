package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/file"
)

// Discovery is where backends of a pool are found beside those that are listed. Of what
// several name, the first describes it: the list, then the files.
type Discovery struct {
	// Files are files that name backends, in the form of Prometheus' file_sd.
	Files []FileDiscovery `yaml:"files,omitempty"`
}

// FileDiscovery is a file that names backends, or several; [file.Config] says more.
type FileDiscovery struct {
	// Path is the file; its last element may be a pattern.
	Path string `yaml:"path"`
	// Interval is how often they are looked at without a sign of change. Default 10 s.
	Interval time.Duration `yaml:"interval"`
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

// each calls use for every entry with its path below discovery, in order of precedence.
func (d Discovery) each(use func(at string, f finder)) {
	for i, f := range d.Files {
		use("files["+strconv.Itoa(i)+"]", f)
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
