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
#  |      VLAN 6 in 5:      |                    |     VLAN 6 in 5:       |
#  |      203.0.113.1/24    |                    |     203.0.113.2/24     |
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
	scattered
	down_in_burst
	mtu_in_burst
	alloc_failure
	rebind
	full_ring
	small_mss
"

SND=${SND:-}
RCV=${RCV:-}

SND4=192.0.2.1
RCV4=192.0.2.2
RCV_VLAN4=198.51.100.2
RCV_QINQ4=203.0.113.2

# Rounds of what is done in the middle of a burst, and frames that are too long
ROUNDS=${ROUNDS:-20}
OVERSIZE=${OVERSIZE:-2000}
# Allocations that are failed one by one, then with growing distances
FAIL_EACH=${FAIL_EACH:-12}
# Seconds of a TCP flow
SECONDS_TCP=${SECONDS_TCP:-1}
SECONDS_RING=${SECONDS_RING:-5}
# Put in front of the names of figures
PREFIX=${PREFIX:-}

MODEL=${MODEL:-/sys/kernel/debug/ppv2_model}
FAIL=/sys/kernel/debug

PORT=5201

usage()
{
	cat <<-EOF
	Usage: [SND=device] [RCV=device] $0 [-h] [TEST]...

	Without arguments run all tests:
	$ALL_TESTS
	EOF
}

