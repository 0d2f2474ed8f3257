package arch

import (
	"fmt"
	"slices"
	"strings"
)

// layersFile is named in messages: it is the file to edit when the shape of the repository changes.
const layersFile = "tests/arch/layers.go"

// A kind says what a package may do apart from what it may import.
type kind int

const (
	pure    kind = iota // logic only: no network, disk, clock, global randomness, logging or metrics
	outer               // does the I/O of its noun
	helper              // imported by test files only
	command             // main programs and what only they use: may import anything but tests
	suite               // packages of tests: may import anything
)

// A place is one line of the layer table.
type place struct {
	path  string // below the module path; "x/..." stands for x and everything below it
	layer int
	kind  kind
	also  []string // imports allowed beside the general rule; each needs a reason in a comment
}

// layers says where each package stands. Imports go to a strictly lower layer, because then a decision can be
// understood, tested and replayed without the network around it, and nothing can grow a cycle by way of a
// neighbour. A child may import the root it belongs to. Everything else is listed in also.
// A package may stand here before it is written.
var layers = []place{
	// What is a backend; what is a block and who holds it.
	{path: "backends", layer: 0, kind: pure},
	{path: "kvindex", layer: 0, kind: pure},
	{path: "kvindex/indextest", layer: 1, kind: helper},

	// What happened: accounting, calibration, horizon.
	{path: "feedback", layer: 1, kind: pure},

	// Strategies, decisions, outcomes.
	{path: "router", layer: 2, kind: pure},

	// The engine model, workloads and the fleet in virtual time.
	{path: "internal/enginesim", layer: 3, kind: pure},
	{path: "internal/workload", layer: 3, kind: pure},
	{
		path: "internal/replay", layer: 3, kind: pure,
		// A replay is a workload sent through the router to modelled engines.
		also: []string{"internal/enginesim", "internal/workload"},
	},
	{path: "internal/replay/report", layer: 4, kind: pure}, // what came of replays, for people and programs

	// The I/O of the nouns above.
	{path: "backends/transport", layer: 3, kind: outer},
	{path: "backends/health", layer: 3, kind: outer},
	{path: "backends/discovery", layer: 3, kind: outer},
	{path: "backends/discovery/file", layer: 3, kind: outer},
	{path: "backends/discovery/dns", layer: 3, kind: outer},
	{path: "backends/discovery/kubernetes", layer: 3, kind: outer},
	{path: "backends/discovery/discoverytest", layer: 4, kind: helper},
	{path: "kvindex/redisindex", layer: 3, kind: outer},
	{path: "feedback/usage", layer: 3, kind: outer},
	{path: "feedback/scrape", layer: 3, kind: outer},
	{path: "feedback/recent", layer: 3, kind: pure}, // no I/O: the memory that advice rests on
	{path: "feedback/tuning", layer: 3, kind: pure}, // no I/O: the rules of automatic mode
	{path: "internal/enginesim/server", layer: 3, kind: outer},
	{path: "internal/sigv4", layer: 3, kind: outer}, // signatures of requests

	// Dialects, configuration, telemetry.
	{path: "feedback/advice", layer: 4, kind: pure}, // it replays what feedback/recent remembers
	{path: "proto/...", layer: 4, kind: outer},
	{path: "api/prompt", layer: 4, kind: outer},
	{
		path: "api/intake", layer: 4, kind: outer,
		// It turns what prompt made of the body into a question to the router.
		also: []string{"api/prompt"},
	},
	{
		path: "api/proxy", layer: 4, kind: outer,
		// The walk routes what prompt made of the body, as every surface does.
		also: []string{"api/intake", "api/prompt"},
	},
	{
		path: "api/openai", layer: 4, kind: outer,
		// A dialect describes its requests to the one walk that all dialects share.
		also: []string{"api/prompt", "api/proxy"},
	},
	{path: "api/anthropic", layer: 4, kind: outer, also: []string{"api/prompt", "api/proxy"}}, // as api/openai
	{
		path: "api/sagemaker", layer: 4, kind: outer,
		// As api/openai, whose errors its OpenAI-compatible paths have.
		also: []string{"api/openai", "api/prompt", "api/proxy"},
	},
	{
		path: "api/rpc", layer: 4, kind: outer,
		// The service implements the generated interfaces, routes the requests of the proxy's endpoints as it does, and has
		// advice made for operators.
		also: []string{"api/intake", "api/prompt", "api/proxy", "feedback/advice", "proto/warmroute/v1", "proto/warmroute/v1/warmroutev1connect"},
	},
	{
		path: "api/keys", layer: 4, kind: outer,
		// It lets in, or refuses in the proxy's words, whoever the proxy asks it about.
		also: []string{"api/proxy"},
	},
	{path: "api/client", layer: 5, kind: outer},                             // for programs of others: it talks to api/rpc over the network
	{path: "api/admin", layer: 4, kind: outer, also: []string{"api/proxy"}}, // it refuses in the proxy's words, as api/keys
	{path: "api/dashboard", layer: 4, kind: outer},
	{path: "internal/config", layer: 4, kind: outer},
	{path: "internal/telemetry", layer: 4, kind: outer},

	// Programs and tests.
	{path: "internal/gateway", layer: 5, kind: command}, // the router put together, for the program, the demo and the tests
	{path: "internal/cli", layer: 5, kind: command},     // what the subcommands share
	{path: "internal/comparison", layer: 5, kind: command},
	{path: "internal/demo", layer: 5, kind: command},
	{path: "internal/ops", layer: 5, kind: command},
	{path: "cmd/warmroute", layer: 5, kind: command},
	{path: "cmd/enginesim", layer: 5, kind: command},
	{path: "internal/memhttp", layer: 5, kind: helper},
	{path: "internal/certtest", layer: 4, kind: helper},
	{path: "kvindex/redisindex/redistest", layer: 5, kind: helper},
	{path: "tests/...", layer: 5, kind: suite},
}

