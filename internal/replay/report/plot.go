package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// marker is the shape of a point.
type marker uint8

const (
	circle marker = iota
	square
	diamond
	triangle
	cross
)

// shape is the marker as an SVG path around the point 0 0.
func (m marker) shape() string {
	switch m {
	case square:
		return "M-3.5-3.5h7v7h-7z"
	case diamond:
		return "M0-5L5 0L0 5L-5 0z"
	case triangle:
		return "M0-4.5L4.5 3.5H-4.5z"
	case cross:
		return "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5"
	}
	return "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
}

// frame is the size of a diagram, and what its axes take of it at each side.
type frame struct{ width, height, left, right, top, bottom float64 }

// The width of a letter, about, and what is between two labels at least.
const (
	letter   = 7
	labelGap = 4
)

// standardFrame is that of diagrams with a value on each axis.
var standardFrame = frame{width: 560, height: 300, left: 60, right: 18, top: 30, bottom: 46} //nolint:gochecknoglobals // a constant

// plot is a diagram under way: an SVG in a figure.
type plot struct {
	out   *strings.Builder
	frame frame
	x, y  axis
}

// newPlot begins a diagram with its axes and grid.
func newPlot(out *strings.Builder, title string, f frame, x, y axis) *plot {
	p := &plot{out: out, frame: f, x: x, y: y}
	p.put("<figure><figcaption>%s</figcaption>\n", html.EscapeString(title))
	p.put(`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`+"\n", number(f.width), number(f.height), html.EscapeString(title))
	left, right, top, bottom := f.left, f.width-f.right, f.top, f.height-f.bottom
	for _, t := range y.ticks {
		_, at := p.at(x.least, t.at)
		p.put(`<path class="grid" d="M%s %sH%s"/>`, number(left), number(at), number(right))
		p.label("end", left-8, at+4, t.text)
	}
	for _, t := range x.ticks {
		at, _ := p.at(t.at, y.least)
		p.put(`<path class="grid" d="M%s %sV%s"/>`, number(at), number(top), number(bottom))
	}
	p.tickLabels(bottom + 18)
	p.label("middle", (left+right)/2, f.height-8, x.label)
	p.label("start", 4, 14, y.label)
	return p
}

// tickLabels writes the labels of the x axis, leaving out those for which there is no
// room. None reaches out of the diagram.
func (p *plot) tickLabels(y float64) {
	free := math.Inf(-1)
	for _, t := range p.x.ticks {
		at, _ := p.at(t.at, p.y.least)
		half := letter * float64(len(t.text)) / 2
		if at = min(at, p.frame.width-half); at-half > free {
			p.label("middle", at, y, t.text)
			free = at + half + labelGap
		}
	}
}

// at is where a point lies on the drawing.
func (p *plot) at(x, y float64) (px, py float64) {
	f := p.frame
	return f.left + p.x.place(x)*(f.width-f.left-f.right), f.height - f.bottom - p.y.place(y)*(f.height-f.top-f.bottom)
}

// line draws what belongs to a strategy through points. It leaves out those where y is not
// a number. A single point is a dot.
func (p *plot) line(s style, xs, ys []float64) {
	var d strings.Builder
	points := 0
	for i, y := range ys {
		if math.IsNaN(y) {
			continue
		}
		command := byte('L')
		if points++; points == 1 {
			command = 'M'
		}
		px, py := p.at(xs[i], y)
		fmt.Fprintf(&d, "%c%s %s", command, number(px), number(py))
	}
	if points == 1 {
		d.WriteString("h2")
	}
	if points > 0 {
		p.put(`<g class="series %s"><title>%s</title><path class="line" d="%s"/></g>`+"\n", s.class(), html.EscapeString(s.strategy), d.String())
	}
}

// point draws a strategy's marker; note is what it says when it is pointed at.
func (p *plot) point(s style, x, y float64, note string) {
	px, py := p.at(x, y)
	p.put(`<g class="series %s"><title>%s</title><path class="point" d="%s" transform="translate(%s %s)"/></g>`+"\n",
		s.class(), html.EscapeString(note), s.marker.shape(), number(px), number(py))
}

// rule draws a line across the diagram at a value of the x axis, and returns where.
func (p *plot) rule(x float64, note string) (px float64) {
	px, _ = p.at(x, p.y.least)
	p.put(`<g class="rule"><title>%s</title><path d="M%s %sV%s"/></g>`+"\n",
		html.EscapeString(note), number(px), number(p.frame.top), number(p.frame.height-p.frame.bottom))
	return px
}

// close ends the diagram.
func (p *plot) close() { p.put("</svg></figure>\n") }

func (p *plot) label(anchor string, x, y float64, text string) {
	if text != "" {
		p.put(`<text text-anchor="%s" x="%s" y="%s">%s</text>`+"\n", anchor, number(x), number(y), html.EscapeString(text))
	}
}

func (p *plot) put(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// number is a coordinate in tenths of a pixel.
func number(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
