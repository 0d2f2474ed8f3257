package prompt

// Stream returns the key stream of r, cut at prefixLength.
func (r *Request) Stream(prefixLength int) []byte {
	r.write(prefixLength)
	return r.w.stream.Bytes()
}
