package main

import "syscall"

// attributes end a process with this one, however that ends, but not by the interrupt that a
// terminal sends to all of its session.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
