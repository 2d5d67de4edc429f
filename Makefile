# One target per task of the project; `make help` lists them.
# Every target sets up what it needs. Nothing is installed outside $(VENV), book/node_modules and
# book/vendor, except for browsers: if there is none, `make test` installs Chromium for root on Debian
# or Ubuntu, and `make engines` installs Firefox and WebKitGTK for root on Debian.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
CHAPTERS ?=
# Where PyTorch comes from. On Linux without an NVIDIA GPU these are its builds for the CPU: the
# default builds contain several GB of CUDA libraries. Empty: pip's default index.
TORCH_INDEX ?= $(shell test "$$(uname)" = Linux && ! command -v nvidia-smi >/dev/null && \
  echo https://download.pytorch.org/whl/cpu)

# The version of PyTorch for `make lock`: a new one can change the outputs of trained models.
HOLD ?= $(shell grep '^torch==' requirements.lock)

# A test run starts Python thousands of times. Without compiled files, which this variable forbids,
# importing PyTorch takes twice as long.
export PYTHONDONTWRITEBYTECODE :=

PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed-$(notdir $(PYTHON))
READY := $(VENV)/.ready
say = @printf '\n== %s\n'
# Two commands at the same time; it fails if one of them does.
both = @$(1) & first=$$!; trap 'kill $$first 2>/dev/null || true' EXIT; $(2); wait $$first

.PHONY: help
help: ## list the targets
	@printf 'make TARGET, where TARGET is one of\n\n'
	@awk -F ':[^#]*## ' '/^[a-z]+:[^#]*## /{printf "  %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: PYTHON=%s (3.11 or newer), VENV=%s,\nTORCH_INDEX=%s (the source of PyTorch), CHAPTERS="book/04-....ipynb ..." for refresh, student and teacher.\n' '$(PYTHON)' '$(VENV)' '$(TORCH_INDEX)'

$(INSTALLED): requirements.lock
	$(say) 'environment: $(VENV), with the versions of requirements.lock'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'make: Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	@# An environment of another Python version, or an incomplete one without pip, is replaced.
	@version='import sys; print(sys.version_info[:2])'; \
	  test "$$($(PY) -c "import pip; $$version" 2>/dev/null)" = "$$($(PYTHON) -c "$$version")" || \
	  $(PYTHON) -m venv --clear $(VENV)
	@# The lock is complete for the build of PyTorch for the CPU, so that pip need not resolve it.
	@# Python compiles what is imported, which is less than all that is installed.
	@deps=; test -z '$(TORCH_INDEX)' || { \
	  $(PY) -m pip install --quiet --no-compile --no-deps --retries 0 --timeout 20 \
	    --index-url '$(TORCH_INDEX)' "$$(grep '^torch==' requirements.lock)" && deps=--no-deps; } || \
	  echo 'make: $(TORCH_INDEX) cannot be reached; the next step installs the default build of PyTorch' >&2; \
	  $(PY) -m pip install --quiet --no-compile $$deps -r requirements.lock
	@touch $@

$(READY): $(INSTALLED) pyproject.toml
	$(say) 'environment: the package itself, editable'
	$(PY) -m pip install --quiet --no-deps -e .
	$(PY) -m pip check
	@touch $@

.PHONY: verify
verify: $(READY) ## run every chapter that is not verified, and compare its outputs
	$(say) 'page libraries'
	$(PY) -m tools.vendor
	$(say) 'chapters: run what changed, compare every output'
	$(PY) -m tools.verify

.PHONY: book
book: $(READY) ## verify every chapter and build the site in site/
	$(say) 'site, and chapters: run what changed, compare every output'
	$(PY) -m tools.site build

.PHONY: serve
serve: $(READY) ## show the site on this machine
	@test -f site/index.html || $(MAKE) book
	$(PY) -m tools.site serve

.PHONY: pdf
pdf: book ## print the book as dist/the-executable-transformer.pdf
	$(PY) -m tools.pdf

.PHONY: epub
epub: book ## write the book as dist/the-executable-transformer.epub
	$(PY) -m tools.epub

.PHONY: dist
dist: book ## pack the site as dist/the-executable-transformer.zip, to be read without a server
	$(PY) -m tools.dist

.PHONY: lab
lab: $(READY) ## start JupyterLab on a working copy of the chapters in lab/
	$(PY) -m tools.lab

.PHONY: student
student: $(READY) ## write chapters without solutions to dist/student/, a zip each (CHAPTERS, or all)
	$(PY) -m tools.handouts student $(CHAPTERS)

.PHONY: teacher
teacher: $(READY) ## write chapters with solutions and known mistakes to dist/teacher/ (CHAPTERS, or all)
	$(PY) -m tools.handouts teacher $(CHAPTERS)

.PHONY: test
test: ## run all checks: chapters, site, package, pages, and the checks themselves
	@# Two jobs at a time, for two processor cores. Nothing of the second needs the first.
	$(call both,$(PYTHON) -m tools.browser,$(MAKE) --no-print-directory $(READY))
	$(call both,$(MAKE) --no-print-directory check,$(MAKE) --no-print-directory book)
	$(say) 'chapters: the same outputs without vector instructions'
	$(PY) -m tools.plain
	$(say) 'tests'
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 3 --dist worksteal --durations 30 --ignore=tests/engines tests

.PHONY: engines
engines: ## test every page in Firefox and in WebKitGTK (installed for root on Debian)
	@# Few machines have these engines, and the tests take minutes, so `make test` omits them.
	$(call both,$(PYTHON) -m tools.engines,$(MAKE) --no-print-directory $(READY))
	@$(MAKE) --no-print-directory book
	$(say) 'pages in Firefox and in WebKitGTK'
	OMP_NUM_THREADS=1 $(PY) -m pytest --durations 5 tests/engines

.PHONY: package
package: $(READY) ## run the tests of the package only
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 3 --dist worksteal $(addprefix --ignore=tests/,benchmarks checks engines pages project) tests

.PHONY: check
check: $(READY) ## lint, formatting, types, normal form of the chapters, claims
	$(say) 'lint'
	$(PY) -m ruff check
	$(say) 'formatting'
	$(PY) -m ruff format --check
	$(say) 'types'
	$(PY) -m mypy
	$(say) 'normal form of the chapters'
	$(PY) -m tools.notebooks check
	$(say) 'claims about the recorded results'
	$(PY) -m benchmarks.tables --check

.PHONY: format
format: $(READY) ## format code and chapters
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	$(PY) -m tools.notebooks normalise

.PHONY: refresh
refresh: $(READY) ## run chapters (CHAPTERS, or all) and store their outputs in normal form
	$(PY) -m tools.notebooks refresh $(CHAPTERS)

.PHONY: portable
portable: verify ## verify that the outputs hold on other settings: older CPUs, one thread, two threads
	$(say) 'without vector instructions'
	$(PY) -m tools.plain --all
	$(say) 'without AMX and AVX-512: no matrix units, and another library than on a CPU that has them'
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
	  $(PY) -m tools.verify --all --no-stamp
	$(say) 'one thread'
	OMP_NUM_THREADS=1 $(PY) -m tools.verify --all --no-stamp
	$(say) 'two threads'
	OMP_NUM_THREADS=2 $(PY) -m tools.verify --all --no-stamp

.PHONY: lock
lock: ## rewrite requirements.lock from the ranges of pyproject.toml (HOLD="torch==2.13.0", or torch: its newest version)
	@# pip-tools resolves for the Python that runs it: the oldest supported one.
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo 'make: Python 3.11 is needed; name it with: make lock PYTHON=/path/to/python3.11' >&2; exit 1; }
	$(PYTHON) -m venv --clear _build/lock
	_build/lock/bin/pip install --quiet 'pip-tools>=7.5,<8'
	CUSTOM_COMPILE_COMMAND='make lock' _build/lock/bin/pip-compile --quiet --upgrade \
	  --upgrade-package '$(HOLD)' --extra book --extra test --unsafe-package pip --strip-extras \
	  --no-annotate --no-emit-options --output-file requirements.lock pyproject.toml
	@# Only some platforms need these packages, and those that require them fix their versions; the
	@# local part of a version, such as +cpu, depends on the machine.
	@sed -i.bak -E '/^(nvidia-|cuda-|triton=|pytorch-triton|appnope=|pywin32)/d; s/\+[a-z0-9.]+$$//' requirements.lock
	@rm requirements.lock.bak
	@echo 'lock: run `make refresh` and `make test` before you commit'

.PHONY: clean
clean: ## remove everything that these targets made, except lab/
	rm -rf $(VENV) .verified site _build build dist *.egg-info book/api book/vendor book/node_modules
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find tfmr tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
