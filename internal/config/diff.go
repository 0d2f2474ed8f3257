package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Change is one key whose value differs between two configurations.
type Change struct {
	// Key is its path, with the elements of lists by their names:
	// pools[chat].routing.strategy.
	Key string
	// From and To are the values as a file would have them; secrets and hashes of keys are not
	// shown. Of an element that was added to a list, or removed, nothing but its key is.
	From, To string
	// Added and Removed say that it is one.
	Added, Removed bool
	// Live says that a running router takes the change over; else it needs a restart.
	Live bool
}

// String returns the change in one line.
func (c Change) String() string {
	switch {
	case c.Added:
		return c.Key + ": added"
	case c.Removed:
		return c.Key + ": removed"
	}
	return c.Key + ": " + c.From + " → " + c.To
}

// live are the beginnings of keys that a running router takes over, and frozen those below
// them that it does not.
var (
	live   = []string{"pools[].routing.", "pools[].tuning.", "pools[].backends", "log.level", "keys[]", "admin_keys", "metrics_without_key"}
	frozen = []string{"pools[].routing.block_bytes"}
)

// hidden are the keys whose values nobody is shown: whoever has a hash may guess at its token, as
// often as they like.
var hidden = []string{"keys[].token_sha256", "admin_keys[].token_sha256"}

// Diff returns what differs between two configurations, in the order of the keys.
func Diff(from, to *Config) []Change {
	d := differ{}
	d.structs(reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem(), "", "")
	return d.changes
}

// differ collects changes. Each method takes a key as it is shown, and as [Keys] has it.
type differ struct{ changes []Change }

func (d *differ) structs(from, to reflect.Value, shown, key string) {
	for i := range from.NumField() {
		if name := keyOf(from.Type().Field(i)); name != "" {
			d.values(from.Field(i), to.Field(i), join(shown, name), join(key, name))
		}
	}
}

func (d *differ) values(from, to reflect.Value, shown, key string) {
	switch {
	case from.Kind() == reflect.Struct:
		d.structs(from, to, shown, key)
	case from.Kind() == reflect.Slice && from.Type().Elem().Kind() == reflect.Struct:
		d.lists(from, to, shown, key+"[]")
	case !reflect.DeepEqual(from.Interface(), to.Interface()):
		c := Change{Key: shown, From: text(from), To: text(to)}
		if slices.Contains(hidden, key) {
			c.From, c.To = redacted, redacted
		}
		d.add(c, key)
	}
}

// lists compares the elements of lists by their names.
func (d *differ) lists(from, to reflect.Value, shown, key string) {
	before, after := named(from), named(to)
	for _, e := range before {
		at := shown + "[" + e.name + "]"
		if i := slices.IndexFunc(after, e.sameName); i >= 0 {
			d.values(e.value, after[i].value, at, key)
		} else {
			d.add(Change{Key: at, Removed: true}, key)
		}
	}
	for _, e := range after {
		if !slices.ContainsFunc(before, e.sameName) {
			d.add(Change{Key: shown + "[" + e.name + "]", Added: true}, key)
		}
	}
}

func (d *differ) add(c Change, key string) {
	starts := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	c.Live = slices.ContainsFunc(live, starts) && !slices.ContainsFunc(frozen, starts)
	d.changes = append(d.changes, c)
}

// element is one element of a list.
type element struct {
	name  string
	value reflect.Value
}

func (e element) sameName(o element) bool { return e.name == o.name }

// named returns the elements of a list with names that tell them apart: what they are
// called, else where they are in the list.
func named(list reflect.Value) []element {
	var all []element
	seen := make(map[string]int)
	for i := range list.Len() {
		e := element{name: fmt.Sprint(i), value: list.Index(i)}
		for _, key := range []string{"name", "url"} {
			if field, ok := fieldByName(e.value, key); ok && field.Kind() == reflect.String && field.String() != "" {
				e.name = field.String()
				break
			}
		}
		if seen[e.name]++; seen[e.name] > 1 {
			e.name = fmt.Sprintf("%s#%d", e.name, seen[e.name])
		}
		all = append(all, e)
	}
	return all
}

// text writes a value as a file would, in one line.
func text(v reflect.Value) string {
	if secret, ok := v.Interface().(Secret); ok && secret != "" {
		return redacted
	}
	data, err := yaml.Dump(v.Interface())
	if err != nil {
		return "?"
	}
	return strings.Join(strings.Fields(strings.TrimSpace(string(data))), " ")
}
