# `make` or `make help` lists the targets. A target prepares what it needs, once.
#
#   make LOCK=gpu-cu118 env      which lock to install; found out when it is not given
#   make PYTHON=/path/to/it env  which Python to build the environment from
#   make LOCK=gpu-paddle3 PADDLE_INDEX=https://... env
#                                Paddle 3's GPU build, from the index for your CUDA that
#                                https://www.paddlepaddle.org.cn/en/install/quick names

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env lab progress quickstart test test-fast faults lint doctor execute notebooks bench peers test-paddle3 test-paddle3-short lock clean distclean

ifdef DEVICE
LOCK ?= $(if $(filter gpu,$(DEVICE)),gpu-cu118,cpu)
endif
# An environment that is there stays in use, Paddle 2.6's first.
LOCK ?= $(patsubst .stamp-%,%,$(notdir $(firstword \
	$(wildcard .venv/.stamp-*) $(wildcard .venv-paddle3/.stamp-*))))
ifeq ($(LOCK),)
# Paddle 2.6's GPU wheel holds code for compute capability 6.1 to 8.9 only: Pascal to Ada. Paddle 3's
# is on no package index, so it is chosen for newer cards where PADDLE_INDEX says where to get it.
LOCK := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | awk \
	'$$1 >= 6.1 && $$1 <= 8.9 { fits = 1 } $$1 > 8.9 { new = 1 } END { \
	print fits ? "gpu-cu118" : new && "$(PADDLE_INDEX)" ? "gpu-paddle3" : "cpu" }')
endif

# Both stacks can be there side by side.
VENV := $(if $(findstring paddle3,$(LOCK)),.venv-paddle3,.venv)
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-$(LOCK)
PIP := -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(STAMP) ## make .venv (LOCK=cpu, gpu-cu118) or .venv-paddle3 (LOCK=cpu-paddle3, gpu-paddle3)

# The stamp is written last. An environment that was left half-made, or that holds the other lock's
# paddle in the same directory, is made afresh. pip itself comes first: the one that Python 3.10
# brings installs some packages in a way of the past, without a record of their files.
$(VENV)/.stamp-%: requirements/%.txt pyproject.toml
	@if [ -e $(VENV)/.incomplete ] || ls $(VENV)/.stamp-* 2>/dev/null | grep -qv -- '-$*$$'; then \
		rm -rf $(VENV); fi
	@if [ $* = gpu-paddle3 ] && [ -z "$(PADDLE_INDEX)" ]; then \
		echo "PADDLE_INDEX is not set: give the address of Paddle's index for your CUDA, which" \
			"https://www.paddlepaddle.org.cn/en/install/quick names" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ]; then \
		python=$$(sh tools/find_python.sh "$(PYTHON)") && \
		echo "making $(VENV) with $$python for $*: some minutes, once" && \
		"$$python" -m venv --clear $(VENV); fi
	@touch $(VENV)/.incomplete
	@rm -f $(VENV)/.stamp-*
	@awk '/^(pip|setuptools|wheel)==/ { on = 1 } on { print } !/\\$$/ { on = 0 }' \
		requirements/$*.txt > $(VENV)/first.txt
	$(BIN)/python $(INSTALL) --require-hashes -r $(VENV)/first.txt
	$(BIN)/python $(INSTALL) --require-hashes -r requirements/$*.txt
	@# From Paddle's index come its wheel and NVIDIA's libraries; the rest stays as it is locked.
	@if [ $* = gpu-paddle3 ]; then set -ex; \
		sed -n 's/^\([a-z0-9].*==.*\) \\$$/\1/p' requirements/$*.txt > $(VENV)/locked.txt; \
		$(BIN)/python $(PIP) install --index-url $(PADDLE_INDEX) -c $(VENV)/locked.txt \
			"$$(sed -n 's/^paddlepaddle==/paddlepaddle-gpu==/p' requirements/cpu-paddle3.in)"; fi
	PYTHONWARNINGS=ignore $(BIN)/python $(INSTALL) --no-build-isolation -e .
	@$(BIN)/python -m ipykernel install --sys-prefix --name python3 \
		--display-name "Python 3 (PaddleNLP course)" >/dev/null
	@rm $(VENV)/.incomplete
	@touch $@

# COURSE_LANG=zh or en chooses the edition and JupyterLab's menus. Without it the browser's language
# chooses the edition, and LANG the menus.
CHINESE := $(filter zh%,$(or $(COURSE_LANG),$(LANG)))
CHAPTERS := notebooks$(if $(CHINESE),/zh)
START := $(if $(COURSE_LANG),lab/tree/$(CHAPTERS)/start.ipynb,static/start.html)

