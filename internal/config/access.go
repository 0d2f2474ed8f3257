package config

import (
	"regexp"
	"slices"
	"strconv"
)

// accessKeyID is what an access key id may be: what AWS makes, and shorter ones.
var accessKeyID = regexp.MustCompile(`^[A-Za-z0-9_]{1,128}$`)

// keys checks who may use the data plane.
func (v *validation) keys() {
	names, ids := make(map[string]string), make(map[string]string)
	for i, k := range v.config.Keys {
		path := "keys[" + strconv.Itoa(i) + "]"
		v.unique(names, path+".name", k.Name)
		if k.Name == "" {
			v.fail(path+".name", "is missing: a key needs a name")
		}
		switch {
		case k.AccessKeyID == "":
			v.fail(path+".access_key_id", "is missing: a key needs an access_key_id and a secret")
		case !accessKeyID.MatchString(k.AccessKeyID):
			v.fail(path+".access_key_id", "%q is not an access key id: want letters, digits and underscores, at most 128", k.AccessKeyID)
		}
		v.unique(ids, path+".access_key_id", k.AccessKeyID)
		if k.Secret == "" {
			v.fail(path+".secret", "is missing: write ${NAME}, and put it into the environment")
		}
		for j, name := range k.Pools {
			if !slices.ContainsFunc(v.config.Pools, func(p Pool) bool { return p.Name == name }) {
				v.fail(path+".pools["+strconv.Itoa(j)+"]", "there is no pool %q", name)
			}
		}
	}
}

// unique checks that no two values at paths are the same.
func (v *validation) unique(seen map[string]string, path, value string) {
	if value == "" {
		return
	}
	if earlier, twice := seen[value]; twice {
		v.fail(path, "%q is there already, %s", value, v.where(earlier))
		return
	}
	seen[value] = path
}
