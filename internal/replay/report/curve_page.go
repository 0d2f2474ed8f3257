package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// CurvePage is a page on how pools are routed and what other settings would do.
type CurvePage struct {
	// Title stands at its top.
	Title string
	// Pools are its parts.
	Pools []CurvePool
}

// CurvePool is what is said of one pool.
type CurvePool struct {
	// Name is the pool's name, and Facts what all of it rests on.
	Name  string
	Facts []string
	// Table is what is to be set and why, its first line the heads of the columns.
	Table [][]string
	// Changes is what that changes, in the same form.
	Changes [][]string
	// Curves are drawn, one beside the other.
	Curves []Curve
	// Cautions are what would make it wrong.
	Cautions []string
}

// Curve is what comes of the values of a setting, in order.
type Curve struct {
	// Setting is its name.
	Setting string
	// Values are as configuration spells them; Present and Advised are the numbers of two of
	// them, negative where there is none.
	Values           []string
	Present, Advised int
	// HitRates and Overflow are 0..1; P50s and P90s are of the time to first token, in seconds.
	HitRates, Overflow, P50s, P90s []float64
}

// The lines of curves.
var (
	hitStyle      = style{"hit rate", "#0072b2", "#56b4e9", "", circle}   //nolint:gochecknoglobals // constants
	overflowStyle = style{"overflow", "#767676", "#9a9a9a", "2 3", cross} //nolint:gochecknoglobals // as above
	p90Style      = style{"P90", "#c65100", "#ff9a52", "", diamond}       //nolint:gochecknoglobals // as above
	p50Style      = style{"P50", "#007f5f", "#2bc79a", "10 3", square}    //nolint:gochecknoglobals // as above
	curveStyles   = []style{hitStyle, overflowStyle, p90Style, p50Style}  //nolint:gochecknoglobals // as above
)

// HTML writes the page. It loads nothing and runs nothing.
func (p *CurvePage) HTML(w io.Writer) error {
	var out strings.Builder
	title := html.EscapeString(p.Title)
	fmt.Fprintf(&out, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>%s</title>
<style>
%s%s</style>
</head>
<body>
<h1>%s</h1>
`, html.EscapeString(policy), title, stylesCSS(curveStyles), pageCSS, title)
	for _, pool := range p.Pools {
		pool.write(&out)
	}
	out.WriteString("<footer>Made by <code>warmroute advise</code>: requests that came, replayed to modelled engines in virtual time, behind the router's own code.</footer>\n</body>\n</html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

func (p *CurvePool) write(out *strings.Builder) {
	fmt.Fprintf(out, "<h2>%s</h2>\n", html.EscapeString(p.Name))
	list(out, "facts", p.Facts)
	plainTable(out, p.Table)
	plainTable(out, p.Changes)
	if len(p.Curves) > 0 {
		out.WriteString(`<ul class="legend">`)
		for _, s := range curveStyles {
			fmt.Fprintf(out, "<li>%s%s</li>", sample(s), html.EscapeString(s.strategy))
		}
		out.WriteString("</ul>\n")
		out.WriteString(`<div class="plots">` + "\n")
		for i := range p.Curves {
			p.Curves[i].plot(out)
		}
		out.WriteString("</div>\n")
	}
	if len(p.Cautions) > 0 {
		out.WriteString("<h3>What would make it wrong</h3>\n")
		list(out, "cautions", p.Cautions)
	}
}

// plot draws the curve twice: as parts of a whole, and as times.
func (c *Curve) plot(out *strings.Builder) {
	xs := make([]float64, len(c.Values))
	most, longest := 0.1, 0.0
	for i := range c.Values {
		xs[i] = float64(i)
		most, longest = max(most, c.HitRates[i], c.Overflow[i]), max(longest, c.P90s[i], c.P50s[i])
	}
	x := valuesAxis(c.Setting, c.Values)
	draw := func(title string, y axis, label func(float64) string, lines ...line) {
		p := newPlot(out, title, standardFrame, x, y)
		c.marks(p)
		for _, l := range lines {
			p.line(l.style, xs, l.ys)
			for i, at := range l.ys {
				p.point(l.style, xs[i], at, fmt.Sprintf("%s, %s %s: %s", l.style.strategy, c.Setting, c.Values[i], label(at)))
			}
		}
		p.close()
	}
	draw(c.Setting+": hit rate and overflow", shareAxis("", most), percent, line{hitStyle, c.HitRates}, line{overflowStyle, c.Overflow})
	draw(c.Setting+": time to first token", secondsAxis("", longest, longest), seconds, line{p90Style, c.P90s}, line{p50Style, c.P50s})
}

// line is a line of a diagram.
type line struct {
	style style
	ys    []float64
}

// marks says where the present value lies, and the advised one.
func (c *Curve) marks(p *plot) {
	mark := func(i int, note string) {
		if i >= 0 {
			p.label("middle", p.rule(float64(i), note), p.frame.top-4, note)
		}
	}
	if c.Advised == c.Present {
		mark(c.Present, "now")
		return
	}
	mark(c.Present, "now")
	mark(c.Advised, "advised")
}

// plainTable writes a table, of which the first line is the heads.
func plainTable(out *strings.Builder, lines [][]string) {
	if len(lines) == 0 {
		return
	}
	out.WriteString("<div class=\"scroll\"><table>\n<thead><tr>")
	for _, head := range lines[0] {
		fmt.Fprintf(out, `<th scope="col" class="label">%s</th>`, html.EscapeString(head))
	}
	out.WriteString("</tr></thead>\n<tbody>\n")
	for _, cells := range lines[1:] {
		out.WriteString("<tr>")
		for i, cell := range cells {
			if i == 0 {
				fmt.Fprintf(out, `<th scope="row" class="label">%s</th>`, html.EscapeString(cell))
				continue
			}
			fmt.Fprintf(out, `<td class="label">%s</td>`, html.EscapeString(cell))
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("</tbody></table></div>\n")
}
