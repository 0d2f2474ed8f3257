// Command coverage reads a coverage profile, prints the share of statements covered in each package and in
// total, and fails when a threshold is missed.
//
//	coverage -profile out/cover.out -total 80 -root 90 router kvindex
//
// The arguments are directories below the module that must reach the -root threshold by themselves. One that the
// profile does not mention is an error, so that a package cannot escape by being renamed.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/warmroute/warmroute"

func main() {
	profile := flag.String("profile", "out/cover.out", "coverage profile written by go test")
	total := flag.Float64("total", 0, "least percentage over all packages")
	root := flag.Float64("root", 0, "least percentage of each package named as an argument")
	flag.Parse()
	if err := run(*profile, *total, *root, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(profile string, total, root float64, roots []string, w io.Writer) error {
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	byPackage, err := parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", profile, err)
	}
	return report(byPackage, total, root, roots, w)
}

// A tally counts statements.
type tally struct{ covered, all int }

func (t tally) percent() float64 {
	if t.all == 0 {
		return 100
	}
	return 100 * float64(t.covered) / float64(t.all)
}

// parse adds a profile up by package directory. With -coverpkg every test binary writes every block, so a block
// counts once, as covered if any of them ran it.
func parse(r io.Reader) (map[string]tally, error) {
	type block struct {
		statements int
		covered    bool
	}
	blocks := map[string]block{} // position → block
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "mode: ") {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d is not of a coverage profile: %q", n, lines.Text())
		}
		statements, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: number of statements: %w", n, err)
		}
		b := blocks[fields[0]]
		blocks[fields[0]] = block{statements, b.covered || fields[2] != "0"}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	sums := map[string]tally{}
	for position, b := range blocks {
		dir := strings.TrimPrefix(path.Dir(position), modulePath+"/")
		t := sums[dir]
		t.all += b.statements
		if b.covered {
			t.covered += b.statements
		}
		sums[dir] = t
	}
	return sums, nil
}

func report(byPackage map[string]tally, total, root float64, roots []string, w io.Writer) error {
	var sum tally
	var misses []string
	for _, dir := range slices.Sorted(maps.Keys(byPackage)) {
		t := byPackage[dir]
		sum.covered += t.covered
		sum.all += t.all
		fmt.Fprintf(w, "%6.1f %%  %s (%d of %d statements)\n", t.percent(), dir, t.covered, t.all)
		if slices.Contains(roots, dir) && t.percent() < root {
			misses = append(misses, fmt.Sprintf("%s %.1f %% < %.1f %%", dir, t.percent(), root))
		}
	}
	fmt.Fprintf(w, "%6.1f %%  total (%d of %d statements)\n", sum.percent(), sum.covered, sum.all)
	for _, dir := range roots {
		if _, ok := byPackage[dir]; !ok {
			misses = append(misses, dir+" is not in the profile")
		}
	}
	if sum.percent() < total {
		misses = append(misses, fmt.Sprintf("total %.1f %% < %.1f %%", sum.percent(), total))
	}
	if len(misses) > 0 {
		return fmt.Errorf("below the threshold: %s", strings.Join(misses, "; "))
	}
	return nil
}
