// Package warmroutev1 is the messages of the public interface, version 1, as generated
// from routing.proto and admin.proto, which say what each field means. The clients and
// handlers of the two services are in warmroutev1connect.
//
// It is not written by hand, and owns nothing. What a version has published keeps its
// meaning: fields are added, not changed, and never numbered anew (make proto-lint).
package warmroutev1

//go:generate sh ../../generate.sh
//go:generate go test -count=1 -run=^TestPublished$ . -update
