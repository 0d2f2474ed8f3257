// Package discovery finds out which backends there are.
//
// A [Source] knows a part of them: [Static] is a list, and the children look into files,
// ask DNS, or watch Kubernetes. A [Fleet] makes one list of what all of them say; it is
// pure, and its rules are:
//
//   - What several sources name is one backend. The first of them that names its URL says
//     what its ranks, weight and threshold are; each may say that it is not ready.
//   - A source that fails keeps its last good answer. An empty answer is an answer.
//   - A backend that no source names any more takes no new requests, and stays for
//     [Linger]: if it comes back within that time, all that is known of it still holds.
//     Nothing here ends a request that runs.
//   - Another engine at the same URL, where a source can tell ([backends.Spec.Instance]),
//     starts anew.
//
// A [Discovery] runs the sources of one pool and passes on each new list:
//
//	d := discovery.New(discovery.Options{
//		Sources: []discovery.Named{{Name: "file:targets.json", Source: source}},
//		Apply:   func(specs []backends.Spec) error { _, err := pool.SetBackends(specs); return err },
//	})
//	err := d.Run(ctx)
//
// discoverytest has the suite that every source passes.
package discovery
