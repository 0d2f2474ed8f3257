package sagemaker

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/router"
)

// Variant is a pool behind an endpoint: a production variant, or a variant of one of its
// inference components.
type Variant struct {
	// Endpoint is the name of the endpoint.
	Endpoint string
	// Component is the inference component that the pool is, empty for none.
	Component string
	// Name is the pool's name as a variant.
	Name string
	// Weight is its share of the requests that name no variant, relative to the others.
	Weight float64
	// Pool serves its requests.
	Pool *router.Pool
}

// endpoints are all endpoints by name.
type endpoints struct {
	variants map[string][]Variant
	random   func() uint64
	// has reports whether the session of a visitor's request belongs to a backend of a pool.
	has func(*http.Request, *proxy.Visitor, *router.Pool) bool
}

func newEndpoints(o Options) *endpoints {
	all := &endpoints{variants: make(map[string][]Variant), random: o.Random, has: o.Proxy.HasSession}
	for _, v := range o.Variants {
		all.variants[v.Endpoint] = append(all.variants[v.Endpoint], v)
	}
	return all
}

// choice is what a request says of where it is to go.
type choice struct{ endpoint, component, variant string }

// choiceOf reads path and headers. A component in the path outranks that of the header.
func choiceOf(r *http.Request) choice {
	return choice{
		endpoint:  r.PathValue("endpoint"),
		component: cmp.Or(r.PathValue("component"), r.Header.Get(headerComponent)),
		variant:   r.Header.Get(headerVariant),
	}
}

// choose finds the variant that a request goes to: the one it names, the one that has its
// session, or one by weight of those that its visitor may use.
func (all *endpoints) choose(c choice, r *http.Request, visitor *proxy.Visitor) (Variant, *proxy.Error) {
	variants, ok := all.variants[c.endpoint]
	if !ok {
		return Variant{}, invalid("there is no endpoint %q here (pools[].sagemaker_endpoints)", printed(c.endpoint))
	}
	components := 0
	var fit []Variant
	for _, v := range variants {
		if v.Component != "" {
			components++
		}
		if v.Component == c.component && (c.variant == "" || c.variant == v.Name) {
			fit = append(fit, v)
		}
	}
	switch {
	case len(fit) == 0:
		return Variant{}, c.nothing(components)
	case len(fit) == 1:
		return fit[0], nil
	}
	fit = usable(fit, visitor)
	if i := slices.IndexFunc(fit, func(v Variant) bool { return all.has(r, visitor, v.Pool) }); i >= 0 {
		return fit[i], nil
	}
	total := 0.0
	for _, v := range fit {
		total += v.Weight
	}
	at := float64(all.random()>>11) / (1 << 53) * total
	for _, v := range fit {
		if at -= v.Weight; at < 0 {
			return v, nil
		}
	}
	return fit[len(fit)-1], nil
}

// usable are the variants that a visitor may use, or all where it may use none: it is told
// so later, of whichever is chosen.
func usable(variants []Variant, visitor *proxy.Visitor) []Variant {
	var may []Variant
	for _, v := range variants {
		if visitor.MayUse(v.Pool.Name()) {
			may = append(may, v)
		}
	}
	if len(may) == 0 {
		return variants
	}
	return may
}

// nothing says why no variant fits.
func (c choice) nothing(components int) *proxy.Error {
	switch {
	case c.component == "" && c.variant == "":
		return invalid("endpoint %q has inference components only: name one in %s", c.endpoint, headerComponent)
	case c.variant == "" && components == 0:
		return invalid("endpoint %q has no inference components (pools[].inference_component)", c.endpoint)
	case c.variant == "":
		return invalid("endpoint %q has no inference component %q (pools[].inference_component)", c.endpoint, printed(c.component))
	case c.component == "":
		return invalid("endpoint %q has no variant %q (pools[].variant)", c.endpoint, printed(c.variant))
	}
	return invalid("endpoint %q has no inference component %q with a variant %q", c.endpoint, printed(c.component), printed(c.variant))
}

// printed bounds what is repeated of a client's words.
func printed(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// invalid is the error of a request that makes no sense.
func invalid(format string, args ...any) *proxy.Error {
	return &proxy.Error{Status: http.StatusBadRequest, Code: proxy.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}
