package report

import (
	"math"
	"strconv"
	"testing"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// luminance is the relative luminance of #rrggbb, as WCAG defines it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("%q is no colour", colour)
	}
	linear := func(shift uint) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= .04045 {
			return c / 12.92
		}
		return math.Pow((c+.055)/1.055, 2.4)
	}
	return .2126*linear(16) + .7152*linear(8) + .0722*linear(0)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

// WCAG asks for 3:1 of what is drawn and 4.5:1 of text, on the page and on panels.
func TestContrast(t *testing.T) {
	const lightPanel, darkPanel = "#f6f7f9", "#1d2229" // of page.css
	const lightFaint, darkFaint = "#5b636d", "#a9b1ba"
	for _, s := range styles() {
		for _, pair := range [][2]string{{s.light, lightPage}, {s.light, lightPanel}, {s.dark, darkPage}, {s.dark, darkPanel}} {
			if got := contrast(t, pair[0], pair[1]); got < 3 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", s.strategy, pair[0], pair[1], got)
			}
		}
	}
	for _, pair := range [][2]string{
		{lightText, lightPage},
		{darkText, darkPage},
		{lightFaint, lightPage},
		{lightFaint, lightPanel},
		{darkFaint, darkPage},
		{darkFaint, darkPanel},
	} {
		if got := contrast(t, pair[0], pair[1]); got < 4.5 {
			t.Errorf("text: %s on %s has a contrast of %.2f", pair[0], pair[1], got)
		}
	}
}

// Every strategy and placement has a look that no other has, even without colours.
func TestStylesDiffer(t *testing.T) {
	names := router.Strategies()
	for _, p := range replay.Placements() {
		names = append(names, string(p))
	}
	type look struct {
		dash   string
		marker marker
	}
	looks, colours := make(map[look]string), make(map[string]string)
	for _, name := range names {
		s := styleOf(name)
		if s.light == lightText && name != string(replay.Oracle) {
			t.Errorf("%s has no style", name)
		}
		if other := looks[look{s.dash, s.marker}]; other != "" {
			t.Errorf("%s and %s have the same line and marker", name, other)
		}
		looks[look{s.dash, s.marker}] = name
		if other := colours[s.light] + colours[s.dark]; other != "" {
			t.Errorf("%s has a colour of %s", name, other)
		}
		colours[s.light], colours[s.dark] = name, name
	}
	if len(styles()) != len(names) {
		t.Errorf("%d styles for %d names", len(styles()), len(names))
	}
}
