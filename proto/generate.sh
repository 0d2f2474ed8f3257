#!/bin/sh
# Generates the Go code of the interface beside its .proto files, offline: with Debian's protobuf-compiler, or with buf
# where that is missing. Both give the same files, because the line that names the compiler is taken out.
set -eu
cd "$(dirname "$0")"
top="$(cd .. && pwd)"
bin="$(mktemp -d)"
trap 'rm -rf "$bin"' EXIT
go build -C "$top/tools" -o "$bin/" google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
PATH="$bin:$PATH"
if command -v protoc >/dev/null; then
	protoc -I . --go_out=. --go_opt=paths=source_relative \
		--connect-go_out=. --connect-go_opt=paths=source_relative,simple=true warmroute/v1/*.proto
elif command -v buf >/dev/null; then
	buf generate .
else
	echo 'neither protoc nor buf is here; on Debian: apt-get install protobuf-compiler libprotobuf-dev' >&2
	exit 1
fi
for f in warmroute/v1/*.pb.go; do
	grep -v '^// 	protoc  ' "$f" >"$bin/clean"
	cat "$bin/clean" >"$f"
done
