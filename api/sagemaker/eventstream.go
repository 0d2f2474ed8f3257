package sagemaker

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
)

// A frame of AWS's event stream is
//
//	length of the frame, length of its headers, CRC-32 of these two
//	headers
//	payload
//	CRC-32 of all before it
//
// with numbers of four bytes, the most significant first. A header is the length of its
// name in one byte, the name, the type of its value in one byte, the length of the value
// in two, and the value.
const (
	lengthsSize = 8
	preludeSize = lengthsSize + 4
	frameSize   = preludeSize + 4 // of an empty frame

	// stringValue is the type of a header that is text.
	stringValue = 7

	// maxPayload bounds the payload of one frame. Clients take 16 MiB.
	maxPayload = 1 << 20
)

// The exceptions that end a stream early, and the codes of the first.
const (
	modelStreamError      = "ModelStreamError"
	internalStreamFailure = "InternalStreamFailure"

	streamBroken = "StreamBroken"
	timeExceeded = "ModelInvocationTimeExceeded"
)

// partHeaders are the headers of every piece of an answer.
var partHeaders = headers(":message-type", "event", ":event-type", "PayloadPart", ":content-type", "application/octet-stream")

// headers encodes names and values in turn.
func headers(pairs ...string) []byte {
	var out []byte
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		out = append(append(out, byte(len(name))), name...)
		out = append(out, stringValue)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(value))), value...) //nolint:gosec // short constants
	}
	return out
}

// appendFrame appends one frame to dst.
func appendFrame(dst, headers, payload []byte) []byte {
	start := len(dst)
	total := frameSize + len(headers) + len(payload)
	dst = binary.BigEndian.AppendUint32(dst, uint32(total))        //nolint:gosec // at most maxPayload and some headers
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers))) //nolint:gosec // the same
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:start+lengthsSize]))
	dst = append(append(dst, headers...), payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}

// frames wraps the body of an answer in an event stream.
type frames struct{}

// Header implements [proxy.Framing]: the type of the body moves to a header of its own.
func (frames) Header(h http.Header) {
	delete(h, headerContentType)
	if kind := h["Content-Type"]; len(kind) > 0 {
		h[headerContentType] = kind
	}
	h["Content-Type"] = []string{"application/vnd.amazon.eventstream"}
	delete(h, "Content-Encoding") // it is the body's, not that of the frames
}

// Append implements [proxy.Framing]: a piece is a frame, a very large one several.
func (frames) Append(dst, piece []byte) []byte {
	for len(piece) > maxPayload {
		dst = appendFrame(dst, partHeaders, piece[:maxPayload])
		piece = piece[maxPayload:]
	}
	return appendFrame(dst, partHeaders, piece)
}

// streamException is the payload of an exception.
type streamException struct {
	Message   string `json:"Message"`
	ErrorCode string `json:"ErrorCode,omitempty"`
}

// exception returns the frame of an exception.
func exception(kind string, payload streamException) []byte {
	text, err := json.Marshal(payload)
	if err != nil { // text always has a JSON form
		text = []byte(`{}`)
	}
	return appendFrame(nil, headers(":message-type", "exception", ":exception-type", kind, ":content-type", "application/json"), text)
}
