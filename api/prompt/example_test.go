package prompt_test

import (
	"fmt"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

func Example() {
	body := []byte(`{"model":"llama","stream":true,"messages":[{"role":"user","content":"Why is the sky blue, and why is it red in the evening and in the morning?"}]}`)
	r, err := prompt.Parse(prompt.Chat, body)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Release()
	keys := r.Hash(kvindex.Scope{BlockBytes: 64, Pool: "chat", Model: r.Model()}, kvindex.Unlimited, r.CacheKey())
	fmt.Println(r.Model(), r.Streaming(), r.N())
	fmt.Println(len(keys.Blocks), keys.StreamBytes, keys.HasPrefix)
	// Output:
	// llama true 1
	// 1 79 false
}

func ExampleSetIncludeUsage() {
	body, err := prompt.SetIncludeUsage([]byte(`{"model": "llama", "stream": true}`))
	fmt.Println(string(body), err)
	// Output:
	// {"model": "llama", "stream": true,"stream_options":{"include_usage":true}} <nil>
}

func ExampleSetModel() {
	body, err := prompt.SetModel([]byte(`{"model": "alias", "temperature": 1.0}`), "llama-3.3-70b")
	fmt.Println(string(body), err)
	// Output:
	// {"model": "llama-3.3-70b", "temperature": 1.0} <nil>
}

func ExampleParse_error() {
	_, err := prompt.Parse(prompt.Chat, []byte(`{"model": 7}`))
	fmt.Println(err)
	// Output:
	// model: must be a string, the name of a model
}
