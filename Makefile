# The map of habits: `make help` lists them. Every target works on a fresh
# machine that has Go and make.

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-zA-Z0-9_\/.-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A Kubernetes to develop against. It is a module of its own, so that nothing
# else ever compiles Kubernetes, and a file target, so that it is built again
# only when its sources have changed.
DEVCLUSTER_SOURCES := devcluster/go.mod devcluster/go.sum $(shell find devcluster -name '*.go')

bin/devcluster: $(DEVCLUSTER_SOURCES) ## build a real Kubernetes for tests and the demo
	@echo "compiling Kubernetes $$(sed -n 's|^[[:space:]]*k8s.io/kubernetes v||p' devcluster/go.mod): about 10 minutes the first time on 2 cores, half a minute after that"
	@mkdir -p bin
	@cd devcluster && go build -ldflags '-s -w' -o ../bin/devcluster.new .
	@mv bin/devcluster.new bin/devcluster
	@echo "bin/devcluster is ready"
