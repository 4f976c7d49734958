#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# TCP over a link, or a path, whose MTU is so small that IP has to fragment.
#
# The smallest segment that TCP sends (net.ipv4.tcp_min_snd_mss) needs a packet
# of 88 bytes, so at an MTU of 68, the smallest that IPv4 allows, every segment
# is fragmented. Check that nothing is lost on the way, that no packet exceeds
# the MTU, and that the connection recovers when the MTU is restored.
#
#  +------------------------+                    +------------------------+
#  | SND                    |                    |                    RCV |
#  |               to_rcv + |     netdevsim      | + to_snd               |
#  |         192.0.2.1/24 | |      1 Gbit/s      | | 192.0.2.2/24         |
#  |    2001:db8:1::1/64  `--------------------------' 2001:db8:1::2/64   |
#  |    (MTU under test)    |                    |       (MTU 1500)       |
#  +------------------------+                    +------------------------+
#
# The tests of the path MTU have a router between them:
#
#  +-------------------+  +-------------------------+  +-------------------+
#  | SND               |  | RTR                     |  |               RCV |
#  |          to_rtr + |  | + to_snd       to_rcv + |  | + to_rtr          |
#  | 198.51.100.1/24 `------'                       `------' 203.0.113.2/24 |
#  |                   |  | 198.51.100.2/24         |  |                   |
#  |                   |  |          203.0.113.1/24 |  |                   |
#  |                   |  |             (small MTU) |  |                   |
#  +-------------------+  +-------------------------+  +-------------------+
#
# "INFO: <figure>: <number> <unit>" lines give the figures behind the verdicts.

# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034,SC2154,SC2317

lib_dir=$(dirname "$(readlink -f "$0")")
source "$lib_dir/lib.sh"

ALL_TESTS="
	small_mtu
	mtu_restored
	small_queue
	congestion_control
	mtu_sweep
	admin_lock
	path_lock
	icmp_mtu
	ipv6_partial_send
	xfrm_partial_send
"

SND4=192.0.2.1
RCV4=192.0.2.2
SND6=2001:db8:1::1
RCV6=2001:db8:1::2

# IPv4's minimum, where a segment takes two frames at least
MTU=68
# Smallest MTU where TCP's smallest segment still fits
FIT_MTU=88

# Of the link, in Mbit/s; where the CPU is slower than that, ratios are noise
RATE=${RATE:-1000}
PORT=5201
NETDEVSIM_ID=$((256 + RANDOM % 256))

