# The two commands of the README are `make repro` and `make test`. VENV=folder puts the environment elsewhere.

VENV ?= .venv
PYTHON ?= python3
export VENV
export PATH := $(abspath $(VENV))/bin:$(PATH)
export HF_HUB_DISABLE_TELEMETRY := 1
export DVC_NO_ANALYTICS := 1

.PHONY: help install repro test check bench picture lock clean

help:  ## Show the commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

install:  ## Make the virtual environment from the lock
	@$(PYTHON) scripts/install.py

repro: install  ## Quantize, measure, score and report; the result is reports/report.html
	quantgate check
	dvc repro
	quantgate recommend

test: install  ## Run all tests, with the real quantizers on a tiny model
	pytest

check: install  ## Formatter, linter, strict types, lock, fast tests
	ruff format --check .
	ruff check .
	mypy
	python scripts/lock.py --check
	pytest -m "not e2e"

bench: install  ## Side-by-side measurements, alone on the machine, after `make repro`; about an hour and a half
	python benchmarks/overhead.py
	python benchmarks/runtime_settings.py
	python benchmarks/quantize_allocator.py
	python benchmarks/paired_noise.py
	python benchmarks/decision_truth.py
	python benchmarks/decision_truth.py --real

picture: install  ## Take the README's picture of reports/report.html; needs a Chromium
	python scripts/picture.py

lock: install  ## Resolve pyproject.toml into requirements.lock
	python scripts/lock.py

clean:  ## Remove what can be made again; keeps the reports
	rm -rf artifacts logs .dvc/cache .dvc/tmp
