package comparison

import (
	"strings"
	"testing"
)

func TestOneIsOne(t *testing.T) {
	stdout, _, err := command(t.Context(), tiny("--strategy", "RANDOM", "--limit", "1", "--backends", "1")...)
	if err != nil || !strings.Contains(stdout, "\n1 request a run; load × 1; 1 backend; ") {
		t.Errorf("%v in\n%s", err, stdout)
	}
}

// A sweep that begins with one router says what the several after it share.
func TestFactsAreOfAllRuns(t *testing.T) {
	for values, want := range map[string]bool{"1": false, "1,2": true, "2,1": true} {
		stdout, _, err := command(t.Context(), tiny("--strategy", "RANDOM", "--sweep", "routers="+values)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(stdout, "they share within 50ms"); got != want {
			t.Errorf("routers=%s: it says what routers share: %v\n%s", values, got, stdout)
		}
	}
}
