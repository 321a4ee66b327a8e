# Every target that tests needs Go only; those on real Kafka also Java and Maven, which "setup" installs
# where it can. Real-Kafka tests are those whose names begin with TestKafka.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# All packages of all modules of go.work.
ALL := github.com/holdfast-go/holdfast/...
# How many schedules "virtual" runs.
SEEDS ?= 200
KAFKA_VERSIONS ?= 4.4.0 4.0.0 3.9.1
# The bound of one package without a broker.
FAST_TIMEOUT ?= 10m
STATICCHECK := $(CURDIR)/bin/staticcheck
VULNCHECK := $(CURDIR)/bin/govulncheck

# Packages of all modules, that with the longest tests first: the last one to begin has a core to itself.
# Not the model: it has one goroutine and millions of states, and the race detector no use for either.
RACED = github.com/holdfast-go/holdfast/cmd/holdfast $$(go list $(ALL) | grep -v -e /model$$ -e /cmd/holdfast$$)

# $(call timed,part,command) runs the command and says how long it took, and its seconds of a core: user's and kernel's.
timed = TIMEFORMAT='== $(1): %0R s, %0U+%0S s of a core'; time $(2)

.PHONY: help vulnerable setup setup-kafka check test test-cores test-fast virtual test-kafka acceptance crash-steps matrix soak sweeps nightly model demo example-flights bench-smoke planted accidents attack fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the tests need (Java: a JDK 17 and Maven) and fetch Kafka's jars
	@$(call timed,setup,$(MAKE) --no-print-directory -j2 setup-kafka $(STATICCHECK))

setup-kafka:
	@scripts/setup-kafka.sh

# Its own module, so that what the linter requires stays out of the product's. GOWORK=off because it is
# not part of the workspace.
$(STATICCHECK): tools/go.mod tools/go.sum
	@echo "== building staticcheck (a minute and a half, once)"
	@cd tools && GOWORK=off go build -o $@ honnef.co/go/tools/cmd/staticcheck

check: $(STATICCHECK) ## gofmt, go vet and staticcheck, without running anything
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	@go vet $(ALL)
	@go vet -tags synctests ./internal/virtual
	@$(STATICCHECK) $(ALL)
	@$(MAKE) --no-print-directory vulnerable

# The version is one that tools/go.sum pins. Without the database there is nothing to compare with.
vulnerable: ## known vulnerabilities in what is imported, where the database can be reached
	@if curl -fsS -m 10 -o /dev/null https://vuln.go.dev/index/db.json 2>/dev/null; then \
		(cd tools && GOWORK=off go build -o $(VULNCHECK) golang.org/x/vuln/cmd/govulncheck) && $(VULNCHECK) $(ALL); \
	else echo "== govulncheck was NOT run: https://vuln.go.dev cannot be reached from here"; fi

# Tests on real Kafka wait for brokers and timeouts most of the time: the others go on beside them and give way to them.
test: setup ## everything: checks, broker-free tests, tests on real Kafka (Java)
	@$(call timed,checks,$(MAKE) --no-print-directory check)
	@$(MAKE) --no-print-directory -j2 test-kafka test-cores

# What has no clock but its own comes first, beside the tests on Kafka; the race detector's tests on the embedded broker
# have most of the cores to themselves.
test-cores:
	@$(call timed,planted bugs,nice -n 5 go run ./internal/planted/run -shard 3)
	@nice -n 5 $(MAKE) --no-print-directory test-fast

# -vet=off, here and on Kafka: "check" vets the same files, with more analyzers; go test would do it for each kind of build.
test-fast: ## the tests that need no broker, with the race detector
	@$(call timed,model,go test -C model -vet=off -timeout $(FAST_TIMEOUT) ./...)
	@$(call timed,virtual time,$(MAKE) --no-print-directory virtual)
	@$(call timed,race detector,go test -race -vet=off -timeout $(FAST_TIMEOUT) -skip ^TestKafka $(RACED))

# Without the race detector, under which a seed takes eight times as long: nightly has some of them with it.
virtual: ## flows and pipes in virtual time: SEEDS (200) schedules of faults, each judged
	@go test -v -vet=off -tags synctests -timeout 240m ./internal/virtual -seeds $(SEEDS) $(VIRTUAL) | grep -Ev '^ *(=== |--- PASS|[a-z_]+_test.go:[0-9]+: [0-9.ms]+: )'

test-kafka: setup-kafka ## the tests on real Kafka, HOLDFAST_KAFKA_VERSION (4.4.0; Java)
	@$(call timed,real Kafka,scripts/test-kafka.sh)

acceptance: setup-kafka ## the tests that docs/acceptance.md names, and no others: each must exist and pass (Java)
	@go run ./internal/acceptance/run

