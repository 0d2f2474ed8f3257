SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Programs that are not part of the product are pinned in modules of their own.
TOOL := go tool -modfile=tools/go.mod
LINT := go tool -modfile=tools/lint/go.mod

# The modules that every check covers. tools/lint is left to ci-full: its dependencies take minutes to fetch.
MODULES := . tools tests/sdkcompat tests/awscompat

# Those that hold tests with the clients of others.
CLIENT_MODULES := tests/sdkcompat tests/awscompat

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

# What a run may be given.
DEMO_ARGS ?=
TESTFLAGS ?=
FUZZ ?=
T ?= 10m
SEED ?= 1
RATE ?=
FORMAT ?= table
FUZZTIME ?= 2000x
BENCH ?= .
COUNT ?= 1
BASE ?= main
PROTO_BASE ?= HEAD
PUBLISHED := proto/warmroute/v1/published.txt

# Coverage counts the product's own packages; programs are run by the end-to-end tests as processes.
COVER_TOTAL ?= 80
COVER_ROOT ?= 90
COVER_ROOTS := router kvindex backends feedback

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

## Building

.PHONY: build
build: ## Build bin/warmroute and bin/enginesim, static
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/warmroute ./cmd/enginesim

.PHONY: demo
demo: build ## Route real prompts over a small simulated fleet, strategy by strategy (DEMO_ARGS="--keep")
	bin/warmroute demo $(DEMO_ARGS)

.PHONY: size
size: | out ## Print the stripped size of the router and the modules linked into it
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o out/warmroute-stripped ./cmd/warmroute
	@printf 'warmroute: %d bytes, %d linked modules\n' "$$(stat -c %s out/warmroute-stripped)" \
		"$$(go version -m out/warmroute-stripped | grep -c '^	dep	')"

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf bin out

## Testing

.PHONY: check-redis
check-redis:
	@command -v redis-server >/dev/null || echo 'redis-server is missing: tests that need it are skipped (on Debian: apt-get install redis-server redis-sentinel)' >&2

.PHONY: test
test: check-redis ## Run every test, those with the clients of others included
	go test -shuffle=on $(TESTFLAGS) ./...
	@for m in $(CLIENT_MODULES); do (cd $$m && go test -shuffle=on ./...); done

.PHONY: test-race
test-race: check-redis ## Run the tests under the race detector (needs gcc)
	CGO_ENABLED=1 go test -race -shuffle=on -count=1 ./...

.PHONY: test-typescript
test-typescript: ## Test the RPC interface with the public TypeScript client (fetches it; needs node and npm)
	cd tests/typescript && npm install --no-package-lock --no-audit --no-fund --ignore-scripts
	go test -count=1 -v ./tests/typescript

.PHONY: test-javascript
test-javascript: ## Test SageMaker's paths with AWS's and OpenAI's JavaScript clients (fetches them; needs node and npm)
	cd tests/awscompat && npm install --no-package-lock --no-audit --no-fund --ignore-scripts
	cd tests/awscompat && go test -count=1 -v -run '^TestJavaScript$$' .

# Needs node and npm. On Debian chromium is installed where it is missing.
.PHONY: ui-test
ui-test: ## Test the dashboard in chromium (installs that on Debian, and fetches what drives it; needs node and npm)
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
	cd tests/browser && npm install --no-package-lock --no-audit --no-fund --ignore-scripts
	go test -count=1 -v ./tests/browser

.PHONY: fuzz-smoke
fuzz-smoke: out/fuzz.targets ## Run every fuzz target for a fixed number of executions
	@while read -r pkg name; do \
		echo "$$name ($$pkg)"; \
		go test -run='^$$' -fuzz="^$$name$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=100x -parallel=2 "$$pkg" </dev/null; \
	done <$<
	@echo "$$(wc -l <$<) fuzz targets"

# The test binaries themselves say which fuzz targets they have, so none can be forgotten.
.PHONY: out/fuzz.targets
out/fuzz.targets: | out
	@go test -list '^Fuzz' ./... >out/fuzz.list || { cat out/fuzz.list; exit 1; }
	@awk '/^Fuzz/ { names[++n] = $$1 } /^ok / { for (i = 1; i <= n; i++) print $$2, names[i]; n = 0 }' out/fuzz.list >$@

.PHONY: fuzz
fuzz: ## Fuzz one target for long: make fuzz FUZZ=./kvindex:FuzzStream T=10m
	@test -n '$(FUZZ)' || { echo 'which target? FUZZ=./package:FuzzName (make fuzz-smoke lists them)' >&2; exit 2; }
	go test -run='^$$' -fuzz='^$(lastword $(subst :, ,$(FUZZ)))$$' -fuzztime=$(T) $(firstword $(subst :, ,$(FUZZ)))

# What the tests are run with to measure coverage: make test TESTFLAGS="$(COVERFLAGS)".
COVERFLAGS = -coverprofile=out/cover.out -coverpkg=$$(go list ./... | grep -vE '/(cmd|proto|tests)(/|$$)' | paste -sd, -)

.PHONY: cover
cover: | out ## Measure coverage, write out/cover.html, fail below the thresholds
	@go test $(COVERFLAGS) ./... >out/cover.log || { cat out/cover.log; exit 1; }
	@$(MAKE) --no-print-directory check-cover

.PHONY: test-cover
test-cover: TESTFLAGS = $(COVERFLAGS)
test-cover: out test ## The tests, and what they cover, in one run
	@$(MAKE) --no-print-directory check-cover

.PHONY: check-cover
check-cover:
	@go tool cover -html=out/cover.out -o out/cover.html
	@go run ./tests/arch/coverage -profile out/cover.out -total $(COVER_TOTAL) -root $(COVER_ROOT) $(COVER_ROOTS)

