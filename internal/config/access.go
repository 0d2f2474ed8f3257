package config

import (
	"net"
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
			v.fail(path+".token_sha256", noHash)
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
		if k.TokensPerMinute < 0 || k.TokensPerMinute > 1e9 {
			v.fail(path+".tokens_per_minute", "%d is neither 0 (as many as come) nor up to 1,000,000,000", k.TokensPerMinute)
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

// noHash is what is said of a hash that is none.
const noHash = "is not a SHA-256 hash: want 64 hex digits, as `printf %%s TOKEN | sha256sum` prints them"

// adminKeys checks who may use the admin port. One that other machines can reach must say
// that of somebody.
func (v *validation) adminKeys() {
	c := v.config
	names, tokens := make(map[string]string), make(map[string]string)
	for i, k := range c.AdminKeys {
		path := "admin_keys[" + strconv.Itoa(i) + "]"
		v.unique(names, path+".name", k.Name)
		if k.Name == "" {
			v.fail(path+".name", "is missing: a key needs a name")
		}
		switch {
		case k.TokenSHA256 == "":
			v.fail(path+".token_sha256", "is missing: want the SHA-256 hash of a token, as `printf %%s TOKEN | sha256sum` prints it")
		case !tokenSHA256.MatchString(k.TokenSHA256):
			v.fail(path+".token_sha256", noHash)
		}
		v.unique(tokens, path+".token_sha256", strings.ToLower(k.TokenSHA256))
	}
	for i, k := range c.Keys {
		if at, both := tokens[strings.ToLower(k.TokenSHA256)]; both && k.TokenSHA256 != "" {
			v.fail("keys["+strconv.Itoa(i)+"].token_sha256", "is a key of the admin port too, %s: whoever may ask models may then change the router", v.where(at))
		}
	}
	if c.MetricsWithoutKey && len(c.AdminKeys) == 0 && c.AdminTLS.ClientCAFile == "" {
		v.warn("metrics_without_key", "the whole admin port is open without admin_keys")
	}
	if c.AdminOpen() {
		v.fail("admin_listen", "other machines can reach %q, and whoever does could change the router: say who may in admin_keys or admin_tls.client_ca_file, or listen on 127.0.0.1", c.AdminListen)
	}
}

// AdminOpen reports whether other machines can reach the admin port, and nothing says who may
// use it.
func (c *Config) AdminOpen() bool {
	host, _, err := net.SplitHostPort(c.AdminListen)
	return err == nil && !isLoopback(host) && len(c.AdminKeys) == 0 && c.AdminTLS.ClientCAFile == ""
}

// isLoopback reports whether a host is this machine and cannot be reached from others.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
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

// ForwardsRank reports whether the engines of a pool get a client's X-Data-Parallel-Rank.
func (c *Config) ForwardsRank(pool string) bool {
	return slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Name == pool && p.ForwardRank })
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
