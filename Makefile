# weir: what one types. `make` alone lists it. Tests and checks live in tools/check.sh.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo build plugin test unit race fuzz bench bench-micro e2e docker lint clean

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build/weir, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o build/weir ./cmd/weir

plugin: build ## build/plugin, the directory for docker plugin create (CA_BUNDLE=file)
	@CA_BUNDLE='$(CA_BUNDLE)' tools/plugin.sh build/weir build/plugin

demo: build ## show the whole path on this machine: no AWS, no configuration (ARGS='--for 10s')
	./build/weir demo $(ARGS)

test: ## everything that CI runs: format, vet, staticcheck, tests, race, fuzz, e2e
	@tools/check.sh all

unit: ## unit tests only
	@tools/check.sh unit

race: ## unit tests with the race detector
	@tools/check.sh race

fuzz: ## a short run of every fuzz target (FUZZTIME=1s)
	@tools/check.sh fuzz

e2e: ## tests with the real binary and real clients
	@tools/check.sh e2e

docker: ## the Docker driver on a real engine: 200 kills, 200 containers (WEIR_DOCKER_CLOCK=1: steps the clock too)
	WEIR_DOCKER_FULL=1 WEIR_DOCKER_KILLS=$${WEIR_DOCKER_KILLS:-200} go test -count=1 -v -timeout 60m ./test/docker $(ARGS)

lint: ## format, vet, staticcheck
	@tools/check.sh lint

bench: build ## end-to-end benchmark that prints a table (ARGS go to it)
	go run ./test/bench $(ARGS)

bench-micro: ## benchmarks of single packages (ARGS='-benchtime 100x')
	go test -run '^$$' -bench . $(ARGS) ./internal/...

clean: ## remove what was built
	rm -rf build
