#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# PID 1 of every guest. The root is the host's, read-only; what must be
# writable is a tmpfs. The kernel's command line names the job, a file of shell
# assignments that the harness wrote:
#
#   job_argv=(...)     the command and its arguments
#   job_cwd=DIR        where it runs
#   job_env=(K=V ...)  its environment
#   job_tools=(...)    programs that it must find
#   job_builtin=FILE   list of the modules that are built into the kernel
#   job_keep=(DIR ...) folders of the host that a tmpfs must not hide
#   job_output=DEV     where its output goes; empty: the job is interactive
#   job_console=DEV    terminal of an interactive job
#   job_size="R C"     rows and columns of that terminal
#   job_verdict=DEV    where the verdict goes: one line, never on the console
#
# The verdict is one of `exit N`, `missing TOOL...` and `broken REASON`.
#
# shellcheck disable=SC2154 # the job file assigns them

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

# The device behind a pattern: the number of a virtio port is known only now,
# and the port may come late.
channel() {
	local path tries

	for tries in {1..100}; do
		for path in $1; do
			[ -c "$path" ] && echo "$path" && return
		done
		sleep 0.1
	done
	echo "no device $1 after $tries tries" >/dev/console
}

verdict() {
	[ -c "$job_verdict" ] && stty raw <"$job_verdict" 2>/dev/null
	echo "$*" >"$job_verdict"
}

# reboot(2): no init system is needed, perl-base is on every Debian. UML powers
# off; QEMU, which runs with -no-reboot, ends by a reset.
off() {
	local call=169 how=0x4321fedc

	[ "$(uname -m)" = aarch64 ] && call=142
	grep -q hostfs /proc/cmdline || how=0x01234567
	exec perl -e "syscall($call, 0xfee1dead, 0x28121969, $how, 0)"
}

broken() {
	verdict "broken $*"
	off
}

# A tmpfs on $1 that still shows what the job needs of the host below it.
fresh() {
	local keep i=0

	[ -d "$1" ] || return 0
	mount -t tmpfs none /mnt || return 1
	for keep in "${job_keep[@]}"; do
		[[ "$keep/" == "$1"/* ]] || continue
		mkdir /mnt/$i && mount --bind "$keep" /mnt/$i || return 1
		i=$((i + 1))
	done
	mount -t tmpfs -o mode=1777 none "$1" || return 1
	i=0
	for keep in "${job_keep[@]}"; do
		[[ "$keep/" == "$1"/* ]] || continue
		mkdir -p "$keep" && mount --bind /mnt/$i "$keep" || return 1
		i=$((i + 1))
	done
	umount -l /mnt
}

mount_all() {
	local dir

	mount -t sysfs none /sys || return 1
	mount -t debugfs none /sys/kernel/debug
	mount -t tracefs none /sys/kernel/tracing 2>/dev/null
	mount -t bpf none /sys/fs/bpf 2>/dev/null
	mkdir -p /dev/pts /dev/shm
	mount -t devpts -o ptmxmode=0666 none /dev/pts || return 1
	mount -t tmpfs none /dev/shm || return 1
	ln -sfn /proc/self/fd /dev/fd
	for dir in /tmp /run /var/tmp; do
		fresh "$dir" || return 1
	done
	mkdir -p /run/netns /run/lock
}

# There are no modules to load. Selftests call modprobe all the same, and skip
# what it refuses: one that knows what is built in.
provide_modprobe() {
	[ -e /proc/modules ] || [ ! -r "$job_builtin" ] && return
	mkdir -p /run/bin
	cat >/run/bin/modprobe <<-EOF
		#!/bin/bash
		for word; do
			[[ \$word == -* ]] && continue
			name=\${word//[-_]/[-_]}
			grep -q "/\$name\.ko" '$job_builtin' && exit 0
			echo "modprobe: \$word is not built in" >&2
			exit 1
		done
	EOF
	chmod +x /run/bin/modprobe
	PATH=/run/bin:$PATH
}

# No udevd runs here, so there is nothing that `udevadm settle` could wait for.
provide_udevadm() {
	mkdir -p /run/bin
	ln -s /bin/true /run/bin/udevadm
	PATH=/run/bin:$PATH
}

# In virtual time nothing may differ between two runs, random numbers neither:
# the host gives none, so let the kernel count these bytes as good.
seed_random() {
	local seed=net-regress-net-regress-net-regr

	grep -qw time-travel=inf-cpu /proc/cmdline || return 0
	perl -e 'open($rng, ">", "/dev/random") or die;
		# RNDADDENTROPY, of a struct rand_pool_info
		ioctl($rng, 0x40085203, pack("iia*", 256, 32, $ARGV[0])) or die' \
		"$seed"
}

# bash calls this for a program that is not there.
command_not_found_handle() {
	echo "$1" >>/run/missing-tools
	echo "$1: command not found" >&2
	return 127
}

# Runs the job and leaves the verdict in $result.
run_job() {
	local tool status absent=()

	for tool in "${job_tools[@]}"; do
		command -v "$tool" >/dev/null || absent+=("$tool")
	done
	if [ ${#absent[@]} -gt 0 ]; then
		result="missing ${absent[*]}"
		return
	fi
	export -f command_not_found_handle
	cd "$job_cwd" || broken "the guest has no folder $job_cwd"
	if [ -n "$job_output" ]; then
		stty raw <"$job_output" 2>/dev/null
		env "${job_env[@]}" "${job_argv[@]}" </dev/null >"$job_output" 2>&1
	else
		interactive
	fi
	status=$?
	result="exit $status"
	if [ $status -ne 0 ] && [ -s /run/missing-tools ]; then
		result="missing $(sort -u /run/missing-tools | tr '\n' ' ')"
	fi
}

# A console with a controlling terminal, so that Ctrl-C reaches the guest.
interactive() {
	local rows cols

	read -r rows cols <<<"$job_size"
	# A terminal forgets its size when nobody has it open.
	exec 9<>"$job_console"
	stty sane rows "${rows:-24}" cols "${cols:-80}" <"$job_console"
	# shellcheck disable=SC2094 # a terminal is both
	env "${job_env[@]}" setsid --ctty --wait "${job_argv[@]}" \
		<"$job_console" >"$job_console" 2>&1
}

# Reports every unreferenced object; two scans, for the first one learns.
scan_kmemleak() {
	[ -w /sys/kernel/debug/kmemleak ] || return 0
	echo scan >/sys/kernel/debug/kmemleak
	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak >/dev/console
}

# First, as UML's name for it is in the host's /proc
# shellcheck source=/dev/null
. "$job"
mount -t proc none /proc
mount -t devtmpfs none /dev
seed_random || broken "the random number generator takes no seed"
job_verdict=$(channel "$job_verdict")
[ -z "$job_output" ] || job_output=$(channel "$job_output")
mount_all || broken "a file system cannot be mounted"
hostname guest 2>/dev/null
ip link set lo up
provide_modprobe
provide_udevadm
run_job
scan_kmemleak
verdict "$result"
off
