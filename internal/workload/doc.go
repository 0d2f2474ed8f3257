// Package workload holds the requests that demos, tests and replays send to a
// fleet: generated ones, and loaders of recorded traces. There is one file per
// workload.
//
// A workload of text ([Text]) is a list of sessions. Requests of one session
// depend on each other: the next one is sent when the answer to the one before is
// there and some thought has been given to it. How many sessions run at once is
// the player's choice.
//
// A [Workload] without text asks for chains of [Segment] values, runs of tokens known by
// the name of their content. It can be played any number of times; a play is a [Source],
// which says what comes by itself, and what an answer brings about. [Open] knows all
// kinds: generated ([DocsConfig], [ChatConfig], [HeadConfig]) or read from a file
// ([ReadMooncake], [ReadWeka], [ReadAgentText], [ReadRequestLog]). A [LoggedRequest] is
// a line of the router's own request log.
//
// The package owns no clock, no files and no randomness: offsets are durations,
// readers take an [io.Reader], seeds are values. Equal seeds give equal workloads,
// byte for byte. It must not import anything that routes or serves.
package workload
