# Ray History Server. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
BUILD       := build
# The images are built with these tags too; Dockerfile.historyserver says what they leave out.
GO_TAGS     := disable_grpc_modules,grpcnotrace
# Everything is built as the images are, static: so tests are about what is released, and Go compiles a package once for all targets.
# Without symbols (-s) tests' programs are linked in little more than half of the time; panics name functions and lines all the same.
# The compiler and vet live for moments: with less garbage collection (GOGC) they take a quarter and a third less processor time.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=$(GO_TAGS) -ldflags=-s '-toolexec=env GOGC=400')
export CGO_ENABLED := 0
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
RAY_VERSION ?= 2.60.0
PORT        ?= 8080
FUZZTIME    ?= 20s
MUTATIONS   ?= 20000
SOAK        ?= 180
ATTEMPTS    ?= 1
# Images: what builds them, their tag, and the Ray versions whose dashboards the history server's holds.
ENGINE       ?= docker
IMAGE_TAG    ?= v0.1.0
RAY_VERSIONS ?= 2.60.0 2.55.1
# --without-hash allows Ray versions for which scripts/ray-wheels.txt has no hash.
DASHBOARD_FLAGS ?=
# Registry and folder of images and chart, such as registry.example.com/ray. Every command of the docs takes images from there.
REGISTRY     ?=
IMAGES       := $(REGISTRY)$(if $(REGISTRY),/)
# The test modules have servers (MinIO, fake GCS …) in their go.mod, so this module's go.mod does not need them.
MODULES     := . test test/kube test/release
STATICCHECK := GOGC=400 $(GO) tool -modfile=$(CURDIR)/test/tools/go.mod staticcheck
# Tests store thousands of small files, each with an fsync, which takes no time in memory. The path does not change, because Go's cache of
# results depends on it. Without such a folder, tests use the system's. A GOTMPDIR would count before TMPDIR.
TEST_TMP    ?= $(shell scripts/test-tmp.sh)
# More tests run at once than there are processors, because many of them mostly wait.
GO_TEST     := GOTMPDIR= TMPDIR=$(TEST_TMP) $(GO) test -p 4 -parallel 8
# These take longest, so they begin first.
LONG_TESTS  := ./pkg/session/index ./pkg/findings ./internal/testkit/faulttest
.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build both binaries, into build/
	$(GO) build -ldflags "-s -X main.version=$(VERSION)" -o $(BUILD)/ ./cmd/...

.PHONY: localimage-build localimage-collector localimage-historyserver
localimage-build: localimage-collector localimage-historyserver ## build both images (ENGINE=docker|podman, IMAGE_TAG=…, REGISTRY=…)

localimage-collector: ## build the image collector:v0.1.0
	$(ENGINE) build -f Dockerfile.collector -t $(IMAGES)collector:$(IMAGE_TAG) --build-arg VERSION=$(VERSION) .

localimage-historyserver: ## build the image historyserver:v0.1.0, with the dashboards of RAY_VERSIONS
	$(ENGINE) build -f Dockerfile.historyserver -t $(IMAGES)historyserver:$(IMAGE_TAG) --build-arg VERSION=$(VERSION) --build-arg RAY_VERSIONS="$(RAY_VERSIONS)" --build-arg DASHBOARD_FLAGS="$(DASHBOARD_FLAGS)" .

.PHONY: release
release: ## make a version's images, chart, packages, binaries, SBOMs and checksums in build/release, without a container engine; push to REGISTRY if given (VERSION=v…)
	cd test/release && $(GO) build -o ../../$(BUILD)/make-release .
	$(BUILD)/make-release --version "$(VERSION)" --registry "$(REGISTRY)" RAY_VERSIONS="$(RAY_VERSIONS)" DASHBOARD_FLAGS="$(DASHBOARD_FLAGS)"

.PHONY: demo
demo: build dashboard ## collect recorded Ray sessions and show them at http://localhost:8080 (PORT=…)
	$(GO) run ./internal/demo --bin $(BUILD) --dashboard-dir $(BUILD)/dashboard --port $(PORT)

.PHONY: screenshots
screenshots: build browser-setup ## take the pictures of docs/ from the demo: needs Chromium and Node; look at them before you commit them
	$(GO) run ./internal/demo --bin $(BUILD) --dashboard-dir $(BUILD)/dashboard --port $(PORT) --running even260 --run node --run test/browser/pictures.js --run docs/images

.PHONY: dashboard
dashboard: ## take the Ray Dashboard's pages out of the Ray wheel, into build/dashboard (RAY_VERSION=…)
	scripts/dashboard.sh $(DASHBOARD_FLAGS) $(RAY_VERSION) $(BUILD)/dashboard

.PHONY: browser-setup
browser-setup: # what tests in a browser need
	for version in 2.55.1 2.57.0 2.60.0; do scripts/dashboard.sh $$version $(BUILD)/dashboard; done
	cd test/browser && { [ -d node_modules ] || npm ci --no-audit --no-fund; }

.PHONY: test tests test-dashboard test-others
test: ## gofmt, and all tests that need no servers, clusters or browsers
	@$(MAKE) --no-print-directory --keep-going gofmt tests

# What begins side by side is compiled by each, since Go looks into its cache only when it begins with a package. So what they share is first.
tests:
	-@$(GO) list -export -test ./pkg/dashboard >/dev/null
	@$(MAKE) --no-print-directory --jobs --keep-going test-dashboard test-others

