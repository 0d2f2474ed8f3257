package workload

import "fmt"

// maxTraceMemory bounds what is kept of a trace, in bytes. Reading one takes up to about
// three times that, since what is kept grows, and the garbage of parsing comes on top.
var maxTraceMemory = 640 << 20 //nolint:gochecknoglobals // a constant that tests lower

// What is kept for each part of a trace, in bytes, with what growing it takes.
const (
	requestMemory = 96 // a request or a turn without what follows
	messageMemory = 64 // a message without its text
	runMemory     = 16 // a run of blocks
	idMemory      = 8  // a block's name in a prompt
	blockMemory   = 64 // a block that prompts share, with its entry in the map of all
)

// memory is about how many bytes a reader keeps of a trace.
type memory int

// keep adds to it, and refuses what is too much: a small file may stand for a large trace.
func (m *memory) keep(bytes int) error {
	if *m += memory(bytes); int(*m) > maxTraceMemory {
		return fmt.Errorf("up to here the trace takes more than %d MiB of memory: cut it into parts", maxTraceMemory>>20)
	}
	return nil
}
