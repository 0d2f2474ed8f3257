package workload

import (
	"fmt"
	"time"
)

// Workload is something to ask of a fleet, any number of times. Several plays may go on at
// once.
type Workload struct {
	// Name says what it is, for people.
	Name string
	// Requests is how many requests a play has, 0 when that is not known beforehand.
	Requests int
	// Ends is a moment from which on no request comes, in any play, 0 when that depends on
	// the answers.
	Ends time.Duration
	// Play returns the requests from the beginning. Equal seeds give equal requests where
	// equal things become of them.
	Play func(seed uint64) Source
}

// Bounds of a load factor.
const (
	minLoad = 0.01
	maxLoad = 1000
)

// checkLoad refuses a load factor that makes no sense. 0 stands for 1.
func checkLoad(load float64) error {
	if load == 0 || load >= minLoad && load <= maxLoad {
		return nil
	}
	return fmt.Errorf("load: must be in %v..%v, is %v", minLoad, maxLoad, load)
}

// loadFactor returns what a load stands for.
func loadFactor(load float64) float64 {
	if load == 0 {
		return 1
	}
	return load
}

// faster divides a time by a load factor.
func faster(at time.Duration, load float64) time.Duration {
	return time.Duration(float64(at) / loadFactor(load))
}
