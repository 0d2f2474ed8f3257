// Package keys decides who may use the data plane: whoever has one of the configured keys.
//
// A key is a token, of which only the hash is kept, or an access key id and its secret, as
// AWS's clients have them. They sign their requests, the body included, so the secret never
// travels; [Ring.Admit] looks at the signature before the body is read, and
// [proxy.Visitor.Check] settles it when it was. A key may be bounded in requests and tokens.
// [Operators] are the keys of the admin port.
package keys
