// Package comparison is `warmroute replay`: the same requests, recorded or generated, sent
// once per strategy to a fleet of modelled engines in virtual time.
//
// It owns the flags, the files and the progress bar, and runs many replays side by side
// ([Run]). What a run is, it leaves to internal/replay, what is asked to
// internal/workload, and how results look to internal/replay/report.
//
// Runs share nothing but the workload, which nobody changes, so results do not depend on how
// many of them go on at once.
package comparison
