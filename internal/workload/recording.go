package workload

import (
	"fmt"
	"io"
)

// Recording is a trace as it was read. It can be played in any way, and does not change.
type Recording struct {
	kind string
	// workload makes a workload of it. The options are valid.
	workload func(Options) *Workload
}

// Read reads a file of a kind that is not generated, plain or gzip: of a request log, the
// requests of some pools, or of all. The error of a bad file is a [*LineError].
func Read(kind string, r io.Reader, pools ...string) (*Recording, error) {
	read, ok := readers()[kind]
	if !ok {
		return nil, fmt.Errorf("there is no kind of trace %q", kind)
	}
	workload, err := read(r, pools)
	if err != nil {
		return nil, err
	}
	return &Recording{kind, workload}, nil
}

// Workload returns the recording as it is to be played. Pools were chosen when it was read.
func (r *Recording) Workload(o Options) (*Workload, error) {
	if err := o.Validate(r.kind); err != nil {
		return nil, err
	}
	return r.workload(o), nil
}

// readers read files, by kind.
func readers() map[string]func(r io.Reader, pools []string) (func(Options) *Workload, error) {
	return map[string]func(io.Reader, []string) (func(Options) *Workload, error){
		KindMooncake: func(r io.Reader, _ []string) (func(Options) *Workload, error) {
			t, err := readMooncake(r)
			return func(o Options) *Workload { return t.workload(o.Load) }, err
		},
		KindWeka: func(r io.Reader, _ []string) (func(Options) *Workload, error) {
			t, err := readWeka(r)
			return func(o Options) *Workload { return t.workload(o.weka()) }, err
		},
		KindAgentText: func(r io.Reader, _ []string) (func(Options) *Workload, error) {
			t, err := readAgentText(r)
			return func(o Options) *Workload { return t.workload(o.agentText()) }, err
		},
		KindRequestLog: func(r io.Reader, pools []string) (func(Options) *Workload, error) {
			t, err := readRequestLog(r, pools)
			return func(o Options) *Workload { return t.workload(o.Load) }, err
		},
	}
}
