package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/warmroute/warmroute/router"
)

// RoutingKeys returns the keys of a pool's routing, in order.
func RoutingKeys() []string { return fieldNames(reflect.TypeFor[Routing]()) }

// Set gives a setting a value, both written as in a file. What the value may be is for
// [router.Config.Validate] to say.
func (r *Routing) Set(key, value string) error {
	field, ok := fieldByName(reflect.ValueOf(r).Elem(), key)
	if !ok {
		return unknownSetting(key)
	}
	var document yaml.Node
	if isBlank([]byte(value)) {
		return &Error{Path: key, Message: "has no value"}
	}
	if err := yaml.Load([]byte(value), &document); err != nil || len(document.Content) != 1 {
		return &Error{Path: key, Message: fmt.Sprintf("%q is no value", value)}
	}
	d := &decoder{lines: make(map[string]int)}
	d.value(document.Content[0], field, key)
	return errors.Join(d.errs...)
}

// unknownSetting names the settings there are.
func unknownSetting(key string) error {
	keys, hint := RoutingKeys(), ""
	if name := closest(key, keys); name != "" {
		hint = " (did you mean " + name + "?)"
	}
	return &Error{Message: fmt.Sprintf("there is no setting %q%s: the settings are %s", key, hint, strings.Join(keys, ", "))}
}

// Router returns the settings as the router names them.
func (r Routing) Router() router.Config {
	return router.Config{
		Strategy:             r.Strategy,
		PrefixLength:         r.PrefixLength,
		ConcurrencyThreshold: r.ConcurrencyThreshold,
		MinMatchRatio:        r.MinMatchRatio,
		LoadFactor:           r.LoadFactor,
		QueueGuard:           r.QueueGuard,
		W:                    r.W,
		OnSaturation:         r.OnSaturation,
		PromptCacheKey:       r.PromptCacheKey,
		NativeKey:            r.NativeKey,
		Replicas:             r.Replicas,
		BlockBytes:           r.BlockBytes,
	}
}
