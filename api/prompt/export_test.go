package prompt

// Stream returns the key stream of r, cut at prefixLength.
func (r *Request) Stream(prefixLength int) []byte {
	r.write(prefixLength)
	return r.w.stream.Bytes()
}

// Retained returns how many bytes of buffers r holds on to.
func (r *Request) Retained() int { return r.w.stream.Cap() + cap(r.w.json) + 8*cap(r.keys) }
