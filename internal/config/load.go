package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// maxFile bounds the size of a file.
const maxFile = 8 << 20

// Load reads and checks a file. The error joins one [*Error] for everything that is
// wrong; [Each] takes it apart.
func Load(path string) (*Config, []Warning, error) {
	data, err := readFile(path, maxFile)
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	c, warnings, err := Parse(path, data)
	if c != nil {
		c.content = digest(data)
	}
	return c, warnings, err
}

// unreadable says why a file cannot be read.
func unreadable(path string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // without the name of the system call
	}
	return fmt.Errorf("configuration file %s: %w", path, err)
}

// Parse reads and checks the content of a file; name is what errors call it.
func Parse(name string, data []byte) (*Config, []Warning, error) {
	return parse(name, data, os.LookupEnv)
}

func parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, []Warning, error) {
	if len(data) > maxFile {
		return nil, nil, &Error{File: name, Message: fmt.Sprintf("the file has %d bytes, at most %d", len(data), maxFile)}
	}
	if isBlank(data) {
		return nil, nil, &Error{File: name, Message: errEmpty.Error()}
	}
	// Into a node first: it knows the line of everything, and duplicate keys are
	// reported like every other mistake.
	var document yaml.Node
	if err := yaml.Load(data, &document, yaml.WithUniqueKeys(false)); err != nil {
		return nil, nil, syntax(name, err)
	}
	c := Default()
	c.file, c.lines = name, make(map[string]int)
	c.Version = 0
	d := &decoder{file: name, lookup: lookup, lines: c.lines}
	root := &document
	if root.Kind == yaml.DocumentNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil, &Error{File: name, Message: errEmpty.Error()}
	}
	d.value(root, reflect.ValueOf(c).Elem(), "")
	if d.values > maxValues {
		return nil, nil, &Error{File: name, Message: errTooLarge.Error()}
	}
	warnings, err := c.validate(d.errs)
	if err != nil {
		return nil, warnings, err
	}
	return c, warnings, nil
}

// FromBackends returns the configuration of one pool, named "default", that serves
// whatever the engines at these base URLs say they serve. Errors name --backend.
func FromBackends(urls []string) (*Config, []Warning, error) {
	c := Default()
	pool := DefaultPool()
	pool.Name = "default"
	for i, u := range urls {
		pool.Backends = append(pool.Backends, Backend{URL: u, Weight: 1})
		c.origin("pools[0].backends["+strconv.Itoa(i)+"].url", "--backend")
	}
	c.Pools = []Pool{pool}
	if len(urls) == 0 {
		return nil, nil, errors.New("no backend is named")
	}
	warnings, err := c.Validate()
	if err != nil {
		return nil, warnings, err
	}
	return c, warnings, nil
}

// isBlank reports whether there is nothing but comments.
func isBlank(data []byte) bool {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// errEmpty is what a file without content says.
var errEmpty = errors.New("the file is empty: it needs version: 1 and pools")

// errNoConfig is what a nil configuration says of itself.
var errNoConfig = errors.New("there is no configuration")
