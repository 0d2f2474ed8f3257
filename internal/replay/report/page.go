package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
)

//go:embed page.css
var pageCSS string

// policy lets the page load nothing and run nothing, whatever it may hold.
const policy = "default-src 'none'; style-src 'unsafe-inline'"

// unit is what stands behind a number, and stays with it at the end of a line.
var unit = regexp.MustCompile(`(\d) (%|(?:s|points)\b)`)

// HTML writes the report as one page with plots.
func (r *Report) HTML(w io.Writer) error {
	var out strings.Builder
	strategies := r.strategies()
	title := html.EscapeString(r.Title)
	fmt.Fprintf(&out, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>Replay: %s</title>
<style>
%s%s</style>
</head>
<body>
<h1>%s</h1>
`, html.EscapeString(policy), title, paletteCSS(strategies), pageCSS, title)
	list(&out, "facts", r.Facts)
	for _, line := range r.remarks() {
		fmt.Fprintf(&out, "<p>%s</p>\n", html.EscapeString(unit.ReplaceAllString(line, "$1\u00a0$2")))
	}
	r.summary(&out)
	if len(r.Runs) > 0 {
		r.plots(&out, strategies)
	}
	out.WriteString("<footer>Made by <code>warmroute replay</code>: modelled engines in virtual time, behind the router's own code.</footer>\n</body>\n</html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// strategies are those of the runs, each once, in order.
func (r *Report) strategies() []string {
	var names []string
	for _, run := range r.Runs {
		if !slices.Contains(names, run.Row.Strategy) {
			names = append(names, run.Row.Strategy)
		}
	}
	return names
}

// plots draws the diagrams: over the swept values, then of each.
func (r *Report) plots(out *strings.Builder, strategies []string) {
	if r.Sweep.Key == "" {
		out.WriteString("<h2>Plots</h2>\n")
		legend(out, strategies)
		r.plotGroup(out, r.Runs)
		return
	}
	fmt.Fprintf(out, "<h2>By %s</h2>\n", html.EscapeString(r.Sweep.Key))
	legend(out, strategies)
	out.WriteString(`<div class="plots">` + "\n")
	r.plotSweep(out)
	out.WriteString("</div>\n")
	for i, group := range r.groups() {
		open := ""
		if i == 0 {
			open = " open"
		}
		fmt.Fprintf(out, "<details%s><summary>%s %s</summary>\n", open, html.EscapeString(r.Sweep.Key), html.EscapeString(string(group[0].Row.SweepValue)))
		r.plotGroup(out, group)
		out.WriteString("</details>\n")
	}
}

// plotGroup draws what the runs of one world say.
func (r *Report) plotGroup(out *strings.Builder, runs []Run) {
	out.WriteString(`<div class="plots">` + "\n")
	plotTTFT(out, runs)
	plotHitRates(out, runs, r.Faults)
	plotShares(out, "Requests by backend", runs, func(r Run) []float64 { return r.Requests })
	plotShares(out, "Uncached prompt tokens by backend", runs, func(r Run) []float64 { return r.Prefilled })
	out.WriteString("</div>\n")
}

// summary writes the table.
func (r *Report) summary(out *strings.Builder) {
	out.WriteString("<h2>Figures</h2>\n<div class=\"scroll\"><table>\n<thead><tr>")
	table, labels, all := r.cells(), r.labels(), columns()
	for i, head := range table[0] {
		if i < labels {
			fmt.Fprintf(out, `<th scope="col" class="label">%s</th>`, html.EscapeString(head))
			continue
		}
		fmt.Fprintf(out, `<th scope="col" title="%s">%s</th>`, html.EscapeString(all[i-labels].means), html.EscapeString(head))
	}
	out.WriteString("</tr></thead>\n<tbody>\n")
	for n, line := range table[1:] {
		class := ""
		if n > 0 && labels == 2 && line[0] != table[n][0] {
			class = ` class="first"`
		}
		fmt.Fprintf(out, "<tr%s>", class)
		for i, cell := range line {
			switch {
			case i == labels-1:
				fmt.Fprintf(out, `<th scope="row" class="label">%s%s</th>`, sample(styleOf(cell)), html.EscapeString(cell))
			case i < labels:
				fmt.Fprintf(out, `<th scope="row" class="label">%s</th>`, html.EscapeString(cell))
			default:
				fmt.Fprintf(out, "<td>%s</td>", html.EscapeString(cell))
			}
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("</tbody></table></div>\n")
}

// legend says which line is which strategy.
func legend(out *strings.Builder, strategies []string) {
	out.WriteString(`<ul class="legend">`)
	for _, name := range strategies {
		fmt.Fprintf(out, "<li>%s%s</li>", sample(styleOf(name)), html.EscapeString(name))
	}
	out.WriteString("</ul>\n")
}

// sample is a strategy's line and marker.
func sample(s style) string {
	return fmt.Sprintf(`<svg class="%s" viewBox="0 0 34 12" aria-hidden="true"><path class="line" d="M0 6H34"/><path class="point" d="%s" transform="translate(17 6)"/></svg>`,
		s.class(), s.marker.shape())
}

// list writes lines as a list, nothing without any.
func list(out *strings.Builder, class string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, `<ul class="%s">`, class)
	for _, line := range lines {
		fmt.Fprintf(out, "<li>%s</li>", html.EscapeString(line))
	}
	out.WriteString("</ul>\n")
}
