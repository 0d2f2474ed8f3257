// Package awscompat holds the tests that clients of SageMaker work unchanged against the
// router: AWS's SDK for Go, those for JavaScript and Python where Node, Python and the
// clients are here, and OpenAI's clients on the OpenAI-compatible path. It is a module of
// its own, so that the router needs none of them.
package awscompat
