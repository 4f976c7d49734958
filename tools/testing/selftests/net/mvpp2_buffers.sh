#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Marvell PPv2 (mvpp2): whether the frames of each MTU fit the buffers that they
# are received in, and whether buffers that were used come back, whatever happens
# in the middle of it.
#
#  +------------------------+                    +------------------------+
#  | SND                    |                    |                    RCV |
#  |                  SND + |                    | + RCV                  |
#  |         192.0.2.1/24 | |       a cable      | | 192.0.2.2/24         |
#  |      VLAN 5:         `--------------------------' VLAN 5:            |
#  |      198.51.100.1/24   |                    |     198.51.100.2/24    |
#  +------------------------+                    +------------------------+
#
# SND and RCV name two mvpp2 devices, by default the first two there are. A board
# needs a cable between them, nothing else may use them. How many buffers a pool
# has is known of the software PPv2.2 only; on a board these checks are left out.
#
# "INFO: <figure>: <number> <unit>" lines give the figures behind the verdicts.

# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034,SC2154,SC2317

lib_dir=$(dirname "$(readlink -f "$0")")
source "$lib_dir/lib.sh"

ALL_TESTS="
	max_mtu
	throughput
	mtu_sweep
	oversize
	down_in_burst
	mtu_in_burst
	full_ring
	small_mss
"

SND=${SND:-}
RCV=${RCV:-}

SND4=192.0.2.1
RCV4=192.0.2.2
RCV_VLAN4=198.51.100.2

# Rounds of what is done in the middle of a burst, and frames that are too long
ROUNDS=${ROUNDS:-10}
OVERSIZE=${OVERSIZE:-1000}
# Seconds of a TCP flow
SECONDS_TCP=${SECONDS_TCP:-1}
SECONDS_RING=${SECONDS_RING:-5}

MODEL=${MODEL:-/sys/kernel/debug/ppv2_model}

PORT=5201

usage()
{
	cat <<-EOF
	Usage: [SND=device] [RCV=device] $0 [-h] [TEST]...

	Without arguments run all tests:
	$ALL_TESTS
	EOF
}

##############################################################################
# Topology

mvpp2_devices()
{
	local dev

	for dev in /sys/class/net/*; do
		[[ $(readlink "$dev/device/driver") == */mvpp2 ]] &&
			basename "$dev"
	done
}

host_setup()
{
	local ns=$1; shift
	local dev=$1; shift
	local host=$1; shift

	ip link set dev "$dev" netns "$ns"
	defer ip -n "$ns" link set dev "$dev" netns 1
	ip netns exec "$ns" sysctl -qw "net.ipv6.conf.all.disable_ipv6=1"
	ip -n "$ns" addr add "192.0.2.$host/24" dev "$dev"
	ip -n "$ns" link set dev "$dev" mtu 1500
	defer ip -n "$ns" link set dev "$dev" mtu 1500 down
	ip -n "$ns" link set dev "$dev" up

	ip -n "$ns" link add link "$dev" name vlan5 type vlan id 5
	defer ip -n "$ns" link del dev vlan5
	ip -n "$ns" addr add "198.51.100.$host/24" dev vlan5
	ip -n "$ns" link set dev vlan5 up
}

has_carrier()
{
	[[ $(ip netns exec "$1" cat "/sys/class/net/$2/carrier") == 1 ]]
}

topo_create()
{
	RET=0
	setup_ns snd_ns rcv_ns
	defer cleanup_all_ns
	host_setup "$snd_ns" "$SND" 1
	host_setup "$rcv_ns" "$RCV" 2
	link_wait
}

link_wait()
{
	slowwait 10 has_carrier "$snd_ns" "$SND" &&
		slowwait 10 has_carrier "$rcv_ns" "$RCV" && return
	check_err 1 "no carrier: is there a cable between $SND and $RCV?"
	return 1
}

set_mtu()
{
	local mtu=$1; shift

	ip -n "$snd_ns" link set dev "$SND" mtu "$mtu" &&
		ip -n "$rcv_ns" link set dev "$RCV" mtu "$mtu" &&
		ip -n "$snd_ns" link set dev vlan5 mtu "$mtu" &&
		ip -n "$rcv_ns" link set dev vlan5 mtu "$mtu"
	check_err $? "an MTU of $mtu can't be set"
	link_wait
}

# The smaller of both devices'
settable_mtu()
{
	{
		ip -n "$snd_ns" -d -o link show dev "$SND"
		ip -n "$rcv_ns" -d -o link show dev "$RCV"
	} | sed -n 's/.*maxmtu \([0-9]*\).*/\1/p' | sort -n | head -n 1
}

##############################################################################
# Facts

stat_of()
{
	local ns=$1 dev=$2 name=$3

	ip netns exec "$ns" cat "/sys/class/net/$dev/statistics/$name"
}

