// Package kubernetes finds backends in a cluster: the endpoints of one service, as its
// EndpointSlices list them.
//
// The slices are listed and watched, so that a change is known within moments. An endpoint
// takes new requests while it serves and is not terminating; one that does not is named
// all the same, as not ready, so that what is known of its cache outlives a failed probe.
// The uid of its pod tells it apart from another that gets its address later.
//
// The router needs permission to list and watch endpointslices of the group
// discovery.k8s.io in the namespace. Where it cannot have that, the names of a headless
// service do (package dns): they tell who is ready, and no more.
//
// This is the only package that knows client-go. It uses the parts that list, watch and
// authenticate, and not the clientsets, which would link every type of Kubernetes.
package kubernetes
