package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
)

// maxTargets bounds the backends of one file: more than one pool can have.
const maxTargets = 4096

// group is targets with labels in common.
type group struct {
	Targets []string         `json:"targets" yaml:"targets"`
	Labels  map[string]label `json:"labels" yaml:"labels"`
}

// label is the value of a label. It is text, for which a number or truth value is taken too.
type label string

// UnmarshalJSON implements json.Unmarshaler.
func (l *label) UnmarshalJSON(data []byte) error {
	switch {
	case data[0] == '"':
		return json.Unmarshal(data, (*string)(l))
	case data[0] == '{' || data[0] == '[' || data[0] == 'n':
		return errNoText
	}
	*l = label(data)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *label) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return fmt.Errorf("line %d: %w", n.Line, errNoText)
	}
	*l = label(n.Value)
	return nil
}

var (
	errNoText = errors.New("the value of a label must be text")
	errBlank  = errors.New("the file has no content: write [] where there are no backends")
)

// parse returns the backends that the content of a file names; what is JSON by name must
// be, all else is YAML.
func parse(name string, data []byte) ([]backends.Spec, error) {
	var groups []group
	decode := decodeYAML
	if strings.HasSuffix(name, ".json") {
		decode = decodeJSON
	}
	if isBlank(data) {
		return nil, errBlank
	}
	if err := decode(data, &groups); err != nil {
		return nil, err
	}
	if groups == nil {
		return nil, errBlank
	}
	specs := []backends.Spec{}
	for i, g := range groups {
		form, err := g.form()
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", i+1, err)
		}
		for _, target := range g.Targets {
			found, err := g.at(form, target)
			if err != nil {
				return nil, fmt.Errorf("group %d: %w", i+1, err)
			}
			if specs = append(specs, found...); len(specs) > maxTargets {
				return nil, fmt.Errorf("group %d: more than %d backends", i+1, maxTargets)
			}
		}
	}
	return specs, nil
}

func decodeJSON(data []byte, groups *[]group) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(groups); err != nil {
		at := d.InputOffset()
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = e.Offset
		} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at = e.Offset
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			at = int64(len(bytes.TrimRight(data, "\n")))
		}
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(at, int64(len(data)))], []byte("\n")), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the list")
	}
	return nil
}

func decodeYAML(data []byte, groups *[]group) error {
	var document yaml.Node
	if err := yaml.Load(data, &document); err != nil {
		at, ok := errors.AsType[*yaml.LoadError](err)
		if !ok {
			return err
		}
		message := at.Message
		if at.ContextMsg != "" {
			message = at.ContextMsg + ": " + message
		}
		return fmt.Errorf("line %d: %s", max(at.Mark.Line, at.ContextMark.Line), message)
	}
	return document.Load(groups, yaml.WithKnownFields())
}

// isBlank reports whether there is nothing but comments.
func isBlank(data []byte) bool {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}

// form returns what the labels of a group say of its targets.
func (g group) form() (discovery.Form, error) {
	form := discovery.Form{Scheme: string(g.Labels["__scheme__"])}
	var errs []error
	number := func(name string, least int, to *int) {
		text := string(g.Labels[name])
		if text == "" {
			return
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			errs = append(errs, fmt.Errorf("label %s: %q is no whole number of at least %d", name, text, least))
		}
		*to = n
	}
	number("concurrency_threshold", 1, &form.ConcurrencyThreshold)
	number("data_parallel_ranks", 0, &form.DataParallelRanks)
	if text := string(g.Labels["weight"]); text != "" {
		var err error
		if form.Weight, err = strconv.ParseFloat(text, 64); err != nil || !(form.Weight > 0) {
			errs = append(errs, fmt.Errorf("label weight: %q is no number above 0", text))
		}
	}
	switch ready := g.Labels["ready"]; ready {
	case "", "true", "false":
	default:
		errs = append(errs, fmt.Errorf("label ready: %q is not true or false", ready))
	}
	if len(errs) == 0 {
		if err := form.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("label %w", err))
		}
	}
	return form, errors.Join(errs...)
}

// at returns the backends at a target of the group.
func (g group) at(form discovery.Form, target string) ([]backends.Spec, error) {
	target = strings.TrimSpace(target)
	url := form.URL(target)
	if strings.Contains(target, "://") {
		url = target
	} else if target == "" || strings.ContainsAny(target, "/?#@") {
		return nil, fmt.Errorf("target %q is no host:port and no URL", target)
	}
	if _, _, err := backends.ParseURL(url); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	specs := form.At(url)
	for i := range specs {
		specs[i].Unready = g.Labels["ready"] == "false"
		specs[i].Instance = string(g.Labels["instance_id"])
	}
	return specs, nil
}
