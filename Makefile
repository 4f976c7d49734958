# SPDX-License-Identifier: GPL-2.0
# Every entry point. KDIR=, O=, ARCH=, LLVM=1 and V=1 are passed on.

O ?= build
harness := tools/testing/regress
regress := $(abspath $(O))/regress

.PHONY: help repro test setup regress clean

help:
	@echo 'make repro   reproduce every report on base and patched, and judge the fixes'
	@echo 'make test    run every test of the project'
	@echo 'make setup   install what this machine lacks, and build the harness'
	@echo 'make clean   remove the results and the build folder, the kernel trees with it'
	@echo
	@echo 'Both do the set-up that they need, as root or with sudo. Variables:'
	@echo '  KDIR=PATH  your own kernel, a git tree or a tarball; it is never modified'
	@echo '  O=DIR      build folder [build]'
	@echo '  ARCH=, LLVM=1, V=1  as in the kernel'
	@echo
	@echo 'Behind them: $(O)/regress --help, after make setup'

repro: setup
	@$(regress) run

test: setup
	@$(regress) test

setup: regress
	@$(regress) setup

# cargo knows what is to be built.
regress:
	@$(harness)/bootstrap.sh
	@cargo build --release --locked \
		--manifest-path $(harness)/Cargo.toml \
		--target-dir $(abspath $(O))/target
	@ln -sfn target/release/regress $(O)/regress

clean:
	rm -rf $(O) out
