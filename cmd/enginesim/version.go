package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (-X main.version=…) in released binaries.
var version string

// versionLine is what --version prints.
func versionLine() string {
	known := version
	if info, ok := debug.ReadBuildInfo(); ok && known == "" && info.Main.Version != "(devel)" {
		known = info.Main.Version
	}
	return fmt.Sprintf("enginesim %s (%s, %s/%s)\n", cmp.Or(known, "dev"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
