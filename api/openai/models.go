package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/router"
)

// retryModels is how soon it is worth asking again when no backend has said yet what
// it serves.
const retryModels = time.Second

// listModels answers with the models of all pools that the visitor may use, one entry each,
// in an order that only a change of the configuration or of the backends changes.
func listModels(r *router.Router) func(http.ResponseWriter, *http.Request, proxy.Visitor) *proxy.Error {
	return func(w http.ResponseWriter, _ *http.Request, v proxy.Visitor) *proxy.Error {
		models := usable(r, v)
		if len(models) == 0 {
			return notLearned()
		}
		body := []byte(`{"object":"list","data":[`)
		for i, m := range models {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, entry(m)...)
		}
		writeJSON(w, append(body, `]}`...))
		return nil
	}
}

// getModel answers with one model. Ids may have slashes.
func getModel(r *router.Router) func(http.ResponseWriter, *http.Request, proxy.Visitor) *proxy.Error {
	return func(w http.ResponseWriter, req *http.Request, v proxy.Visitor) *proxy.Error {
		id := req.PathValue("id")
		models := usable(r, v)
		for _, m := range models {
			if m.Name == id {
				writeJSON(w, entry(m))
				return nil
			}
		}
		if len(models) == 0 {
			return notLearned()
		}
		return proxy.UnknownModel(id)
	}
}

// usable are the models of the pools that a visitor may use.
func usable(r *router.Router, v proxy.Visitor) []router.ListedModel {
	return slices.DeleteFunc(r.Models(), func(m router.ListedModel) bool { return !v.MayUse(m.Pool.Name()) })
}

func notLearned() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusServiceUnavailable, Code: proxy.CodeNotReady, RetryAfter: retryModels,
		Message: "no backend has said yet which models it serves",
	}
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that left needs no answer
}

// entry is what the list says of a model: what its engine says, with the id that
// clients use. A model that no engine has described yet gets an entry with nothing
// but the fields that every client expects.
func entry(m router.ListedModel) []byte {
	switch {
	case len(m.Entry.JSON) == 0:
		return append(append([]byte(`{"id":`), quote(m.Name)...), `,"object":"model","created":0,"owned_by":"warmroute"}`...)
	case m.Name == m.Served:
		return m.Entry.JSON
	}
	return renamed(m.Entry.JSON, m.Name)
}

func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // a string always has a JSON form
	}
	return text
}

// renamed replaces the value of an object's own id and changes nothing else. What is
// no object is returned as it is.
func renamed(object []byte, id string) []byte {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return object
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return object
		}
		after := d.InputOffset()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return object
		}
		if key == "id" {
			end := d.InputOffset()
			start := after + int64(bytes.LastIndex(object[after:end], value))
			return bytes.Join([][]byte{object[:start], quote(id), object[end:]}, nil)
		}
	}
	return object
}