usage()
{
	cat <<-EOF
	Usage: [RATE=Mbit/s] $0 [-h] [TEST]...

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

# A netdevsim that can't emulate a rate is merely as fast as the machine
netdevsim_set_rate()
{
	local ns=$1; shift
	local dev=$1; shift

	ip netns exec "$ns" ethtool -s "$dev" speed "$RATE" duplex full \
		autoneg off 2>/dev/null &&
	ip netns exec "$ns" ethtool -C "$dev" tx-usecs 50 tx-frames 0 2>/dev/null
}

ifindex()
{
	ip netns exec "$1" cat "/sys/class/net/$2/ifindex"
}

# Join two namespaces by a device in each
link_create()
{
	local ns1=$1 dev1=$2 ns2=$3 dev2=$4
	local fd1 fd2 ret

	netdevsim_add "$ns1" "$dev1" || return
	netdevsim_add "$ns2" "$dev2" || return
	exec {fd1}<"/var/run/netns/$ns1" {fd2}<"/var/run/netns/$ns2"
	echo "$fd1:$(ifindex "$ns1" "$dev1") $fd2:$(ifindex "$ns2" "$dev2")" \
		> /sys/bus/netdevsim/link_device
	ret=$?
	exec {fd1}<&- {fd2}<&-
	netdevsim_set_rate "$ns1" "$dev1"
	netdevsim_set_rate "$ns2" "$dev2"
	return "$ret"
}

link_up()
{
	local ns=$1; shift
	local dev=$1; shift
	local addr

	# IPv6 without addresses would still send at random times
	[[ $* == *::* ]] ||
		ip netns exec "$ns" sysctl -qw \
			"net.ipv6.conf.$dev.disable_ipv6=1"
	ip netns exec "$ns" sysctl -qw "net.ipv6.conf.$dev.accept_dad=0"
	for addr in "$@"; do
		ip -n "$ns" addr add "$addr" dev "$dev"
	done
	ip -n "$ns" link set dev "$dev" up
}

has_carrier()
{
	[[ $(ip netns exec "$1" cat "/sys/class/net/$2/carrier") == 1 ]]
}

# Two hosts on one link, with IPv4 addresses and optionally others
link_setup()
{
	local snd_addr=${1-}
	local rcv_addr=${2-}

	snd_dev=to_rcv rcv_dev=to_snd
	setup_ns snd_ns rcv_ns
	defer cleanup_all_ns
	link_create "$snd_ns" "$snd_dev" "$rcv_ns" "$rcv_dev"
	check_err $? "no link between two netdevsim devices"

	link_up "$snd_ns" "$snd_dev" "$SND4/24" ${snd_addr:+"$snd_addr"}
	link_up "$rcv_ns" "$rcv_dev" "$RCV4/24" ${rcv_addr:+"$rcv_addr"}
	slowwait 5 has_carrier "$snd_ns" "$snd_dev" && return
	check_err 1 "no carrier"
	return 1
}

# Two hosts with a router between them, whose link to the receiver has the
# given MTU
path_setup()
{
	local mtu=$1; shift

	snd_dev=to_rtr rcv_dev=to_rtr
	setup_ns snd_ns rtr_ns rcv_ns
	defer cleanup_all_ns
	link_create "$snd_ns" "$snd_dev" "$rtr_ns" to_snd &&
		link_create "$rtr_ns" to_rcv "$rcv_ns" "$rcv_dev"
	check_err $? "no link between two netdevsim devices"

	link_up "$snd_ns" "$snd_dev" 198.51.100.1/24
	link_up "$rtr_ns" to_snd 198.51.100.2/24
	link_up "$rtr_ns" to_rcv 203.0.113.1/24
	link_up "$rcv_ns" "$rcv_dev" 203.0.113.2/24
	ip -n "$rtr_ns" link set dev to_rcv mtu "$mtu"
	ip netns exec "$rtr_ns" sysctl -qw net.ipv4.ip_forward=1
	ip -n "$snd_ns" route add default via 198.51.100.2
	# The receiver keeps to the MTU, but doesn't tell
	ip -n "$rcv_ns" route add default via 203.0.113.1 mtu "$mtu" advmss 1460
	slowwait 5 has_carrier "$rtr_ns" to_rcv && return
	check_err 1 "no carrier"
	return 1
}

set_mtu()
{
	ip -n "$snd_ns" link set dev "$snd_dev" mtu "$1"
}

set_queue_limit()
{
	tc -n "$snd_ns" qdisc replace dev "$snd_dev" root pfifo limit "$1"
}

##############################################################################
# Flows: one iperf3 server and client each

# Start the server of the next flow
flow_listen()
{
	: $((PORT++))
	ip netns exec "$rcv_ns" iperf3 --server --one-off --port "$PORT" \
		>/dev/null 2>&1 &
	flow_server=$!
	defer flow_stop "$flow_server"
	wait_local_port_listen "$rcv_ns" "$PORT" tcp
}

# Start the client towards an address, with more options for iperf3
flow_connect()
{
	local dst=$1; shift

	ip netns exec "$snd_ns" iperf3 --client "$dst" --port "$PORT" \
		--time 3600 "$@" >/dev/null 2>&1 &
	flow_client=$!
	defer flow_stop "$flow_client"
}

flow_start()
{
	flow_listen
	flow_connect "$@"
	slowwait 5 flow_moves_data >/dev/null
}

flow_stop()
{
	local pid=$1; shift

	kill_process "$pid"
	return 0
}

# Bytes that the receiver of the last flow got, in order
flow_bytes()
{
	ip netns exec "$rcv_ns" ss -HOtni "sport = :$PORT" |
		grep -o "bytes_received:[0-9]*" |
		awk -F: '{ sum += $2 } END { print sum + 0 }'
}

# The control connection alone moves less than this
flow_moves_data()
{
	(($(flow_bytes) > 4000))
}

# Seconds in which the link moves what 1 Gbit/s moves in the given ones
at_rate()
{
	awk "BEGIN { print $1 * 1000 / $RATE }"
}

# Rate of the last flow at its receiver, in Mbit/s, over some seconds
flow_rate()
{
	local seconds=$1; shift
	local bytes nsec

	bytes=$(flow_bytes)
	nsec=$(date +%s%N)
	sleep "$seconds"
	bytes=$(($(flow_bytes) - bytes))
	nsec=$(($(date +%s%N) - nsec))
	awk "BEGIN { printf \"%.2f\", $bytes * 8000 / $nsec }"
}

##############################################################################
# Facts

# Values of SNMP counters of a namespace, added up
counters()
{
	local ns=$1; shift

	ip netns exec "$ns" nstat -saz "$@" |
		awk '!/^#/ { sum += $2 } END { print sum + 0 }'
}

# Packets that the sender's IP and queues dropped
local_drops()
{
	local queued

	queued=$(ip netns exec "$snd_ns" tc -s -j qdisc show dev "$snd_dev" |
		 grep -o '"drops":[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }')
	echo $((queued + $(counters "$snd_ns" IpFragFails IpOutDiscards)))
}

# ACKs and SACKs that cover data which the sender does not know to be sent
unsent_acks()
{
	counters "$snd_ns" TcpExtTCPChallengeACK TcpExtTCPACKSkippedChallenge \
		TcpExtTCPSACKDiscard
}

# Capture what the receiver gets from the sender, at most so many packets
capture_start()
{
	capture=$(mktemp)
	defer rm -f "$capture" "$capture.log"
	ip netns exec "$rcv_ns" tcpdump -i "$rcv_dev" -Q in -s 40 -c 20000 \
		-w "$capture" "ip src $SND4" 2>"$capture.log" &
	capture_pid=$!
	slowwait 5 grep -q "listening on" "$capture.log"
}

# Total length of the largest IPv4 packet captured, 0 without one
largest_packet()
{
	kill_process "$capture_pid"
	tcpdump -n -v -r "$capture" 2>/dev/null |
		sed -n 's/^.*proto TCP.*, length \([0-9]*\)).*$/\1/p' |
		sort -n | tail -n 1 | grep . || echo 0
}

route_mtu()
{
	ip -n "$snd_ns" route get "$1" | grep -o "mtu .*[0-9]" | cut -d" " -f2-3
}

is_locked()
{
	[[ $(route_mtu "$1") == lock* ]]
}

# Compare decimal numbers
is()
{
	awk "BEGIN { exit !($*) }"
}

##############################################################################
# Tests

small_mtu_run()
{
	local name=$1; shift
	local rate largest

	link_setup || return
	set_mtu "$MTU"
	"$@"

	capture_start
	flow_start "$RCV4"
	rate=$(flow_rate "$(at_rate 0.2)")
	kill_process "$flow_client"
	largest=$(largest_packet)

	log_info "$name: $rate Mbit/s"
	log_info "$name-drops: $(local_drops) packets"
	log_info "$name-retransmits: $(counters "$snd_ns" TcpRetransSegs) segments"
	log_info "$name-timeouts: $(counters "$snd_ns" TcpExtTCPTimeouts) timeouts"
	log_info "$name-unsent-acks: $(unsent_acks) ACKs"
	log_info "$name-largest-packet: $largest bytes"

	is "$largest <= $MTU"
	check_err $? "packet of $largest bytes on the wire"
	is "$(counters "$snd_ns" TcpExtTCPTimeouts) == 0"
	check_err $? "retransmission timeout"
	is "$(unsent_acks) == 0"
	check_err $? "ACKs of data that counted as unsent"
}

small_mtu()
{
	RET=0
	small_mtu_run mtu-68 :
	is "$(local_drops) == 0"
	check_err $? "$(local_drops) packets dropped at the sender"
	log_test "MTU $MTU"
}

small_queue()
{
	RET=0
	small_mtu_run mtu-68-pfifo-100 set_queue_limit 100
	log_test "MTU $MTU, queue of 100 packets"
}

congestion_control()
{
	local cc rate available

	for cc in cubic reno bbr; do
		RET=0
		available=$(sysctl -n net.ipv4.tcp_available_congestion_control)
		modprobe -q "tcp_$cc"
		if [[ " $available " != *" $cc "* ]]; then
			log_test_skip "MTU $MTU, $cc" "not available"
			continue
		fi
		in_defer_scope congestion_control_run "$cc"
		log_test "MTU $MTU, $cc"
	done
}

congestion_control_run()
{
	local cc=$1; shift

	link_setup || return
	set_mtu "$MTU"
	flow_start "$RCV4" --congestion "$cc"
	log_info "mtu-68-$cc: $(flow_rate 0.2) Mbit/s"
	is "$(unsent_acks) == 0"
	check_err $? "ACKs of data that counted as unsent"
}

# A route that is still locked stays slow, however long one watches it
restored_window()
{
	is_locked "$RCV4" && at_rate 0.1 || echo 1
}

# Back from a small MTU, during a connection and for a new one
mtu_restored()
{
	local before running new

	RET=0
	link_setup || return
	flow_start "$RCV4"
	before=$(flow_rate 0.5)
	set_mtu "$MTU"
	sleep 0.1
	set_mtu 1500
	sleep 0.1
	running=$(flow_rate "$(restored_window)")
	log_info "mtu-1500: $before Mbit/s"
	log_info "restored-running: $running Mbit/s"
	log_info "restored-locked: $(is_locked "$RCV4" && echo 1 || echo 0) routes"
	! is_locked "$RCV4"
	check_err $? "route still locked at an MTU of $(route_mtu "$RCV4")"
	is "$running >= 0.5 * $before"
	check_err $? "$running Mbit/s after the change, $before before"
	log_test "MTU restored during a connection"

	RET=0
	set_mtu "$MTU"
	sleep 0.1
	kill_process "$flow_client"
	flow_listen
	set_mtu 1500
	flow_connect "$RCV4"
	sleep 0.1
	new=$(flow_rate "$(restored_window)")
	log_info "restored-new: $new Mbit/s"
	! is_locked "$RCV4"
	check_err $? "route still locked at an MTU of $(route_mtu "$RCV4")"
	is "$new >= 0.5 * $before"
	check_err $? "$new Mbit/s after the change, $before before"
	log_test "MTU restored, new connection"
}

# Dense where a fragment or the smallest segment changes
SWEEP="68 75 76 83 84 87 88 92 100 128 160 200 256 300 400 500 551 552 553 576
       700 1000 1280 1499 1500"

mtu_sweep()
{
	local -A rates
	local curve

	RET=0
	for curve in down up new; do
		in_defer_scope "sweep_$curve"
		log_info "sweep-$curve-dip-fragmented: $(sweep_dip "$curve" 68 87) %"
		log_info "sweep-$curve-dip-whole: $(sweep_dip "$curve" 88 1500) %"
	done
	log_test "MTU from 68 to 1500"
}

sweep_reversed()
{
	tac -s " " <<<"${SWEEP//$'\n'/ } "
}

# One connection, its MTU lowered
sweep_down()
{
	local mtu

	link_setup || return
	flow_start "$RCV4"
	for mtu in $(sweep_reversed); do
		sweep_point down
	done
}

# One connection, its MTU raised
sweep_up()
{
	local mtu

	link_setup || return
	set_mtu 68
	flow_start "$RCV4"
	for mtu in $SWEEP; do
		sweep_point up
	done
}

# A new connection for every MTU
sweep_new()
{
	local mtu

	link_setup || return
	for mtu in $(sweep_reversed); do
		set_mtu "$mtu"
		in_defer_scope sweep_new_point
	done
}

sweep_new_point()
{
	flow_start "$RCV4"
	sweep_point new
}

# How far a curve falls, at worst, below the rate of a smaller MTU
sweep_dip()
{
	local curve=$1 first=$2 last=$3
	local x

	for x in $SWEEP; do
		((x >= first && x <= last)) && echo "${rates[$curve $x]}"
	done | awk '
		$1 > best { best = $1 }
		{ fall = $1 > 0 ? 100 * (1 - $1 / best) : 100 }
		fall > dip { dip = fall }
		END { printf "%.2f", dip }'
}

sweep_point()
{
	local curve=$1; shift
	local seconds=0.5
	local rate

	# A rate is as exact as a GSO skb is small; there is none below FIT_MTU,
	# and a simulated link has much to do there
	((mtu < FIT_MTU)) && seconds=0.03
	set_mtu "$mtu"
	sleep 0.05
	rate=$(flow_rate "$seconds")
	rates[$curve $mtu]=$rate
	log_info "sweep-$curve@$mtu: $rate Mbit/s"
	is "$rate > 0"
	check_err $? "no data at an MTU of $mtu"
}

# An MTU that the administrator locked is used as it is: segments of this size
# carry more a frame than fragments do
admin_lock()
{
	local largest

	RET=0
	in_defer_scope admin_lock_run
	log_test "route with a locked MTU of 400"
}

admin_lock_run()
{
	link_setup || return
	# Let the receiver see the packets as they are on the wire
	ip netns exec "$snd_ns" ethtool -K "$snd_dev" tso off 2>/dev/null
	ip -n "$snd_ns" route add "$RCV4" dev "$snd_dev" mtu lock 400
	capture_start
	flow_start "$RCV4"
	log_info "admin-lock-400: $(flow_rate 0.2) Mbit/s"
	largest=$(largest_packet)
	log_info "admin-lock-400-largest-packet: $largest bytes"
	is "$largest == 400"
	check_err $? "largest packet of $largest bytes"
}

# MTU of the sender's link, at both of its ends
path_set_mtu()
{
	set_mtu "$1"
	ip -n "$rtr_ns" link set dev to_snd mtu "$1"
}

# Send more than one packet over the path. Not by iperf3's --bytes: since 3.16
# it never sleeps after the last one, and virtual time stands still.
path_transfer()
{
	flow_start 203.0.113.2 --bitrate 8M
	slowwait 5 is_locked 203.0.113.2
	check_err $? "path MTU did not lock the route"
	kill_process "$flow_client"
}

# A lock that the path caused survives a change of the device's MTU, one that
# the device caused doesn't. Either way the path is learned again.
path_lock()
{
	in_defer_scope path_lock_run 400 1500 "lock 552"
	in_defer_scope path_lock_run 400 552 "lock 552"
	in_defer_scope path_lock_run 200 300 1400
}

path_lock_run()
{
	local router_mtu=$1; shift
	local dev_mtu=$1; shift
	local want=$1; shift
	local name="path-$router_mtu-device-$dev_mtu"
	local got

	RET=0
	path_setup "$router_mtu" || return
	path_set_mtu "$dev_mtu"
	path_transfer
	path_set_mtu 1400
	got=$(route_mtu 203.0.113.2)
	[[ ${got:-1400} == "$want" ]]
	check_err $? "route MTU '$got' after the change, expected '$want'"
	log_info "$name-raised: $(echo "${got:-1400}" | tr -dc 0-9) bytes"
	path_transfer
	got=$(route_mtu 203.0.113.2)
	[[ $got == "lock 552" ]]
	check_err $? "route MTU '$got' after more data, expected 'lock 552'"
	log_info "$name-relearned: $(echo "${got:-0}" | tr -dc 0-9) bytes"
	log_test "path MTU $router_mtu, device MTU $dev_mtu raised"
}

# No ICMP may raise the MTU of a route, whatever it says. Every value finds the
# route to an address of its own, first without and then with an exception.
# All values for one device, and those around its MTU for the others.
icmp_mtu()
{
	local mtu

	for mtu in 68 300 552 1500; do
		RET=0
		in_defer_scope icmp_mtu_run $((mtu == 1500 ? 65536 : 2 * mtu))
		log_test "ICMP about every MTU, device MTU $mtu"
	done
}

icmp_mtu_run()
{
	local values=$1; shift
	local raised

	link_setup || return
	set_mtu "$mtu"
	ip -n "$snd_ns" route add 10.0.0.0/15 via "$RCV4"
	raised=$(ip netns exec "$snd_ns" python3 - "$SND4" "$values" \
		<<-'EOF'
		import socket, struct, sys

		IP_MTU = 14
		own = socket.inet_aton(sys.argv[1])
		icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW,
		                     socket.IPPROTO_ICMP)

		def checksum(data):
		    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
		    total = (total & 0xffff) + (total >> 16)
		    return ~(total + (total >> 16)) & 0xffff

		def frag_needed(udp, dst, mtu):
		    sport = udp.getsockname()[1]
		    inner = struct.pack("!BBHHHBBH4s4sHHHH", 0x45, 0, 28, 0, 0x4000,
		                        64, 17, 0, own, dst, sport, 9, 8, 0)
		    head = struct.pack("!BBHHH", 3, 4, 0, 0, mtu)
		    head = struct.pack("!BBHHH", 3, 4, checksum(head + inner), 0, mtu)
		    icmp.sendto(head + inner, (sys.argv[1], 0))
		    return udp.getsockopt(socket.IPPROTO_IP, IP_MTU)

		raised = 0
		values = int(sys.argv[2])
		for value in range(values):
		    dst = struct.pack("!L", 0x0a000000 + value)
		    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		    udp.setsockopt(socket.IPPROTO_IP, 11, 0)
		    udp.connect((socket.inet_ntoa(dst), 9))
		    mtu = udp.getsockopt(socket.IPPROTO_IP, IP_MTU)
		    for icmp_mtu in value, values - 1 - value:
		        now = frag_needed(udp, dst, icmp_mtu)
		        raised += now > mtu
		        mtu = now
		    udp.close()
		print(raised)
	EOF
	)
	log_info "icmp-raised-device-$mtu: ${raised:-none} routes"
	[[ $raised == 0 ]]
	check_err $? "ICMP raised the MTU of ${raised:-?} routes"
}

