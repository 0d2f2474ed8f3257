// Package file finds backends in files of the form that Prometheus calls file_sd: a list of
// groups, in JSON or YAML, each with targets and labels.
//
//	[{"targets": ["gpu-1:8000", "gpu-2:8000"], "labels": {"weight": "2"}}]
//
// A target is host:port or a base URL. Of the labels, these count for every target of their
// group; all others are left to whoever else reads the file:
//
//	weight                 its share of load relative to others; default 1
//	concurrency_threshold  its own; default the pool's
//	data_parallel_ranks    that many backends, one for each rank
//	ready                  "false" keeps new requests away; default "true"
//	instance_id            tells engines apart that have the same address one after the other
//	__scheme__             http or https, for targets that are no URL; default http
//
// A file that cannot be read or makes no sense keeps the backends that it named before. So
// does one without content: it is being written. A file that says [] names none.
package file
