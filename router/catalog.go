package router

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// retryUnlearned is how soon it is worth asking again for a model that no backend
// has named yet.
const retryUnlearned = time.Second

// catalog is the router's pools and the models they are configured with. It is
// replaced whole.
type catalog struct {
	pools  []*Pool
	models map[string]Target
	served map[string]bool // what engines call the configured models
}

// Target is where a model's requests go.
type Target struct {
	Pool *Pool
	// Model is what the engines call the model.
	Model string
	// Alias is true when clients call it by another name.
	Alias bool
}

// with returns a catalog that has the pool too.
func (c *catalog) with(p *Pool) (*catalog, error) {
	next := &catalog{pools: append(append([]*Pool(nil), c.pools...), p), models: make(map[string]Target), served: make(map[string]bool)}
	for _, old := range c.pools {
		if old.name == p.name {
			return nil, fmt.Errorf("pool %q is there twice", p.name)
		}
	}
	real := make(map[string]bool)
	for _, pool := range next.pools {
		for _, m := range pool.models {
			if m.Served != "" && m.Served != m.Name {
				real[m.Served] = true
			}
		}
	}
	for _, pool := range next.pools {
		for _, m := range pool.models {
			target := Target{Pool: pool, Model: m.Name}
			if m.Served != "" && m.Served != m.Name {
				target.Model, target.Alias = m.Served, true
				if real[m.Name] {
					return nil, fmt.Errorf("pool %q: the alias %q is also the name of a served model", pool.name, m.Name)
				}
			}
			if other, taken := next.models[m.Name]; taken {
				return nil, fmt.Errorf("model %q is in pool %q and again in pool %q", m.Name, other.Pool.name, pool.name)
			}
			next.models[m.Name] = target
			next.served[target.Model] = true
		}
	}
	return next, nil
}

// resolve finds the pool of a model: configured names first, then what the backends
// of pools without configured models say they serve.
func (c *catalog) resolve(model string) (Target, error) {
	if target, ok := c.models[model]; ok {
		return target, nil
	}
	var unlearned *Pool
	for _, p := range c.pools {
		if len(p.models) > 0 {
			continue
		}
		for _, b := range p.Backends() {
			if _, known := b.Models(); known && b.Serves(model) {
				return Target{Pool: p, Model: model}, nil
			}
		}
		if unlearned == nil && !p.learned() {
			unlearned = p
		}
	}
	if unlearned != nil {
		return Target{}, &NotReadyError{Model: model, Pool: unlearned.name, RetryAfter: retryUnlearned}
	}
	return Target{}, &UnknownModelError{Model: model}
}

// ListedModel is one model that clients can ask for.
type ListedModel struct {
	// Name is what clients ask for, Served what the engines call it.
	Name, Served string
	Pool         *Pool
	// Entry is what the first backend that serves it says of it; its JSON is nil
	// when none has said anything.
	Entry backends.Model
}

// list returns every model that clients can ask for, once each: configured ones in
// the order of the configuration, then learned ones in the order of their backends.
func (c *catalog) list() []ListedModel {
	var all []ListedModel
	seen := make(map[string]bool)
	for _, p := range c.pools {
		for _, m := range p.models {
			served := c.models[m.Name].Model
			seen[m.Name] = true
			all = append(all, ListedModel{Name: m.Name, Served: served, Pool: p, Entry: p.entry(served)})
		}
	}
	for _, p := range c.pools {
		if len(p.models) > 0 {
			continue
		}
		for _, b := range p.Backends() {
			models, _ := b.Models()
			for _, m := range models {
				if !seen[m.ID] {
					seen[m.ID] = true
					all = append(all, ListedModel{Name: m.ID, Served: m.ID, Pool: p, Entry: m})
				}
			}
		}
	}
	return all
}

// entry returns what the first backend that serves a model says of it.
func (p *Pool) entry(served string) backends.Model {
	for _, b := range p.Backends() {
		models, _ := b.Models()
		for _, m := range models {
			if m.ID == served {
				return m
			}
		}
	}
	return backends.Model{ID: served}
}
