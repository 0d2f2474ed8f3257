package workload

import (
	"bytes"
	"errors"
	"fmt"
)

// utf8Mark is the byte order mark of UTF-8.
const utf8Mark = "\xef\xbb\xbf"

// formatBytes are enough of the beginning of a file to know any of [foreignFormats].
const formatBytes = 262

// foreignFormats are files that people take for a trace, by what they begin with after some
// bytes, and what makes lines of text of them.
var foreignFormats = []struct { //nolint:gochecknoglobals // a constant
	after int
	magic string
	name  string
	mend  string
}{
	{0, gzipMagic, "packed with gzip", "unpack it once: gzip -dc"},
	{0, "\xfd7zXZ\x00", "packed with xz", "unpack it first: xz -dc"},
	{0, "\x28\xb5\x2f\xfd", "packed with zstd", "unpack it first: zstd -dc"},
	{0, "BZh", "packed with bzip2", "unpack it first: bzip2 -dc"},
	{0, "\x04\x22\x4d\x18", "packed with lz4", "unpack it first: lz4 -dc"},
	{0, "PK\x03\x04", "a zip archive", "unpack it first: unzip -p"},
	{257, "ustar", "a tar archive", "unpack it first: tar -xOf"},
	{0, "PAR1", "a Parquet file", "write it as one JSON object a line"},
	{0, "\xff\xfe", "text in UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8"},
	{0, "\xfe\xff", "text in UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8"},
	{0, "{\x00", "text in UTF-16", "make it UTF-8: iconv -f UTF-16LE -t UTF-8"},
	{0, "\x00{", "text in UTF-16", "make it UTF-8: iconv -f UTF-16BE -t UTF-8"},
}

// refuseFormat is an error where content begins as something that is known and not text.
func refuseFormat(begin []byte) error {
	for _, f := range foreignFormats {
		if len(begin) > f.after && bytes.HasPrefix(begin[f.after:], []byte(f.magic)) {
			return fmt.Errorf("it is %s, and text is read, plain or gzip: %s", f.name, f.mend)
		}
	}
	if bytes.IndexByte(begin, 0) >= 0 {
		return errors.New("it is no text: text is read, plain or gzip")
	}
	return nil
}
