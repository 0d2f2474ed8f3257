package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// report is what came of a run.
type report struct {
	Mode     string            `json:"mode"`
	Seed     uint64            `json:"seed"`
	Lasted   time.Duration     `json:"faults_for_ns"`
	Rate     float64           `json:"requests_per_second"`
	Wanted   int               `json:"requests_per_second_wanted"`
	Dialects map[string]*tally `json:"dialects"`
	Faults   []*faultRow       `json:"faults"`
	Vitals   []vitals          `json:"vitals"`
	Rest     []restRow         `json:"rest"`
	Before   *normal           `json:"normal_before"`
	After    *normal           `json:"normal_after"`
	Skipped  int               `json:"requests_without_room"`
	Held     held              `json:"held_up_by_the_machine"`
	Wrong    []string          `json:"wrong"`
}

// faultRow is a kind of fault, and what failed with it.
type faultRow struct {
	Kind   string        `json:"kind"`
	Times  int           `json:"times"`
	Lasted time.Duration `json:"lasted_ns"`
	Failed int           `json:"requests_failed_with_it"`
}

// restRow is a replica at rest: before the first request, and after the last.
type restRow struct {
	Replica string `json:"replica"`
	Before  vitals `json:"before"`
	After   vitals `json:"after"`
}

// wrong notes something that must not be.
func (r *report) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// count sums up the faults by kind, in the order in which kinds are listed.
func (r *report) count(faults []*fault, with map[*fault]int) {
	rows := make(map[string]*faultRow)
	for _, kind := range slices.Concat(engineFaults, redisFaults, routerFaults) {
		rows[kind] = &faultRow{Kind: kind}
		r.Faults = append(r.Faults, rows[kind])
	}
	for _, f := range faults {
		row := rows[f.Kind]
		row.Times++
		row.Lasted += f.To.Sub(f.From)
		row.Failed += with[f]
	}
	r.Faults = slices.DeleteFunc(r.Faults, func(row *faultRow) bool { return row.Times == 0 })
}

// write prints a report for people, or as JSON.
func (r *report) write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "\n%s, seed %d: faults for %v, %.0f requests/s of %d wanted\n\n", r.Mode, r.Seed, r.Lasted.Round(time.Second), r.Rate, r.Wanted)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "times\tlasted\tfailed with it\t  fault\n")
	for _, f := range r.Faults {
		fmt.Fprintf(t, "%d\t%v\t%d\t  %s\n", f.Times, f.Lasted.Round(100*time.Millisecond), f.Failed, f.Kind)
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprint(t, "sent\tcomplete\tretried\tleft\tbroke visibly\trefused\tunheard\tsilently cut\tstuck\tlost\t  dialect\n")
	sum := tally{Endings: make(map[ending]int)}
	row := func(name string, d *tally) {
		e := d.Endings
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", d.Sent, e[complete], d.Retried, e[left],
			e[broken], e[refused], e[unheard], e[silent], e[stuck], d.Lost, name)
	}
	for _, d := range dialects {
		one := r.Dialects[d.name]
		row(d.name, one)
		sum.Sent, sum.Retried, sum.Lost, sum.HTTP2, sum.Switched = sum.Sent+one.Sent, sum.Retried+one.Retried,
			sum.Lost+one.Lost, sum.HTTP2+one.HTTP2, sum.Switched+one.Switched
		for k, n := range one.Endings {
			sum.Endings[k] += n
		}
	}
	row("all", &sum)
	t.Flush()
	fmt.Fprintf(w, "%d came over HTTP/2; %d asked the other replica because the first was gone\n\n", sum.HTTP2, sum.Switched)
	fmt.Fprint(t, "\tRSS\tlive heap\tgoroutines\topen files\t\n")
	for _, rest := range r.Rest {
		for _, v := range []struct {
			when string
			vitals
		}{{"before", rest.Before}, {"after", rest.After}} {
			fmt.Fprintf(t, "%s %s\t%s\t%s\t%.0f\t%.0f\t\n", rest.Replica, v.when, mib(v.RSS), mib(v.Heap), v.Goroutines, v.FDs)
		}
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, n := range []struct {
		when string
		*normal
	}{{"before the faults", r.Before}, {"after them", r.After}} {
		if n.normal != nil {
			fmt.Fprintf(w, "%d normal requests %s: %d failed, median %v, slowest %v; %d of %d second turns found their prompt cached (%d tokens predicted, %d cached)\n",
				n.Requests, n.when, len(n.Failed), n.Median.Round(time.Millisecond), n.Slowest.Round(time.Millisecond), n.Followed, n.Turns, n.Predicted, n.Cached)
		}
	}
	fmt.Fprintf(w, "the machine held this program up %d times for more than %v, for %v at most", r.Held.Times, heldUp, r.Held.Longest.Round(time.Millisecond))
	if r.Skipped > 0 {
		fmt.Fprintf(w, "; %d requests were not sent, because %d were under way", r.Skipped, most)
	}
	fmt.Fprintln(w)
	if len(r.Wrong) == 0 {
		fmt.Fprintln(w, "\nall is as it must be")
		return nil
	}
	fmt.Fprintf(w, "\n%d things are wrong:\n", len(r.Wrong))
	for i, text := range r.Wrong {
		if i == 40 {
			fmt.Fprintln(w, "  …")
			break
		}
		fmt.Fprintln(w, "  "+text)
	}
	return nil
}

func mib(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
