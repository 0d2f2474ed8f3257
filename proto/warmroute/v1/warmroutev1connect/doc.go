// Package warmroutev1connect is the clients and handlers of the public interface,
// version 1, for Connect, gRPC and gRPC-Web, as generated from the .proto files of
// warmroutev1. It is not written by hand.
package warmroutev1connect
