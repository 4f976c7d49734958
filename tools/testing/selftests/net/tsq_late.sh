#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# TCP Small Queues and late TX completions.
#
# A socket may have so many bytes in the queues below it, and waits for a TX
# completion to send more. Check that it keeps the link busy however late the
# completions are, and that it queues no more than before where they aren't.
#
#  +------------------------+                    +------------------------+
#  | SND                    |                    |                    RCV |
#  |               to_rcv + |     netdevsim      | + to_snd               |
#  |         192.0.2.1/24 | |     10 Gbit/s      | | 192.0.2.2/24         |
#  |                      `--------------------------'                    |
#  |   (late completions)   |                    |  (netem: delays ACKs)  |
#  +------------------------+                    +------------------------+
#
# "INFO: <figure>: <number> <unit>" lines give the figures behind the verdicts.

# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034,SC2154,SC2317

lib_dir=$(dirname "$(readlink -f "$0")")
source "$lib_dir/lib.sh"

ALL_TESTS="
	starved
	late
	constant_limit
	many_flows
	congestion_control
	no_tso
	paced
	bottleneck
	stall
	changes
	paths
"

SND4=192.0.2.1
RCV4=192.0.2.2

# Of the link, in Mbit/s
RATE=${RATE:-10000}
# Of the path, in us
RTT=${RTT:-5000}
# From the start of a flow until it is measured, and how long, in s
WARM_UP=${WARM_UP:-0.8}
MEASURE=${MEASURE:-0.3}
# How late completions are, in us
DELAYS=${DELAYS:-10 50 250 500 1000 1500 2000 3000 4000 8000}
# Other paths' RTTs, in us
PATHS=${PATHS:-100 1000 20000}
# One that starves a limit of 1 ms
LATE=${LATE:-2000}
# What a path of 20 ms takes, and its truesize
BUFFER=67108864
PORT=5201
NETDEVSIM_ID=$((512 + RANDOM % 256))

usage()
{
	cat <<-EOF
	Usage: [RATE=Mbit/s] [RTT=us] [LATE=us] $0 [-h] [TEST]...

	Without arguments run all tests:
	$ALL_TESTS
	EOF
}

##############################################################################
# Topology

# Create a netdevsim in a namespace
netdevsim_add()
{
	local ns=$1; shift
	local dev=$1; shift
	local id=$((++NETDEVSIM_ID))

	echo "$id 1" > /sys/bus/netdevsim/new_device || return
	defer cleanup_netdevsim "$id"
	udevadm settle 2>/dev/null
	ip link set dev "$(ls "/sys/bus/netdevsim/devices/netdevsim$id/net")" \
		name "$dev" netns "$ns"
}

ifindex()
{
	ip netns exec "$1" cat "/sys/class/net/$2/ifindex"
}

# How late the TX completions of a device are, in us
set_lateness()
{
	local ns=$1 dev=$2 usecs=$3

	ip netns exec "$ns" ethtool -C "$dev" tx-usecs "$usecs" tx-frames 0 2>/dev/null
}

set_up()
{
	local ns=$1 dev=$2 addr=$3

	ip netns exec "$ns" sysctl -qw "net.ipv6.conf.$dev.disable_ipv6=1"
	ip -n "$ns" addr add "$addr/24" dev "$dev"
	ip netns exec "$ns" ethtool -s "$dev" speed "$RATE" duplex full autoneg off
	ip netns exec "$ns" ethtool -G "$dev" tx 4096 2>/dev/null
	ip -n "$ns" link set dev "$dev" up
}

