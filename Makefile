# Entry points. Each target installs what it needs (.ci/setup), configures, builds and runs; a second
# run with nothing changed does nothing and says so.

PRESET ?= release
PREFIX ?= /usr/local
TIER ?= quick
DATA ?=
export PRESET PREFIX TIER DATA

.DEFAULT_GOAL := build
.PHONY: build test clean help

build: ## configure and build build/bin/batchless
	@.ci/build batchless

test: ## build and run all tests
	@.ci/test

clean: ## remove everything that was built
	@.ci/clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\): .*## /  \1\t/p' Makefile | expand -t 12
