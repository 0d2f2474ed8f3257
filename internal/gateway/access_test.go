package gateway

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
)

// lockedEngine is an engine that wants a key on everything, and notes what it was shown.
type lockedEngine struct {
	engine

	key string // empty: it lets everybody in

	mu    sync.Mutex
	shown map[string][]string // by path
}

func (e *lockedEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
	e.mu.Lock()
	if e.shown == nil {
		e.shown = make(map[string][]string)
	}
	e.shown[r.URL.Path] = append(e.shown[r.URL.Path], auth)
	e.mu.Unlock()
	if e.key != "" && auth != "Bearer "+e.key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e.engine.ServeHTTP(w, r)
}

func (e *lockedEngine) at(path string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.shown[path]...)
}

// AU-01: engines that want a key get the pool's, with requests, and with everything that the
// router asks by itself; the client's own key, which is this router's, goes no further.
func TestAU01BackendsWithKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locked := &lockedEngine{key: "engine key"}
		s := start(t, func(c *config.Config) {
			c.Pools[0].UpstreamKey = "engine key"
			c.Keys = []config.Key{{Name: "app", TokenSHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("router key")))}}
			c.Scrape.Enabled = true
		}, map[string]http.Handler{"b1:8000": locked})
		time.Sleep(12 * time.Second)
		if got := s.state("b1:8000"); got != backends.Up {
			t.Errorf("the backend is %v", got)
		}
		status, _, body := s.chat("hi", "", "Authorization", "Bearer router key", "X-Api-Key", "router key")
		if status != http.StatusOK {
			t.Errorf("with the router's key: %d %s", status, body)
		}
		if status, _, _ := s.chat("hi", "", "Authorization", "Bearer engine key"); status != http.StatusUnauthorized {
			t.Errorf("with the engine's key: %d", status)
		}
		for _, path := range []string{"/v1/models", "/health", "/metrics", "/v1/chat/completions"} {
			shown := locked.at(path)
			if len(shown) == 0 {
				t.Errorf("%s was not asked for", path)
			}
			for _, auth := range shown {
				if auth != "Bearer engine key" {
					t.Errorf("%s was asked for with %q", path, auth)
				}
			}
		}
		if log := s.log.String(); strings.Contains(log, "router key") || strings.Contains(log, "engine key") {
			t.Error("a key is in the log")
		}
		s.stop()
	})
}

