package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The tests of deploy/grafana are here because this is the package that reads YAML.

// manual is what docs/metrics.md says of our metrics: the labels of each series name,
// those of a histogram's parts included.
func manual(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`(warmroute_[a-z0-9_]+)`")
	label := regexp.MustCompile("`([a-z_]+)`")
	all := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || !strings.HasPrefix(line, "| `warmroute_") {
			continue
		}
		var labels []string
		for _, m := range label.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, m[1])
		}
		for _, m := range name.FindAllStringSubmatch(cells[0], -1) {
			if strings.TrimSpace(cells[1]) != "histogram" {
				all[m[1]] = labels
				continue
			}
			all[m[1]+"_sum"], all[m[1]+"_count"] = labels, labels
			all[m[1]+"_bucket"] = append([]string{"le"}, labels...)
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d series are found in docs/metrics.md", len(all))
	}
	return all
}

var (
	selector    = regexp.MustCompile(`(warmroute_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher     = regexp.MustCompile(`([a-zA-Z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
	grouping    = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	legendLabel = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)[^}]*\}\}`)
)

// complaints says what is wrong with an expression, and with the labels that a text
// shows of its result.
func complaints(known map[string][]string, expr, shown string) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		complain("parentheses do not match")
	}
	used := selector.FindAllStringSubmatch(expr, -1)
	if len(used) == 0 {
		complain("there is no metric of ours")
	}
	var left []string // labels that the result may have
	for i, m := range used {
		labels, documented := known[m[1]]
		if !documented {
			complain("%s is not in docs/metrics.md", m[1])
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) {
				complain("%s has no label %s, only %v", m[1], l[1], labels)
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for l := range strings.SplitSeq(g[1], ",") {
				if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
					complain("grouped by %s, which %s has not", l, m[1])
				}
			}
		}
		if i == 0 {
			left = labels
		}
	}
	if g := grouping.FindStringSubmatch(expr); g != nil {
		left = strings.Split(strings.ReplaceAll(g[1], " ", ""), ",")
	}
	for _, l := range legendLabel.FindAllStringSubmatch(shown, -1) {
		if !slices.Contains(left, l[1]) {
			complain("shows the label %s, the result has %v", l[1], left)
		}
	}
	return wrong
}

func TestComplaints(t *testing.T) {
	known := map[string][]string{"warmroute_a_total": {"pool"}, "warmroute_b_bucket": {"le", "pool"}}
	for _, c := range []struct{ expr, shown, want string }{
		{`sum by (pool) (rate(warmroute_a_total{pool="x"}[5m]))`, "{{pool}}", ""},
		{`histogram_quantile(0.9, sum by (le, pool) (rate(warmroute_b_bucket[5m])))`, "{{ $labels.pool }}", ""},
		{`sum(rate(warmroute_c_total[5m]))`, "", "not in docs/metrics.md"},
		{`warmroute_a_total{model=~"x"}`, "", "has no label model"},
		{`sum by (le) (warmroute_a_total)`, "", "grouped by le"},
		{`sum by (pool) (warmroute_a_total)`, "{{backend}}", "shows the label backend"},
		{`sum(warmroute_a_total`, "", "parentheses"},
		{`up == 0`, "", "no metric of ours"},
	} {
		got := strings.Join(complaints(known, c.expr, c.shown), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.expr, got, c.want)
		}
	}
}

// panel is what matters of a panel of a Grafana dashboard.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

// The dashboard shows metrics that exist, with labels that they have, and says of every
// panel what it is.
func TestDashboard(t *testing.T) {
	known := manual(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title, UID, Description string
		SchemaVersion           int
		Panels                  []panel
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || board.Description == "" || board.SchemaVersion == 0 || len(board.Panels) < 20 {
		t.Errorf("title %q, uid %q, schema %d, %d panels", board.Title, board.UID, board.SchemaVersion, len(board.Panels))
	}
	ids, titles := make(map[int]bool), make(map[string]bool)
	shown := make(map[string]bool)
	for i, p := range board.Panels {
		if p.Title == "" || p.Description == "" || ids[p.ID] || titles[p.Title] {
			t.Errorf("panel %d (id %d) %q: title, description and id must be there and be its own", i, p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if g := p.GridPos; g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s: does not fit the grid: %+v", p.Title, g)
		}
		for _, other := range board.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, other.Title)
			}
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("%s: shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, wrong := range complaints(known, target.Expr, target.LegendFormat) {
				t.Errorf("%s, %s: %s\n%s", p.Title, target.RefID, wrong, target.Expr)
			}
			for _, m := range selector.FindAllStringSubmatch(target.Expr, -1) {
				shown[m[1]] = true
			}
			if target.LegendFormat == "" {
				t.Errorf("%s, %s: has no legend", p.Title, target.RefID)
			}
		}
	}
	for _, name := range []string{ // what an operator must find on it
		"warmroute_predicted_cached_tokens_total", "warmroute_delivered_cached_tokens_total", "warmroute_undelivered_tokens_total",
		"warmroute_ttft_seconds_bucket", "warmroute_backend_in_flight", "warmroute_backend_concurrency_limit",
		"warmroute_backend_queued_tokens", "warmroute_overflow_total", "warmroute_horizon_moves_total",
		"warmroute_backend_ejections_total", "warmroute_backend_scrape_age_seconds", "warmroute_backend_index_blocks",
		"warmroute_redis_sharing", "warmroute_redis_sync_age_seconds", "warmroute_redis_dropped_records_total",
	} {
		if !shown[name] {
			t.Errorf("%s is not on the dashboard", name)
		}
	}
}

// The alert rules rest on metrics that exist, and each says what to do.
func TestAlerts(t *testing.T) {
	known := manual(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "Warmroute") || names[r.Alert] {
				t.Errorf("%q is no name of its own", r.Alert)
			}
			names[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s: severity is %q", r.Alert, r.Labels["severity"])
			}
			shown := ""
			for _, key := range []string{"summary", "description", "runbook"} {
				if len(r.Annotations[key]) < 20 {
					t.Errorf("%s: the %s is %q", r.Alert, key, r.Annotations[key])
				}
				shown += strings.ReplaceAll(r.Annotations[key], "$value", "") + "\n"
				for _, m := range selector.FindAllStringSubmatch(r.Annotations[key], -1) {
					_, series := known[m[1]]
					if _, histogram := known[m[1]+"_bucket"]; !series && !histogram {
						t.Errorf("%s: the %s names %s, which does not exist", r.Alert, key, m[1])
					}
				}
			}
			shown = strings.ReplaceAll(shown, "{{  | humanizePercentage }}", "")
			for _, wrong := range complaints(known, r.Expr, shown) {
				t.Errorf("%s: %s\n%s", r.Alert, wrong, r.Expr)
			}
		}
	}
	if len(names) < 8 {
		t.Errorf("%d alerts", len(names))
	}
}