lab: $(STAMP) ## JupyterLab with the learner's notebooks (COURSE_LANG=zh: in Chinese)
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@echo '{"@jupyterlab/translation-extension:plugin": {"locale": "$(if $(CHINESE),zh_CN,default)"}}' \
		> $(VENV)/share/jupyter/lab/settings/overrides.json
	$(BIN)/jupyter lab --ServerApp.extra_static_paths=docs/lab --LabApp.default_url=/$(START)

progress: $(STAMP) ## which exercises you have solved
	@$(BIN)/python -m course_lib.chapters.progress $(CHAPTERS)

quickstart: $(STAMP) ## train, evaluate and use a small sentiment model
	$(BIN)/python -m course_lib quickstart

doctor: $(STAMP) ## report on this machine and environment, and name each fix
	$(BIN)/python -m course_lib doctor

lint: $(STAMP) ## ruff (notebooks included), order of imports, types, size of the library, style of the prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tools/check_size.py
	$(BIN)/python tools/check_style.py

# One process a core, with one thread each: the small models of the course gain little from a second
# thread. More than four would want more than 8 GB of memory.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
PYTEST := -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder --durations=12
# Of solutions/ only the files themselves: zh/ holds the same code and the same outputs.
NBVAL := --nbval-lax --nbval-kernel-startup-timeout 600 --nbval-sanitize-with tests/nbval_sanitize.cfg

