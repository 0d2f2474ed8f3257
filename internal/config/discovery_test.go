package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends/discovery"
)

// discovering is a file whose pool has only these sources.
func discovering(sources string) string {
	return "version: 1\npools:\n  - name: chat\n    discovery:\n" + sources
}

func TestSources(t *testing.T) {
	c, warnings := mustParse(t, minimal+"    discovery:\n      files:\n        - path: /etc/a.json\n        - path: b/*.yaml\n")
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	sources, err := c.Pools[0].Sources()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range sources {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"static", "file:/etc/a.json", "file:b/*.yaml"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	static, _ := sources[0].Source.(discovery.Static)
	if diff := cmp.Diff(discovery.Static(c.PoolSpecs()[0].Backends), static); diff != "" || len(static) != 1 {
		t.Errorf("what is static (-want +got)\n%s", diff)
	}
}

func TestDiscoveryTakesThePlaceOfBackends(t *testing.T) {
	c, _ := mustParse(t, discovering("      files: [{path: a.json}]\n"))
	if specs := c.PoolSpecs(); len(specs) != 1 || len(specs[0].Backends) != 0 {
		t.Errorf("%+v", specs)
	}
	got := problems(t, discovering("      files: []\n"))
	if len(got) != 1 || !strings.Contains(got[0], "or a source in discovery") {
		t.Errorf("%v", got)
	}
}

func TestDiscoveryMistakes(t *testing.T) {
	for sources, want := range map[string]string{
		"      files: [{path: a.txt}]\n":                                        `:5: pools[0].discovery.files[0].path: "a.txt" does not end in .json, .yaml or .yml`,
		"      files: [{interval: 1s}]\n":                                       `:5: pools[0].discovery.files[0].path: "" names no file`,
		"      files: [{path: a.json, interval: 0s}]\n":                         `:5: pools[0].discovery.files[0].interval: 0s is not above 0`,
		"      files: [{path: a.json}, {path: a.json}]\n":                       `:5: pools[0].discovery.files[1]: file:a.json is there already, by pools[0].discovery.files[0] in line 5`,
		"      dns: [{port: 8000}]\n":                                           `:5: pools[0].discovery.dns[0].name: is missing`,
		"      dns: [{name: a, port: 8000, type: MX}]\n":                        `:5: pools[0].discovery.dns[0].type: "MX" is not one of a, aaaa, srv`,
		"      dns: [{name: a, port: 8000, weight: 0}]\n":                       `:5: pools[0].discovery.dns[0].weight: 0 is not above 0`,
		"      dns: [{name: a, port: 8000, timeout: 0s}]\n":                     `:5: pools[0].discovery.dns[0].timeout: 0s is not above 0`,
		"      dns: [{name: a, port: 8000, interval: 0s}]\n":                    `:5: pools[0].discovery.dns[0].interval: 0s is not above 0`,
		"      dns: [{name: a, port: 8000}, {name: a, port: 8000, type: aaaa}]": `:5: pools[0].discovery.dns[1]: dns:a:8000 is there already`,
		"      kubernetes: [{port: http}]\n":                                    `:5: pools[0].discovery.kubernetes[0].service: is missing`,
		"      kubernetes: [{service: a, port: 8000}]\n":                        `:5: pools[0].discovery.kubernetes[0].port: 8000 is a number, want text: put it in quotes`,
		"      kubernetes: [{service: a, weight: -1}]\n":                        `:5: pools[0].discovery.kubernetes[0].weight: -1 is not above 0`,
		"      kubernetes: [{service: a}, {service: a}]\n":                      `:5: pools[0].discovery.kubernetes[1]: kubernetes:a is there already`,
		"      kubernetes: [{service: a, api_server: \"k8s:6443\"}]":            `:5: pools[0].discovery.kubernetes[0].api_server: want https://host:port`,
		"      fils: [{path: a.json}]\n":                                        `:5: pools[0].discovery.fils: unknown key "fils": did you mean files?`,
		"      files: [{path: a.json, refresh: 1s}]\n":                          `unknown key "refresh"`,
		"      files:\n        - {path: \"*/targets.json\"}":                    `:6: pools[0].discovery.files[0].path: "*/targets.json": only the last element`,
	} {
		got := strings.Join(problems(t, discovering(sources)), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s\n%s\nwant %s", sources, got, want)
		}
	}
}
