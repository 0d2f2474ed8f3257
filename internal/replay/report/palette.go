package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// style is how a strategy looks in every plot. Colours differ in lightness as well as in
// hue, and lines in their dashes and markers too, so that nobody has to tell two apart by
// hue alone.
type style struct {
	strategy    string
	light, dark string // stroke on a light and on a dark page
	dash        string // SVG's stroke-dasharray, empty for a solid line
	marker      marker
}

// The page's background and text, which plots stand on.
const (
	lightPage, lightText = "#ffffff", "#1b1f24"
	darkPage, darkText   = "#14181d", "#e8eaed"
)

// styles are the strategies and placements in the order of legends.
func styles() []style {
	return []style{
		{router.Random, "#767676", "#9a9a9a", "2 3", cross},
		{router.LeastOutstanding, "#a8528c", "#e29ac8", "6 3", triangle},
		{router.PrefixHash, "#007f5f", "#2bc79a", "10 3", square},
		{router.PrefixAware, "#0072b2", "#56b4e9", "", circle},
		{router.LeastExpectedTTFT, "#c65100", "#ff9a52", "", diamond},
		{string(replay.LeastQueuedTokens), "#7a5c00", "#e0c040", "6 3 2 3", triangle},
		{string(replay.BoundedHash), "#00737f", "#5fd3e0", "10 3 2 3", square},
		{string(replay.WeightedScore), "#b0104a", "#ff7aa8", "4 2", cross},
		{string(replay.LongestMatch), "#4d4dc8", "#a6a6ff", "8 2 2 2 2 2", circle},
		{string(replay.Oracle), lightText, darkText, "3 2", diamond},
	}
}

// styleOf is how a strategy looks; one that is not known looks like text.
func styleOf(strategy string) style {
	all := styles()
	if i := slices.IndexFunc(all, func(s style) bool { return s.strategy == strategy }); i >= 0 {
		return all[i]
	}
	return style{strategy: strategy, light: lightText, dark: darkText, marker: cross}
}

// class is the CSS class of what belongs to a strategy.
func (s style) class() string {
	return "s-" + html.EscapeString(strings.ToLower(strings.NewReplacer("_", "-", " ", "-").Replace(s.strategy)))
}

// paletteCSS says the colours of the page and of every strategy.
func paletteCSS(strategies []string) string {
	styles := make([]style, len(strategies))
	for i, name := range strategies {
		styles[i] = styleOf(name)
	}
	return stylesCSS(styles)
}

// stylesCSS says the colours of the page and of some styles.
func stylesCSS(styles []style) string {
	var light, dark, dashes strings.Builder
	for _, s := range styles {
		fmt.Fprintf(&light, ".%s{--series:%s}\n", s.class(), s.light)
		fmt.Fprintf(&dark, ".%s{--series:%s}\n", s.class(), s.dark)
		if s.dash != "" {
			fmt.Fprintf(&dashes, ".%s path.line{stroke-dasharray:%s}\n", s.class(), s.dash)
		}
	}
	return fmt.Sprintf(":root{--page:%s;--text:%s}\n%s%s@media (prefers-color-scheme:dark){\n:root{--page:%s;--text:%s}\n%s}\n",
		lightPage, lightText, light.String(), dashes.String(), darkPage, darkText, dark.String())
}
