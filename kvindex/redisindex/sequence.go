package redisindex

import (
	"slices"
	"time"
)

const (
	// lateFor is how long a message may come after a later one of the same replica, which
	// happens where writing it had to be tried again, before it counts as missed.
	lateFor = 3 * time.Second
	// maxSpans bounds the runs of numbers that one replica's messages may lack meanwhile, and
	// maxSequences the replicas that are followed; silentFor is how long one is remembered
	// that says no more, which every one does twice a second.
	maxSpans     = 64
	maxSequences = 4096
	silentFor    = time.Minute
)

// sequences are how far the messages of each replica have come, which numbers them from 1 on
// in each pool. What is missing was trimmed from the stream before it was read, was never
// written, or was lost with a server that failed.
type sequences map[uint64]*sequence

// sequence is that of one replica.
type sequence struct {
	next    uint64    // the number after the highest that has come
	missing []span    // those below that have not, in order
	heard   time.Time // when the last came
}

// span is the numbers from one to another that is not among them, and since when they lack.
type span struct {
	from, to uint64
	since    time.Time
}

// take takes in that a message of a replica came. Early ones, from before it was listened
// to everybody, begin a sequence wherever they are; other sequences begin with 1.
func (s sequences) take(replica, number uint64, early bool, now time.Time) {
	of := s[replica]
	if of == nil {
		if len(s) >= maxSequences {
			return
		}
		of = &sequence{next: 1}
		if early {
			of.next = number
		}
		s[replica] = of
	}
	of.heard = now
	of.take(number, now)
}

func (s *sequence) take(number uint64, now time.Time) {
	switch {
	case number > s.next:
		s.missing = append(s.missing, span{from: s.next, to: number, since: now})
		s.next = number + 1
	case number == s.next:
		s.next++
	default:
		s.found(number)
	}
}

// found takes in that a message came late, or once more.
func (s *sequence) found(number uint64) {
	for i, m := range s.missing {
		if number < m.from || number >= m.to {
			continue
		}
		before, after := m, m
		before.to, after.from = number, number+1
		s.missing = slices.Replace(s.missing, i, i+1, before, after)
		s.missing = slices.DeleteFunc(s.missing, func(m span) bool { return m.from == m.to })
		return
	}
}

// missed reports whether messages of any replica have been missed, says so once, and forgets
// replicas that are gone.
func (s sequences) missed(now time.Time) bool {
	missed := false
	for replica, of := range s {
		if len(of.missing) > maxSpans || len(of.missing) > 0 && now.Sub(of.missing[0].since) > lateFor {
			of.missing = nil
			missed = true
		}
		if now.Sub(of.heard) > silentFor && len(of.missing) == 0 {
			delete(s, replica)
		}
	}
	return missed
}
