package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/router"
)

func TestSetRouting(t *testing.T) {
	r := DefaultPool().Routing
	for _, set := range [][2]string{
		{"strategy", "LEAST_EXPECTED_TTFT"},
		{"prefix_length", "4096"},
		{"concurrency_threshold", "16"},
		{"min_match_ratio", "0.5"},
		{"load_factor", "0"},
		{"queue_guard", "2.5"},
		{"w", "1"},
		{"on_saturation", "reject"},
		{"prompt_cache_key", "separate"},
		{"native_key", "raw"},
		{"replicas", "3"},
		{"block_bytes", "512"},
	} {
		if err := r.Set(set[0], set[1]); err != nil {
			t.Errorf("%s=%s: %v", set[0], set[1], err)
		}
	}
	want := router.Config{
		Strategy: router.LeastExpectedTTFT, PrefixLength: 4096, ConcurrencyThreshold: 16, MinMatchRatio: 0.5,
		QueueGuard: 2.5, W: 1, OnSaturation: router.Reject, PromptCacheKey: router.CacheKeySeparate, NativeKey: router.NativeRaw, Replicas: 3, BlockBytes: 512,
	}
	if diff := cmp.Diff(want, r.Router()); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if n := len(RoutingKeys()); n != 12 {
		t.Errorf("%d keys, and not each is set here", n)
	}
}

func TestSetRoutingRefuses(t *testing.T) {
	for _, tc := range []struct{ key, value, says string }{
		{"prefix_lenght", "4096", `there is no setting "prefix_lenght" (did you mean prefix_length?): the settings are strategy, prefix_length, `},
		{"url", "x", `there is no setting "url": the settings are `},
		{"", "x", `there is no setting ""`},
		{"w", "heavy", `w: "heavy" is text, want a number`},
		{"w", "", `w: has no value`},
		{"w", "1\nreplicas: 3", `w: "1\nreplicas: 3" is no value`},
		{"w", "{replicas: 3}", `w: is a group of keys, want a number`},
		{"w", "*other", `w: "*other" is no value`},
		{"w", "---\n1\n---\n2", `w: "---\n1\n---\n2" is no value`},
		{"prefix_length", "1.5", `prefix_length: "1.5" is a number, want a whole number`},
		{"prefix_length", "99999999999999999999", `prefix_length: "99999999999999999999" is too large`},
		{"on_saturation", "7", `on_saturation: 7 is a number, want text`},
		{"strategy", "${HOME}", `strategy: holds ${…}`},
	} {
		r := DefaultPool().Routing
		err := r.Set(tc.key, tc.value)
		if err == nil || !strings.HasPrefix(err.Error(), tc.says) {
			t.Errorf("%s=%s: %v, want %s", tc.key, tc.value, err, tc.says)
		}
		if diff := cmp.Diff(DefaultPool().Routing, r); diff != "" {
			t.Errorf("%s=%s changes a setting (-before +after):\n%s", tc.key, tc.value, diff)
		}
	}
}
