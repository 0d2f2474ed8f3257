package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// manual is a page of docs/operations.
func manual(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunbook: each alert has its paragraph, to which it leads, and each paragraph its alert.
func TestRunbook(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load(read(t, "grafana", "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	paragraphs := make(map[string]string)
	for _, section := range strings.Split(manual(t, "runbook.md"), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		paragraphs[name] = text
	}
	alerts := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts++
			if len(paragraphs[r.Alert]) < 150 {
				t.Errorf("docs/operations/runbook.md has no paragraph on %s", r.Alert)
			}
			delete(paragraphs, r.Alert)
			if got := r.Annotations["runbook_url"]; !strings.HasSuffix(got, "/docs/operations/runbook.md#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s leads to %q", r.Alert, got)
			}
		}
	}
	for name := range paragraphs {
		t.Errorf("there is no alert %s", name)
	}
	if alerts < 15 {
		t.Errorf("%d alerts", alerts)
	}
}

// TestFailureModes: what the page must speak of is there, and each test that it names.
func TestFailureModes(t *testing.T) {
	text := manual(t, "failure-modes.md")
	var titles []string
	for _, section := range strings.Split(text, "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		titles = append(titles, title)
		for _, part := range []string{"**What happens**", "**What you see**", "**What to do**"} {
			if !strings.Contains(rest, part) {
				t.Errorf("%s: %s is missing", title, part)
			}
		}
	}
	for _, title := range []string{"Redis gone", "Metrics gone", "All ejected", "Index cold", "One engine frozen", "Bad config", "Certificate expired"} {
		if !slices.Contains(titles, title) {
			t.Errorf("%s is missing", title)
		}
	}
	links := regexp.MustCompile("\\[`(Test\\w+)`\\]\\(\\.\\./\\.\\./([^)]+)\\)").FindAllStringSubmatch(text, -1)
	if len(links) < 20 {
		t.Errorf("%d tests are named", len(links))
	}
	for _, link := range links {
		code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(link[2])))
		if err != nil || !strings.Contains(string(code), "func "+link[1]+"(") {
			t.Errorf("%s has no %s (%v)", link[2], link[1], err)
		}
	}
}