# Two hosts on one link, whose sender has late completions
link_setup()
{
	local usecs=$1; shift
	local rtt=${1:-$RTT}
	local fd1 fd2

	setup_ns snd rcv
	defer cleanup_all_ns
	netdevsim_add "$snd" to_rcv && netdevsim_add "$rcv" to_snd || return
	exec {fd1}<"/var/run/netns/$snd" {fd2}<"/var/run/netns/$rcv"
	echo "$fd1:$(ifindex "$snd" to_rcv) $fd2:$(ifindex "$rcv" to_snd)" \
		> /sys/bus/netdevsim/link_device
	check_err $? "no link between two netdevsim devices"
	exec {fd1}<&- {fd2}<&-

	set_up "$snd" to_rcv "$SND4"
	set_up "$rcv" to_snd "$RCV4"
	set_lateness "$snd" to_rcv "$usecs" && set_lateness "$rcv" to_snd 10
	check_err $? "netdevsim can't complete late"
	ip netns exec "$rcv" sysctl -qw net.ipv4.tcp_rmem="4096 131072 $BUFFER"
	ip netns exec "$snd" sysctl -qw net.ipv4.tcp_wmem="4096 131072 $BUFFER"
	tc -n "$rcv" qdisc replace dev to_snd root netem \
		delay "${rtt}us" limit 100000
	slowwait 5 ping_works >/dev/null
}

ping_works()
{
	ip netns exec "$snd" ping -c 1 -W 1 "$RCV4" >/dev/null
}

##############################################################################
# Flows: one iperf3 server and client each, of one or more streams

flow_start()
{
	: $((PORT++))
	ip netns exec "$rcv" iperf3 --server --one-off --port "$PORT" \
		>/dev/null 2>&1 &
	defer kill_process $!
	wait_local_port_listen "$rcv" "$PORT" tcp
	ip netns exec "$snd" iperf3 --client "$RCV4" --port "$PORT" \
		--time 3600 "$@" >/dev/null 2>&1 &
	defer flow_stop $!
	sleep "$WARM_UP"
}

# What is still to be sent would count as memory of TCP in the next flows
flow_stop()
{
	kill_process "$1"
	slowwait 5 flow_has_ended >/dev/null
	return 0
}

flow_has_ended()
{
	[[ -z $(ip netns exec "$snd" ss -HOtn "dport = :$PORT") ]]
}

# The streams of the last flow, with what tcp_info says of each; its control
# connection moves next to nothing.
streams()
{
	ip netns exec "$snd" ss -HOtni "dport = :$PORT" |
		grep -E 'bytes_acked:[0-9]{5}'
}

# Of each stream: its port, and the bytes that were acknowledged
stream_bytes()
{
	streams | sed -n \
	's/^.*:\([0-9]*\) [0-9.:]* .*bytes_acked:\([0-9]*\).*$/\1 \2/p'
}

total_bytes()
{
	stream_bytes | awk '{ sum += $2 } END { printf "%.0f", sum }'
}

# Mean of the streams' smoothed RTTs, in us
now_rtt()
{
	streams | sed -n 's/^.* rtt:\([0-9.]*\)\/.*$/\1/p' |
		awk '{ sum += $1 } END { if (NR) printf "%d\n", 1000 * sum / NR }'
}

# Watch the last flow: sets rate, in Mbit/s, and rtt, the mean in us
flow_measure()
{
	local bytes nsec i

	bytes=$(total_bytes)
	nsec=$(date +%s%N)
	rtt=$(for ((i = 0; i < 20; i++)); do
		sleep "$(awk "BEGIN { print $MEASURE / 20 }")"
		now_rtt
	      done | awk '{ sum += $1 } END { printf "%d", sum / NR }')
	bytes=$(($(total_bytes) - bytes))
	nsec=$(($(date +%s%N) - nsec))
	rate=$(awk "BEGIN { printf \"%.0f\", $bytes * 8000 / $nsec }")
}

# Compare decimal numbers
is()
{
	awk "BEGIN { exit !($*) }"
}

##############################################################################
# Tests

# One flow over a link and path as given, with completions so late
one_flow()
{
	local usecs=$1 rtt_us=$2; shift 2

	link_setup "$usecs" "$rtt_us" || return
	flow_start "$@"
	flow_measure
}

