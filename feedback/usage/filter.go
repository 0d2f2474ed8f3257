package usage

import "bytes"

// maxEvent bounds an event that is held back; a longer one is forwarded as it comes.
const maxEvent = 16 << 20

// Filter takes out of an event stream the chunk that only a router asked for: the one
// that has usage and no choices. Everything else it forwards byte for byte, in whole
// events: an event waits for the blank line that ends it. The zero value is ready for
// one stream. It is not safe for use by several goroutines at a time.
type Filter struct {
	lines   lines
	begun   bool   // the current line has bytes
	held    []byte // of the event that is not complete
	passing bool   // that event is too long to be held and is being forwarded
	dropped bool   // the last event was taken out, and so is a \n that still belongs to it
	between bool   // no byte has come since the last event
	scan    scanner
	data    []byte // of the event that is looked at

	removed bool
}

// Push appends to dst what may be forwarded after the next bytes of the stream, p,
// and returns it. p is neither changed nor kept. dst and p must not overlap.
func (f *Filter) Push(dst, p []byte) []byte {
	if f.between && f.lines.cr && len(p) > 0 && p[0] == '\n' {
		// The second half of the line end of an event that is already decided.
		f.lines.cr = false
		if !f.dropped {
			dst = append(dst, '\n')
		}
		p = p[1:]
	}
	for len(p) > 0 {
		f.between = false
		end, complete := f.find(p)
		piece := p[:end]
		p = p[end:]
		switch {
		case f.passing:
			dst = append(dst, piece...)
			f.dropped = false
		case complete:
			dst = f.settle(dst, piece)
		default:
			f.held = append(f.held, piece...)
			if len(f.held) > maxEvent {
				dst = append(dst, f.held...)
				f.held, f.passing = nil, true
			}
		}
		if complete {
			f.passing, f.between = false, true
		}
	}
	return dst
}

// settle forwards a complete event, whose last bytes are piece, or takes it out.
func (f *Filter) settle(dst, piece []byte) []byte {
	event := piece
	if len(f.held) > 0 {
		f.held = append(f.held, piece...)
		event = f.held
	}
	f.dropped = f.unasked(event)
	if f.dropped {
		f.removed = true
	} else {
		dst = append(dst, event...)
	}
	if f.held = f.held[:0]; cap(f.held) > retain {
		f.held = nil
	}
	return dst
}

// Flush appends to dst what is left at the end of the stream, an incomplete event as
// it is, and returns it.
func (f *Filter) Flush(dst []byte) []byte {
	dst = append(dst, f.held...)
	f.held = nil
	return dst
}

// Removed reports whether a usage chunk was taken out.
func (f *Filter) Removed() bool { return f.removed }

// find returns how much of p belongs to the current event, and whether the event is
// complete.
func (f *Filter) find(p []byte) (end int, complete bool) {
	c := f.lines.walk(p)
	for {
		part, ended, more := f.lines.next(&c)
		if !more {
			return len(p), false
		}
		blank := ended && !f.begun && len(part) == 0
		f.begun = !ended && (f.begun || len(part) > 0)
		if blank {
			return c.i, true
		}
	}
}

// unasked reports whether an event is the usage chunk.
func (f *Filter) unasked(event []byte) bool {
	if !bytes.Contains(event, []byte(`"usage"`)) || !bytes.Contains(event, []byte(`"choices"`)) {
		return false
	}
	f.data = f.data[:0]
	var l lines
	c := l.walk(event)
	for {
		line, _, more := l.next(&c)
		if !more {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			f.data = append(append(f.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	f.scan.reset()
	f.scan.feed(f.data)
	if cap(f.data) > retain {
		f.data = nil
	}
	return f.scan.complete && string(f.scan.raw(choicesSlot)) == "[]" && f.scan.object(usageSlot) &&
		!f.scan.something(errorSlot)
}