figure()
{
	local name=$1 number=$2 unit=$3

	log_info "$PREFIX$name: $number $unit"
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

# Add a VLAN on top of a device
vlan_add()
{
	local ns=$1 lower=$2 id=$3 addr=$4

	ip -n "$ns" link add link "$lower" name "vlan$id" type vlan id "$id"
	ip -n "$ns" addr add "$addr/24" dev "vlan$id"
	ip -n "$ns" link set dev "vlan$id" up
}

# Give a device back as it was: down, with an MTU of 1500, in this namespace.
# Its namespace may be gone, if the test unbound the driver.
host_cleanup()
{
	local ns=$1 dev=$2

	{
		ip -n "$ns" link del dev vlan5
		ip -n "$ns" addr flush dev "$dev"
		ip -n "$ns" link set dev "$dev" mtu 1500 down
		ip -n "$ns" link set dev "$dev" netns $$
	} 2>/dev/null
}

host_setup()
{
	local ns=$1 dev=$2 host=$3

	ip link set dev "$dev" netns "$ns"
	defer host_cleanup "$ns" "$dev"
	ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv4.tcp_no_metrics_save=1
	ip -n "$ns" addr add "192.0.2.$host/24" dev "$dev"
	ip -n "$ns" link set dev "$dev" mtu 1500
	ip -n "$ns" link set dev "$dev" up
	vlan_add "$ns" "$dev" 5 "198.51.100.$host"
	vlan_add "$ns" vlan5 6 "203.0.113.$host"
}

has_carrier()
{
	[[ $(ip netns exec "$1" cat "/sys/class/net/$2/carrier") == 1 ]]
}

link_wait()
{
	slowwait 10 has_carrier "$snd_ns" "$SND" &&
		slowwait 10 has_carrier "$rcv_ns" "$RCV" && return
	check_err 1 "no carrier: is there a cable between $SND and $RCV?"
	return 1
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

set_mtu_of()
{
	local ns=$1 dev=$2 mtu=$3

	ip -n "$ns" link set dev "$dev" mtu "$mtu" &&
		ip -n "$ns" link set dev vlan5 mtu "$mtu" &&
		ip -n "$ns" link set dev vlan6 mtu "$mtu"
}

set_mtu()
{
	local mtu=$1

	set_mtu_of "$snd_ns" "$SND" "$mtu" && set_mtu_of "$rcv_ns" "$RCV" "$mtu"
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

# Frames that the receiver has got, good or bad
rx_frames()
{
	echo $(($(stat_of "$rcv_ns" "$RCV" rx_packets) + $(rx_errors)))
}

retransmits()
{
	ip netns exec "$snd_ns" nstat -saz TcpRetransSegs |
		awk '!/^#/ { sum += $2 } END { print sum + 0 }'
}

# Buffers that the pools hold, all together; nothing on a board
pool_level()
{
	[[ -d $MODEL ]] &&
		awk '/^pool/ { sum += $3 } END { print sum }' "$MODEL/counters"
}

# Report and check what the pools lack of a former level, as soon as nothing is
# under way any more
check_pools()
{
	local name=$1 before=$2
	local missing

	[[ -n $before ]] || return 0
	sleep 0.1
	missing=$((before - $(pool_level)))
	figure "$name-missing" "$missing" buffers
	((missing == 0))
	check_err $? "$missing of $before buffers are missing"
}

##############################################################################
# Traffic

# Ping an address with packets of a size and tell how many answers came. One
# ping a run: between two it polls, and the clock of virtual time suffers.
answers()
{
	local dst=$1 size=$2 count=$3
	local i got=0

	for ((i = 0; i < count; i++)); do
		ip netns exec "$snd_ns" ping -q -n -M "do" -c 1 -W 1 \
			-s $((size - 28)) "$dst" >/dev/null 2>&1 && : $((got++))
	done
	echo "$got"
}

check_answers()
{
	local dst=$1 size=$2
	local got

	got=$(answers "$dst" "$size" 5)
	((got == 5))
	check_err $? "$got of 5 pings of $size bytes to $dst come back${3:+, $3}"
}

# Send datagrams in packets of a size, of which the route has no say. Without a
# count go on in bursts of 24 until killed, whatever happens to the device.
udp_send()
{
	local dst=$1 size=$2 count=${3:-0}

	exec ip netns exec "$snd_ns" python3 -c '
import socket, sys, time
dst, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, IP_PMTUDISC_PROBE
s.setsockopt(socket.SOL_SOCKET, 32, 1 << 22)  # SO_SNDBUFFORCE
payload = bytes(size - 28)
sent = 0
while not count or sent < count:
    try:
        s.sendto(payload, (dst, 5001))
        sent += 1
        pause = 0 if count or sent % 24 else 0.0005
    except OSError:
        pause = 0.001
    if pause:
        time.sleep(pause)
' "$dst" "$size" "$count"
}

# Traffic in the background, for as long as the test lasts
flood()
{
	udp_send "$@" &
	defer kill_process $!
}

# Have the receiver look for frames late, so that there are some that it has
# not seen yet at any time
poll_late()
{
	local usecs frames

	read -r usecs frames < <(ip netns exec "$rcv_ns" ethtool -c "$RCV" |
		awk '/^rx-usecs:/ { usecs = $2 } /^rx-frames:/ { print usecs, $2 }')
	ip netns exec "$rcv_ns" ethtool -C "$RCV" rx-usecs 1000 rx-frames 500
	defer ip netns exec "$rcv_ns" ethtool -C "$RCV" \
		rx-usecs "$usecs" rx-frames "$frames"
}

# Rate of a TCP flow in Mbit/s, as its receiver sees it; more options for iperf3
tcp_rate()
{
	local seconds=$1; shift
	local server

	ip netns exec "$rcv_ns" iperf3 --server --one-off --port "$PORT" \
		>/dev/null 2>&1 &
	server=$!
	wait_local_port_listen "$rcv_ns" "$PORT" tcp
	ip netns exec "$snd_ns" timeout $((seconds + 20)) iperf3 \
		--client "$RCV4" --port "$PORT" --time "$seconds" --format m "$@" 2>&1 |
		awk '$NF == "receiver" { rate = $7 } END { printf "%.0f\n", rate }'
	kill_process "$server"
}

# What is left of the throughput at an MTU of 9000
check_throughput()
{
	local name=$1
	local rate

	set_mtu 9000
	rate=$(tcp_rate "$SECONDS_TCP")
	figure "$name-tcp" "$rate" Mbit/s
	((rate > 0))
	check_err $? "nothing gets through afterwards"
}

##############################################################################
# Tests

# Frames of the largest MTU that can be set arrive, with and without a VLAN tag
max_mtu()
{
	local mtu dst errors

	topo_create || return
	mtu=$(settable_mtu)
	figure max-mtu "$mtu" bytes
	ip -n "$rcv_ns" link set dev "$RCV" mtu $((mtu + 1)) 2>/dev/null
	check_fail $? "an MTU of $((mtu + 1)) can be set"

	set_mtu "$mtu"
	errors=$(rx_errors)
	for dst in "$RCV4" "$RCV_VLAN4"; do
		check_answers "$dst" "$mtu"
	done
	errors=$(($(rx_errors) - errors))
	figure max-mtu-rx-errors "$errors" frames
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
			figure "tcp-$mtu" "$rate" Mbit/s ;;
		*)
			figure tcp-max "$rate" Mbit/s ;;
		esac
		((rate > 0))
		check_err $? "nothing gets through at an MTU of $mtu"
		[[ $mtu == 9000 ]] && first=$rate
	done

	set_mtu 9000
	rate=$(tcp_rate "$SECONDS_TCP")
	figure tcp-9000-again "$rate" Mbit/s
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
	for mtu in 68 69 128 168 169 576 1280 1499 1500 1501 1672 1673 1674 2000 \
		   4096 8192 9000 $((max - 33)) $((max - 32)) $((max - 17)) \
		   $((max - 16)) $((max - 15)) $((max - 4)) $((max - 1)) "$max"; do
		set_mtu "$mtu"
		for dst in "$RCV4" "$RCV_VLAN4"; do
			got=$(answers "$dst" "$mtu" 3)
			((got == 3))
			check_err $? "MTU $mtu: $got of 3 pings to $dst come back"
			lost=$((lost + 3 - got))
		done
	done
	errors=$(($(rx_errors) - errors))
	figure sweep-lost "$lost" frames
	figure sweep-rx-errors "$errors" frames
	((errors == 0))
	check_err $? "$errors receive errors"
	log_test "Full-sized frames at MTUs from 68 to $max"
}

# A peer sends longer frames than are expected: they are dropped and cost
# nothing, others get through. A second VLAN tag makes them longer than an MTU
# allows for, than the largest, too.
oversize()
{
	local level max errors

	topo_create || return
	max=$(settable_mtu)
	set_mtu_of "$snd_ns" "$SND" "$max"
	errors=$(rx_errors)
	(udp_send "$RCV4" "$max" "$OVERSIZE")
	check_answers "$RCV4" 1500 "after frames for $max"

	set_mtu "$max"
	sleep 0.1
	level=$(pool_level)
	check_answers "$RCV_QINQ4" 1500
	(udp_send "$RCV_QINQ4" "$max" "$OVERSIZE")
	check_answers "$RCV_QINQ4" 1500 "after frames for $max and two tags"
	check_pools oversize "$level"
	errors=$(($(rx_errors) - errors))
	figure oversize-rx-errors "$errors" frames
	((errors == 0))
	check_err $? "$errors frames have been received into what is too small"
	check_throughput oversize
	log_test "Frames above the receiver's MTU"
}

# Frames are longer than a buffer, because the software PPv2.2 adds to them
# and its MACs don't mind
scatter()
{
	local extra=$1

	echo "$extra" > "$MODEL/extra"
	defer eval "echo 0 > '$MODEL/extra'"
	echo 65535 > "$MODEL/slack"
	defer eval "echo 0 > '$MODEL/slack'"
}

# Frames that come in several buffers are errors, and cost nothing
scattered()
{
	local level extra got

	if [[ ! -d $MODEL ]]; then
		log_test_skip "Frames longer than a buffer" "no software PPv2.2"
		return
	fi
	topo_create || return
	check_answers "$RCV4" 1500
	level=$(pool_level)
	for extra in 400 2000 8000; do
		got=$(in_defer_scope scattered_frames "$extra")
		((got == 100))
		check_err $? "$got of 100 frames with $extra bytes more are errors"
		check_answers "$RCV4" 1500 "after frames with $extra bytes more"
	done
	check_pools scattered "$level"
	check_throughput scattered
	log_test "Frames longer than a buffer"
}

# Tell how many of 100 frames are counted as errors
scattered_frames()
{
	local extra=$1
	local errors

	scatter "$extra"
	errors=$(rx_errors)
	(udp_send "$RCV4" 1500 100)
	sleep 0.1
	echo $(($(rx_errors) - errors))
}

# A device goes down while frames of the largest MTU arrive, or are sent
down_in_burst()
{
	local level round frames max

	topo_create || return
	max=$(settable_mtu)
	set_mtu "$max"
	level=$(pool_level)
	frames=$(rx_frames)
	in_defer_scope down_rounds "$max"
	link_wait
	(($(rx_frames) - frames >= ROUNDS * 2))
	check_err $? "there has been no burst"
	check_pools down-in-burst "$level"
	check_throughput down-in-burst
	log_test "Down in the middle of a burst"
}

down_rounds()
{
	local max=$1
	local round

	poll_late
	[[ -d $MODEL ]] && scatter 64
	flood "$RCV4" "$max"
	sleep 0.1
	for ((round = 0; round < ROUNDS; round++)); do
		ip -n "$rcv_ns" link set dev "$RCV" down
		ip -n "$rcv_ns" link set dev "$RCV" up
		sleep 0.002
		ip -n "$snd_ns" link set dev "$SND" down
		ip -n "$snd_ns" link set dev "$SND" up
		sleep "0.00$((2 + round % 3))"
	done
}

# The receiver's MTU changes while frames of the largest MTU arrive
mtu_in_burst()
{
	local level frames max

	topo_create || return
	max=$(settable_mtu)
	set_mtu "$max"
	level=$(pool_level)
	frames=$(rx_frames)
	in_defer_scope mtu_rounds "$max"
	link_wait
	(($(rx_frames) - frames >= ROUNDS * 2))
	check_err $? "there has been no burst"
	check_pools mtu-in-burst "$level"
	check_throughput mtu-in-burst
	log_test "MTU changes in the middle of a burst"
}

mtu_rounds()
{
	local max=$1
	local round

	poll_late
	[[ -d $MODEL ]] && scatter 64
	flood "$RCV4" "$max"
	sleep 0.1
	for ((round = 0; round < ROUNDS; round++)); do
		ip -n "$rcv_ns" link set dev "$RCV" mtu 1500
		sleep 0.002
		ip -n "$rcv_ns" link set dev "$RCV" mtu "$max"
		sleep "0.00$((2 + round % 3))"
	done
}

# Memory is short in the middle of a change of the MTU: either all of it is done
# or nothing
alloc_failure()
{
	local max

	if [[ ! -w $FAIL/failslab/verbose || ! -w $FAIL/fail_page_alloc/verbose ]]; then
		log_test_skip "MTU changes without memory" "no fault injection"
		return
	fi
	topo_create || return
	max=$(settable_mtu)
	fail_any_allocation
	coproc INJECTOR { injector; }
	fail_each_step 1500 "$max"
	fail_each_step "$max" 1500
	echo quit >&"${INJECTOR[1]}"
	check_throughput alloc-failure
	log_test "MTU changes without memory"
}

# Let /proc/self/fail-nth count all allocations
fail_any_allocation()
{
	local name

	for name in failslab fail_page_alloc; do
		echo N > "$FAIL/$name/ignore-gfp-wait"
		defer eval "echo Y > '$FAIL/$name/ignore-gfp-wait'"
		echo 0 > "$FAIL/$name/verbose"
		defer eval "echo 2 > '$FAIL/$name/verbose'"
	done
	echo 0 > "$FAIL/fail_page_alloc/min-order"
	defer eval "echo 1 > '$FAIL/fail_page_alloc/min-order'"
}

# For each line "MTU N", until "quit", set the receiver's MTU with the Nth allocation failing,
# and answer "L E": L of the N are left, so 0 if one failed; E is the error
injector()
{
	exec ip netns exec "$rcv_ns" python3 -uc '
import fcntl, os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
nth = os.open("/proc/self/fail-nth", os.O_RDWR)
for line in sys.stdin:
    if line == "quit\n":
        break
    mtu, n = line.split()
    ifreq = struct.pack("16si20x", sys.argv[1].encode(), int(mtu))
    error = 0
    os.pwrite(nth, n.encode(), 0)
    try:
        fcntl.ioctl(s, 0x8922, ifreq)  # SIOCSIFMTU
    except OSError as e:
        error = e.errno
    left = int(os.pread(nth, 16, 0))
    os.pwrite(nth, b"0", 0)
    print(left, error)
' "$RCV"
}

# Set the receiver's MTU with an allocation failing, into $left and $error
inject()
{
	local mtu=$1 n=$2

	echo "$mtu $n" >&"${INJECTOR[1]}"
	read -r left error <&"${INJECTOR[0]}"
}

# Fail the allocations of a change of the MTU, a different one each time
fail_each_step()
{
	local from=$1 to=$2
	local level_from level_to n left error rounds=0 refused=0 bad=0

	inject "$from" 0
	level_from=$(pool_level)
	inject "$to" 0
	level_to=$(pool_level)
	inject "$from" 0
	for ((n = 1; ; n += 1 + (n > FAIL_EACH ? n / 4 : 0))); do
		inject "$to" "$n"
		((left > 0)) && break
		rounds=$((rounds + 1))
		if ((error)); then
			refused=$((refused + 1))
			check_state "$from" "$level_from" || bad=$((bad + 1))
		else
			check_state "$to" "$level_to" || bad=$((bad + 1))
		fi
		inject "$from" 0
		check_state "$from" "$level_from" || bad=$((bad + 1))
	done
	log_info "$rounds of about $n allocations from $from to $to failed, the MTU was refused $refused times"
	((rounds > 0))
	check_err $? "no allocation failed from $from to $to"
	figure "alloc-failure-$([[ $from == 1500 ]] && echo up || echo down)" \
		"$bad" states
	check_err "$bad" "$bad states are neither the old nor the new one"
}

# The receiver has this MTU and this many buffers, and is reached
check_state()
{
	local mtu=$1 level=$2
	local is

	is="$(ip netns exec "$rcv_ns" cat "/sys/class/net/$RCV/mtu") $(pool_level)"
	[[ $is == "$mtu $level" && $(answers "$RCV4" 1500 1) == 1 ]] && return
	log_info "allocation $n: $is instead of $mtu $level"
	return 1
}

# The driver is unbound while frames arrive, and bound again
rebind()
{
	local driver=/sys/bus/platform/drivers/mvpp2
	local max level left device

	topo_create || return
	device=$(ip netns exec "$rcv_ns" readlink -f "/sys/class/net/$RCV/device")
	max=$(settable_mtu)
	set_mtu "$max"
	poll_late
	level=$(pool_level)
	flood "$RCV4" "$max"
	sleep 0.1
	basename "$device" > "$driver/unbind"
	if [[ -n $level ]]; then
		left=$(pool_level)
		figure rebind-left "$left" buffers
		((left == 0))
		check_err $? "$left buffers are left to the hardware"
	fi
	basename "$device" > "$driver/bind"
	slowwait 10 bound >/dev/null
	check_err $? "$SND and $RCV don't come back"

	topo_create || return
	set_mtu "$max"
	check_pools rebind "$level"
	check_throughput rebind
	log_test "Driver unbound in the middle of a burst"
}

bound()
{
	[[ -e /sys/class/net/$SND && -e /sys/class/net/$RCV ]]
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
	figure full-ring-tcp "$rate" Mbit/s
	figure full-ring-tx-dropped "$dropped" packets
	figure full-ring-retransmits "$resent" segments
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
	figure small-mss-tcp "$rate" Mbit/s
	figure small-mss-tx-dropped "$dropped" packets
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
for command in ethtool iperf3 nstat ping python3; do
	require_command "$command"
done

tests_run

exit "$EXIT_STATUS"
