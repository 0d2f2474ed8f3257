// Package dns finds backends by a name: every address that the name has is one, or every
// service that its SRV records list.
//
// Names are looked up again and again, at an interval that does not depend on how long
// their records may be kept: engines come and go within seconds. A name that does not exist
// has no addresses, which is an answer; a server that fails or says nothing gives none, and
// what was last found out holds on. Of addresses behind a proxy or a virtual IP (in
// Kubernetes, of a service that is not headless) only the one is seen: such a name is not
// for this.
package dns
