// Package anthropic serves Anthropic's messages API, which vLLM speaks as well:
// /v1/messages and /v1/messages/count_tokens. Headers such as anthropic-version pass
// through; errors of the router have that API's shape.
package anthropic
