package redisindex

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Failure is how an exchange with Redis failed.
type Failure int

// The kinds of failures. After all but WrongType and Refused the same is tried again.
const (
	// Unreachable: no connection, or no answer in time.
	Unreachable Failure = iota
	// Unready: the server loads its data, a cluster has lost a part of its nodes, or a
	// replica its primary.
	Unready
	// ReadOnly: the server is a replica, after a failover that the connection missed.
	ReadOnly
	// OutOfMemory: the server has reached maxmemory, or cannot persist.
	OutOfMemory
	// Denied: wrong credentials, or none, or no permission.
	Denied
	// WrongType: something else is kept under one of our keys.
	WrongType
	// Refused: anything else that a server says no to.
	Refused
)

var failureNames = [...]string{"unreachable", "unready", "read_only", "out_of_memory", "denied", "wrong_type", "refused"}

// String returns the kind as metrics name it.
func (f Failure) String() string { return failureNames[f] }

// failureHints say what to look at, or to change.
var failureHints = [...]string{
	Unreachable: "is it there, and does it take connections from here (redis.addresses, redis.tls)?",
	Unready:     "it is not ready: it loads its data, or parts of the cluster are missing",
	ReadOnly:    "it is a replica: name the primary, or sentinels with redis.sentinel_master",
	OutOfMemory: "it takes no writes: raise maxmemory, or look at its log",
	Denied:      "redis.username or redis.password is wrong or missing, or that user may not do this: see docs/operations/redis.md for what it needs",
	WrongType:   "something else is kept under redis.namespace",
	Refused:     "is it Redis 7.0 or newer, or Valkey?",
}

func (f Failure) hint() string { return failureHints[f] }

// Failures returns all kinds.
func Failures() []Failure {
	all := make([]Failure, len(failureNames))
	for i := range all {
		all[i] = Failure(i)
	}
	return all
}

// failureReplies are how the error replies of each kind begin.
var failureReplies = []struct {
	kind     Failure
	prefixes []string
}{
	{Unready, []string{"LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "BUSY ", "MOVED ", "ASK ", "NOREPLICAS ", "UNBLOCKED "}},
	{ReadOnly, []string{"READONLY "}},
	{OutOfMemory, []string{"OOM ", "MISCONF "}},
	{Denied, []string{"NOAUTH ", "WRONGPASS ", "NOPERM ", "ERR AUTH ", "ERR invalid password", "ERR Client sent AUTH"}},
	{WrongType, []string{"WRONGTYPE "}},
	{Unreachable, []string{"ERR max number of clients"}},
}

// failed reports whether an exchange or a command failed, and how. That there is no such
// key is an answer.
func failed(err error) (kind Failure, yes bool) {
	if err == nil || errors.Is(err, redis.Nil) {
		return 0, false
	}
	reply, answered := errors.AsType[redis.Error](err)
	if !answered {
		return Unreachable, true
	}
	for _, r := range failureReplies {
		for _, prefix := range r.prefixes {
			if strings.HasPrefix(reply.Error(), prefix) {
				return r.kind, true
			}
		}
	}
	return Refused, true
}

// passes reports whether a failure passes by itself, or when an operator acts, so that the
// same is worth trying again.
func (f Failure) passes() bool { return f != WrongType && f != Refused }