one_late_flow()
{
	one_flow "$1" "$RTT"
	log_info "late@$1: $rate Mbit/s"
	# What the limit of 1 ms has always allowed for, and what it has not
	if (($1 <= 1000)); then
		log_info "in-time-rtt@$1: $rtt us"
	else
		log_info "late-rtt@$1: $rtt us"
	fi
}

late()
{
	local usecs

	RET=0
	for usecs in $DELAYS; do
		in_defer_scope one_late_flow "$usecs"
	done
	log_test "Late completions"
}

# The report's: completions later than the limit lasts
starved()
{
	RET=0
	one_flow "$LATE" "$RTT"
	log_info "starved: $rate Mbit/s"
	log_info "starved-rtt: $rtt us"
	is "$rate >= 0.7 * $RATE"
	check_err $? "$rate of $RATE Mbit/s with completions after $LATE us"
	is "$rtt <= $RTT + $LATE + 1500"
	check_err $? "RTT of $rtt us"
	log_test "One flow, completions after $LATE us"
}

# 3.6 had a constant: what it did, and that the sysctl still bounds the limit
one_constant_flow()
{
	link_setup "$1" || return
	ip netns exec "$snd" sysctl -qw net.ipv4.tcp_limit_output_bytes=131072
	flow_start
	flow_measure
	log_info "constant@$1: $rate Mbit/s"
	(($1 != 76)) || log_info "constant-76us: $rate Mbit/s"
	is "$rate * $1 <= 1.1 * 8 * 131072 || $1 < 100"
	check_err $? "$rate Mbit/s is more than 128 KiB in $1 us"
}

constant_limit()
{
	local usecs

	RET=0
	for usecs in 10 40 60 76 100 250 500 1000 2000 4000; do
		in_defer_scope one_constant_flow "$usecs"
	done
	log_test "Constant limit of 128 KiB"
}

many_flows_run()
{
	local name="flows-$1-late-$2us"
	local before after

	link_setup "$2" || return
	flow_start --parallel "$1"
	before=$(stream_bytes)
	flow_measure
	after=$(stream_bytes)
	log_info "$name: $rate Mbit/s"
	log_info "$name-rtt: $rtt us"
	log_info "$name-jain: $(jain "$before" "$after") of 1"
}

# Jain's index of the bytes that each stream moved
jain()
{
	join <(sort <<< "$1") <(sort <<< "$2") | awk '
		{ x = $3 - $2; sum += x; squares += x * x }
		END { printf "%.3f", sum * sum / (NR * squares) }'
}

many_flows()
{
	# CUBIC takes its time to share a link
	local WARM_UP=2 MEASURE=1
	local flows usecs

	RET=0
	for usecs in 10 "$LATE"; do
		for flows in 2 8 64; do
			in_defer_scope many_flows_run "$flows" "$usecs"
		done
	done
	log_test "Flows that share a link"
}

congestion_control_run()
{
	# BBR raises its rate by a quarter in eight RTTs
	local WARM_UP=1.5

	one_flow "$2" "$RTT" --congestion "$1"
	log_info "$1-late-$2us: $rate Mbit/s"
	log_info "$1-late-$2us-rtt: $rtt us"
}

congestion_control()
{
	local cc usecs available

	for cc in cubic reno bbr; do
		RET=0
		[[ $cc == reno ]] || modprobe -q "tcp_$cc"
		available=$(sysctl -n net.ipv4.tcp_available_congestion_control)
		if [[ " $available " != *" $cc "* ]]; then
			log_test_skip "Late completions, $cc" "not available"
			continue
		fi
		for usecs in 10 "$LATE"; do
			in_defer_scope congestion_control_run "$cc" "$usecs"
		done
		log_test "Late completions, $cc"
	done
}

no_tso_run()
{
	link_setup "$1" || return
	ip netns exec "$snd" ethtool -K to_rcv tso off gso off
	flow_start
	flow_measure
	log_info "no-tso-late-$1us: $rate Mbit/s"
	log_info "no-tso-late-$1us-rtt: $rtt us"
}

