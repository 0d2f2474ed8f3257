package ops

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	draw := func(rows ...[]any) string {
		table := newTable(text("POOL").ifSeveral(), text("BACKEND"), number("LOAD"), number("WEIGHT").unless("1"))
		for _, row := range rows {
			table.row(row...)
		}
		var b strings.Builder
		table.write(&b)
		return b.String()
	}
	for _, tc := range []struct {
		rows [][]any
		want string
	}{
		{nil, "BACKEND  LOAD\n"},
		{[][]any{{"a", "b1:8000", 5, 1}, {"a", "b10:8000", 12345, 1}}, "BACKEND    LOAD\nb1:8000       5\nb10:8000  12345\n"},
		{[][]any{{"é", "b1", 5, 1}, {"aa", "b2", 6, 2}}, "POOL  BACKEND  LOAD  WEIGHT\né     b1          5       1\naa    b2          6       2\n"},
	} {
		if got := draw(tc.rows...); got != tc.want {
			t.Errorf("got\n%swant\n%s", got, tc.want)
		}
	}
}

func TestAmount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 99_999: "99999", 100_000: "100 k", 999_499: "999 k", 999_500: "1.00 M", 1_234_567: "1.23 M", 12_345_678: "12.3 M",
		123_456_789: "123 M", 9_994_999_999: "9.99 G", 9_995_000_000: "10.0 G", 1 << 63: "9223372 T",
	} {
		if got := amount(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
