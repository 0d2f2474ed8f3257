// Package openai serves OpenAI's API: chat and text completions, responses,
// embeddings and the list of models, and the endpoints that vLLM has beside them.
//
// Requests with a prompt go by way of the backend that holds most of it; those
// without one, such as embeddings, go by load. A stored response
// (/v1/responses/{id}, previous_response_id) goes to the backend that stores it.
//
// GET /health and GET /ping are answered by the router itself: 200 while it is there, 503 once it is stopping. What
// manages an engine (/sleep, /v1/load_lora_adapter, /reset_prefix_cache, …) does not
// exist here, and neither do engines' /metrics.
package openai
