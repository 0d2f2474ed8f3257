package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leeway is how far the moments that the clients, the faults and the routers note may lie
// apart on a machine that is busy.
const leeway = time.Second

// judge holds what became of requests against what was broken.
type judge struct {
	faults []*fault
	logged map[string]string // what routers noted of failed requests, by request id
}

// attemptPattern finds the attempts that an error tells of.
var attemptPattern = regexp.MustCompile(`(127\.0\.0\.1:\d+): (no connection|TLS failed|the connection broke before the answer|` +
	`no answer in time|the answer paused|the answer is not HTTP|the request could not be sent|\d{3})`)

// attempt is an engine that was tried, and what came of it.
type attempt struct{ engine, why string }

// attempts are those that the text of an error tells of.
func attempts(text string) (all []attempt) {
	for _, m := range attemptPattern.FindAllStringSubmatch(text, -1) {
		all = append(all, attempt{m[1], m[2]})
	}
	return all
}

// excuse is the fault that a request failed with, because its engine had it when that broke;
// nil says that the request could have been served.
func (j *judge) excuse(r *result) *fault {
	if f := j.bereft(r); f != nil && (r.ending == broken || r.ending == unheard) {
		return f
	}
	engine := ""
	if len(r.engines) > 0 {
		engine = r.engines[len(r.engines)-1]
	}
	switch r.ending {
	case broken:
		if f := j.broke(r, engine); f != nil {
			return f
		}
		if f := j.during(r, engine, engineStreams, engineFails); f != nil {
			return f
		}
		return j.silenced(r, engine)
	case refused:
		return j.excuseRefusal(r, engine)
	case unheard:
		if !r.d.rpc || r.refusals > 0 || engine == "" || r.unreported > 0 && !j.disturbed(r) {
			return nil
		}
		if strings.Contains(r.text, "timeout") || strings.Contains(r.text, "deadline") {
			return j.silenced(r, engine)
		}
		return j.broke(r, engine)
	case complete, left, silent, stuck:
	}
	return nil
}

// excuseRefusal is excuse for an answer with another status.
func (j *judge) excuseRefusal(r *result, engine string) *fault {
	if (r.status == http.StatusInternalServerError || r.status == http.StatusFailedDependency) && strings.Contains(r.text, "fault injected") {
		return j.during(r, engine, engineErrs)
	}
	tries := attempts(r.text)
	if len(tries) == 0 {
		return nil
	}
	switch last := tries[len(tries)-1]; {
	case strings.HasPrefix(last.why, "no answer in time"):
		return j.silenced(r, last.engine)
	case strings.HasPrefix(last.why, "the connection broke"):
		if len(tries) < 3 && strings.Contains(j.logged[r.id], "kept connection was closed") {
			return nil // it may be sent once more
		}
		return j.broke(r, last.engine)
	}
	return nil
}

// broke is a fault that broke the connections of an engine while it had the request.
func (j *judge) broke(r *result, engine string) *fault {
	for _, f := range j.faults {
		if f.Target == engine && slices.Contains([]string{engineKilled, engineWarmsUp, engineCut}, f.Kind) &&
			f.From.After(r.began.Add(-leeway)) && f.From.Before(r.ended.Add(leeway)) {
			return f
		}
	}
	return j.during(r, engine, engineStreams) // it resets connections that answers have begun on
}

// during is a fault of one of some kinds that an engine had while it had the request.
func (j *judge) during(r *result, engine string, kinds ...string) *fault {
	for _, f := range j.faults {
		if (engine == "" || f.Target == engine) && slices.Contains(kinds, f.Kind) && f.overlaps(r) {
			return f
		}
	}
	return nil
}

// silenced is a fault by which an engine said nothing any more, or too little, which the
// request came too early to know of.
func (j *judge) silenced(r *result, engine string) *fault {
	f := j.during(r, engine, engineHangs, engineFreezes, engineSilenced, engineSlow)
	if f == nil || r.began.After(f.From.Add(noticed)) {
		return nil
	}
	return f
}

// overlaps reports whether a fault lasted while a request ran.
func (f *fault) overlaps(r *result) bool {
	return r.began.Before(f.To.Add(leeway)) && r.ended.After(f.From.Add(-leeway))
}

// bereft is the end of a request's replica: its crash while it had the request, or what a client
// does to itself, which takes a connection that it has kept although its other end is long gone.
// A slow reader keeps one so: it has the end of its answer still before it.
func (j *judge) bereft(r *result) *fault {
	for _, f := range j.faults {
		if f.Target != r.replica {
			continue
		}
		crashed := f.Kind == replicaKilled && f.From.After(r.began.Add(-leeway)) && f.From.Before(r.ended.Add(leeway))
		replaced := f.Kind == replicaKilled || f.Kind == replicaRestarts
		gone := replaced && r.ending == unheard && r.kept && f.From.Before(r.began) && f.From.After(r.began.Add(-clientPatience))
		if crashed || gone {
			return f
		}
	}
	return nil
}

// disturbed reports whether a replica was replaced while a caller of its routing service had
// a decision of it.
func (j *judge) disturbed(r *result) bool {
	return slices.ContainsFunc(j.faults, func(f *fault) bool {
		return (f.Kind == replicaRestarts || f.Kind == replicaKilled) && f.Target == r.replica && f.overlaps(r)
	})
}

// read takes what the routers noted of some requests out of their logs.
func (j *judge) read(replicas []*replica, failed []*result) error {
	j.logged = make(map[string]string)
	for _, r := range failed {
		j.logged[r.id] = ""
	}
	var errs []error
	for _, r := range replicas {
		file, err := os.Open(r.log)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if !bytes.Contains(lines.Bytes(), []byte(`"request_id"`)) {
				continue
			}
			var record struct {
				ID    string `json:"request_id"`
				Error string
			}
			if json.Unmarshal(lines.Bytes(), &record) != nil {
				continue
			}
			if _, wanted := j.logged[record.ID]; wanted {
				j.logged[record.ID] = strings.TrimSpace(j.logged[record.ID] + " " + record.Error)
			}
		}
		errs = append(errs, lines.Err(), file.Close())
	}
	return errors.Join(errs...)
}

// panics finds what must not stand in a log.
func panics(p *process) []string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "panic") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
			found = append(found, fmt.Sprintf("%s: %s", p.name, cut([]byte(line))))
		}
	}
	return found
}

// verdict says of a failed request why it counts as lost, or the fault that it failed with.
func (j *judge) verdict(r *result) (with *fault, lost string) {
	if r.refusals+r.unreported > 0 && (r.ending == complete || r.ending == left) {
		if j.disturbed(r) {
			return nil, ""
		}
		return nil, "the routing service failed its caller"
	}
	if with = j.excuse(r); with != nil {
		return with, ""
	}
	if r.ending == silent {
		return nil, "it looks whole and is not"
	}
	return nil, "it could have been served"
}