# The tests of pkg/dashboard also print how similar the answers are to those of the recorded dashboards.
test-dashboard:
	@mkdir -p $(BUILD)
	@$(GO_TEST) -vet=off -timeout 60m -v ./pkg/dashboard >$(BUILD)/dashboard-tests.log 2>&1 || { cat $(BUILD)/dashboard-tests.log; exit 1; }
	@grep -E '^(ok|FAIL)' $(BUILD)/dashboard-tests.log
	@echo "share of the recorded dashboards' answers that are equal, also with the two buckets of KubeRay's collectors:"
	@sed -nE 's/^=== RUN +TestFidelity\/(.*)/  \1/p; s/^ +(.*mean family share.*)/    \1/p' $(BUILD)/dashboard-tests.log

test-others:
	packages=$$($(GO) list ./... | grep -v /pkg/dashboard$$); $(GO_TEST) -vet=off -timeout 60m $(LONG_TESTS) $$packages

.PHONY: check-fast
check-fast: ## vet and test the packages that differ from BASE (main), while you edit
	@GO_TEST="$(GO_TEST)" GO="$(GO)" scripts/check-fast.sh $(BASE)

.PHONY: race
race: ## under the race detector, the tests of the packages that start goroutines, in their code or in their tests
	packages=$$(git grep -lE '^\s*go [a-zA-Z.]+\(|errgroup\.|\.Go\(|\.Parallel\(' -- 'cmd/*.go' 'pkg/*.go' 'internal/*.go' | xargs -n1 dirname | sort -u | sed 's|^|./|'); CGO_ENABLED=1 $(GO_TEST) -race -vet=off -timeout 60m ./pkg/session/index $$packages

.PHONY: faults faults-logs faults-kills
faults: ## kill collectors 200 times over failing stores, then run one under load for SOAK seconds; prints the figures
	@$(MAKE) --no-print-directory --jobs --keep-going faults-logs faults-kills

faults-logs:
	FAULTTEST_LOGS=100000 $(GO_TEST) -v -count=1 -timeout 10m -run TestMany ./pkg/collector/logs

faults-kills:
	FAULTTEST_KILLS=20 FAULTTEST_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 60m -parallel 20 ./internal/testkit/faulttest | grep -vE '^(=== |\s*--- PASS)'

.PHONY: test-backends
test-backends: ## test the storage drivers against real servers, which it builds and starts
	cd test && $(GO) test -v -count=1 -timeout 60m -parallel 12 ./backends/... | grep -vE '^(=== |\s*--- PASS)'

.PHONY: test-kube
test-kube: ## test against a real Kubernetes API server with KubeRay's types, built on the first run (minutes): needs root and iproute2
	cd test/kube && $(GO) test -v -count=1 -timeout 60m ./... | grep -vE '^(=== |\s*--- PASS)'

.PHONY: test-release
test-release: ## make a release twice, push it to a registry, and use its images, packages and chart: needs root; builds Helm on the first run
	cd test/release && $(GO) test -v -count=1 -timeout 60m ./... | grep -vE '^(=== |\s*--- PASS)'

.PHONY: test-browser
test-browser: browser-setup ## test the dashboards, our own pages (also with axe-core), attacks by other sites and by heads, and signing in, in a browser: needs Chromium and Node
	cd test && $(GO) test -v -count=1 -timeout 60m ./browser | grep -vE '^(=== |\s*--- PASS|time=)'

.PHONY: test-ray
test-ray: build browser-setup ## test with real Ray clusters, an S3 server and a browser: needs root, iproute2, Chromium, Node and Prometheus (ATTEMPTS=1 with each version)
	python3 test/e2e/guest.py
	python3 test/e2e/machines.py
	python3 test/e2e/e2e.py --attempts $(ATTEMPTS)

.PHONY: test-analysis
test-analysis: build ## run the programs of docs/analysis.md over generated sessions: installs DuckDB and Ray Data
	python3 test/analysis/analysis.py

.PHONY: e2e
e2e: test-kube test-browser test-ray test-analysis test-release ## all tests that need a real Kubernetes API server, real Ray clusters, a browser, DuckDB and Ray Data, or make a release

.PHONY: gofmt
gofmt:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt these: $$unformatted" >&2; exit 1; }

.PHONY: lint
lint: gofmt ## gofmt, go vet and staticcheck of this module and of the tests' modules
	for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(STATICCHECK) ./...); done

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	GO="$(GO)" TMPDIR=$(TEST_TMP) scripts/fuzz.sh $(FUZZTIME)

.PHONY: mutations
mutations: ## change some bytes of stored objects, MUTATIONS (20,000) times, and open the sessions; prints what that took
	MUTATIONS=$(MUTATIONS) $(GO) test -v -count=1 -timeout 120m -run '^TestMutations$$' ./pkg/session/index

.PHONY: bench
bench: ## run every benchmark once
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: docs
docs: ## write the tables in docs/ that come from the code
	UPDATE_DOCS=1 $(GO) test -count=1 -run TestFidelity ./pkg/dashboard
	UPDATE_DOCS=1 $(GO) test -count=1 -p 1 -run Docs ./cmd/... ./config/helm ./pkg/blob/backend ./pkg/ray/logline ./pkg/server

.PHONY: manifests
manifests: ## write the manifests of KubeRay's guides in config/ from the samples and the chart: builds Helm on the first run
	UPDATE_MANIFESTS=1 $(GO) test -count=1 -run TestGuides ./config
	cd test/kube && UPDATE_MANIFESTS=1 $(GO) test -count=1 -run TestGuideServers .

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)