// find returns the line of the table that covers a directory.
func find(table []place, dir string) (place, bool) {
	for _, p := range table {
		base, wild := strings.CutSuffix(p.path, "/...")
		if dir == p.path || wild && within(dir, base) {
			return p, true
		}
	}
	return place{}, false
}

// mayImport returns why the package in fromDir must not import the one in toDir, "" when it may.
func mayImport(from, to place, fromDir, toDir string) string {
	switch {
	case from.kind == suite:
		return ""
	case to.kind == suite:
		return "only tests may import packages of tests"
	case to.kind == helper:
		return "it is a test helper: only test files may import it"
	case from.kind == pure && to.kind != pure:
		return "a pure package may import only pure packages"
	case from.kind == command || slices.Contains(from.also, toDir):
		return ""
	case to.layer < from.layer:
		return ""
	case strings.HasPrefix(fromDir, toDir+"/"):
		return "" // a child and the root it belongs to
	}
	return fmt.Sprintf("imports go to a strictly lower layer, and these stand on %d and %d", from.layer, to.layer)
}

// checkLayers holds every import inside the root module against the table. Test files may import anything.
func checkLayers(t *tree, table []place) []string {
	var breaches []string
	for _, p := range t.pkgs {
		if p.module != "" {
			continue
		}
		from, ok := find(table, p.dir)
		if !ok {
			breaches = append(breaches, fmt.Sprintf("%s: the package has no place in the layer table: add it to layers in %s", p.dir, layersFile))
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for importPath, spec := range f.imports() {
				toDir, ok := local(importPath)
				if !ok {
					continue
				}
				to, ok := find(table, toDir)
				if !ok {
					continue // reported for the imported package itself, or it does not compile
				}
				if why := mayImport(from, to, p.dir, toDir); why != "" {
					breaches = append(breaches, fmt.Sprintf("%s: %s must not import %s: %s (the table is in %s)", t.at(spec), p.dir, toDir, why, layersFile))
				}
			}
		}
	}
	return sorted(breaches)
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
