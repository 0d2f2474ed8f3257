package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/router"
)

// sagemakerPool is a pool of a file with these further keys.
func sagemakerPool(name, more string) string {
	return "  - {name: " + name + ", backends: [{url: \"http://" + name + ":8000\"}]" + more + "}\n"
}

func TestVariantsMayShareModels(t *testing.T) {
	c, warnings := mustParse(t, "version: 1\npools:\n"+
		sagemakerPool("blue", ", models: [m], sagemaker_endpoints: [chat]")+
		sagemakerPool("green", ", models: [m, {name: n, served: x}], sagemaker_endpoints: [chat], variant: next, variant_weight: 0")+
		sagemakerPool("alone", ", models: [z]"))
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	var shares []bool
	for _, spec := range c.PoolSpecs() {
		shares = append(shares, spec.SharesModels)
	}
	if diff := cmp.Diff([]bool{false, true, false}, shares); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c.Pools[0].VariantName() != "blue" || c.Pools[1].VariantName() != "next" || c.Pools[0].VariantWeight != 1 {
		t.Errorf("%+v", c.Pools)
	}
	r := router.New(router.Options{})
	for _, spec := range c.PoolSpecs() {
		if _, err := r.AddPool(spec); err != nil {
			t.Error(err)
		}
	}
}

func TestKeyMistakes(t *testing.T) {
	got := problems(t, `version: 1
keys:
  - {name: a, access_key_id: AKID, secret: s}
  - {name: a, access_key_id: AKID, secret: s, pools: [chat, nowhere]}
  - {access_key_id: "A B"}
  - {name: c, secret: "${WARMROUTE_NOT_SET}"}
  - {name: d, token_sha256: s3cret, tenant: " t", requests_per_second: -1}
  - {name: e, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, access_key_id: AK2, secret: s}
  - {name: f, token_sha256: 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08}
pools:
`+sagemakerPool("chat", ""))
	want := []string{
		`warmroute.yaml:4: keys[1].name: "a" is there already, keys[0].name in line 3`,
		`warmroute.yaml:4: keys[1].access_key_id: "AKID" is there already, keys[0].access_key_id in line 3`,
		`warmroute.yaml:4: keys[1].pools[1]: there is no pool "nowhere"`,
		`warmroute.yaml:5: keys[2].name: is missing: a key needs a name`,
		`warmroute.yaml:5: keys[2].access_key_id: "A B" is not an access key id: want letters, digits and underscores, at most 128`,
		"warmroute.yaml:5: keys[2].secret: is missing: write ${NAME}, and put it into the environment",
		`warmroute.yaml:6: keys[3].secret: the environment variable WARMROUTE_NOT_SET is not set`,
		`warmroute.yaml:6: keys[3]: a key needs a token_sha256, or an access_key_id and a secret`,
		"warmroute.yaml:7: keys[4].token_sha256: is not a SHA-256 hash: want 64 hex digits, as `printf %s TOKEN | sha256sum` prints them",
		`warmroute.yaml:7: keys[4].tenant: " t" is not a tenant id: want 1 to 64 printable ASCII characters, the first not a space`,
		`warmroute.yaml:7: keys[4].requests_per_second: -1 is neither 0 (as many as come) nor up to 1,000,000`,
		`warmroute.yaml:8: keys[5].access_key_id: a key is a token or an access key, not both: make it two keys`,
		`warmroute.yaml:9: keys[6].token_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" is there already, keys[5].token_sha256 in line 8`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEndpointMistakes(t *testing.T) {
	got := problems(t, "version: 1\npools:\n"+
		sagemakerPool("a", ", models: [m], sagemaker_endpoints: [chat, -bad, \"\"]")+
		sagemakerPool("b", ", models: [m], sagemaker_endpoints: [other], variant: a b, inference_component: "+strings.Repeat("x", 64))+
		sagemakerPool("c", ", sagemaker_endpoints: [chat], variant: a, variant_weight: -1")+
		sagemakerPool("d", ", sagemaker_endpoints: [idle], variant_weight: 0")+
		"limits: {sagemaker_body_bytes: 2GiB}\n")
	for _, want := range []string{
		`:3: pools[0].sagemaker_endpoints[1]: "-bad" is not a name in SageMaker: want letters and digits, with hyphens between them, at most 63`,
		`:3: pools[0].sagemaker_endpoints[2]: "" is not a name in SageMaker`,
		`:4: pools[1].models[0]: the model "m" is named twice, first by pools[0].models[0] in line 3`,
		`:4: pools[1].variant: "a b" is not a name in SageMaker`,
		`:4: pools[1].inference_component: "xxxx`,
		`:5: pools[2].sagemaker_endpoints[0]: variant "a" of endpoint "chat" is there already, by pools[0].sagemaker_endpoints[0] in line 3: give the pools different variants`,
		`:5: pools[2].variant_weight: -1 is not in 0..1000000`,
		`:6: pools[3].sagemaker_endpoints[0]: every variant of endpoint "idle" has variant_weight 0: requests that name none could go nowhere`,
		`:7: limits.bodies_in_flight_bytes: 1GiB is below limits.sagemaker_body_bytes (2GiB): the largest body could never be read`,
	} {
		found := false
		for _, line := range got {
			found = found || strings.Contains(line, want)
		}
		if !found {
			t.Errorf("nothing says %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if _, warnings := mustParse(t, "version: 1\npools:\n"+sagemakerPool("a", ", variant: x, variant_weight: 2")); len(warnings) != 2 {
		t.Errorf("variants without endpoints: %v", warnings)
	}
}
