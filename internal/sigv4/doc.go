// Package sigv4 verifies the signatures that AWS's clients put on their requests
// (Signature Version 4, in the Authorization header), with nothing but the standard
// library.
//
//	s, err := sigv4.Parse(r)              // before the body is read
//	err = s.Fresh(time.Now())
//	err = s.Verify(secretOf(s.AccessKeyID), sha256OfTheBody)
//
// A signature is over the method, the path, the query, some headers and the hash of the
// body. The host must be among the headers, and every X-Amz- header that is there, as AWS
// has it: what a client says of its signature it must have signed. The host is the one
// that the client asked for; a proxy in front must not change it.
//
// A body in chunks that are signed one by one (STREAMING-…) is not verified; only S3 has
// them. A body that its client leaves out of the signature (UNSIGNED-PAYLOAD) is let
// through, as with AWS: whoever wants it protected uses TLS.
//
// The format: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
package sigv4
