package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// endpointName is what SageMaker's endpoints, variants and inference components may be
// called, with at most maxEndpointName characters.
var endpointName = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9])*$`)

const maxEndpointName = 63

// VariantName is the pool's name as a production variant of its endpoints.
func (p Pool) VariantName() string { return cmp.Or(p.Variant, p.Name) }

// besides reports whether two pools stand behind the same SageMaker endpoint. Such pools
// may serve the same models: the endpoint tells them apart.
func (p Pool) besides(other Pool) bool {
	return slices.ContainsFunc(p.SageMakerEndpoints, func(name string) bool {
		return slices.Contains(other.SageMakerEndpoints, name)
	})
}

// endpoints checks what the pools say of SageMaker's endpoints.
func (v *validation) endpoints() {
	type choice struct{ endpoint, component, variant string }
	taken := make(map[choice]string)
	weights := make(map[choice]float64) // of all variants together
	first := make(map[choice]string)    // where a choice stands first
	for i, p := range v.config.Pools {
		path := "pools[" + strconv.Itoa(i) + "]"
		v.endpointNames(&p, path)
		for j, name := range p.SageMakerEndpoints {
			at := path + ".sagemaker_endpoints[" + strconv.Itoa(j) + "]"
			one := choice{name, p.InferenceComponent, p.VariantName()}
			if earlier, twice := taken[one]; twice {
				v.fail(at, "variant %q of endpoint %q is there already, by %s: give the pools different variants", one.variant, name, v.where(earlier))
			}
			taken[one] = at
			all := choice{endpoint: name, component: p.InferenceComponent}
			weights[all] += p.VariantWeight
			first[all] = cmp.Or(first[all], at)
		}
	}
	for all, weight := range weights {
		if weight == 0 {
			v.fail(first[all], "every variant of endpoint %q has variant_weight 0: requests that name none could go nowhere", all.endpoint)
		}
	}
}

// endpointNames checks what one pool says.
func (v *validation) endpointNames(p *Pool, path string) {
	name := func(at, name string) {
		if len(name) > maxEndpointName || !endpointName.MatchString(name) {
			v.fail(at, "%q is not a name in SageMaker: want letters and digits, with hyphens between them, at most %d", name, maxEndpointName)
		}
	}
	for j, endpoint := range p.SageMakerEndpoints {
		name(path+".sagemaker_endpoints["+strconv.Itoa(j)+"]", endpoint)
	}
	if p.Variant != "" || v.given(path+".variant") {
		name(path+".variant", p.Variant)
	}
	if p.InferenceComponent != "" || v.given(path+".inference_component") {
		name(path+".inference_component", p.InferenceComponent)
	}
	if !(p.VariantWeight >= 0 && p.VariantWeight <= 1e6) {
		v.fail(path+".variant_weight", "%v is not in 0..1000000", p.VariantWeight)
	}
	if len(p.SageMakerEndpoints) > 0 {
		return
	}
	for key, said := range map[string]bool{
		"variant": p.Variant != "", "variant_weight": p.VariantWeight != 1, "inference_component": p.InferenceComponent != "",
	} {
		if said {
			v.warn(path+"."+key, "says nothing without sagemaker_endpoints")
		}
	}
}
