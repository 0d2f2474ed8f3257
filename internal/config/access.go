package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// accessKeyID is what an access key id may be: what AWS makes, and shorter ones.
var accessKeyID = regexp.MustCompile(`^[A-Za-z0-9_]{1,128}$`)

// tokenSHA256 is a hash in hex digits, and tenantID what a tenant id may be.
var (
	tokenSHA256 = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	tenantID    = regexp.MustCompile(`^[!-~][ -~]{0,63}$`)
)

// ForwardsCredentials reports whether the client's credentials go on to the engines: where
// they are keys of this router they do not, unless the file says so.
func (c *Config) ForwardsCredentials() bool {
	return c.ForwardCredentials && (len(c.Keys) == 0 || c.lines["forward_credentials"] > 0)
}

// keys checks who may use the data plane.
func (v *validation) keys() {
	names, ids, tokens := make(map[string]string), make(map[string]string), make(map[string]string)
	for i, k := range v.config.Keys {
		path := "keys[" + strconv.Itoa(i) + "]"
		v.unique(names, path+".name", k.Name)
		if k.Name == "" {
			v.fail(path+".name", "is missing: a key needs a name")
		}
		bearer := k.TokenSHA256 != ""
		switch {
		case bearer && !tokenSHA256.MatchString(k.TokenSHA256):
			v.fail(path+".token_sha256", "is not a SHA-256 hash: want 64 hex digits, as `printf %%s TOKEN | sha256sum` prints them")
		case bearer && k.AccessKeyID != "":
			v.fail(path+".access_key_id", "a key is a token or an access key, not both: make it two keys")
		case !bearer && k.AccessKeyID == "":
			v.fail(path, "a key needs a token_sha256, or an access_key_id and a secret")
		case !bearer && !accessKeyID.MatchString(k.AccessKeyID):
			v.fail(path+".access_key_id", "%q is not an access key id: want letters, digits and underscores, at most 128", k.AccessKeyID)
		}
		v.unique(ids, path+".access_key_id", k.AccessKeyID)
		v.unique(tokens, path+".token_sha256", strings.ToLower(k.TokenSHA256))
		if k.Tenant != "" && !tenantID.MatchString(k.Tenant) {
			v.fail(path+".tenant", "%q is not a tenant id: want 1 to 64 printable ASCII characters, the first not a space", k.Tenant)
		}
		if !(k.RequestsPerSecond >= 0 && k.RequestsPerSecond <= 1e6) {
			v.fail(path+".requests_per_second", "%v is neither 0 (as many as come) nor up to 1,000,000", k.RequestsPerSecond)
		}
		if k.Secret == "" && k.AccessKeyID != "" {
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

// UpstreamKey is the API key that the engines of a pool want; empty for none.
func (c *Config) UpstreamKey(pool string) string {
	for i := range c.Pools {
		if c.Pools[i].Name == pool {
			return c.Pools[i].UpstreamKey.Reveal()
		}
	}
	return ""
}