# The chapters come last, and on a slow machine not all of them: after so many minutes of `make test`
# no further one is begun. Each commit begins with another one, so that each has its turn.
NBVAL_MINUTES ?= 29
CHAPTERS = ls solutions/*.ipynb | awk -v first=$$(git log -1 --format=%ct 2>/dev/null || echo 0) \
	'{ name[NR] = $$0 } END { for (i = 1; i <= NR; i++) print name[(first + i) % NR + 1] }'

# Every step runs, so that one call shows all that is wrong; pytest's own lines come last.
# tests/test_notebooks.py runs the learners' editions while it tries the exercises.
test: $(STAMP) .venv-nbgrader/.stamp ## everything that CI runs
	@failed=; until=$$(($$(date +%s) + 60 * $(NBVAL_MINUTES))); export OMP_NUM_THREADS=1; \
	step() { echo "== $$*"; env "$$@" || failed="$$failed\n  $$*"; }; \
	step $(BIN)/ruff check . ; \
	step $(BIN)/ruff format --check . ; \
	step $(BIN)/lint-imports; \
	step $(BIN)/mypy; \
	step $(BIN)/python tools/check_size.py; \
	step $(BIN)/python tools/check_style.py; \
	step $(BIN)/python $(PYTEST) -m "not quick"; \
	$(if $(filter cpu,$(LOCK)),step $(MAKE) LOCK=cpu WORKERS=$(WORKERS) test-paddle3-short;) \
	step COURSE_NBVAL_UNTIL=$$until COURSE_PROFILE=cpu COURSE_DEVICE=cpu $(BIN)/python $(PYTEST) $(NBVAL) $$($(CHAPTERS)); \
	if [ -n "$$failed" ]; then printf "failed:$$failed\n" >&2; exit 1; fi

# What only Paddle 2.6 can show: tests of its own faults, and of the locks and pages that it writes.
test-paddle3: ## unit tests and notebooks/ in two steps on Paddle 3 (.venv-paddle3)
	$(MAKE) LOCK=cpu-paddle3 env
	OMP_NUM_THREADS=1 COURSE_DEVICE=cpu .venv-paddle3/bin/python $(PYTEST) -m "not (upstream or browser or faults or quick)"

# What the lock of Paddle 3 has otherwise, on top of .venv: made in seconds, not in minutes.
ON_TOP := $(VENV)/paddle3
SHORT := tests/test_stack.py $(addprefix notebooks/,04_transformers_auto.ipynb 05_trainer.ipynb \
	06_quantization.ipynb 20_faq_semantic_search.ipynb)
test-paddle3-short: $(ON_TOP)/.stamp ## minutes of it: models of both stacks, four chapters (LOCK=cpu)
	PYTHONPATH=$(CURDIR)/$(ON_TOP) OMP_NUM_THREADS=1 COURSE_PROFILE=smoke COURSE_DEVICE=cpu \
		$(BIN)/python $(PYTEST) $(NBVAL) $(SHORT)

$(ON_TOP)/.stamp: requirements/cpu.txt requirements/cpu-paddle3.txt $(STAMP)
	rm -rf $(ON_TOP)
	awk 'NR == FNR { same[$$0]; next } /^[a-z]/ { on = !($$0 in same) } on' \
		requirements/cpu.txt requirements/cpu-paddle3.txt > $(VENV)/on_top.txt
	$(BIN)/python $(INSTALL) --require-hashes --no-compile --target $(ON_TOP) -r $(VENV)/on_top.txt
	@touch $@

test-fast: $(STAMP) ## unit tests and one chapter: minutes, for while you work
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m "not (slow or upstream or browser or faults)"
	OMP_NUM_THREADS=1 COURSE_PROFILE=smoke COURSE_DEVICE=cpu $(BIN)/python -m pytest -q $(NBVAL) \
		notebooks/00_environment.ipynb

faults: $(STAMP) ## all kills, full disks and malformed files, of which `make test` runs some
	COURSE_FAULTS=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/faults

execute: $(STAMP) ## run solutions/ and save their outputs
	$(BIN)/python tools/notebooks.py execute

notebooks: $(STAMP) ## write notebooks/ from solutions/
	$(BIN)/python tools/notebooks.py generate

# These take up to hours and keep their results in data/results, or need Paddle 3: run them by hand.
LONG := backbone backbone_answers compress_tasks decoder desk_encoder distillation extraction few_labels \
	inference_frontier openvino word_vectors

bench: $(STAMP) ## run the short benchmarks/; each prints one JSON line
	@for script in $(filter-out $(LONG:%=benchmarks/%.py),$(wildcard benchmarks/*.py)); do \
		echo "== $$script" >&2; $(BIN)/python "$$script" || exit 1; done

# uv resolves one lock for all Python versions and platforms; it lives in an environment of its own.
lock: .venv-uv/.stamp ## resolve requirements/*.in anew, keeping versions that still fit
	cd requirements && for name in cpu gpu-cu118 cpu-paddle3 gpu-paddle3 nbgrader book peers; do \
		options="--override overrides.txt"; \
		if [ $$name = nbgrader ]; then options=; fi; \
		if [ $$name = book ]; then options="--no-emit-package playwright"; fi; \
		if [ $$name = gpu-paddle3 ]; then options="$$options --no-emit-package paddlepaddle"; fi; \
		if [ $$name = peers ]; then \
			options="--override overrides-peers.txt --no-emit-package torch"; fi; \
		../.venv-uv/bin/uv pip compile --quiet --universal --python-version 3.10 --no-header \
			--generate-hashes $$options $$name.in -o $$name.txt || exit 1; done

.venv-uv/.stamp: Makefile
	python=$$(sh tools/find_python.sh "$(PYTHON)") && "$$python" -m venv --clear .venv-uv
	.venv-uv/bin/python $(PIP) install "uv>=0.8"
	@touch $@

# For instructors and for the test that grades a chapter.
.PHONY: nbgrader book book-check
nbgrader: .venv-nbgrader/.stamp ## nbgrader in an environment of its own

.venv-nbgrader/.stamp: requirements/nbgrader.txt | $(STAMP)
	python=$$(sh tools/find_python.sh "$(PYTHON)") && "$$python" -m venv --clear .venv-nbgrader
	.venv-nbgrader/bin/python $(INSTALL) --require-hashes -r requirements/nbgrader.txt
	@$(BIN)/python -m ipykernel install --prefix .venv-nbgrader --name python3 \
		--display-name "Python 3 (PaddleNLP course)" >/dev/null
	@touch $@

# The book needs nothing of the course's environment, so it has one of its own.
book: .venv-book/.stamp ## the chapters as a site in both languages, in build/book
	.venv-book/bin/python tools/book.py

# .venv drives the browser, .venv-book has axe-core.
book-check: $(STAMP) book ## axe-core on every page of the book, in Chromium
	$(BIN)/python -m pytest -q tests/book_pages.py

.venv-book/.stamp: requirements/book.txt
	python=$$(sh tools/find_python.sh "$(PYTHON)") && "$$python" -m venv --clear .venv-book
	.venv-book/bin/python $(INSTALL) --require-hashes -r requirements/book.txt
	@touch $@

# For two benchmarks. On Linux the package index has PyTorch with CUDA only, which cannot be imported
# without gigabytes of libraries; PyTorch's own index has it for the CPU. Any other address of that
# build: make TORCH="--find-links DIRECTORY" peers
TORCH ?= --extra-index-url https://download.pytorch.org/whl/cpu
peers: .venv-peers/.stamp ## Hugging Face's Trainer on PyTorch, for the benchmarks: about 1 GB

.venv-peers/.stamp: requirements/peers.txt requirements/peers.in
	python=$$(sh tools/find_python.sh "$(PYTHON)") && "$$python" -m venv --clear .venv-peers
	.venv-peers/bin/python $(INSTALL) $(TORCH) "$$(grep '^torch==' requirements/peers.in)+cpu"
	.venv-peers/bin/python $(INSTALL) --require-hashes -r requirements/peers.txt
	@touch $@

clean: ## remove what runs have written, models in outputs/ too; environments stay
	rm -rf outputs runs build *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
	find . -path './.venv*' -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) \
		-type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the environments
	rm -rf .venv .venv-paddle3 .venv-uv .venv-nbgrader .venv-book .venv-peers
