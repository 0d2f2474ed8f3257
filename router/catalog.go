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
	// Adapter is true when the model is configured as a LoRA adapter.
	Adapter bool
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
			target := m.target(pool)
			if target.Alias && real[m.Name] {
				return nil, fmt.Errorf("pool %q: the alias %q is also the name of a served model", pool.name, m.Name)
			}
			next.served[target.Model] = true
			other, taken := next.models[m.Name]
			if taken && pool.shares && other.Pool != pool {
				continue
			}
			if taken {
				return nil, fmt.Errorf("model %q is in pool %q and again in pool %q", m.Name, other.Pool.name, pool.name)
			}
			next.models[m.Name] = target
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

// Resolve finds what the engines of this pool call a model. No name means the pool's
// only model, or the one that its backends name first. The error is a [*NotReadyError]
// while nothing is configured and no backend has said what it serves, else an
// [*UnknownModelError].
func (p *Pool) Resolve(model string) (Target, error) {
	if model == "" {
		return p.only()
	}
	for _, m := range p.models {
		if m.Name == model {
			return m.target(p), nil
		}
	}
	if len(p.models) == 0 {
		for _, b := range p.Backends() {
			if _, known := b.Models(); known && b.Serves(model) {
				return Target{Pool: p, Model: model}, nil
			}
		}
		if !p.learned() {
			return Target{}, &NotReadyError{Model: model, Pool: p.name, RetryAfter: retryUnlearned}
		}
	}
	return Target{}, &UnknownModelError{Model: model}
}

// target is where the requests for a model of pool p go.
func (m ModelSpec) target(p *Pool) Target {
	if m.Served == "" || m.Served == m.Name {
		return Target{Pool: p, Model: m.Name, Adapter: m.Adapter}
	}
	return Target{Pool: p, Model: m.Served, Alias: true, Adapter: m.Adapter}
}

// only finds the model of requests that name none: the one that is configured, or the
// one that all backends name first, as vLLM does with its base model.
func (p *Pool) only() (Target, error) {
	served := make(map[string]bool)
	for _, m := range p.models {
		served[m.target(p).Model] = true
	}
	if len(served) == 1 {
		return Target{Pool: p, Model: p.models[0].target(p).Model}, nil
	}
	first := ""
	for _, b := range p.Backends() {
		models, _ := b.Models()
		if len(models) == 0 {
			continue
		}
		if first != "" && models[0].ID != first {
			return Target{}, &UnknownModelError{}
		}
		first = models[0].ID
	}
	switch {
	case first == "" && len(served) == 0 && !p.learned():
		return Target{}, &NotReadyError{Pool: p.name, RetryAfter: retryUnlearned}
	case first == "" || len(served) > 0 && !served[first]:
		return Target{}, &UnknownModelError{}
	}
	return Target{Pool: p, Model: first}, nil
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
			if seen[m.Name] {
				continue // the pool shares it with an earlier one
			}
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
