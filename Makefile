# The map of habits: `make help` lists them. Every target works on a fresh
# machine that has Go, make and gcc.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-zA-Z0-9_\/.-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/gatehouse ## build bin/gatehouse

.PHONY: bin/gatehouse
bin/gatehouse:
	@mkdir -p bin
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/gatehouse ./cmd/gatehouse

.PHONY: demo
demo: bin/gatehouse bin/devcluster ## watch one edit reach forty gateways on an embedded Kubernetes
	@bin/gatehouse demo $(DEMO)

.PHONY: test
test: bin/gatehouse bin/devcluster lint ## prove it: every test, on a real Kubernetes, with the race detector
	CI=$(or $(CI),true) go test -race -timeout 20m $(TEST) ./...

# What is left to chance is the same in every `make test`. These draw it, and
# print it; GATEHOUSE_SEED=number repeats a run.
GATEHOUSE_SEED ?= random
DRAWN := CI=$(or $(CI),true) GATEHOUSE_SEED=$(GATEHOUSE_SEED)

# 600 points; LANES API servers share them.
LANES ?= 3
.PHONY: crash
crash: bin/gatehouse bin/devcluster ## kill the manager before and after every single write of eight stories (half an hour)
	$(DRAWN) GATEHOUSE_CRASH=all GATEHOUSE_CRASH_LANES=$(LANES) go test -v -timeout 6h -run C16 ./test/crash

.PHONY: fire
fire: bin/gatehouse bin/devcluster ## the same stories under five adversities, and twenty dead leaders (half an hour)
	$(DRAWN) GATEHOUSE_FIRE=all GATEHOUSE_CRASH_LANES=$(LANES) go test -v -timeout 6h -run 'States|Replicas' ./test/crash

.PHONY: truth
truth: bin/gatehouse bin/devcluster ## edit, kill, scale and upgrade replicas, and hold what is said of them to what they serve (ten minutes)
	$(DRAWN) GATEHOUSE_TRUTH=all go test -v -timeout 2h ./test/truth

# How long edits and faults go on.
SOAK ?= 1h
.PHONY: soak
soak: bin/gatehouse bin/devcluster ## edit everything at random while everything goes wrong, for SOAK (1h)
	$(DRAWN) SOAK=$(SOAK) go test -v -timeout 0 -run TestSoak ./test/soak

.PHONY: lint
lint: bin/staticcheck ## gofmt, vet, staticcheck, and which room may import which
	@unformatted=$$(gofmt -l api cmd config devcluster internal test); \
	  if [ -n "$$unformatted" ]; then echo "not gofmt'ed: run gofmt -w on"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	bin/staticcheck ./...
	go test -run 'Imports' ./test/house

# BENCH chooses benchmarks as `go test -bench` does: BENCH=Fleet/1000, BENCH=Admission.
BENCH ?= .
# The packages that put their figures into bin/bench.json.
MEASURED := ./test/bench ./test/verification
.PHONY: bench
bench: bin/gatehouse bin/devcluster ## measure whole rollouts beside a bare client; BENCH=name runs one
	@rm -f bin/bench.json
	go test -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 90m $(MEASURED)

# Generated files are committed; a test fails when they are stale. GENERATED
# says below which folder they are written.
GENERATED ?= .
.PHONY: generate
generate: bin/controller-gen ## write the CRDs, the roles and the deep copies anew
	@mkdir -p $(GENERATED)/api/v1alpha1
	@bin/controller-gen object paths=./api/... output:object:dir=$(GENERATED)/api/v1alpha1
	@bin/controller-gen crd paths=./api/... output:crd:dir=$(GENERATED)/config/crd
	@bin/controller-gen rbac:roleName=gatehouse-manager paths=./internal/app output:rbac:dir=$(GENERATED)/config/rbac

# How long each fuzz target runs.
FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: bin/devcluster ## try every property with new chances, and run every fuzz target for FUZZTIME (30s)
	go test $$(grep -rl --include=chance_test.go rapid internal | xargs -n1 dirname | sed 's|^|./|') -rapid.seed=0
	@grep -rl --include='*_test.go' '^func Fuzz' internal | while read -r file; do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s ./$$(dirname $$file) || exit 1; \
	  done; \
	done

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

# Build tools are a module of their own, pinned there.
bin/controller-gen bin/staticcheck: tools/go.mod tools/go.sum
	@mkdir -p bin
	@cd tools && go build -o ../bin/ sigs.k8s.io/controller-tools/cmd/controller-gen honnef.co/go/tools/cmd/staticcheck

# A Kubernetes to develop against. It is a module of its own, so that nothing
# else ever compiles Kubernetes, and a file target, so that it is built again
# only when its sources have changed: in content, because a checkout makes files
# new that are the same.
DEVCLUSTER_SOURCES := devcluster/go.mod devcluster/go.sum $(sort $(shell find devcluster -name '*.go'))

bin/devcluster: $(DEVCLUSTER_SOURCES) ## build a real Kubernetes for tests and the demo
	@mkdir -p bin
	@built="$$(go version) $$(cat $^ | cksum)"; \
	if [ -x $@ ] && [ "$$built" = "$$(cat $@.built 2>/dev/null)" ]; then touch $@; exit 0; fi; \
	echo "compiling Kubernetes $$(sed -n 's|^[[:space:]]*k8s.io/kubernetes v||p' devcluster/go.mod): about 10 minutes the first time on 2 cores, half a minute after that"; \
	(cd devcluster && go build -ldflags '-s -w' -o ../$@.new .) && mv $@.new $@ && echo "$$built" > $@.built && echo "$@ is ready"
