package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	inlineLink    = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)`)
	referenceLink = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+<?([^>\s]+)>?`)
	inlineCode    = regexp.MustCompile("`[^`]*`")
	absoluteURL   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
)

// checkLinks resolves the relative links of every Markdown file.
func checkLinks(t *tree) []string {
	var breaches []string
	for i, name := range t.files {
		if path.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		fenced := false
		for n, line := range strings.Split(string(t.texts[i]), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			line = inlineCode.ReplaceAllString(line, "")
			links := inlineLink.FindAllStringSubmatch(line, -1)
			links = append(links, referenceLink.FindAllStringSubmatch(line, -1)...)
			for _, l := range links {
				if why := brokenLink(t.fsys, name, l[1]); why != "" {
					breaches = append(breaches, fmt.Sprintf("%s:%d: link %s %s", name, n+1, l[1], why))
				}
			}
		}
	}
	return breaches
}

// brokenLink returns why a link in the given file leads nowhere, "" when it resolves or is not a path.
func brokenLink(fsys fs.FS, from, link string) string {
	target, _, _ := strings.Cut(link, "#")
	if target == "" || absoluteURL.MatchString(target) {
		return ""
	}
	full := path.Join(path.Dir(from), target)
	if !fs.ValidPath(full) || strings.HasPrefix(target, "/") {
		return "leaves the repository"
	}
	if _, err := fs.Stat(fsys, full); err != nil {
		return "does not resolve"
	}
	return ""
}
