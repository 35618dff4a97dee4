# Each target does all of its own set-up: a virtual environment in .venv, made once. The demo needs
# a part of it; all else adds the developers' tools. Each step says how long it took.
PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv/.ready-demo
READY := .venv/.ready
# Without --no-compile pip would compile thousands of files that nobody imports.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch==2.13.0

# $(call timed,what is done,command)
timed = @echo "$(1) ..."; start=$$(date +%s); $(2) && echo "$(1): $$(($$(date +%s) - start)) s"

.PHONY: demo serve test test-slow test-gpu test-engines test-service test-browser fuzz torture mutate lint docs bench weights

demo: $(DEMO)
	$(call timed,The demo,$(BIN)/queryshift demo)

serve: $(READY)
	$(BIN)/queryshift serve

test: $(READY)
	$(call timed,The tests,$(BIN)/python -m pytest -n 2)

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

test-engines: .venv-engines/.ready
	OMP_NUM_THREADS=1 .venv-engines/bin/python -m pytest -n 0 -m 'engine or not engine' tests/engines tests/indexing

# PostgreSQL comes from PyPI; nginx from Debian (apt-get install nginx-light): without it its tests
# are skipped. KILLS=200 STORE_KILLS=20 make test-service kills more often.
test-service: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 -m 'service or not service' tests/serving

# Needs Debian's chromium; without it the tests are skipped.
test-browser: $(READY)
	$(BIN)/python -m pytest -m browser tests/browser

# A million inputs, resumable: FUZZ_MINUTES=10 make fuzz ends earlier and the next goes on.
fuzz: $(READY)
	$(BIN)/python tools/fuzz.py

# Kills, full disks, flipped bits, threads, forks, interrupts; a full disk needs the right to mount.
torture: $(READY)
	$(BIN)/python -m tools.torture

# Faults planted one at a time, resumable: MUTATE="--seed 7 --faults 300" make mutate.
mutate: $(READY)
	$(BIN)/python -m tools.mutate $(MUTATE)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir site

bench: $(READY) .bench/.ready
	for name in plain adapt gallery single sessions; do $(BIN)/python bench/$$name.py || exit 1; done
	PYTHONPATH=src .bench/bin/python bench/corruptions.py

weights: $(READY)
	for task in scenes clips edits; do $(BIN)/python -m training.train $$task || exit 1; done
	$(BIN)/python -m training.adopt
	$(BIN)/python -m training.measure

# The corruptions' peer brings numba, SciPy and scikit-image: an environment of its own.
.bench/.ready:
	test -x .bench/bin/python || $(PYTHON) -m venv .bench
	.bench/bin/python -m pip install --quiet imagecorruptions-imaug==1.1.5
	touch $@

# The Milvus server and Ray come from PyPI: an environment of its own for tests of whole systems.
.venv-engines/.ready: pyproject.toml constraints.txt
	.venv-engines/bin/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv .venv-engines
	.venv-engines/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0 \
		-e ".[dev,ray]" milvus==2.3.5
	touch $@

$(DEMO): pyproject.toml constraints.txt
	$(call timed,Making an environment in .venv,\
		{ $(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv .venv; })
	$(call timed,Installing what the demo needs (torch first: 200 MB),$(INSTALL) -e ".[lab]")
	@touch $@

$(READY): $(DEMO)
	$(call timed,Installing the developers' tools (about 1 GB),$(INSTALL) -e ".[dev]")
	@touch $@
