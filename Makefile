# Every target that tests needs Go only; those on real Kafka also Java and Maven, which "setup" installs
# where it can. Real-Kafka tests are those whose names begin with TestKafka.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# All modules of go.work, or the one of go.mod.
MODULES = $(shell go list -m -f '{{.Dir}}')
KAFKA_VERSIONS ?= 4.4.0 4.0.0 3.9.1
STATICCHECK := $(CURDIR)/bin/staticcheck

# $(call each,command) runs a command in every module.
each = for module in $(MODULES); do echo "== $$module: $(1)"; (cd "$$module" && $(1)); done

.PHONY: help setup setup-kafka check test test-fast test-kafka acceptance planted nightly demo example-flights bench-smoke

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the tests need and fetch Kafka's jars
	@$(MAKE) --no-print-directory -j2 setup-kafka $(STATICCHECK)

setup-kafka:
	@scripts/setup-kafka.sh

# Its own module, so that what the linter requires stays out of the product's. GOWORK=off because it is
# not part of the workspace.
$(STATICCHECK): tools/go.mod tools/go.sum
	@echo "== building staticcheck (a minute and a half, once)"
	@cd tools && GOWORK=off go build -o $@ honnef.co/go/tools/cmd/staticcheck

check: $(STATICCHECK) ## gofmt, go vet and staticcheck, without running anything
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	@$(call each,go vet ./...)
	@$(call each,$(STATICCHECK) ./...)

test: setup ## everything: checks, broker-free tests, tests on real Kafka
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-fast
	@$(MAKE) --no-print-directory test-kafka
	@go run ./internal/planted/run -shard 3

test-fast: ## the tests that need no broker, with the race detector
	@$(call each,go test -race -timeout 10m -skip ^TestKafka ./...)

test-kafka: setup-kafka ## the tests on real Kafka, of HOLDFAST_KAFKA_VERSION
	@scripts/test-kafka.sh

acceptance: setup-kafka ## the tests that docs/acceptance.md names, and no others: each must exist and pass
	@go run ./internal/acceptance/run

planted: ## plant each bug of docs/reliability.md: the test named for it must notice
	@go run ./internal/planted/run

nightly: ## everything with long runs, and real Kafka in all of KAFKA_VERSIONS
	@scripts/setup-kafka.sh $(KAFKA_VERSIONS)
	@HOLDFAST_NIGHTLY=1 $(MAKE) --no-print-directory check
	@HOLDFAST_NIGHTLY=1 $(MAKE) --no-print-directory test-fast
	@$(MAKE) --no-print-directory planted
	@for version in $(KAFKA_VERSIONS); do \
		echo "== Kafka $$version"; \
		HOLDFAST_NIGHTLY=1 HOLDFAST_TEST_TIMEOUT=60m HOLDFAST_KAFKA_VERSION=$$version scripts/test-kafka.sh; \
	done

demo: ## show a stale writer refused, on the embedded broker
	@echo "== building holdfast (the first time, about half a minute)"
	@go run ./cmd/holdfast demo

example-flights: ## run the flights example
	@go run ./examples/flights

bench-smoke: setup-kafka ## the product beside a bare franz-go loop on real Kafka, one round
	@go run ./bench -rounds 1
