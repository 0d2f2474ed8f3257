package usage

import "bytes"

// field is what a line of an event stream is.
type field uint8

const (
	unknownField field = iota // not enough of the line has come
	dataField
	nameField
	otherField // a comment, an id, anything else
)

// byteOrderMark may stand once, at the start of a stream.
const byteOrderMark = "\xEF\xBB\xBF"

// maxName bounds how much of an event's name is kept.
const maxName = 64

// event puts the data of one event together from pieces of lines.
type event struct {
	lines lines

	// The current line.
	field field
	head  [len(byteOrderMark) + len("event")]byte // its start, while the field is not known
	heads int
	fresh bool // nothing of the field's value has come: a space here is not part of it
	later bool // not the first line of the stream

	// The current event.
	name    []byte
	data    []byte
	hasData bool
	scanned bool // earlier data was given to the scanner
}

func (e *event) reset() {
	*e = event{name: e.name[:0], data: e.data[:0]}
}

// feed takes the next piece of the stream and hands whole events to the tap.
func (e *event) feed(p []byte, t *Tap) {
	c := e.lines.walk(p)
	for {
		part, ended, more := e.lines.next(&c)
		if !more {
			return
		}
		e.line(part, ended, t)
	}
}

// finish takes an event that was not ended by a blank line as it is.
func (e *event) finish(t *Tap) {
	if e.field != unknownField || e.heads > 0 {
		e.line(nil, true, t)
	}
	e.end(t)
}

// line takes part of a line, or the last of it.
func (e *event) line(part []byte, ended bool, t *Tap) {
	if e.field == unknownField {
		part = e.recognise(part, ended)
	}
	if e.fresh && len(part) > 0 {
		e.fresh = false
		if part[0] == ' ' {
			part = part[1:]
		}
	}
	switch e.field {
	case dataField:
		e.add(part, t)
	case nameField:
		e.name = append(e.name, part[:min(len(part), maxName-len(e.name))]...)
	case unknownField:
		if ended {
			e.end(t) // a blank line
		}
	}
	if ended {
		e.field, e.heads, e.fresh, e.later = unknownField, 0, false, true
	}
}

// recognise finds out what the line is and returns what follows its colon. The field
// stays unknown while too little of the line has come, and for a blank line.
func (e *event) recognise(part []byte, ended bool) []byte {
	if e.heads == 0 && bytes.HasPrefix(part, []byte("data:")) {
		e.begin(dataField)
		return part[len("data:"):]
	}
	for i, c := range part {
		if c == ':' {
			e.decide()
			return part[i+1:]
		}
		if e.heads == len(e.head) {
			e.field = otherField
			return nil
		}
		e.head[e.heads] = c
		e.heads++
	}
	if ended && e.heads > 0 {
		e.decide() // a field without a value
	}
	return nil
}

func (e *event) decide() {
	head := e.head[:e.heads]
	if !e.later {
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	}
	switch string(head) {
	case "data":
		e.begin(dataField)
	case "event":
		e.begin(nameField)
	default:
		e.field = otherField
	}
}

func (e *event) begin(f field) {
	e.field, e.fresh = f, true
	switch {
	case f == nameField:
		e.name = e.name[:0] // the last counts
	case e.hasData:
		e.data = append(e.data, '\n')
	default:
		e.hasData = true
	}
}

// add collects data, and lets the scanner read it when there is much.
func (e *event) add(part []byte, t *Tap) {
	e.data = append(e.data, part...)
	if len(e.data) <= spill {
		return
	}
	if !e.scanned {
		e.scanned = true
		t.scan.reset()
	}
	t.scan.feed(e.data)
	e.data = e.data[:0]
}

// end hands the event to the tap and makes ready for the next.
func (e *event) end(t *Tap) {
	if e.hasData {
		t.dispatch(e.name, e.data, e.scanned)
	}
	e.name, e.data, e.hasData, e.scanned = e.name[:0], e.data[:0], false, false
}
