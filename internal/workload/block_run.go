package workload

// blockRun is a run of blocks with consecutive ids.
type blockRun struct {
	start, length uint64
}

// appendRun appends a run to a prompt's. Runs that continue each other become one, but none
// goes across border, the first id behind the content that is shared.
//
// So a prompt is cut between two blocks exactly where their ids are not consecutive or a
// border lies between, however its runs came together. Prompts that begin with the same
// blocks are then cut alike as far as these go, and a run's first id says what all of its
// blocks are.
func appendRun(runs []blockRun, r blockRun, border uint64) []blockRun {
	if r.start < border && r.start+r.length > border {
		head := border - r.start
		runs = appendRun(runs, blockRun{r.start, head}, border)
		r = blockRun{border, r.length - head}
	}
	if n := len(runs); n > 0 && r.start != border {
		if last := &runs[n-1]; last.start+last.length == r.start {
			last.length += r.length
			return runs
		}
	}
	return append(runs, r)
}

// firstBlocks cuts a prompt's runs down to its first blocks.
func firstBlocks(runs []blockRun, blocks uint64) []blockRun {
	for i := range runs {
		if blocks == 0 {
			return runs[:i]
		}
		runs[i].length = min(runs[i].length, blocks)
		blocks -= runs[i].length
	}
	return runs
}
