package sagemaker

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// frame is a frame as a client reads it.
type frame struct {
	headers map[string]string
	payload string
}

// readFrame reads the first frame of b and returns what is behind it. It is written from
// the format's description, without the encoder.
func readFrame(b []byte) (frame, []byte, error) {
	if len(b) < 16 {
		return frame{}, nil, errors.New("short prelude")
	}
	total, size := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
	switch {
	case binary.BigEndian.Uint32(b[8:]) != crc32.ChecksumIEEE(b[:8]):
		return frame{}, nil, errors.New("checksum of the prelude")
	case total < 16 || total > len(b) || size > total-16:
		return frame{}, nil, errors.New("lengths")
	case binary.BigEndian.Uint32(b[total-4:]) != crc32.ChecksumIEEE(b[:total-4]):
		return frame{}, nil, errors.New("checksum of the frame")
	}
	f := frame{headers: make(map[string]string), payload: string(b[12+size : total-4])}
	for h := b[12 : 12+size]; len(h) > 0; {
		n := 1 + int(h[0])
		if len(h) < n+3 || h[n] != 7 {
			return frame{}, nil, errors.New("header")
		}
		end := n + 3 + int(binary.BigEndian.Uint16(h[n+1:]))
		if len(h) < end {
			return frame{}, nil, errors.New("header value")
		}
		f.headers[string(h[1:n])] = string(h[n+3 : end])
		h = h[end:]
	}
	return f, b[total:], nil
}

// The golden frames are those that clients of AWS's SDKs are tested with.
func TestGoldenFrames(t *testing.T) {
	for name, got := range map[string][]byte{
		"payload_part":            frames{}.Append(nil, []byte("data: {\"choices\":[]}\n\n")),
		"empty_part":              frames{}.Append(nil, nil),
		"stream_broken":           exception(modelStreamError, streamException{Message: "backend a:1 did not finish", ErrorCode: streamBroken}),
		"time_exceeded":           exception(modelStreamError, streamException{Message: "paused", ErrorCode: timeExceeded}),
		"internal_stream_failure": exception(internalStreamFailure, streamException{Message: "stopping"}),
	} {
		file := filepath.Join("testdata", name+".hex")
		if *rewrite {
			if err := os.WriteFile(file, []byte(hex.EncodeToString(got)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimSpace(string(want)), hex.EncodeToString(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestFrames(t *testing.T) {
	event := map[string]string{":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}
	stream := frames{}.Append(nil, []byte("ab"))
	if len(stream) != 107 {
		t.Errorf("two bytes make a frame of %d, want 107", len(stream))
	}
	stream = append(stream, exception(modelStreamError, streamException{Message: "m", ErrorCode: streamBroken})...)
	first, rest, err := readFrame(stream)
	if diff := cmp.Diff(frame{event, "ab"}, first, cmp.AllowUnexported(frame{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	second, rest, err := readFrame(rest)
	want := frame{
		map[string]string{":message-type": "exception", ":exception-type": "ModelStreamError", ":content-type": "application/json"},
		`{"Message":"m","ErrorCode":"StreamBroken"}`,
	}
	if diff := cmp.Diff(want, second, cmp.AllowUnexported(frame{})); err != nil || diff != "" || len(rest) > 0 {
		t.Errorf("%v, %d bytes behind it (-want +got)\n%s", err, len(rest), diff)
	}
}

// Clients bound the size of a frame.
func TestLargePieces(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 2*maxPayload+5)
	stream := frames{}.Append(nil, piece)
	sizes := []int{}
	for len(stream) > 0 {
		f, rest, err := readFrame(stream)
		if err != nil {
			t.Fatal(err)
		}
		sizes, stream = append(sizes, len(f.payload)), rest
	}
	if diff := cmp.Diff([]int{maxPayload, maxPayload, 5}, sizes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFramedHeaders(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/event-stream; charset=utf-8"}, "Content-Encoding": {"identity"}, "X": {"y"},
		headerContentType: {"what the engine says of it"},
	}
	frames{}.Header(h)
	want := http.Header{
		"Content-Type": {"application/vnd.amazon.eventstream"}, headerContentType: {"text/event-stream; charset=utf-8"}, "X": {"y"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFramingAllocatesNothing(t *testing.T) {
	piece, buf := bytes.Repeat([]byte("x"), 200), make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { buf = frames{}.Append(buf[:0], piece) }); n != 0 {
		t.Errorf("%v allocations a piece", n)
	}
}

// Any piece comes out of its frame as it went in, and any flipped bit is noticed.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("data: [DONE]\n\n"), uint(3))
	f.Add([]byte{}, uint(90))
	f.Add(bytes.Repeat([]byte{0}, 300), uint(1))
	f.Fuzz(func(t *testing.T, piece []byte, flip uint) {
		stream := frames{}.Append([]byte("before"), piece)[len("before"):]
		if len(stream) != frameSize+len(partHeaders)+len(piece) {
			t.Fatalf("%d bytes make a frame of %d", len(piece), len(stream))
		}
		got, rest, err := readFrame(stream)
		if err != nil || got.payload != string(piece) || len(rest) > 0 {
			t.Fatalf("%q became %q: %v", piece, got.payload, err)
		}
		bit := flip % uint(8*len(stream))
		stream[bit/8] ^= 1 << (bit % 8)
		if _, _, err := readFrame(stream); err == nil {
			t.Fatalf("nobody notices that bit %d is wrong", bit)
		}
	})
}

// The reader of these tests never trusts what it reads.
func FuzzReadFrame(f *testing.F) {
	f.Add(frames{}.Append(nil, []byte("x")))
	f.Add(exception(internalStreamFailure, streamException{Message: "x"}))
	f.Add([]byte("0000000000000000"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for {
			got, rest, err := readFrame(stream)
			if err != nil {
				return
			}
			if len(got.payload)+len(rest) > len(stream) || len(rest) >= len(stream) {
				t.Fatalf("%d bytes became %d and %d", len(stream), len(got.payload), len(rest))
			}
			stream = rest
		}
	})
}

// What a piece of a stream costs: go test -bench=Frame ./api/sagemaker
func BenchmarkFrame(b *testing.B) {
	for _, size := range []int{200, 4096, 8 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			piece, buf := bytes.Repeat([]byte("x"), size), make([]byte, 0, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				buf = frames{}.Append(buf[:0], piece)
			}
		})
	}
}
