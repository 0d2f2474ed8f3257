//go:build !linux

package redistest

import "syscall"

func attr() *syscall.SysProcAttr { return nil }
