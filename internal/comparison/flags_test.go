package comparison

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

func TestParseStrategies(t *testing.T) {
	got, err := parseStrategies([]string{"oracle", " Prefix_Aware "})
	if diff := cmp.Diff([]string{"ORACLE", router.PrefixAware}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range defaultStrategies() {
		if !slices.Contains(Strategies(), name) {
			t.Errorf("%s is compared by default and cannot be", name)
		}
	}
}

func TestChoose(t *testing.T) {
	base := replay.Config{Router: router.DefaultConfig()}
	if got := Choose(base, router.Random); got.Router.Strategy != router.Random || got.Placement != replay.ByRouter {
		t.Errorf("RANDOM: %s, placed by %q", got.Router.Strategy, got.Placement)
	}
	if got := Choose(base, "ORACLE"); got.Router.Strategy != router.PrefixAware || got.Placement != replay.Oracle {
		t.Errorf("ORACLE: %s, placed by %q", got.Router.Strategy, got.Placement)
	}
}

func TestParseFault(t *testing.T) {
	want := replay.Fault{At: 20 * time.Minute, Backend: 3, Kind: replay.Restart}
	for _, text := range []string{"t=1200s backend=3 restart", "restart  backend=3 t=20m"} {
		if got, err := parseFault(text); err != nil || got != want {
			t.Errorf("%q is %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{
		"", "restart", "t=1s backend=1", "t=1s restart", "backend=1 restart", "t=1s backend=1 restart lose-cache",
		"t=-1s backend=1 restart", "t=1s backend=-1 restart", "t=1s backend=x restart", "t=1s backend=1 explode", "t=1 backend=1 restart",
		"t=1s backend=1 restart=5", "t=1s backend=1 lose-cache=no", "t=1s backend=1 restart=", "t=1s t=2s backend=1 restart",
		"t=1s backend=1 backend=2 restart", "t=1s backend=1 restart restart", "t=8785h backend=1 restart",
	} {
		if got, err := parseFault(text); err == nil || !strings.Contains(err.Error(), faultForm) {
			t.Errorf("%q is %v (%v)", text, got, err)
		}
	}
}

func TestParseNoise(t *testing.T) {
	later := replay.DefaultNoise()
	later.Aborts, later.FaultEvery = 0, 20
	for text, want := range map[string]replay.Noise{
		"":                                  {},
		"default":                           replay.DefaultNoise(),
		"default, aborts=0, fault_every=20": later,
		"foreign=0.5,bytes_spread=1":        {Foreign: 0.5, BytesSpread: 1},
		"aborts=1,default":                  replay.DefaultNoise(),
		"diverging=0.1,report_zero=2e-1":    {Diverging: 0.1, ReportZero: 0.2},
	} {
		got, err := parseNoise(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, says := range map[string]string{
		"loud": "neither default nor one of bytes_spread=, ", ",": `""`, "aborts": `"" is not a number`,
		"aborts=x": `"x" is not a number`, "fault_every=0.5": `"0.5" is not a number`,
	} {
		if got, err := parseNoise(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %v (%v), want %s", text, got, err, says)
		}
	}
}

// What is written as a flag takes it is taken as what it was.
func TestFaultsAndNoiseReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fault := replay.Fault{
			At:      time.Duration(rapid.Int64Range(0, int64(latestFault)).Draw(t, "at")),
			Backend: rapid.IntMin(0).Draw(t, "backend"),
			Kind:    rapid.SampledFrom([]replay.FaultKind{replay.LoseCache, replay.Restart}).Draw(t, "kind"),
		}
		if got, err := parseFault(faultText(fault)); err != nil || got != fault {
			t.Errorf("%q is %v (%v)", faultText(fault), got, err)
		}
		share := rapid.Float64Range(0, 1)
		noise := replay.Noise{
			BytesSpread: share.Draw(t, "spread"), Aborts: share.Draw(t, "aborts"), Diverging: share.Draw(t, "diverging"),
			ReportZero: share.Draw(t, "zero"), Foreign: share.Draw(t, "foreign"), FaultEvery: rapid.IntMin(0).Draw(t, "every"),
		}
		if got, err := parseNoise(noiseText(noise)); err != nil || got != noise {
			t.Errorf("%q is %v (%v)", noiseText(noise), got, err)
		}
	})
	if got := noiseText(replay.DefaultNoise()); got != "default" {
		t.Errorf("the default noise is %q", got)
	}
}

func TestParseSweep(t *testing.T) {
	got, err := parseSweep("load=0.5, 1 ,2")
	if err != nil || got.key != "load" || !slices.Equal(got.values, []string{"0.5", "1", "2"}) {
		t.Errorf("%v (%v)", got, err)
	}
	if got, err := parseSweep(""); err != nil || got.key != "" {
		t.Errorf("nothing is %v (%v)", got, err)
	}
	for _, text := range []string{"load", "load=", "load=1,", "load=1,1", "=1,2", " =1,2"} {
		if got, err := parseSweep(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzFlags(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		if fault, err := parseFault(text); err == nil {
			if again, err := parseFault(faultText(fault)); err != nil || again != fault {
				t.Errorf("%q is %v, written %q", text, fault, faultText(fault))
			}
		}
		if noise, err := parseNoise(text); err == nil && noise == noise { // no NaN
			if again, err := parseNoise(noiseText(noise)); err != nil || again != noise {
				t.Errorf("%q is %v, written %q", text, noise, noiseText(noise))
			}
		}
		if over, err := parseSweep(text); err == nil && text != "" && len(over.values) == 0 {
			t.Errorf("%q is a sweep of no values", text)
		}
	})
}
