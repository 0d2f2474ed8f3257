package rpc

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxComplaint bounds what is said of a message that is not the JSON it should be, in
// bytes: the parser quotes values, and a prompt is a long one.
const maxComplaint = 300

// jsonCodec reads and writes messages as JSON, as connect does by itself, but for the
// length of its complaints. Fields that are not known are ignored.
type jsonCodec struct{ name string }

// jsonCodecs are the names by which connect knows it.
func jsonCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(jsonCodec{"json"}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
	)
}

// Name implements [connect.Codec].
func (c jsonCodec) Name() string { return c.name }

// Marshal implements [connect.Codec].
func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements [connect.Codec].
func (jsonCodec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) > maxComplaint {
		text = text[:maxComplaint] + "…"
	}
	return fmt.Errorf("not a %s: %s", m.ProtoReflect().Descriptor().FullName(), text)
}
