// Package client asks a Warmroute router where requests should go, for Go programs that
// send them to the engines themselves.
//
// The short way is a transport, which makes any HTTP client of an OpenAI-like API ask
// before it sends, and report by itself:
//
//	router := client.New("http://warmroute:8080")
//	defer router.Close()
//	http.DefaultClient.Transport = router.Transport(nil)
//
// The long way is [Client.Route] and [Decision.Done]: for programs that send by other
// means than net/http.
package client