// AU-05: what a client shows, right or wrong, in a header or where it does not belong, is
// nowhere to be read, nor are the keys of engines and operators; a refusal says how to ask.
func TestAU05KeysAreShownNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const right, wrong, upstream, operators = "right-hunter1", "wrong-hunter2", "engine-hunter3", "admin-hunter4"
		hash := func(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }
		var shown strings.Builder
		locked := &lockedEngine{key: upstream}
		s := start(t, func(c *config.Config) {
			c.Pools[0].UpstreamKey = upstream
			c.Keys = []config.Key{{Name: "app", TokenSHA256: hash(right)}}
			c.AdminKeys = []config.AdminKey{{Name: "on-call", TokenSHA256: hash(operators)}}
			shown.WriteString(c.String())
		}, map[string]http.Handler{"b1:8000": locked})
		time.Sleep(12 * time.Second)
		for _, header := range [][]string{
			nil, {"Authorization", "Bearer " + wrong}, {"Authorization", "Basic " + wrong}, {"X-Api-Key", wrong}, {"Authorization", "Bearer " + right},
		} {
			for _, query := range []string{"", "?api_key=" + wrong, "?key=" + right} {
				status, got, body := s.request(http.MethodPost, "http://"+dataAddr+"/v1/chat/completions"+query,
					`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, append(header, "Content-Type", "application/json")...)
				want := http.StatusUnauthorized
				if len(header) > 0 && strings.HasSuffix(header[1], right) {
					want = http.StatusOK
				}
				if status != want || status == http.StatusUnauthorized && (got.Get("WWW-Authenticate") == "" || !strings.Contains(body, `{"error":{`)) {
					t.Errorf("%v%s: %d, %v, %s", header, query, status, got, body)
				}
				fmt.Fprintln(&shown, got, body)
			}
		}
		for _, path := range []string{"/", "/metrics", "/readyz", "/debug/state", "/debug/decisions"} {
			for _, key := range []string{wrong, operators} {
				_, header, body := s.request(http.MethodGet, "http://"+adminAddr+path, "", "Authorization", "Bearer "+key)
				fmt.Fprintln(&shown, header, body)
			}
		}
		s.stop()
		shown.WriteString(s.log.String())
		if !strings.Contains(shown.String(), "warmroute_build_info") {
			t.Error("the metrics are not there to be looked through")
		}
		for line := range strings.Lines(shown.String()) {
			if strings.Contains(line, "hunter") {
				t.Errorf("a key is shown: %s", line)
			}
		}
	})
}

// AU-02: where credentials are passed through, they are on every route, and where the keys are
// this router's own they are on none, unless the file says so.
func TestAU02CredentialsOnEveryRoute(t *testing.T) {
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc\r\n--x--\r\n"
	for _, pass := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			open := new(lockedEngine)
			s := start(t, func(c *config.Config) {
				c.Pools[0].SageMakerEndpoints = []string{"ep"}
				if c.Pools[0].Variant == "" {
					c.Pools[0].Variant = "v"
				}
				if !pass {
					c.Keys = []config.Key{{Name: "app", TokenSHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("client")))}}
				}
			}, map[string]http.Handler{"b1:8000": open})
			synctest.Wait()
			routes := map[string][2]string{
				"/v1/chat/completions":                     {`{"model":"m","messages":[]}`, "application/json"},
				"/v1/completions":                          {`{"model":"m","prompt":"x"}`, "application/json"},
				"/v1/responses":                            {`{"model":"m","input":"x"}`, "application/json"},
				"/v1/embeddings":                           {`{"model":"m","input":"x"}`, "application/json"},
				"/v1/messages":                             {`{"model":"m","max_tokens":1,"messages":[]}`, "application/json"},
				"/v1/audio/transcriptions":                 {form, "multipart/form-data; boundary=x"},
				"/endpoints/ep/invocations":                {`{"messages":[]}`, "application/json"},
				"/endpoints/ep/openai/v1/chat/completions": {`{"model":"m","messages":[]}`, "application/json"},
			}
			for path, body := range routes {
				s.request(http.MethodPost, "http://"+dataAddr+path, body[0], "Content-Type", body[1], "Authorization", "Bearer client")
				at := path
				switch path {
				case "/endpoints/ep/invocations":
					at = "/invocations"
				case "/endpoints/ep/openai/v1/chat/completions":
					at = "/v1/chat/completions"
				}
				shown := open.at(at)
				want := ""
				if pass {
					want = "Bearer client"
				}
				if len(shown) == 0 || shown[len(shown)-1] != want {
					t.Errorf("pass-through %v, %s: the engine was shown %q, want %q", pass, path, shown, want)
				}
			}
			s.stop()
		})
	}
}

// A key lists the models of the pools that it is good for, and no others.
func TestKeysListTheirModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hash := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
		s := start(t, func(c *config.Config) {
			hidden := c.Pools[0]
			hidden.Name, hidden.Models = "hidden", []config.Model{{Name: "secret-model"}}
			hidden.Backends = []config.Backend{{URL: "http://b2:8000", Weight: 1}}
			c.Pools = append(c.Pools, hidden)
			c.Keys = []config.Key{
				{Name: "one", TokenSHA256: hash("one"), Pools: []string{c.Pools[0].Name}},
				{Name: "all", TokenSHA256: hash("all")},
			}
		}, map[string]http.Handler{"b1:8000": new(engine), "b2:8000": new(engine)})
		synctest.Wait()
		for token, want := range map[string]bool{"one": false, "all": true} {
			auth := "Bearer " + token
			status, _, body := s.request(http.MethodGet, "http://"+dataAddr+"/v1/models", "", "Authorization", auth)
			if status != http.StatusOK || strings.Contains(body, "secret-model") != want || !strings.Contains(body, `"m"`) {
				t.Errorf("key %s, /v1/models: %d %s", token, status, body)
			}
			status, _, body = s.request(http.MethodGet, "http://"+dataAddr+"/v1/models/secret-model", "", "Authorization", auth)
			if (status == http.StatusOK) != want || !want && status != http.StatusNotFound {
				t.Errorf("key %s, /v1/models/secret-model: %d %s", token, status, body)
			}
		}
		s.stop()
	})
}
