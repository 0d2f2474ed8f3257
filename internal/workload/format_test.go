package workload_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/warmroute/warmroute/internal/workload"
)

// utf16Of is text in UTF-16, little-endian or big-endian.
func utf16Of(text string, big bool) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		pair := []byte{byte(unit), byte(unit >> 8)}
		if big {
			slices.Reverse(pair)
		}
		out = append(out, pair...)
	}
	return string(out)
}

// A file in another format says which, and what to do.
func TestForeignFormats(t *testing.T) {
	text := string(fixture(t, workload.KindMooncake))
	tar := "mooncake.jsonl" + strings.Repeat("\x00", 243) + "ustar" + strings.Repeat("\x00", 250) + text
	for _, c := range []struct{ name, file, says string }{
		{"xz", "\xfd7zXZ\x00\x00\x04", "packed with xz, and text is read, plain or gzip: unpack it first: xz -dc"},
		{"zstd", "\x28\xb5\x2f\xfd\x04\x58", "zstd -dc"},
		{"bzip2", "BZh91AY&SY", "bzip2 -dc"},
		{"lz4", "\x04\x22\x4d\x18\x64", "lz4 -dc"},
		{"zip", "PK\x03\x04\x14", "a zip archive"},
		{"tar", tar, "a tar archive"},
		{"Parquet", "PAR1\x15\x04", "a Parquet file"},
		{"UTF-16 with a mark", "\xff\xfe" + utf16Of(text, false), "iconv -f UTF-16 -t UTF-8"},
		{"UTF-16, big-endian, with a mark", "\xfe\xff" + utf16Of(text, true), "iconv -f UTF-16 -t UTF-8"},
		{"UTF-16", utf16Of(text, false), "iconv -f UTF-16LE"},
		{"UTF-16, big-endian", utf16Of(text, true), "iconv -f UTF-16BE"},
		{"a program", "\x7fELF\x02\x01\x01\x00\x00", "no text"},
	} {
		for _, file := range []string{c.file, string(packed(t, c.file))} {
			_, err := workload.Open(workload.KindMooncake, strings.NewReader(file), workload.Options{})
			if line, ok := errors.AsType[*workload.LineError](err); !ok || line.Line != 1 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.name, err, c.says)
			}
		}
	}
	twice := packed(t, string(packed(t, text)))
	if _, err := workload.Open(workload.KindMooncake, bytes.NewReader(twice), workload.Options{}); err == nil || !strings.Contains(err.Error(), "inside gzip: it is packed with gzip") {
		t.Errorf("gzip twice: %v", err)
	}
}

// Marks that editors put at the beginning of a text are no part of it.
func TestByteOrderMark(t *testing.T) {
	for kind := range fixtures {
		text := string(fixture(t, kind))
		for _, file := range []string{"\xef\xbb\xbf" + text, string(packed(t, "\xef\xbb\xbf"+text))} {
			w, err := workload.Open(kind, strings.NewReader(file), workload.Options{})
			if err != nil || len(play(t, w, 1, 0)) != len(play(t, open(t, kind, workload.Options{}), 1, 0)) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	log := "\xef\xbb\xbf" + string(fixture(t, workload.KindRequestLog))
	if _, err := workload.Open(workload.KindRequestLog, strings.NewReader(log+log), workload.Options{}); err != nil {
		t.Errorf("two files with marks, joined: %v", err)
	}
}