# The full-sized segments of a GSO skb exceed the MTU of the route that its
# socket was just moved to, the short tail fits
ipv6_partial_send()
{
	local mtu round

	RET=0
	link_setup "$SND6/64" "$RCV6/64" || return
	flow_start "$RCV6" --length 20100 --bitrate 8M --no-delay
	for round in {1..10}; do
		for mtu in 1280 1500; do
			ip -n "$snd_ns" -6 route replace "$RCV6" dev "$snd_dev" \
				mtu "$mtu"
			sleep 0.05
		done
	done
	partial_send_verdict ipv6-partial-send
	log_test "IPv6 GSO skb sent in part"
}

# A GSO skb was built before the policy, and its segments overflow the queue
xfrm_partial_send()
{
	local ns round

	RET=0
	link_setup || return
	for ns in "$snd_ns" "$rcv_ns"; do
		ip -n "$ns" xfrm state add src "$SND4" dst "$RCV4" proto esp \
			spi 0x1000 reqid 1 mode transport aead \
			"rfc4106(gcm(aes))" 0x"$(printf "%040x" 1)" 128 || break
	done
	check_err $? "no ESP"
	# Little room in the queue, and in the device
	set_queue_limit 10
	ip netns exec "$snd_ns" tee >/dev/null <<<3000 \
		"/sys/class/net/$snd_dev/queues/tx-0/byte_queue_limits/limit_max"
	# Leave room for ESP, so that it is the queue which drops
	flow_start "$RCV4" --set-mss 1000
	for round in {1..10}; do
		ip -n "$snd_ns" xfrm policy add src "$SND4" dst "$RCV4" dir out \
			tmpl src "$SND4" dst "$RCV4" proto esp reqid 1 \
			mode transport
		sleep 0.05
		ip -n "$snd_ns" xfrm policy delete src "$SND4" dst "$RCV4" dir out
		sleep 0.05
	done
	partial_send_verdict xfrm-partial-send
	log_test "xfrm GSO skb sent in part"
}

partial_send_verdict()
{
	local name=$1; shift

	log_info "$name-unsent-acks: $(unsent_acks) ACKs"
	log_info "$name-timeouts: $(counters "$snd_ns" TcpExtTCPTimeouts) timeouts"
	is "$(unsent_acks) == 0"
	check_err $? "ACKs of data that counted as unsent"
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
require_command iperf3
require_command nstat
require_command ss
require_command tcpdump

tests_run

exit "$EXIT_STATUS"
