#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Makes sure that cargo can build the harness. What is there is used as it is;
# else Debian's packages are installed (cargo-web where cargo is too old).

set -eu

minimum=1.85
packages="gcc libc6-dev ca-certificates"

log()
{
	echo "$*" >&2
}

# Succeeds if version $1 is at least the minimum.
new_enough()
{
	[ "$(printf '%s\n%s\n' "$1" "$minimum" | sort -V | head -n 1)" = "$minimum" ]
}

cargo_works()
{
	command -v cargo >/dev/null && command -v rustc >/dev/null &&
		new_enough "$(cargo --version | cut -d ' ' -f 2)"
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		log "regress: this needs root, and there is no sudo: $*"
		exit 2
	fi
}

# Prints the cargo that apt offers, if it is new enough.
cargo_package()
{
	for package in cargo cargo-web; do
		version=$(LC_ALL=C apt-cache policy "$package" |
			sed -n 's/^  Candidate: \([0-9].*\)/\1/p')
		if [ -n "$version" ] && new_enough "$version"; then
			echo "$package"
			return
		fi
	done
}

if cargo_works && command -v cc >/dev/null; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	log "regress: install cargo $minimum or newer and a C compiler, then try again"
	exit 2
fi

log "... installing cargo and a C compiler with apt-get"
mkdir -p "${O:-build}/logs"
log_file=${O:-build}/logs/bootstrap.log
apt()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get \
		-o DPkg::Lock::Timeout=120 "$@" >>"$log_file" 2>&1 || {
		tail -n 15 "$log_file" >&2
		log "regress: apt-get $* failed; the whole log: $log_file"
		exit 2
	}
}

apt update
if ! cargo_works; then
	cargo=$(cargo_package)
	if [ -z "$cargo" ]; then
		log "regress: apt offers no cargo $minimum or newer; install one by hand (rustup)"
		exit 2
	fi
	packages="$packages $cargo"
fi
# shellcheck disable=SC2086 # a list of words
apt install --yes --no-install-recommends $packages
log "          cargo $(cargo --version | cut -d ' ' -f 2) is ready"