rx_errors()
{
	stat_of "$rcv_ns" "$RCV" rx_errors
}

retransmits()
{
	ip netns exec "$snd_ns" nstat -saz TcpRetransSegs |
		awk '!/^#/ { sum += $2 } END { print sum + 0 }'
}

# Buffers that the pools hold, all together; nothing on a board
pool_level()
{
	[[ -r $MODEL ]] && awk '/^pool/ { sum += $3 } END { print sum }' "$MODEL"
}

# Report and check what the pools lack of a former level
check_pools()
{
	local name=$1; shift
	local before=$1; shift
	local missing

	[[ -n $before ]] || return 0
	missing=$((before - $(pool_level)))
	log_info "$name-missing: $missing buffers"
	((missing == 0))
	check_err $? "$missing of $before buffers are missing"
}

##############################################################################
# Traffic

# Send datagrams that fill packets of a size to an address and tell how many
# arrived. The route has no say in the size.
udp_arrived()
{
	local dst=$1 size=$2 count=$3

	ip netns exec "$rcv_ns" python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind((sys.argv[1], 5001))
s.settimeout(0.5)
print("bound", flush=True)
got = 0
try:
    while got < int(sys.argv[2]):
        got += len(s.recv(65535)) > 0
except socket.timeout:
    pass
print(got)' "$dst" "$count" | {
		read -r _
		udp_send "$dst" "$size" "$count"
		cat
	}
}

udp_send()
{
	local dst=$1 size=$2 count=$3

	ip netns exec "$snd_ns" python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, _PROBE
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
for i in range(int(sys.argv[3])):
    s.sendto(bytes(int(sys.argv[2]) - 28), (sys.argv[1], 5001))' \
		"$dst" "$size" "$count"
}

# Rate of a TCP flow in Mbit/s, as its receiver sees it; more options for iperf3
tcp_rate()
{
	local seconds=$1; shift

	: $((PORT++))
	ip netns exec "$rcv_ns" iperf3 --server --one-off --port "$PORT" \
		>/dev/null 2>&1 &
	wait_local_port_listen "$rcv_ns" "$PORT" tcp
	ip netns exec "$snd_ns" timeout $((seconds + 20)) iperf3 \
		--client "$RCV4" --port "$PORT" --time "$seconds" --format m "$@" 2>&1 |
		awk '$NF == "receiver" && $1 != "[SUM]" { rate = $7 } END { printf "%.0f\n", rate }'
	kill_process "$!"
}

##############################################################################
# Tests

# Frames of the largest MTU that can be set arrive, with and without a VLAN tag
max_mtu()
{
	local mtu dst got errors

	topo_create || return
	mtu=$(settable_mtu)
	log_info "max-mtu: $mtu bytes"
	ip -n "$rcv_ns" link set dev "$RCV" mtu $((mtu + 1)) 2>/dev/null
	check_fail $? "an MTU of $((mtu + 1)) can be set"

	set_mtu "$mtu"
	errors=$(rx_errors)
	for dst in "$RCV4" "$RCV_VLAN4"; do
		got=$(udp_arrived "$dst" "$mtu" 20)
		((got == 20))
		check_err $? "$got of 20 full-sized frames arrive at $dst"
	done
	errors=$(($(rx_errors) - errors))
	log_info "max-mtu-rx-errors: $errors frames"
	((errors == 0))
	check_err $? "$errors receive errors"
	log_test "Largest MTU"
}

# Up, to the largest, and back
throughput()
{
	local mtu rate first

	topo_create || return
	for mtu in 1500 9000 "$(settable_mtu)"; do
		set_mtu "$mtu"
		rate=$(tcp_rate "$SECONDS_TCP")
		case $mtu in
		1500|9000)
			log_info "tcp-$mtu: $rate Mbit/s" ;;
		*)
			log_info "tcp-max: $rate Mbit/s" ;;
		esac
		((rate > 0))
		check_err $? "nothing gets through at an MTU of $mtu"
		[[ $mtu == 9000 ]] && first=$rate
	done

	set_mtu 9000
	rate=$(tcp_rate "$SECONDS_TCP")
	log_info "tcp-9000-again: $rate Mbit/s"
	((rate * 100 >= first * 99))
	check_err $? "at an MTU of 9000 $rate Mbit/s instead of $first"
	log_test "Throughput after the MTU was raised and lowered"
}

