package kubernetes

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
)

// slice is what is kept of an EndpointSlice.
type slice struct {
	family    discoveryv1.AddressType
	ports     []port
	endpoints []endpoint
}

type port struct {
	name   string
	number int
}

type endpoint struct {
	address  string
	ready    bool
	instance string // the uid of its pod
}

// sliceOf reads an EndpointSlice.
func sliceOf(s *discoveryv1.EndpointSlice) slice {
	out := slice{family: s.AddressType}
	for _, p := range s.Ports {
		if p.Port == nil || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		one := port{number: int(*p.Port)}
		if p.Name != nil {
			one.name = *p.Name
		}
		out.ports = append(out.ports, one)
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		// Further addresses are of the same endpoint; consumers take the first.
		one := endpoint{address: e.Addresses[0], ready: takesRequests(e.Conditions)}
		if e.TargetRef != nil {
			one.instance = string(e.TargetRef.UID)
		}
		out.endpoints = append(out.endpoints, one)
	}
	return out
}

// takesRequests reports whether an endpoint takes new requests. A condition that is not
// known is taken as good, as the API asks. Ready alone is not enough: services that publish
// addresses that are not ready say it of all.
func takesRequests(c discoveryv1.EndpointConditions) bool {
	is := func(condition *bool, unknown bool) bool {
		if condition == nil {
			return unknown
		}
		return *condition
	}
	return is(c.Ready, true) && is(c.Serving, true) && !is(c.Terminating, false)
}

// choose returns the port that is meant by name or number, any if it is "" and there is one.
func (s slice) choose(meant string) (number int, ok bool) {
	if meant == "" && len(s.ports) == 1 {
		return s.ports[0].number, true
	}
	for _, p := range s.ports {
		if meant != "" && (p.name == meant || strconv.Itoa(p.number) == meant) {
			return p.number, true
		}
	}
	return 0, false
}

// specs returns the backends that slices name together. The error says that there are
// endpoints and none has the port that is meant.
func specs(all []slice, meant string, form discovery.Form) ([]backends.Spec, error) {
	family := familyOf(all)
	found := make(map[string]endpoint) // by host:port
	without := 0
	for _, s := range all {
		if s.family != family {
			continue
		}
		number, ok := s.choose(meant)
		if !ok {
			without += len(s.endpoints)
			continue
		}
		for _, e := range s.endpoints {
			at := net.JoinHostPort(e.address, strconv.Itoa(number))
			// While an endpoint moves between slices, or its address to another pod, it is in
			// two of them.
			if twin, twice := found[at]; !twice || e.ready && !twin.ready || e.ready == twin.ready && e.instance < twin.instance {
				found[at] = e
			}
		}
	}
	if len(found) == 0 && without > 0 {
		return nil, noPort(all, meant)
	}
	list := []backends.Spec{}
	for at, e := range found {
		for _, spec := range form.At(form.URL(at)) {
			spec.Unready, spec.Instance = !e.ready, e.instance
			list = append(list, spec)
		}
	}
	slices.SortFunc(list, func(a, b backends.Spec) int { return strings.Compare(a.URL, b.URL) })
	return list, nil
}

// familyOf is the one kind of address that counts: an engine that has one of each would be
// two backends.
func familyOf(all []slice) discoveryv1.AddressType {
	for _, s := range all {
		if s.family == discoveryv1.AddressTypeIPv4 && len(s.endpoints) > 0 {
			return discoveryv1.AddressTypeIPv4
		}
	}
	return discoveryv1.AddressTypeIPv6
}

// noPort says which ports there are in place of the one that is meant.
func noPort(all []slice, meant string) error {
	var there []string
	for _, s := range all {
		for _, p := range s.ports {
			if text := strings.TrimPrefix(fmt.Sprintf("%s (%d)", p.name, p.number), " "); !slices.Contains(there, text) {
				there = append(there, text)
			}
		}
	}
	slices.Sort(there)
	if meant == "" {
		return fmt.Errorf("the endpoints have several ports, %s: choose one with port", strings.Join(there, ", "))
	}
	return fmt.Errorf("no endpoint has the port %s: there are %s", meant, strings.Join(there, ", "))
}
