# SPDX-License-Identifier: Apache-2.0
#
# The front door: every target sets up what it needs. On a fresh Debian 12 with git and make, as root or with sudo,
# `make tune` and `make test` are all one has to type.

JOBS ?= $(shell nproc)
SHAPES ?=

# What sanitizers and clang run: unit tests without those in which NVRTC compiles whole sets of kernels; that takes
# minutes and runs none of our code that other tests do not.
HOST_TESTS = -L unit -E '[.]Compiles(Cleanly|ForHopper|ForAmpere)?$$|Compile[.]Without'

.DEFAULT_GOAL := help
.PHONY: help setup build tune test check format bench asan tsan fuzz clang tidy install clean

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: ## Install the Debian packages that are missing
	@tools/setup.sh

build: setup ## Build the program (build/culet) and the library
	@tools/build.sh release $(JOBS) culet_cli libculet.a

tune: build ## Tune real GEMM shapes on the best device here (SHAPES=FILE for your own)
	@tools/tune.sh $(SHAPES)

test: setup ## Build and run all tests; those that need a GPU say so and skip without one
	@tools/build.sh release $(JOBS) all
	@tools/run_tests.sh build $(JOBS)

check: setup ## Format, file headers, layers and file sizes (warnings are errors in every build)
	@tools/check.sh

format: setup ## Reformat all C++ files
	@tools/check_format.sh --fix

bench: setup ## Google Benchmark programs: look-up and launch overhead
	@tools/build.sh release $(JOBS) all
	@for program in build/benchmarks/bench_*; do [ -x "$$program" ] && [ -f "$$program" ] && "$$program"; done

asan: setup ## Host tests under AddressSanitizer and UBSan
	@tools/build.sh asan $(JOBS) unit_tests
	@tools/run_tests.sh build-asan $(JOBS) $(HOST_TESTS)

tsan: setup ## Host tests under ThreadSanitizer
	@tools/build.sh tsan $(JOBS) unit_tests
	@tools/run_tests.sh build-tsan $(JOBS) $(HOST_TESTS)

fuzz: ## Fuzz targets with clang, a minute each (SECONDS=N for another time)
	@tools/setup.sh clang libclang-rt-dev
	@tools/build.sh fuzz $(JOBS) fuzz_problem fuzz_exchange fuzz_store fuzz_device
	@tools/fuzz.sh build-fuzz $(or $(SECONDS),60) $(JOBS)

clang: ## Everything built with clang, and the unit tests run
	@tools/setup.sh clang
	@tools/build.sh clang $(JOBS) all
	@tools/run_tests.sh build-clang $(JOBS) $(HOST_TESTS)

tidy: ## clang-tidy over the host sources
	@tools/setup.sh clang-tidy
	@tools/build.sh release $(JOBS) all
	@git ls-files 'src/*.cpp' 'cli/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy -p build --quiet --extra-arg=-Wno-unknown-warning-option

install: build ## Install to PREFIX (default /usr/local)
	@cmake --install build --prefix $(or $(PREFIX),/usr/local)

clean: ## Remove all build folders
	rm -rf build build-debug build-asan build-tsan build-fuzz build-clang build*-client
