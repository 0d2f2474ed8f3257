package redisindex

const (
	// maxPending bounds the writes that wait to be tried again, and maxPendingBytes their
	// size; batchBytes is the size of those that are tried at a time, and probeWrites how many
	// while it is to be found out whether they can be done at all.
	maxPending      = 20_000
	maxPendingBytes = 16 << 20
	batchBytes      = 2 << 20
	probeWrites     = 64
)

// pending are the writes that failed and are to be tried again, oldest first.
type pending struct {
	writes []write
	bytes  int
}

func (p *pending) len() int { return len(p.writes) }

// add has a write tried again after those that wait.
func (p *pending) add(one write) {
	p.writes = append(p.writes, one)
	p.bytes += one.size
}

// back has writes tried again before those that wait.
func (p *pending) back(writes []write) {
	p.writes = append(writes, p.writes...)
	for _, one := range writes {
		p.bytes += one.size
	}
}

// take returns the oldest, no more than so many, or than make a batch.
func (p *pending) take(most int) []write {
	n, bytes := 0, 0
	for n < min(len(p.writes), most) && (n == 0 || bytes+p.writes[n].size <= batchBytes) {
		bytes += p.writes[n].size
		n++
	}
	return p.remove(n, bytes)
}

// excess returns the oldest of those that are too many.
func (p *pending) excess() []write {
	n, bytes := 0, 0
	for len(p.writes)-n > maxPending || p.bytes-bytes > maxPendingBytes {
		bytes += p.writes[n].size
		n++
	}
	return p.remove(n, bytes)
}

func (p *pending) remove(n, bytes int) []write {
	some := p.writes[:n:n]
	p.writes, p.bytes = p.writes[n:], p.bytes-bytes
	if len(p.writes) == 0 {
		p.writes = nil
	}
	return some
}
