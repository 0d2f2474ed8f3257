//go:build race

package ops

// raceEnabled: under the race detector sync.Pool drops items at random.
const raceEnabled = true