no_tso()
{
	RET=0
	in_defer_scope no_tso_run 10
	in_defer_scope no_tso_run "$LATE"
	log_test "Late completions without TSO"
}

# SO_MAX_PACING_RATE
paced()
{
	local WARM_UP=1.5

	RET=0
	one_flow "$LATE" "$RTT" --fq-rate "$((RATE / 10))M"
	log_info "paced: $rate Mbit/s"
	is "$rate <= 1.01 * $RATE / 10"
	check_err $? "$rate Mbit/s, paced at $((RATE / 10))"
	log_test "Late completions, paced flow"
}

bottleneck_run()
{
	local RATE=$((RATE / 100))

	link_setup 250 || return
	tc -n "$snd" qdisc replace dev to_rcv root "$1"
	flow_start
	flow_measure
	log_info "bottleneck-${1/_/-}: $rate Mbit/s"
	log_info "bottleneck-${1/_/-}-rtt: $rtt us"
}

bottleneck()
{
	local qdisc

	RET=0
	for qdisc in pfifo_fast fq fq_codel; do
		in_defer_scope bottleneck_run "$qdisc"
	done
	log_test "Slow link"
}

# No completion for 50 ms, once
stall()
{
	RET=0
	link_setup 10 || return
	flow_start
	set_lateness "$snd" to_rcv 50000
	sleep 0.05
	set_lateness "$snd" to_rcv 10
	sleep 0.05
	flow_measure
	log_info "stall: $rate Mbit/s"
	log_info "stall-rtt: $rtt us"
	log_test "Stall of 50 ms"
}

# Completions that become late, and come in time again
changes()
{
	local in_time

	RET=0
	link_setup 10 || return
	flow_start
	flow_measure
	in_time=$rtt
	set_lateness "$snd" to_rcv 4000
	sleep "$(awk "BEGIN { print 3 * $RTT / 1e6 }")"
	flow_measure
	log_info "changes-late: $rate Mbit/s"
	set_lateness "$snd" to_rcv 10
	sleep "$(awk "BEGIN { print 3 * $RTT / 1e6 }")"
	flow_measure
	log_info "changes-in-time: $rate Mbit/s"
	sleep 0.7
	flow_measure
	log_info "changes-in-time-rtt: $rtt us"
	# cwnd stays as large as it has grown
	is "$rtt <= 1.1 * $in_time"
	check_err $? "RTT of $rtt us, 1 s after completions are in time again"
	log_test "Lateness that changes"
}

# Other paths than of 5 ms
one_path_flow()
{
	one_flow "$1" "$2"
	log_info "path-$2us@$1: $rate Mbit/s"
	if (($1 <= 1000)); then
		log_info "path-$2us-in-time-rtt@$1: $rtt us"
	else
		log_info "path-$2us-late-rtt@$1: $rtt us"
	fi
}

paths()
{
	local WARM_UP=$WARM_UP
	local rtt_us usecs

	for rtt_us in $PATHS; do
		RET=0
		((rtt_us < 20000)) || WARM_UP=2
		for usecs in $DELAYS; do
			in_defer_scope one_path_flow "$usecs" "$rtt_us"
		done
		log_test "Late completions, path of $rtt_us us"
	done
}

##############################################################################

while getopts h opt; do
	usage
	[[ $opt == h ]] && exit "$ksft_pass"
	exit "$ksft_fail"
done
shift $((OPTIND - 1))
TESTS=${*:-$ALL_TESTS}

trap defer_scopes_cleanup EXIT

modprobe -q netdevsim
if [[ ! -e /sys/bus/netdevsim ]]; then
	echo "SKIP: no netdevsim"
	exit "$ksft_skip"
fi
require_command ethtool
require_command iperf3
require_command ss
require_command tc

tests_run

exit "$EXIT_STATUS"
