package file

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
)

func TestParse(t *testing.T) {
	plain := func(urls ...string) []backends.Spec {
		all := []backends.Spec{}
		for _, u := range urls {
			all = append(all, backends.Spec{URL: u, Rank: backends.NoRank})
		}
		return all
	}
	rank := func(r int) backends.Spec {
		return backends.Spec{
			URL: "https://b1:8443", Rank: r, Weight: 2.5, ConcurrencyThreshold: 64, Unready: true, Instance: "gpu-1/3",
		}
	}
	for _, c := range []struct {
		name, text string
		want       []backends.Spec
	}{
		{"a.json", `[]`, plain()},
		{"a.yaml", "[]\n", plain()},
		{"a.json", `[{"targets": []}, {"labels": {"job": "vllm"}}]`, plain()},
		{
			"a.json", `[{"targets": ["b1:8000", "[::1]:8000"], "labels": {"job": "vllm", "weight": ""}}, {"targets": ["https://b2/engine/"]}]`,
			plain("http://b1:8000", "http://[::1]:8000", "https://b2/engine/"),
		},
		{
			"a.json", `[{"targets": ["b1:8443"], "labels": {"__scheme__": "https", "weight": "2.5", "concurrency_threshold": "64",
				"data_parallel_ranks": 2, "ready": false, "instance_id": "gpu-1/3"}}]`,
			[]backends.Spec{rank(0), rank(1)},
		},
		{"a.yml", "- targets:\n  - b1:8000\n  - 'b2:8000'\n  labels:\n    rack: 7\n    up: true\n", plain("http://b1:8000", "http://b2:8000")},
		{
			"a.yaml", "- targets: [b1:8443]\n  labels: {__scheme__: https, weight: 2.5, concurrency_threshold: 64, data_parallel_ranks: 2, ready: false, instance_id: gpu-1/3}\n",
			[]backends.Spec{rank(0), rank(1)},
		},
		{"a.yaml", `[{"targets": ["b1:8000"]}]`, plain("http://b1:8000")},
	} {
		got, err := parse(c.name, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.text, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	labels := func(labels string) string { return `[{"targets": ["b1:80"], "labels": {` + labels + `}}]` }
	for _, c := range []struct{ name, text, want string }{
		{"a.json", "", "no content: write []"},
		{"a.yaml", " \n", "no content"},
		{"a.yaml", "# nothing yet\n", "no content"},
		{"a.yaml", "null\n", "no content"},
		{"a.json", "null", "no content"},
		{"a.json", "[\n{\"targets\": [\n", "line 2: unexpected EOF"},
		{"a.json", `[] []`, "there is more after the list"},
		{"a.json", `{"targets": []}`, "cannot unmarshal object"},
		{"a.json", `[{"tragets": ["b1:80"]}]`, `unknown field "tragets"`},
		{"a.yaml", "- tragets: [b1:80]\n", "tragets"},
		{"a.json", "[\n{\"targets\": 7}]", "line 2: json: cannot unmarshal number"},
		{"a.json", "[\n{\"targets\" 7}]", "line 2: invalid character"},
		{"a.yaml", "- targets: [b1:80\n", "line 2: while parsing a flow sequence"},
		{"a.json", `[{"targets": ["b1:80"]}, {"targets": ["ftp://b1"]}]`, `group 2: target: backend URL "ftp://b1": want http://`},
		{"a.json", `[{"targets": ["b1:80/x"]}]`, `target "b1:80/x" is no host:port and no URL`},
		{"a.json", `[{"targets": ["b1:99999"]}]`, `port "99999" is not in 1..65535`},
		{"a.json", `[{"targets": [""]}]`, `target "" is no host:port`},
		{"a.json", `[{"targets": ["user:pw@b1:80"]}]`, "no host:port"},
		{"a.json", labels(`"weight": "heavy"`), `group 1: label weight: "heavy" is no number above 0`},
		{"a.json", labels(`"weight": "0"`), `"0" is no number above 0`},
		{"a.json", labels(`"weight": "NaN"`), `"NaN" is no number above 0`},
		{"a.json", labels(`"weight": "1e9"`), `label weight: 1e+09 is not above 0, or above 1e+06`},
		{"a.json", labels(`"concurrency_threshold": "0"`), `label concurrency_threshold: "0" is no whole number of at least 1`},
		{"a.json", labels(`"concurrency_threshold": "5000"`), `label concurrency_threshold: 5000 is not in 1..1024`},
		{"a.json", labels(`"data_parallel_ranks": "1.5"`), `label data_parallel_ranks: "1.5" is no whole number`},
		{"a.json", labels(`"data_parallel_ranks": "2000"`), `label data_parallel_ranks: 2000 is not in 0..1024`},
		{"a.json", labels(`"ready": "yes"`), `label ready: "yes" is not true or false`},
		{"a.json", labels(`"__scheme__": "ftp"`), `label scheme: "ftp" is not http or https`},
		{"a.json", labels(`"weight": null`), "the value of a label must be text"},
		{"a.yaml", "- targets: [b1:80]\n  labels: {weight: [1]}\n", "the value of a label must be text"},
		{"a.json", `[{"targets": ["b1:80","b2:80","b3:80","b4:80","b5:80"], "labels": {"data_parallel_ranks": "1024"}}]`, "more than 4096 backends"},
	} {
		got, err := parse(c.name, []byte(c.text))
		if got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`[{"targets": ["b1:8000", "https://b2/x"], "labels": {"weight": "2", "ready": "false", "data_parallel_ranks": 2}}]`,
		"- targets: [b1:8000]\n  labels: {__scheme__: https, instance_id: 7}\n",
		"a: &a [*a]\n", "[]", "null", "- targets: &t [b1:80]\n- targets: *t\n", "[{\"labels\":{\"weight\":{}}}]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"f.json", "f.yaml"} {
			specs, err := parse(name, []byte(text))
			if (specs == nil) == (err == nil) {
				t.Fatalf("%s: %v and %v", name, specs, err)
			}
			if len(specs) > maxTargets {
				t.Errorf("%d backends", len(specs))
			}
			for _, s := range specs {
				if _, _, err := backends.ParseURL(s.URL); err != nil {
					t.Errorf("not a backend: %v", err)
				}
				if !(s.Weight >= 0) || s.ConcurrencyThreshold < 0 || s.Rank < backends.NoRank {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
