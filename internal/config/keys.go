package config

import (
	"reflect"
	"strings"
)

// Keys returns the path of every key that a file may hold, with [] for the
// elements of lists: pools[].routing.strategy.
func Keys() []string {
	var all []string
	collect(reflect.TypeFor[Config](), "", &all)
	return all
}

func collect(t reflect.Type, path string, all *[]string) {
	for field := range t.Fields() {
		name := keyOf(field)
		if name == "" {
			continue
		}
		at := join(path, name)
		*all = append(*all, at)
		switch field := field.Type; field.Kind() {
		case reflect.Struct:
			collect(field, at, all)
		case reflect.Slice:
			if field.Elem().Kind() == reflect.Struct {
				collect(field.Elem(), at+"[]", all)
			}
		}
	}
}

// fieldNames returns the keys of a struct in order.
func fieldNames(t reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		if name := keyOf(field); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// fieldByName returns the field of a struct that a key names.
func fieldByName(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if name := keyOf(v.Type().Field(i)); name != "" && name == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// keyOf returns a field's key, "" when it has none.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}
