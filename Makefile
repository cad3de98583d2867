# Two commands: `make run` goes from nothing to the tables and figures, `make test` passes the tests.
# Both need Python 3.11 or later, make and the network for packages, and set up .venv themselves.

PYTHON ?= python3
# A file, or the name of one in config/.
CONFIG ?= config/quick.yaml
RANKS ?= 1
BIN := .venv/bin
# Not those of the host, if a container has a quota; asked when the environment is there.
CORES ?= $(shell $(BIN)/python -c 'from cadmus.tools import cores; print(cores())')
# Snakemake has a cache too. In a container without a home, libraries get one by cadmus/caches.py.
ifeq ($(shell test -w "$$HOME" || echo missing),missing)
export XDG_CACHE_HOME ?= $(or $(TMPDIR),/tmp)/cadmus-$(shell id -u)/cache
endif

TARGETS := help run test oldest integrations llm-check gpu-check gpu-rehearsal notebook slurm-test docs lint clean
OLDEST := vm templates dataset model train evaluate experiments figures study labs test_store.py test_workflow.py
CONFIGFILE = $(firstword $(wildcard $(CONFIG) config/$(CONFIG).yaml) $(CONFIG))

.PHONY: $(TARGETS)

help:
	@echo 'make run            from nothing to tables and figures; CONFIG=laptop for another config, SET=train.steps=100 for another value'
	@echo 'make test           the tests'
	@echo 'make oldest         the tests of the machine, the training and the workflow, with the oldest packages allowed'
	@echo 'make docs           the documentation and the demo, in site/'
	@echo 'make lint           formatting, imports and types'
	@echo 'make notebook       the outputs of docs/notebook.ipynb'
	@echo 'make integrations   adapters for other tools, each with its tool'
	@echo 'make llm-check      a language model of 135M parameters, asked nine programs'
	@echo 'make gpu-check      does everything work on a GPU, and how fast?'
	@echo 'make gpu-rehearsal  ten minutes on a rented GPU, rehearsed on CPUs'
	@echo 'make slurm-test     the workflow on a SLURM cluster of this machine'
	@echo 'make clean          remove the environment, all results and the site'

run: .venv/installed
	@$(BIN)/cadmus config show $(CONFIGFILE)$(SET:%= --set %) > /dev/null
	$(BIN)/snakemake --cores $(CORES) --configfile $(CONFIGFILE)$(if $(SET), --config set="$(SET)")

# Three processes, as tests wait for servers and for processes that start; more would only import more. Tests of a file
# stay together, as they share what is set up.
test: .venv/installed
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# With the oldest versions that pyproject.toml allows, in an environment of its own; the other tests need tools of developers.
oldest:
	$(PYTHON) -m venv .oldest
	.oldest/bin/pip install --quiet --disable-pip-version-check uv
	.oldest/bin/uv pip install --quiet --python .oldest/bin/python --resolution lowest-direct --editable '.[workflow]'
	.oldest/bin/uv pip install --quiet --python .oldest/bin/python hypothesis pytest pytest-xdist transformers
	.oldest/bin/pytest --override-ini filterwarnings= --numprocesses 3 --dist loadfile $(OLDEST:%=tests/%)

# The adapters of integrations/, each with its tool in a virtual environment of its own.
integrations: .venv/installed
	integrations/test

# A language model of 135M parameters: its weights, llama.cpp's server, nine programs in two alphabets.
llm-check: .venv/installed
	integrations/test smollm2

# Minutes on one GPU: does everything work there, and how fast? RANKS=2 checks two GPUs together.
gpu-check: .venv/installed
	$(BIN)/python -m dev.gpu_session check --ranks $(RANKS)

# A session on a rented GPU, from packing to tables, on the CPUs of this machine; needs Python 3.12 and 5 GB.
gpu-rehearsal: .venv/installed
	$(BIN)/python -m tests.gpu_rehearsal

# The outputs of docs/notebook.ipynb anew.
notebook: .venv/installed
	$(BIN)/python -m dev.notebook

# The DAG through workflow/profiles/slurm on a SLURM cluster of this machine; as root, on Debian or Ubuntu.
slurm-test: .venv/installed
	$(BIN)/python -m tests.slurm_workflow --output docs/benchmarks/slurm.json

# The documentation and the demo as a site, in site/; a broken link or anchor, or a page that nothing leads to, is an error.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file dev/docs/mkdocs.yml
	$(BIN)/cadmus explore --static site/demo --documentation ../index.html

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint

.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("make: Cadmus needs Python 3.11 or later, this is " + sys.version.split()[0] + "; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python dev/install.py
	touch $@

.DEFAULT:
	@echo "make: no target '$@'; there are $(TARGETS)" >&2; exit 2

clean:
	rm -rf .venv .oldest results site .snakemake
