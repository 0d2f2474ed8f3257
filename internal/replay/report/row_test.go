package report

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/demo"
	"github.com/warmroute/warmroute/internal/replay"
)

func TestRow(t *testing.T) {
	r := result(100*time.Millisecond, 800, 0, 960, 640)
	r.Requests += 6
	r.Rejected, r.Refused, r.Broken, r.Aborted = 1, 2, 1, 2
	want := Row{
		Strategy: "RANDOM", Requests: 10, Errors: 4,
		HitRate: 0.6, TTFTP50: 0.4, TTFTP90: 0.8, TTFTP99: 0.8, TTFTMean: 0.375, RPS: 0.04,
		ShareMin: 0.25, ShareMax: 0.75,
		PrefillShareMin: 0.225, PrefillShareMax: 0.775, // 360 and 1,240 of 1,600 tokens
		OverflowShare: 0.25, Precision: new(0.75), Recall: new(0.625),
	}
	if diff := cmp.Diff(want, newRow("RANDOM", r)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// Nobody is right or wrong about nothing.
func TestUndefinedFigures(t *testing.T) {
	nothing := result(time.Second, 0, 0)
	for i := range nothing.Samples {
		nothing.Samples[i].Expected = 0
	}
	missed := result(time.Second, 0, 0)
	for _, tc := range []struct {
		result                 *replay.Result
		inJSON, inCSV, inTable string
	}{
		{result: nothing, inJSON: `"precision": null, "recall": null, `, inCSV: ",,,7\n", inTable: " –       –\n"},
		{result: missed, inJSON: `"precision": 0, "recall": null, `, inCSV: ",0,,7\n", inTable: " 0.000       –\n"},
	} {
		run := Summarize("RANDOM", tc.result)
		run.Row.Seed = 7
		r := &Report{Runs: []Run{run}}
		var asJSON, asCSV, table strings.Builder
		if err := errors.Join(r.JSON(&asJSON), r.CSV(&asCSV), r.Table(&table)); err != nil {
			t.Fatal(err)
		}
		for got, want := range map[string]string{
			strings.Join(strings.Fields(asJSON.String()), " "): tc.inJSON, asCSV.String(): tc.inCSV, table.String(): tc.inTable,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %s", want, got)
			}
		}
	}
}

// A run in which nothing happened has figures that JSON can say.
func TestRowOfNothing(t *testing.T) {
	if _, err := json.Marshal(newRow("RANDOM", &replay.Result{Backends: []int{0, 0}})); err != nil {
		t.Error(err)
	}
}

// Who reads the demo's JSON can read ours.
func TestNamesOfTheDemo(t *testing.T) {
	names := func(v any) []string {
		var all []string
		for field := range reflect.TypeOf(v).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
				all = append(all, name)
			}
		}
		return all
	}
	ours := strings.Join(names(Row{}), " ") + " "
	for _, name := range names(demo.Result{}) {
		if !strings.Contains(ours, name+" ") {
			t.Errorf("no %s in %s", name, ours)
		}
	}
}

func TestValue(t *testing.T) {
	for value, want := range map[Value]string{
		"1024": "1024", "0.5": "0.5", "least_loaded": `"least_loaded"`, "": `""`, "1/3": `"1/3"`, "true": `"true"`, `"x"`: `"\"x\""`, "07": `"07"`,
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%q is %s in JSON, want %s (%v)", string(value), got, want, err)
		}
	}
}