accidents: setup-kafka ## offsets and logs that meet an accident, stale owners, on HOLDFAST_KAFKA_VERSION (4.4.0; Java)
	@HOLDFAST_NIGHTLY=1 go test -count=1 -timeout 40m -parallel 4 -run ^TestKafka ./internal/accidents

crash-steps: setup-kafka ## strike a member between each two of its requests, on HOLDFAST_KAFKA_VERSION (4.4.0), under HOLDFAST_CRASH_PROTOCOL (Java, 15 minutes)
	@results="$(CURDIR)/results/crash-steps/$${HOLDFAST_KAFKA_VERSION:-4.4.0}-$${HOLDFAST_CRASH_PROTOCOL:-cooperative}.md"; rm -f "$$results"; \
	HOLDFAST_CRASH_STEPS=all HOLDFAST_CRASH_RESULTS="$$results" \
		go test -count=1 -timeout 60m -run '^TestKafkaCrashSteps$$' ./internal/crash || failed=1; \
	cat "$$results" || failed=1; exit $${failed:-0}

attack: setup-kafka ## everything that a writer of a topic can do to its readers, under a hard limit of memory (Java, minutes)
	@HOLDFAST_ATTACK=all go test -count=1 -timeout 60m -run ^TestKafka ./internal/attack

planted: ## plant each bug of docs/reliability.md: the test named for it must notice
	@go run ./internal/planted/run

# What it finds stays in testdata/fuzz of the package, where "test" has it from then on.
fuzz: ## every fuzz target of every module for FUZZTIME (30s); FUZZ=pattern for some
	@scripts/fuzz.sh

nightly: ## all of it with long runs, on each of KAFKA_VERSIONS (4.4.0 4.0.0 3.9.1; Java, hours)
	@scripts/setup-kafka.sh $(KAFKA_VERSIONS)
	@HOLDFAST_NIGHTLY=1 $(MAKE) --no-print-directory check
	@HOLDFAST_NIGHTLY=1 $(MAKE) --no-print-directory test-fast FAST_TIMEOUT=90m
	@$(MAKE) --no-print-directory model
	@go test -race -tags synctests -timeout 60m ./internal/virtual -run 'TestSeeds$$' -seeds 200
	@# Twice two dollars: what is given to a make on its command line is expanded once more.
	@$(MAKE) --no-print-directory virtual SEEDS=10000 VIRTUAL='-run TestSeeds$$$$ -sometimes'
	@$(MAKE) --no-print-directory planted
	@FUZZTIME=$${FUZZTIME:-2m} $(MAKE) --no-print-directory fuzz
	@for version in $(KAFKA_VERSIONS); do \
		echo "== Kafka $$version"; \
		HOLDFAST_NIGHTLY=1 HOLDFAST_TEST_TIMEOUT=180m HOLDFAST_KAFKA_VERSION=$$version \
			HOLDFAST_CRASH_RESULTS="$(CURDIR)/results/crash-steps/$$version-cooperative.md" \
			HOLDFAST_MATRIX_RESULTS="$(CURDIR)/results/matrix/$$version.md" scripts/test-kafka.sh; \
	done

model: ## every state of the commit protocol's model, with two faults (10 minutes)
	@cd model && go run . -faults 2 -cycles

matrix: setup-kafka ## every group protocol against every fault of members and brokers, as a table (Java)
	@HOLDFAST_MATRIX=all HOLDFAST_MATRIX_RESULTS="$(CURDIR)/results/matrix/$${HOLDFAST_KAFKA_VERSION:-4.4.0}.md" \
		go test -count=1 -timeout 90m -v -run '^TestKafkaMatrix$$' ./internal/matrix

soak: setup-kafka ## kills and pauses at random for HOLDFAST_SOAK (30m), then verdict and slopes (Java)
	@HOLDFAST_SOAK=$${HOLDFAST_SOAK:-30m} go test -count=1 -timeout 0 -v -run '^TestKafkaSoak$$' ./internal/soak

sweeps: ## the long runs, in pieces that passed on this product or are run now: ONLY=pattern, FOR=2h, LIST=1 (Java, hours)
	@if [ -z "$(LIST)" ]; then scripts/setup-kafka.sh $(KAFKA_VERSIONS); fi
	@go run ./internal/sweep/run -only '$(or $(ONLY),.)' -for $(or $(FOR),0) $(if $(LIST),-list)

demo: ## show a stale writer refused and check every key, on the embedded broker
	@echo "== building holdfast (the first time, about half a minute)"
	@go run ./cmd/holdfast demo

example-flights: ## run the flights example, on the embedded broker
	@go run ./examples/flights

bench-smoke: setup-kafka ## the product beside a bare franz-go loop on real Kafka, one round (Java)
	@go run ./bench -rounds 1
