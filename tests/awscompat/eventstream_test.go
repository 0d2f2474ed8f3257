package awscompat

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
)

// AWS's own decoder reads the frames that the router's encoder is pinned to, and its
// encoder makes the same of what it read.
func TestGoldenFrames(t *testing.T) {
	event := map[string]string{":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}
	exception := func(kind string) map[string]string {
		return map[string]string{":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}
	}
	for name, want := range map[string]struct {
		headers map[string]string
		payload string
	}{
		"payload_part":            {event, "data: {\"choices\":[]}\n\n"},
		"empty_part":              {event, ""},
		"stream_broken":           {exception("ModelStreamError"), `{"Message":"backend a:1 did not finish","ErrorCode":"StreamBroken"}`},
		"time_exceeded":           {exception("ModelStreamError"), `{"Message":"paused","ErrorCode":"ModelInvocationTimeExceeded"}`},
		"internal_stream_failure": {exception("InternalStreamFailure"), `{"Message":"stopping"}`},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "api", "sagemaker", "testdata", name+".hex"))
		if err != nil {
			t.Fatal(err)
		}
		golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := eventstream.NewDecoder().Decode(bytes.NewReader(golden), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		headers := map[string]string{}
		for _, h := range m.Headers {
			headers[h.Name] = h.Value.String()
		}
		if diff := cmp.Diff(want.headers, headers); diff != "" || string(m.Payload) != want.payload {
			t.Errorf("%s: payload %q (-want +got)\n%s", name, m.Payload, diff)
		}
		var again bytes.Buffer
		if err := eventstream.NewEncoder().Encode(&again, m); err != nil || !bytes.Equal(again.Bytes(), golden) {
			t.Errorf("%s: AWS's encoder makes %x of it, %v", name, again.Bytes(), err)
		}
	}
}

// FuzzFrames sends any bytes through a router: AWS's decoder finds them as they were.
func FuzzFrames(f *testing.F) {
	var said []byte
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(said)
	}))
	defer engine.Close()
	f.Add([]byte("data: [DONE]\n\n"))
	f.Add(bytes.Repeat([]byte{0, 255}, 40_000))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		said = b
		r := start(t, []string{engine.URL}, "", "scrape: {enabled: false}\n")
		resp, err := http.Post(r.url+"/endpoints/"+endpoint+"/invocations-response-stream", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var got []byte
		for decoder := eventstream.NewDecoder(); ; {
			m, err := decoder.Decode(resp.Body, nil)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Payload...)
		}
		if !bytes.Equal(got, b) {
			t.Fatalf("%d bytes became %d", len(b), len(got))
		}
	})
}
