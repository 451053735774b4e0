# Everything a developer does here, by name. Variables given to make reach the program as environment:
# `make run BROKER_DIALECT=next`.

# No test run takes longer than this; a hanging one ends.
TEST_LIMIT_SECONDS ?= 3000
limit := $(if $(shell command -v timeout),timeout --foreground --kill-after=30 $(TEST_LIMIT_SECONDS))

# Not through npm, which keeps signals to itself: whoever stops make stops the program in order.
node = PATH="$(CURDIR)/node_modules/.bin:$$PATH" exec $(1) node --require ./.node-version.cjs

.DEFAULT_GOAL := help
.PHONY: help install run test test-times check lint-spec api worker migrate schema test-page client client-kills bench simulate mutants chaos chaos-stream chaos-webhooks failover workers outages money-storm billing-year copy-storm questions fuzz clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-24s%s\n", $$1, $$2 }'
	@printf '%-24s%s\n' '  npm test' 'Run the quick tests: without kills, outages, floods, browsers and starts of processes, in one dialect' \
	  '  npm test -- NAME' 'Run the test files whose path contains NAME' '  npm test -- --help' 'Show the options of the test runner'

install: node_modules/.installed ## Install the dependencies, Node 24 among them (the others do it by themselves)

node_modules/.installed: package-lock.json
	@.ci/install

run: install ## Run everything on this machine: database, broker simulator, api and worker
	@$(node) cli/main.ts run

test: install ## Run every test, and beside them check types, style and the description
	@$(call node,$(limit)) test/run.ts --all --again --beside 'npm run -s check'

test-times: install ## Run every test, print what each file took, and write test/times.json, the order of the next run
	@$(call node,$(limit)) test/run.ts --all --times

check: install ## Check types, style and the description
	@npm run -s check

lint-spec: install ## Check the description with Redocly and Spectral
	@.ci/lint-spec

api: install ## Run an api process
	@NODE_OPTIONS='--max-semi-space-size=16 --max-old-space-size=1024'; export NODE_OPTIONS; $(node) api/main.ts

worker: install ## Run a worker process
	@NODE_OPTIONS='--max-semi-space-size=16 --max-old-space-size=1024'; export NODE_OPTIONS; $(node) worker/main.ts

migrate: install ## Bring the database to the newest schema
	@$(node) cli/main.ts db migrate

schema: install ## Write db/schema.sql, the schema as the migrations leave it
	@$(node) db/postgres/write-schema.ts

test-page: install ## Write the reference's page on testing, as the simulated broker behaves
	@$(node) worker/simulator/test-page.ts

client: install ## Write the types of the client from the description
	@$(node) api/client/generate.ts

client-kills: install ## Kill a program with the client again and again (KILLS=100, ORDERS=40, SEED=), then count what it bought
	@$(node) test/client/run.ts

bench: install ## Measure the service beside bare peers (BENCH_ONLY=help lists the parts)
	@$(node) test/bench/run.ts

simulate: install ## Live many orders through on a virtual clock, with a crash at every step
	@$(node) test/simulate/run.ts

mutants: install ## Take each guard of an order's life out in turn; a simulation or a test must find it gone
	@$(node) test/simulate/mutants.ts

chaos: install ## Kill, pause and cut off real processes under load, then audit
	@$(node) test/chaos/run.ts

chaos-stream: install ## The same beside consumers of the stream (SOCKETS=200), and what they received against the rows
	@SOCKETS=$${SOCKETS:-200} $(node) test/chaos/run.ts

chaos-webhooks: install ## Kill workers while webhooks are delivered, some of them to endpoints that fail, then audit the endpoints' books
	@$(node) test/chaos/webhooks-run.ts

failover: install ## Take primaries, standbys and etcd of a Patroni cluster away under load, then audit (FAULTS=10, SEED=, FIGURES=FILE adds runs up; root, Debian packages)
	@$(node) test/failover/run.ts

workers: install ## Let ten workers of the newer dialect join, leave, die and freeze under uneven load: connections, take-overs, REST calls (WORKERS=10, ACCOUNTS=2000)
	@$(node) test/workers/run.ts

outages: install ## Take PostgreSQL, Redis, the broker and the disk away for a while under load, then audit
	@$(node) test/chaos/outages-run.ts

money-storm: install ## Move money from many processes, kill and cut them off, check every promise (SEED=, OPERATIONS=)
	@$(node) test/money-storm/run.ts

billing-year: install ## Bill 1,000 partners day by day for a year and hold each charge against what a customer would say (SEED=, PARTNERS=)
	@$(node) test/billing-year/run.ts $(if $(SEED),--seed $(SEED)) $(if $(PARTNERS),--partners $(PARTNERS))

copy-storm: install ## Copy orders to 200 followers while leaders close, accounts switch, tokens go and workers die (SEED=, FOLLOWERS=, ORDERS=, BROKER_DIALECT=)
	@TEST_DIALECT="$(BROKER_DIALECT)" $(node) test/copy-storm/run.ts

questions: install ## Ask analytics random questions while orders close late and processes are killed (QUESTIONS=, MINUTES=, ORDERS=, SEED=)
	@$(node) test/analytics/run.ts

fuzz: install ## Send every kind of request to every operation, and judge the answers (REQUESTS=, MINUTES=, SEED=, STRETCH= on a busy machine)
	@$(node) test/fuzz/run.ts

clean: ## Delete the dependencies and all local data (.data)
	@if [ -d "$${DATA_DIR:-.data}" ] && [ -d node_modules ]; then npm run -s clean; fi
	@rm -rf node_modules .install.lock
