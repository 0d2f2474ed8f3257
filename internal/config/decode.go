package config

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxValues bounds what one file may hold once its aliases are followed.
const maxValues = 200_000

// errTooLarge ends the reading of a file that holds more.
var errTooLarge = fmt.Errorf("the file holds more than %d values", maxValues)

// defaulter is an element of a list that has defaults of its own.
type defaulter interface{ setDefaults() }

// decoder fills a Config from YAML nodes and collects everything that is wrong. It
// keeps the line of each path, so that what Validate finds has one too.
type decoder struct {
	file   string
	lookup func(name string) (value string, set bool)
	lines  map[string]int
	errs   []error
	values int
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: n.Line, Path: path, Message: fmt.Sprintf(format, args...)})
}

// value decodes a node into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if d.values++; d.values > maxValues {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.fail(n, path, "has no value: leave the key out for its default")
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *Secret:
		d.secret(n, target, path)
		return
	case *Bytes:
		decodeText(d, n, target, path, "a size such as 64MiB", parseBytes)
		return
	case *time.Duration:
		decodeText(d, n, target, path, "a duration such as 30s", parseDuration)
		return
	case *Model:
		if n.Kind == yaml.ScalarNode {
			d.scalar(n, v.FieldByName("Name"), path)
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// mapping decodes the keys of a struct.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "is %s, want keys: %s", kindOf(n), strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.fail(key, path, "a key must be a name, this is %s", kindOf(key))
			continue
		}
		at := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.fail(key, at, "the key is there twice, first in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		field, ok := fieldByName(v, key.Value)
		if !ok {
			d.unknown(key, v.Type(), at)
			continue
		}
		d.lines[at] = key.Line
		d.value(value, field, at)
	}
}

// unknown reports a key that does not exist, and what it may have been meant to be.
func (d *decoder) unknown(key *yaml.Node, t reflect.Type, at string) {
	if key.Value == "<<" {
		d.fail(key, at, "merge keys are not supported; an alias for a whole value (routing: *shared) is")
		return
	}
	known := fieldNames(t)
	if name := closest(key.Value, known); name != "" {
		d.fail(key, at, "unknown key %q: did you mean %s?", key.Value, name)
		return
	}
	for _, elsewhere := range Keys() {
		if strings.HasSuffix("."+elsewhere, "."+key.Value) {
			d.fail(key, at, "unknown key %q here: it belongs to %s", key.Value, elsewhere)
			return
		}
	}
	d.fail(key, at, "unknown key %q, want one of %s", key.Value, strings.Join(known, ", "))
}

// sequence decodes a list.
func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "is %s, want a list: start each element with \"- \"", kindOf(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, element := range n.Content {
		item := list.Index(i)
		if def, ok := item.Addr().Interface().(defaulter); ok {
			def.setDefaults()
		}
		at := path + "[" + strconv.Itoa(i) + "]"
		d.lines[at] = element.Line
		d.value(element, item, at)
	}
	v.Set(list)
}

// scalar decodes a text, number or truth value.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "is %s, want %s", kindOf(n), wanted(v.Kind()))
		return
	}
	if strings.Contains(n.Value, "${") {
		if strings.HasSuffix(path, ".token_sha256") { // which may be kept beside the token
			d.hash(n, v, path)
			return
		}
		d.fail(n, path, "holds ${…}: only secrets (key_seed, passwords, keys) are taken from the environment")
		return
	}
	tag, ok := n.ShortTag(), false
	switch v.Kind() {
	case reflect.String:
		if ok = tag == "!!str"; ok {
			v.SetString(n.Value)
		} else if tag == "!!int" || tag == "!!float" || tag == "!!bool" {
			d.fail(n, path, "%s is %s, want text: put it in quotes", n.Value, kindOf(n))
			return
		}
	case reflect.Bool:
		ok = tag == "!!bool" && n.Decode(v.Addr().Interface()) == nil
	case reflect.Int:
		ok = tag == "!!int" && n.Decode(v.Addr().Interface()) == nil
	case reflect.Float64:
		ok = (tag == "!!int" || tag == "!!float") && n.Decode(v.Addr().Interface()) == nil
	}
	if !ok && v.Kind() == reflect.Int && isWhole(n.Value) {
		d.fail(n, path, "%q is too large", n.Value)
		return
	}
	if !ok {
		d.fail(n, path, "%q is %s, want %s", n.Value, kindOf(n), wanted(v.Kind()))
	}
}

// isWhole reports whether text is a whole number, of any size.
func isWhole(text string) bool {
	_, ok := new(big.Int).SetString(text, 10)
	return ok
}

// secret decodes text in which ${NAME} stands for the environment. It never shows
// what it found.
func (d *decoder) secret(n *yaml.Node, s *Secret, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "is %s, want text, best ${NAME}", kindOf(n))
		return
	}
	value, err := expand(n.Value, d.lookup)
	if err != nil {
		d.fail(n, path, "%v", err)
		return
	}
	*s = value
}

// hash decodes the hash of a secret that stands in the environment.
func (d *decoder) hash(n *yaml.Node, v reflect.Value, path string) {
	value, err := expand(n.Value, d.lookup)
	if err != nil {
		d.fail(n, path, "%v", err)
		return
	}
	v.SetString(value.Reveal())
}

// decodeText decodes a scalar that has a notation of its own.
func decodeText[T any](d *decoder, n *yaml.Node, target *T, path, want string, parse func(string) (T, error)) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "is %s, want %s", kindOf(n), want)
		return
	}
	if strings.Contains(n.Value, "${") {
		d.fail(n, path, "holds ${…}: only secrets (key_seed, passwords, keys) are taken from the environment")
		return
	}
	value, err := parse(n.Value)
	if err != nil {
		d.fail(n, path, "%v", err)
		return
	}
	*target = value
}

// syntax turns an error of the YAML parser into one of ours.
func syntax(file string, err error) error {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return &Error{File: file, Message: err.Error()}
	}
	message := at.Message
	if at.ContextMsg != "" {
		message = at.ContextMsg + ": " + message
	}
	return &Error{File: file, Line: max(at.Mark.Line, at.ContextMark.Line), Message: "not YAML: " + message}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of keys"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "true or false"
		}
		return "text"
	}
	return "something else"
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
