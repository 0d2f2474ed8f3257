package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/warmroute/warmroute/internal/config"
)

// operatorKey lets in at an admin port that wants a key.
const operatorKey = "operator-key-of-the-test"

// adminKeys let in who shows the token.
func adminKeys(token string) []config.AdminKey {
	sum := sha256.Sum256([]byte(token))
	return []config.AdminKey{{Name: "operator", TokenSHA256: hex.EncodeToString(sum[:])}}
}

// TestKey looks at a router that wants a key, which is another one when the script says so.
func TestKey(t *testing.T) {
	s := newStage(t)
	c := newConfig(t)
	c.AdminKeys = adminKeys(operatorKey)
	g, admin := serve(t, c)
	control := commands(t, map[string]func(string) error{
		"/admin-key": func(token string) error {
			next := *c
			next.AdminKeys = adminKeys(token)
			return g.Reload(&next)
		},
	})
	s.play(t, "key.mjs", map[string]any{"admin": admin, "key": operatorKey, "control": control}, 5)
}
