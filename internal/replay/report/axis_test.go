package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func labels(a axis) string {
	var all []string
	for _, t := range a.ticks {
		all = append(all, t.text)
	}
	return strings.Join(all, ", ")
}

func TestAxes(t *testing.T) {
	for _, tc := range []struct {
		name string
		axis axis
		most float64
		want string
	}{
		{"all", shareAxis("", 1), 1, "0 %, 20 %, 40 %, 60 %, 80 %, 100 %"},
		{"a seventh", shareAxis("", 1./7), .15, "0 %, 5 %, 10 %, 15 %"},
		{"little", shareAxis("", .004), .004, "0 %, 0.1 %, 0.2 %, 0.3 %, 0.4 %"},
		{"none", shareAxis("", 0), 0, "0 %"},
		{"seconds alike", secondsAxis("", .3, 1.4), 1.5, "0, 500 ms, 1 s, 1.5 s"},
		{"seconds unlike", secondsAxis("", .04, 12), 20, "20 ms, 50 ms, 100 ms, 200 ms, 500 ms, 1 s, 2 s, 5 s, 10 s, 20 s"},
		{"no seconds", secondsAxis("", 0, 0), .001, "0, 0.2 ms, 0.4 ms, 0.6 ms, 0.8 ms, 1 ms"},
		{"90 s", timeAxis(90 * time.Second), 90, "0, 20, 40, 60, 80"},
		{"20 min", timeAxis(20 * time.Minute), 1200, "0, 5, 10, 15, 20"},
		{"a day", timeAxis(24 * time.Hour), 86400, "0, 5, 10, 15, 20"},
		{"no time", timeAxis(0), .001, "0, 0.0002, 0.0004, 0.0006, 0.0008, 0.001"},
		{"values", valuesAxis("w", []string{"1", "2"}), 1.5, "1, 2"},
	} {
		if got := labels(tc.axis); got != tc.want {
			t.Errorf("%s: ticks %s, want %s", tc.name, got, tc.want)
		}
		if math.Abs(tc.axis.most-tc.most) > 1e-9 {
			t.Errorf("%s: goes to %v, want %v", tc.name, tc.axis.most, tc.most)
		}
	}
}

func TestPlace(t *testing.T) {
	linear := axis{least: 10, most: 20}
	logarithmic := axis{least: .01, most: 100, logarithmic: true}
	for _, tc := range []struct {
		axis        axis
		value, want float64
	}{
		{linear, 10, 0},
		{linear, 15, .5},
		{linear, 20, 1},
		{linear, 30, 1},
		{linear, 0, 0},
		{logarithmic, .01, 0},
		{logarithmic, 1, .5},
		{logarithmic, 100, 1},
		{logarithmic, 0, 0},
		{axis{}, 3, .5},
	} {
		if got := tc.axis.place(tc.value); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v lies at %v of %v..%v, want %v", tc.value, got, tc.axis.least, tc.axis.most, tc.want)
		}
	}
}

// Whatever is to be shown lies on its axis, and there is always more than one tick and
// never a crowd.
func TestAxesHoldWhatTheyShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Float64Range(1e-4, 1e4).Draw(t, "least")
		most := least * rapid.Float64Range(1, 1e4).Draw(t, "spread")
		length := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(1000*time.Hour)).Draw(t, "length"))
		share := rapid.Float64Range(1e-4, 1).Draw(t, "share")
		for name, tc := range map[string]struct {
			axis axis
			most float64
		}{
			"seconds": {secondsAxis("", least, most), most},
			"log":     {logSecondsAxis("", least, most), most},
			"time":    {timeAxis(length), length.Seconds()},
			"share":   {shareAxis("", share), share},
		} {
			if tc.axis.most < tc.most*(1-1e-9) {
				t.Errorf("%s: goes to %v, must hold %v", name, tc.axis.most, tc.most)
			}
			if n := len(tc.axis.ticks); n < 2 || n > 30 {
				t.Errorf("%s: %d ticks: %s", name, n, labels(tc.axis))
			}
		}
		if a := logSecondsAxis("", least, most); a.least > least {
			t.Errorf("begins at %v, must hold %v", a.least, least)
		}
	})
}

func TestRoundStep(t *testing.T) {
	got := []float64{}
	for _, x := range []float64{.11, .2, .21, .7, 1, 3, 60, 0, math.NaN()} {
		got = append(got, math.Round(1e6*roundStep(x))/1e6)
	}
	if diff := cmp.Diff([]float64{.2, .2, .5, 1, 1, 5, 100, 1, 1}, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
