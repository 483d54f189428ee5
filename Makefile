# Two commands on a fresh machine: `make report` runs the whole way to a page; `make test` passes the tests.
# Interrupt either one and call it again: what was done is not done again.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
ASV = PATH="$(CURDIR)/$(BIN):$$PATH"
COMMITS ?= 2
# Compiled kernels are kept here, so that a second run is quick.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/build/inductor
export PIP_DISABLE_PIP_VERSION_CHECK := 1

KERNELS := $(wildcard setup.py autofn/csrc/* autofn/functions/*/kernel*)
PATHS := autofn benchmarks docs/draw.py docs/made.py docs/site.py examples reports tests trials setup.py

.PHONY: install report check asv trace site third-party test lint format browser slurm clean

install: $(VENV)/.installed build/.extension

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing torch and the tools into $(VENV) (a minute or two)"
	$(BIN)/pip install --quiet -c constraints.txt torch numpy setuptools ninja
	AUTOFN_NO_EXTENSION=1 $(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

build/.extension: $(VENV)/.installed $(KERNELS)
	@echo "Compiling the kernels"
	@mkdir -p build
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# The main job: checks, the last commits under asv, traces, the page.
report: check asv trace
	$(BIN)/autofn report

# Status 1 is a finding, 2 under asv a commit that failed: the page shows both, so the way goes on. What compiles is
# checked in float32, whose kernels asv needs too, and in float64, as second derivatives are; `make test` takes every dtype.
check: install
	$(BIN)/autofn check || test $$? -eq 1
	$(BIN)/autofn check -v compile -v fused --level full --select value --select gradient --select double-backward \
	  --dtype float32 --dtype float64 || test $$? -eq 1

# HEAD at every size; of the commits before, the small workloads alone.
asv: install
	@$(BIN)/asv machine --yes > build/asv-machine.log 2>&1 || { cat build/asv-machine.log; exit 1; }
	git rev-list -n 1 HEAD > build/head
	git rev-list -n $(COMMITS) HEAD | tail -n +2 > build/before
	$(ASV) AUTOFN_PROFILE=quick $(BIN)/asv run --skip-existing-commits --bench 'float32.*cpu' HASHFILE:build/head \
	  || test $$? -eq 2
	test ! -s build/before || $(ASV) AUTOFN_PROFILE=glance $(BIN)/asv run --skip-existing-commits \
	  --bench 'small.*float32.*cpu' HASHFILE:build/before || test $$? -eq 2

trace: install
	$(BIN)/autofn trace --missing || test $$? -eq 1

# The documentation and all published reports, as a folder that opens without a network: build/site/index.html.
site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

$(VENV)/.site: pyproject.toml constraints.txt $(VENV)/.installed
	AUTOFN_NO_EXTENSION=1 $(BIN)/pip install --quiet -c constraints.txt -e '.[site]'
	@touch $@

# Functions of other people's packages, in an environment of their own: examples/third_party/README.md.
third-party:
	@$(MAKE) --no-print-directory -C examples/third_party

test: install browser slurm lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: install
	$(BIN)/ruff check $(PATHS)
	$(BIN)/ruff format --check $(PATHS)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

format: install
	$(BIN)/ruff check --fix $(PATHS)
	$(BIN)/ruff format $(PATHS)
	$(BIN)/clang-format -i $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

# The pages are tested in Chromium: fetched where that needs no password, else those tests say why they are skipped.
browser:
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null; } \
	  || echo "no chromium: its tests are skipped"

# A fleet is tested on a real Slurm of one node, which its tests start.
slurm:
	@command -v slurmctld > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	  slurmctld slurmd slurm-client munge > /dev/null; } || echo "no Slurm: its tests are skipped"

clean:
	rm -rf build dist *.egg-info autofn/*.so autofn/_build.json
