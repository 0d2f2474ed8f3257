package usage

import "bytes"

// lines finds the line ends of an event stream: \n, \r\n or \r, also where a piece
// ends between the two bytes of \r\n.
type lines struct {
	cr bool // the last byte was a \r that ended a line: a \n now belongs to it
}

// A cursor walks over the line ends of one piece. Looking for \n and \r apart, and
// remembering where the next \n is, keeps the walk linear whatever ends the lines.
type cursor struct {
	p  []byte
	i  int // where the walk is
	lf int // position of the next \n at or after i, len(p) when there is none; -1 not known
}

func (l *lines) walk(p []byte) cursor {
	c := cursor{p: p, lf: -1}
	if l.cr && len(p) > 0 {
		l.cr = false
		if p[0] == '\n' {
			c.i = 1
		}
	}
	return c
}

// next returns what is left of the current line in the piece, without its end, and
// whether its end is in the piece. more is false when the piece is used up.
func (l *lines) next(c *cursor) (part []byte, ended, more bool) {
	if c.i >= len(c.p) {
		return nil, false, false
	}
	if c.lf < c.i {
		c.lf = len(c.p)
		if n := bytes.IndexByte(c.p[c.i:], '\n'); n >= 0 {
			c.lf = c.i + n
		}
	}
	part = c.p[c.i:c.lf]
	if n := bytes.IndexByte(part, '\r'); n >= 0 {
		part = part[:n]
		c.i += n + 1
		if c.i == len(c.p) {
			l.cr = true
		} else if c.p[c.i] == '\n' {
			c.i++
		}
		return part, true, true
	}
	c.i = c.lf
	if c.lf == len(c.p) {
		return part, false, true
	}
	c.i++
	return part, true, true
}
