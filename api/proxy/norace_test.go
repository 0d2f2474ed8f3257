//go:build !race

package proxy_test

func raceEnabled() bool { return false }
