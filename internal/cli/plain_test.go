package cli

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"trace.jsonl": "trace.jsonl", "a b/ä": "a b/ä", `it's "x"`: `it's "x"`,
		"\x1b[31mred": `"\x1b[31mred"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "\u202egnp": `"\u202egnp"`, "\u009b1m": `"\u009b1m"`,
	} {
		if got := Name(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for message, want := range map[string]string{
		"--load: \"x\"\n\tand more": "--load: \"x\"\n\tand more", "\x1b[2Jgone\r": `\x1b[2Jgone\r`, "ä\xffö\ufffd": "ä\\xffö\ufffd", "\u009b1m\a": `\u009b1m\a`,
	} {
		if got := Plain(message); got != want {
			t.Errorf("%q is %s, want %s", message, got, want)
		}
	}
}

// Whatever a message holds, a terminal has nothing to obey, and what is plain stays.
func FuzzPlain(f *testing.F) {
	f.Add("\x1b]0;title\a")
	f.Fuzz(func(t *testing.T, message string) {
		got := Plain(message)
		if !Printable(strings.NewReplacer("\n", "", "\t", "").Replace(got)) {
			t.Errorf("%q is %q", message, got)
		}
		if again := Plain(got); again != got {
			t.Errorf("%q is %q, and that is %q", message, got, again)
		}
		if Printable(message) && got != message {
			t.Errorf("%q is plain and became %q", message, got)
		}
	})
}
