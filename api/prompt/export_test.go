package prompt

// Stream returns the key stream of r, cut at prefixLength.
func (r *Request) Stream(prefixLength int) []byte {
	r.write(prefixLength)
	return r.w.stream.Bytes()
}

// Retained returns what tells how many bytes of buffers r and what it works with hold
// on to, after they were given back too.
func (r *Request) Retained() func() int {
	work := r.work
	return func() int { return work.w.stream.Cap() + cap(work.w.json) + 8*cap(r.keys) }
}
