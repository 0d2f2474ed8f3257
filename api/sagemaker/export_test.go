package sagemaker

// ReadFrame reads the first frame of b as a client does: its headers, its payload, and
// what is behind it.
func ReadFrame(b []byte) (headers map[string]string, payload string, rest []byte, err error) {
	f, rest, err := readFrame(b)
	return f.headers, f.payload, rest, err
}
