package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
)

// DefaultInterval is how often files are looked at, also where nothing tells of a change.
const DefaultInterval = 10 * time.Second

// maxFile bounds the size of a file.
const maxFile = 8 << 20

// settle is how long a change is left alone: whoever writes a file in place, or several
// after each other, is rarely done with the first event.
const settle = 50 * time.Millisecond

// Config says which files are looked at.
type Config struct {
	// Path is the file. Its last element may be a pattern, as *.json: a file that is gone
	// then names no backends, while one that is named in full must be there.
	Path string
	// Interval is how often they are looked at without a sign of change. Default
	// [DefaultInterval].
	Interval time.Duration
}

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	dir, base := filepath.Split(c.Path)
	switch {
	case base == "":
		return fmt.Errorf("path: %q names no file", c.Path)
	case isPattern(dir):
		return fmt.Errorf("path: %q: only the last element may be a pattern", c.Path)
	case c.Interval < 0:
		return fmt.Errorf("interval: %v is negative", c.Interval)
	}
	if _, err := filepath.Match(base, "x"); err != nil {
		return fmt.Errorf("path: %q is no pattern: a [ is not closed", c.Path)
	}
	switch filepath.Ext(base) {
	case ".json", ".yml", ".yaml":
		return nil
	}
	return fmt.Errorf("path: %q does not end in .json, .yaml or .yml", c.Path)
}

func isPattern(path string) bool { return strings.ContainsAny(path, `*?[\`) }

// Source looks into files.
type Source struct {
	config Config
	good   map[string][]backends.Spec // by file, what it last named
}

var _ discovery.Source = (*Source)(nil)

// New returns a source. An interval of 0 is taken as the default.
func New(c Config) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	return &Source{config: c, good: make(map[string][]backends.Spec)}, nil
}

// Run implements [discovery.Source].
func (s *Source) Run(ctx context.Context, tell discovery.Tell) {
	w := newWatch(filepath.Dir(s.config.Path))
	defer w.close()
	tick := time.NewTicker(s.config.Interval)
	defer tick.Stop()
	for {
		w.renew()
		list, err := s.look()
		if ctx.Err() != nil {
			return
		}
		tell(list, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.changed:
			if !w.settle(ctx, settle) {
				return
			}
		}
	}
}

// look reads the files.
func (s *Source) look() ([]backends.Spec, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(s.good, func(name string, _ []backends.Spec) bool { return !slices.Contains(names, name) })
	all := []backends.Spec{}
	var errs []error
	for _, name := range names {
		specs, err := read(name)
		if err == nil {
			s.good[name] = specs
		} else {
			errs = append(errs, err)
		}
		all = append(all, s.good[name]...)
	}
	if len(errs) > 0 && len(s.good) == 0 {
		all = nil // nothing was ever found out
	}
	return all, errors.Join(errs...)
}

// names returns the files, in order.
func (s *Source) names() ([]string, error) {
	dir, base := filepath.Split(s.config.Path)
	if !isPattern(base) {
		return []string{s.config.Path}, nil
	}
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, plain(filepath.Clean(dir), err)
	}
	var names []string
	for _, e := range entries {
		if match, err := filepath.Match(base, e.Name()); err == nil && match {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// read returns what a file names.
func read(name string) ([]backends.Spec, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, plain(name, err)
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, fmt.Errorf("%s: not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, plain(name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, plain(name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: the file has more than %d bytes", name, maxFile)
	}
	specs, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return specs, nil
}

// plain says what went wrong with a file, without the name of the system call.
func plain(name string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
