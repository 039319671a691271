# Entry points. Each target installs what it needs (.ci/setup), configures, builds and runs; a second
# run with nothing changed does nothing and says so. The work is done by the scripts in .ci/.

# release, dev, asan, tsan, clang or ci: see CMakePresets.json.
PRESET ?= release
# Where `make install` installs to.
PREFIX ?= /usr/local
# The tier of `make figures`: quick, or paper for the studies' real runs.
TIER ?= quick
# Folder with the data sets, for `make figures TIER=paper` and `make campaign`.
DATA ?=
# With `make campaign`, 1 builds its program anew from the commit that is checked out.
NEW ?=
# How long `make harden` takes.
MINUTES ?=
# Of `make test`: one label, quick, slow, figures or long; empty for all but long.
LABEL ?=
# Of `make figures`: one figure. Of `make check-all` and `make harden`: parts of them, which .ci/ lists.
ONLY ?=
# Of `make bench`: 1 runs each benchmark once, without measuring.
ONCE ?=
# Of `make lint`: a commit; what changed since is read. Empty for all files.
SINCE ?=
# 1 runs tests, benchmarks and lint even where nothing changed since they last passed.
FORCE ?=
# skip leaves out the look for missing packages.
SETUP ?=
export PRESET PREFIX TIER DATA NEW MINUTES LABEL ONLY ONCE SINCE FORCE SETUP

.DEFAULT_GOAL := build
.PHONY: build python test harden figures explorer site campaign bench install package lint format ci check-all clean help

build: ## configure and build build/bin/batchless
	@.ci/build batchless

python: ## build the Python module, build/python
	@.ci/setup python && .ci/build python

test: ## run the tests [LABEL=quick|slow|figures|long] [PRESET=asan] [FORCE=1]
	@.ci/test

harden: ## fuzz every reader, fail every write, kill every process [MINUTES=20] [ONLY=part]
	@.ci/harden

figures: ## run the experiments and draw every figure [TIER=quick|paper] [DATA=folder] [ONLY=figure]
	@.ci/figures

explorer: ## build the interactive pages build/figures/explorer.html and explainer.html
	@.ci/explorer

site: ## build the documentation, build/site/html
	@.ci/site

campaign: ## run the queue of studies for days, in idle processor time: DATA=folder [NEW=1]
	@.ci/campaign

bench: ## run the benchmarks: build/bench/*.json and a table of ratios [FORCE=1] [ONCE=1]
	@.ci/bench

install: ## install program, libraries and CMake package [PREFIX=/usr/local]
	@.ci/install

package: ## make a Debian package, build/batchless_*.deb
	@.ci/package

lint: ## check the formatting and run clang-tidy's checks [FORCE=1] [SINCE=commit]
	@.ci/lint

format: ## format the C++ sources in place
	@.ci/format

ci: ## everything that continuous integration runs
	@.ci/run

check-all: ## what takes too long for every change: sanitizers, Clang, long tests [ONLY="asan tsan"]
	@.ci/check-all

clean: ## remove everything that was built but build/campaign [CAMPAIGN=1: that, too]
	@.ci/clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' Makefile | expand -t 18
