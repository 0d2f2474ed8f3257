// Package keys decides who may use the data plane: whoever has one of the configured keys.
//
// A key is an access key id and its secret, as AWS's clients have them. They sign their
// requests, the body included, so the secret never travels; [Ring.Admit] looks at the
// signature before the body is read, and [proxy.Visitor.Check] settles it when it was.
package keys