# Shell words: the packages of the working directory's module that have benchmarks.
BENCH_DIRS = $$(grep -rlE '^func Benchmark' --include='*_test.go' --exclude-dir={sdkcompat,awscompat,tools,out} . | xargs -r -n1 dirname | sort -u)

.PHONY: bench
bench: | out ## Run the benchmarks, write out/bench.txt (BENCH=regexp, COUNT=10 for benchstat)
	go test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=60m $(BENCH_DIRS) | tee out/bench.txt

.PHONY: bench-smoke
bench-smoke: ## Run every benchmark once, so that none can rot
	go test -run='^$$' -bench=. -benchtime=1x $(BENCH_DIRS)

# Virtual time: the figures are the same on any machine, and belong to the repository.
.PHONY: policy-bench
policy-bench: ## Play every strategy in the worlds of the targets (WARMROUTE_TRACES=DIR), write docs/benchmarks/policies.md
	go run ./tests/bench/policies -o docs/benchmarks

.PHONY: advice-bench
advice-bench: ## Hold advice against full sweeps in the worlds of the targets (WARMROUTE_TRACES=DIR), write docs/benchmarks/advice.md
	go run ./tests/bench/advice -first 15m -o docs/benchmarks

# Real time, real processes: what breaks when differs from run to run, what is asked and broken in which order does not.
.PHONY: chaos
chaos: check-redis ## Break engines, routers and Redis under 200 requests/s and judge what is lost: make chaos SEED=2 T=5m (at most 10m)
	go run ./tests/chaos -seed $(SEED) -t $(T) $(if $(RATE),-rate $(RATE)) -o $(FORMAT)

.PHONY: soak
soak: T = 30m
soak: check-redis ## Serve 100 requests/s with leaving clients, errors and restarts for long, and judge whether all stays flat (T=2h RATE=100)
	go run ./tests/chaos -soak -seed $(SEED) -t $(T) $(if $(RATE),-rate $(RATE)) -o $(FORMAT)

.PHONY: sizing
sizing: build ## Measure processor time and memory of a router on this machine (Linux), for docs/operations/sizing.md
	go run ./tests/bench/sizing -warmroute bin/warmroute

.PHONY: bench-compare
bench-compare: | out ## Run the benchmarks of another revision and of this one, then compare (BASE=main COUNT=10)
	@rm -rf out/base && git worktree prune && git worktree add --detach out/base $(BASE)
	@cd out/base && go test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=60m $(BENCH_DIRS) >../bench-base.txt
	@git worktree remove --force out/base
	go test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=60m $(BENCH_DIRS) >out/bench.txt
	$(TOOL) benchstat out/bench-base.txt out/bench.txt

## Checking

.PHONY: lint
lint: vet check-format check-fix staticcheck proto-breaking ## Run go vet, gofumpt, go fix and staticcheck

.PHONY: vet
vet:
	go vet ./...
	@for m in $(CLIENT_MODULES); do (cd $$m && go vet ./...); done

.PHONY: check-format
check-format:
	@files="$$($(TOOL) gofumpt -l .)"; test -z "$$files" || { echo "not formatted (make fmt):"; echo "$$files"; exit 1; } >&2

.PHONY: check-fix
check-fix:
	go fix -diff ./...
	@for m in $(CLIENT_MODULES); do (cd $$m && go fix -diff ./...); done

.PHONY: staticcheck
staticcheck:
	$(TOOL) staticcheck ./...
	@for m in $(CLIENT_MODULES); do (cd $$m && go tool -modfile=../../tools/go.mod staticcheck ./...); done

.PHONY: lint-full
lint-full: ## Run golangci-lint (compiles it for some minutes the first time)
	$(LINT) golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the Go files and apply what go fix suggests
	$(TOOL) gofumpt -w .
	go fix ./...

.PHONY: generate
generate: ## Run the go:generate directives
	go generate ./...

.PHONY: check-generate
check-generate: ## Fail if generate changes a file
	@before="$$(git status --porcelain; git diff)"; $(MAKE) --no-print-directory generate; \
	test "$$before" = "$$(git status --porcelain; git diff)" || { echo 'generated files are out of date: commit what make generate changed' >&2; git status --short >&2; exit 1; }

.PHONY: proto-lint
proto-lint: ## Check the style of proto/, and that nothing published changed its meaning (needs buf; BASE=main)
	buf lint proto
	buf format -d --exit-code proto
	@if git cat-file -e '$(BASE):proto/buf.yaml' 2>/dev/null; then buf breaking proto --against '.git#ref=$(BASE),subdir=proto'; fi

# What was published keeps its name, number and type: lines may be added to the list, none may go.
.PHONY: proto-breaking
proto-breaking: ## Fail where the RPC interface breaks callers of the last commit (PROTO_BASE=main)
	@was="$$(git show '$(PROTO_BASE):$(PUBLISHED)' 2>/dev/null || :)"; \
	lost="$$(LC_ALL=C comm -23 <(LC_ALL=C sort <<<"$$was") <(LC_ALL=C sort $(PUBLISHED)))"; \
	test -z "$$lost" || { echo 'the RPC interface has lost what $(PROTO_BASE) published:'; echo "$$lost"; exit 1; } >&2

.PHONY: tidy
tidy: ## Tidy every go.mod
	@for m in $(MODULES) tools/lint; do (cd $$m && go mod tidy); done

.PHONY: check-modules
check-modules: ## Verify the modules and fail where a go.mod is not tidy
	@for m in $(MODULES); do (cd $$m && go mod verify && go mod tidy -diff); done

## Everything

.PHONY: ci
ci: ## Run what continuous integration runs
	.ci/run

.PHONY: ci-full
ci-full: ci check-generate lint-full ## Run that, and the checks that compile for long on a new machine

out:
	@mkdir -p out
