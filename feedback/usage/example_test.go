package usage_test

import (
	"fmt"

	"github.com/warmroute/warmroute/feedback/usage"
)

// A tap is given the bytes as they come, split anywhere.
func ExampleTap() {
	tap := usage.NewTap(usage.OpenAI, "text/event-stream")
	defer tap.Release()
	for _, piece := range []string{
		": ping\n\nda",
		`ta: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n",
		"\n" + `data: {"choices":[],"usage":{"prompt_tokens":500,"completion_tokens":3,`,
		`"prompt_tokens_details":{"cached_tokens":480}}}` + "\n\ndata: [DONE]\n\n",
	} {
		tap.Write([]byte(piece))
		fmt.Println("started:", tap.Started(), "done:", tap.Done())
	}
	tap.Close()
	u := tap.Usage()
	fmt.Println(u.Cached, "of", u.Prompt, "prompt tokens were cached")
	// Output:
	// started: false done: false
	// started: false done: false
	// started: true done: false
	// started: true done: true
	// 480 of 500 prompt tokens were cached
}

// A filter forwards whole events and takes out the usage chunk that the client did
// not ask for.
func ExampleFilter() {
	var filter usage.Filter
	var out []byte
	for _, piece := range []string{
		`data: {"choices":[{"text":"hi"}]}` + "\n\ndata: {\"cho",
		`ices":[],"usage":{"prompt_tokens":5}}` + "\n\n",
		"data: [DONE]\n\n",
	} {
		out = filter.Push(out[:0], []byte(piece))
		fmt.Printf("%q\n", out)
	}
	fmt.Printf("%q\n", filter.Flush(nil))
	// Output:
	// "data: {\"choices\":[{\"text\":\"hi\"}]}\n\n"
	// ""
	// "data: [DONE]\n\n"
	// ""
}
