package prompt

import (
	"bytes"
	"iter"
	"unsafe"
)

// document is a body that was read: where each of its values stands in it.
type document struct {
	body  []byte
	nodes []node // in the order of the body; what a list or an object holds follows it
	plain []byte // scratch for a text without its escapes
	key   []byte // scratch for a key without its escapes
}

// node is where a value stands, or the key of a member, which is before its value.
type node struct {
	start, end uint32 // offsets into the body
	next       uint32 // index of the node behind this one and all that it holds
}

const nodeBytes = int64(unsafe.Sizeof(node{}))

// add opens the node of what starts at an offset and returns its index.
func (d *document) add(start int) int {
	d.nodes = append(d.nodes, node{start: uint32(start)})
	return len(d.nodes) - 1
}

// close ends a node, and with it all that it holds.
func (d *document) close(at, end int) {
	n := &d.nodes[at]
	n.end, n.next = uint32(end), uint32(len(d.nodes))
}

// root is the value that the whole body is.
func (d *document) root() value { return value{doc: d} }

// value is a value of a document. The zero value is one that is absent.
type value struct {
	doc *document
	at  uint32 // index of its node
}

// absent reports whether there is no such value. One that is null is there.
func (v value) absent() bool { return v.doc == nil }

// raw returns the value as it stands in the body, nil for an absent one.
func (v value) raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := &v.doc.nodes[v.at]
	return v.doc.body[n.start:n.end]
}

// first is the first byte of the value, which tells its type; 0 for an absent one.
func (v value) first() byte {
	if v.doc == nil {
		return 0
	}
	return v.doc.body[v.doc.nodes[v.at].start]
}

func (v value) isText() bool   { return v.first() == '"' }
func (v value) isObject() bool { return v.first() == '{' }
func (v value) isArray() bool  { return v.first() == '[' }
func (v value) isTrue() bool   { return v.first() == 't' }

// given returns the value, absent if it is null.
func (v value) given() value {
	if v.first() == 'n' {
		return value{}
	}
	return v
}

// filled returns the value, absent if it is an empty list or object: templates do not
// tell them from none.
func (v value) filled() value {
	if (v.isArray() || v.isObject()) && v.doc.nodes[v.at].next == v.at+1 {
		return value{}
	}
	return v
}

// alone reports whether the list v has exactly one element.
func (v value) alone() bool {
	nodes, first := v.doc.nodes, v.at+1
	return v.isArray() && nodes[v.at].next > first && nodes[first].next == nodes[v.at].next
}

// batch returns the first element of a list and how many there are.
func (v value) batch() (first value, n int) {
	for element := range v.elements() {
		if n == 0 {
			first = element
		}
		n++
	}
	return first, n
}

// text returns the text of a string, nil for any other value. It is valid until the
// next call for a value of the same document.
func (v value) text() []byte {
	if !v.isText() {
		return nil
	}
	raw := quoted(v.raw())
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	v.doc.plain = unescape(v.doc.plain[:0], raw)
	return v.doc.plain
}

// elements are those of a list; other values have none.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		if !v.isArray() {
			return
		}
		nodes := v.doc.nodes
		for at, end := v.at+1, nodes[v.at].next; at < end; at = nodes[at].next {
			if !yield(value{v.doc, at}) {
				return
			}
		}
	}
}

// members are those of an object, in its order; other values have none. A key is valid
// until the next one of the same document is read.
func (v value) members() iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		if !v.isObject() {
			return
		}
		nodes := v.doc.nodes
		for at, end := v.at+1, nodes[v.at].next; at < end; at = nodes[at+1].next {
			if !yield(v.doc.keyOf(at), value{v.doc, at + 1}) {
				return
			}
		}
	}
}

// field returns the last member of that key of an object, absent if that is null, or v
// no object.
func (v value) field(key string) (found value) {
	if !v.isObject() {
		return value{}
	}
	nodes := v.doc.nodes
	for at, end := v.at+1, nodes[v.at].next; at < end; at = nodes[at+1].next {
		if n := &nodes[at]; keyIs(v.doc.body[n.start+1:n.end-1], key) {
			found = value{v.doc, at + 1}
		}
	}
	return found.given()
}

// keyOf returns the key at a node, without its escapes.
func (d *document) keyOf(at uint32) []byte {
	n := &d.nodes[at]
	raw := d.body[n.start+1 : n.end-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	d.key = unescape(d.key[:0], raw)
	return d.key
}
