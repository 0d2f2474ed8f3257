package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// caseLink is a test as docs/cases.md names it: its name, linked to its file.
var caseLink = regexp.MustCompile("\\[`([^`]+)`\\]\\(\\.\\./([^)]+)\\)")

// TestCases checks docs/cases.md: every test it names is in the file it names, that file
// mentions the case, and a case without a test says what it waits for.
func TestCases(t *testing.T) {
	root := filepath.Join("..", "..")
	table, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !regexp.MustCompile(`^ [A-Z]+-\d+ $`).MatchString(cells[0]) {
			continue
		}
		rows++
		id := strings.TrimSpace(cells[0])
		links := caseLink.FindAllStringSubmatch(cells[2], -1)
		if len(links) == 0 && strings.TrimSpace(cells[3]) == "" {
			t.Errorf("%s: neither a test nor what it waits for", id)
		}
		for _, link := range links {
			name, file := link[1], link[2]
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			switch {
			case err != nil:
				t.Errorf("%s: %v", id, err)
			case strings.HasPrefix(name, "Test") && !strings.Contains(string(text), "func "+name+"("):
				t.Errorf("%s: %s has no %s", id, file, name)
			case !strings.Contains(string(text), id) && !strings.Contains(string(text), strings.ReplaceAll(id, "-", "")):
				t.Errorf("%s: %s does not mention it", id, file)
			}
		}
	}
	if rows < 90 {
		t.Errorf("docs/cases.md has %d cases, want all of them", rows)
	}
}
