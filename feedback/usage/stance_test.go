package usage

import "testing"

func TestStancesAreBounded(t *testing.T) {
	var m Stances[int]
	for i := range 2 * maxStances {
		m.Learn(i, Refused)
	}
	if len(m.stances) > maxStances || m.Of(2*maxStances-1) != Refused || m.Of(-1) != Untried {
		t.Errorf("%d remembered", len(m.stances))
	}
}

func TestBlamed(t *testing.T) {
	for _, test := range []struct {
		status int
		answer string
		known  Stance
		want   bool
	}{
		{400, "extra inputs not permitted", Untried, true},
		{422, "extra inputs not permitted", Untried, true},
		{500, "extra inputs not permitted", Untried, false},
		{400, "extra inputs not permitted", Given, false},
		{400, "Stream_Options is unknown", Given, true},
		{400, "maximum context length is 8192", Untried, false},
		{400, "", Untried, true},
	} {
		if got := test.known.Blamed(test.status, []byte(test.answer)); got != test.want {
			t.Errorf("%d %q, stance %d: %v", test.status, test.answer, test.known, got)
		}
	}
}