# Full-sized frames at MTUs from the smallest to the largest, and around where
# the sizes of buffers and cache lines make a difference
mtu_sweep()
{
	local max dst mtu got errors lost=0

	topo_create || return
	max=$(settable_mtu)
	errors=$(rx_errors)
	for mtu in 68 69 128 191 192 193 576 1000 1280 1499 1500 1501 1640 1641 \
		   1672 1673 1674 2000 3552 4096 8192 9000 9500 $((max - 64)) \
		   $((max - 33)) $((max - 32)) $((max - 17)) $((max - 16)) \
		   $((max - 4)) $((max - 1)) "$max"; do
		set_mtu "$mtu"
		for dst in "$RCV4" "$RCV_VLAN4"; do
			got=$(udp_arrived "$dst" "$mtu" 5)
			((got == 5))
			check_err $? "MTU $mtu: $got of 5 frames arrive at $dst"
			lost=$((lost + 5 - got))
		done
	done
	errors=$(($(rx_errors) - errors))
	log_info "sweep-lost: $lost frames"
	log_info "sweep-rx-errors: $errors frames"
	((errors == 0))
	check_err $? "$errors receive errors"
	log_test "Full-sized frames at MTUs from 68 to $max"
}

# The sender's MTU is larger than the receiver's: its frames are dropped, and
# others still get through
oversize()
{
	local level max rate

	topo_create || return
	max=$(settable_mtu)
	level=$(pool_level)
	ip -n "$snd_ns" link set dev "$SND" mtu "$max"
	udp_send "$RCV4" "$max" "$OVERSIZE"
	ip -n "$snd_ns" link set dev "$SND" mtu 1500
	link_wait
	rate=$(tcp_rate "$SECONDS_TCP")
	log_info "oversize-tcp: $rate Mbit/s"
	((rate > 0))
	check_err $? "nothing gets through afterwards"
	check_pools oversize "$level"
	log_test "Frames above the receiver's MTU"
}

# The receiver goes down while frames of the largest MTU arrive
down_in_burst()
{
	local level round got

	topo_create || return
	set_mtu "$(settable_mtu)"
	level=$(pool_level)
	for ((round = 0; round < ROUNDS; round++)); do
		udp_send "$RCV4" "$(settable_mtu)" 30
		ip -n "$rcv_ns" link set dev "$RCV" down
		ip -n "$rcv_ns" link set dev "$RCV" up
		link_wait
	done
	got=$(udp_arrived "$RCV4" 1500 20)
	((got == 20))
	check_err $? "$got of 20 frames arrive afterwards"
	check_pools down-in-burst "$level"
	log_test "Down in the middle of a burst"
}

# The receiver's MTU changes while frames of the largest MTU arrive
mtu_in_burst()
{
	local level round got mtu

	topo_create || return
	mtu=$(settable_mtu)
	set_mtu "$mtu"
	level=$(pool_level)
	for ((round = 0; round < ROUNDS; round++)); do
		udp_send "$RCV4" "$mtu" 30
		ip -n "$rcv_ns" link set dev "$RCV" mtu 1500
		udp_send "$RCV4" "$mtu" 30
		ip -n "$rcv_ns" link set dev "$RCV" mtu "$mtu"
	done
	link_wait
	got=$(udp_arrived "$RCV4" 1500 20)
	((got == 20))
	check_err $? "$got of 20 frames arrive afterwards"
	check_pools mtu-in-burst "$level"
	log_test "MTU changes in the middle of a burst"
}

# A flow that fills the default ring: the queue stops, no packet is dropped
full_ring()
{
	local rate dropped resent

	topo_create || return
	dropped=$(stat_of "$snd_ns" "$SND" tx_dropped)
	resent=$(retransmits)
	rate=$(tcp_rate "$SECONDS_RING")
	dropped=$(($(stat_of "$snd_ns" "$SND" tx_dropped) - dropped))
	resent=$(($(retransmits) - resent))
	log_info "full-ring-tcp: $rate Mbit/s"
	log_info "full-ring-tx-dropped: $dropped packets"
	log_info "full-ring-retransmits: $resent segments"
	((rate > 0 && dropped == 0))
	check_err $? "$dropped packets dropped by the device"
	log_test "Full Tx ring"
}

# Many segments in a GSO packet
small_mss()
{
	local rate dropped

	topo_create || return
	dropped=$(stat_of "$snd_ns" "$SND" tx_dropped)
	rate=$(tcp_rate "$SECONDS_TCP" --set-mss 400)
	dropped=$(($(stat_of "$snd_ns" "$SND" tx_dropped) - dropped))
	log_info "small-mss-tcp: $rate Mbit/s"
	log_info "small-mss-tx-dropped: $dropped packets"
	((rate > 0 && dropped == 0))
	check_err $? "$dropped packets dropped by the device"
	log_test "GSO packets of many segments"
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

mapfile -t devices < <(mvpp2_devices)
SND=${SND:-${devices[0]-}}
RCV=${RCV:-${devices[1]-}}
if [[ -z $SND || -z $RCV ]]; then
	echo "SKIP: needs two mvpp2 devices"
	exit "$ksft_skip"
fi
require_command iperf3
require_command nstat
require_command python3

tests_run

exit "$EXIT_STATUS"
