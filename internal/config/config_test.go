package config

import "testing"

func TestSmoke(t *testing.T) {
	c, w, err := Parse("x.yaml", []byte("version: 1\nlisten: :80\npools:\n  - name: a\n    routing:\n      concurency_threshold: 1\n      load_factor: -1\n    backends: [{url: 'http://k@h:8000'}, {url: 'http://h:8000', weight: 0}]\ntimeouts:\n  idle: 5\nlimits: {body_bytes: 64MB, idle: 3}\n"))
	t.Log(w)
	for _, e := range Each(err) {
		t.Log(e)
	}
	c, w, err = FromBackends([]string{"http://a:1", "HTTP://A:1/"})
	t.Log(c.String(), w, err)
}
