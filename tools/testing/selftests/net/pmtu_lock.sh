#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A route is locked, "mtu lock N", when an ICMP reports an MTU below
# net.ipv4.route.min_pmtu: packets are then sent without DF, in fragments of
# min_pmtu or of the device's MTU if that is smaller. Check that a lock which
# got its MTU from the device follows the device up, however the route is built
# and whoever uses it, and that a lock which got its MTU from the path stays.
#
#  +------------------+ +---------------------+ +---------------+ +-----------+
#  | H1               | | R1                  | | R2            | |        H2 |
#  |          to_r1 + | | + to_h1    to_r2a + | | + to_r1a      | | + to_r2   |
#  |   192.0.2.1/24 `-----' 192.0.2.2/24    `-----' to_h2 +     | | | 203.0.  |
#  |                  | |  198.51.100.1/30    | |         `-------' 113.2/24  |
#  |                  | |                     | |  203.0.113.1/24 |           |
#  |                  | |            to_r2b + | | + to_r1b      | |           |
#  |                  | |  198.51.100.5/30 `-----'              | |           |
#  |                  | |                     | |  (.2 and .6)  | |           |
#  +------------------+ +---------------------+ +---------------+ +-----------+
#
# The link between R2 and H2 has an MTU of 300 where the path is to be narrow.
# The route to H2 is R1's, and so are the sockets unless it is H1 that sends.

# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034,SC2154,SC2317,SC2329

lib_dir=$(dirname "$(readlink -f "$0")")
source "$lib_dir/lib.sh"

ALL_TESTS="
	device_lock
	path_lock
	path_lock_at_device_mtu
	forwarding
	flush
	expiry
	udp
	raw
	ip_mtu
	vrf
	multipath
	multipath_devices
	nexthop
	nexthop_group
	ipip
	gre
	ipv6_below_minimum
"

H2=203.0.113.2
GATEWAY_A=198.51.100.2
GATEWAY_B=198.51.100.6

MIN_PMTU=552
FULL_MTU=1500
# Both below min_pmtu: the device's, and that of the link between R2 and H2
DEV_MTU=400
PATH_MTU=300
# Too large for the latter. The ICMP quotes all of it and has to fit the former.
TOO_LARGE=$((PATH_MTU + 1))

# Tests that bind R1's sockets to a VRF set it
VRF=

##############################################################################
# Topology

link_create()
{
	local ns1=$1 dev1=$2 addr1=$3
	local ns2=$4 dev2=$5 addr2=$6

	ip -n "$ns1" link add "$dev1" type veth peer name "$dev2" netns "$ns2"
	ip -n "$ns1" addr add "$addr1" dev "$dev1"
	ip -n "$ns2" addr add "$addr2" dev "$dev2"
	ip -n "$ns1" link set dev "$dev1" up
	ip -n "$ns2" link set dev "$dev2" up
}

topo_create()
{
	RET=0
	VRF=
	setup_ns h1 r1 r2 h2
	defer cleanup_all_ns

	link_create "$h1" to_r1 192.0.2.1/24 "$r1" to_h1 192.0.2.2/24
	link_create "$r1" to_r2a 198.51.100.1/30 "$r2" to_r1a 198.51.100.2/30
	link_create "$r1" to_r2b 198.51.100.5/30 "$r2" to_r1b 198.51.100.6/30
	link_create "$r2" to_h2 203.0.113.1/24 "$h2" to_r2 203.0.113.2/24

	ip netns exec "$r1" sysctl -qw net.ipv4.ip_forward=1
	ip netns exec "$r2" sysctl -qw net.ipv4.ip_forward=1
	ip -n "$h1" route add default via 192.0.2.2
	ip -n "$r2" route add 192.0.2.0/24 via 198.51.100.1
	ip -n "$h2" route add default via 203.0.113.1

	path_mtu_set "$PATH_MTU"
}

path_mtu_set()
{
	local mtu=$1; shift

	ip -n "$r2" link set dev to_h2 mtu "$mtu"
	ip -n "$h2" link set dev to_r2 mtu "$mtu"
}

device_mtu_set()
{
	local dev=$1; shift
	local mtu=$1; shift

	ip -n "$r1" link set dev "$dev" mtu "$mtu"
}

route_via_a()
{
	ip -n "$r1" route add "$H2" via "$GATEWAY_A"
}

##############################################################################
# Observation

# Args: fragmentation (ping's -M), size of the packet
r1_ping()
{
	local frag=$1; shift
	local size=$1; shift

	ip netns exec "$r1" ping -c 1 -W 2 -M "$frag" -s $((size - 28)) \
		${VRF:+-I "$VRF"} "$@" "$H2" 2>&1
}

# The MTU in the error that a raw socket with IP_PMTUDISC_DO gets for a packet
# of this size to H2; ping words it differently from version to version
error_mtu()
{
	local size=$1; shift

	ip netns exec "$r1" python3 -c '
import socket, struct, sys
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_RECVERR = 10, 2, 11
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
s.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
s.connect((sys.argv[1], 0))
try:
    s.send(bytes(int(sys.argv[2]) - 20))
    print("none")
except OSError:
    # struct sock_extended_err
    _, [(_, _, error)], _, _ = s.recvmsg(1, 512, socket.MSG_ERRQUEUE)
    print(struct.unpack_from("=IBBBBI", error)[5])' "$H2" "$size"
}

# R1's route to H2, "MTU" or "lock MTU"; additional arguments as "ip route get"
# takes them
route_mtu()
{
	local words

	words=$(ip -n "$r1" route get "$H2" ${VRF:+vrf "$VRF"} "$@" |
		sed -n 's/.*\<mtu \(lock \)\?\([0-9]*\).*/\1\2/p')
	echo "${words:-device}"
}

check_route_mtu()
{
	local expected=$1; shift
	local what=$1; shift
	local mtu

	mtu=$(route_mtu "$@")
	[[ $mtu == "$expected" ]]
	check_err $? "$what: the route's MTU is $mtu, not $expected"
}

# The device's MTU, whether or not an exception repeats it
check_route_mtu_full()
{
	local what=$1; shift
	local mtu

	mtu=$(route_mtu "$@")
	[[ $mtu == device || $mtu == "$FULL_MTU" ]]
	check_err $? "$what: the route's MTU is $mtu, not the device's"
}

# With the path at less than the device, an ICMP locks the route at the latter
lock_at_device_mtu()
{
	local dev=$1; shift

	device_mtu_set "$dev" "$DEV_MTU"
	r1_ping want "$TOO_LARGE" > /dev/null
	check_route_mtu "lock $DEV_MTU" "after an ICMP"
}

# Without the path's part in it, so that nothing but the stale lock is left
restore_mtu()
{
	local dev=$1; shift

	path_mtu_set "$FULL_MTU"
	device_mtu_set "$dev" "$FULL_MTU"
}

check_full_size()
{
	local what=$1; shift

	r1_ping "do" "$FULL_MTU" > /dev/null
	check_err $? "$what: a packet of $FULL_MTU bytes doesn't get through"
}

check_device_lock()
{
	local dev=$1; shift

	lock_at_device_mtu "$dev"
	r1_ping want 1000 > /dev/null
	check_err $? "locked: a large packet doesn't get through"

	restore_mtu "$dev"
	check_route_mtu_full "device restored"
	check_full_size "device restored"
}

##############################################################################
# Tests: how the lock came about, and how it goes

device_lock()
{
	topo_create
	route_via_a
	check_device_lock to_r2a
	log_test "Lock at the MTU of the device follows the device"
}

path_lock()
{
	local mtu

	topo_create
	route_via_a
	r1_ping want 1000 > /dev/null
	check_route_mtu "lock $MIN_PMTU" "after an ICMP"
	for mtu in 9000 1000 $((MIN_PMTU + 1)) 1500; do
		device_mtu_set to_r2a "$mtu"
		check_route_mtu "lock $MIN_PMTU" "device at $mtu"
	done
	r1_ping want 1000 > /dev/null
	check_err $? "locked: a large packet doesn't get through"
	log_test "Lock of the path stays when the device changes"
}

path_lock_at_device_mtu()
{
	topo_create
	route_via_a
	device_mtu_set to_r2a "$MIN_PMTU"
	r1_ping want "$TOO_LARGE" > /dev/null
	check_route_mtu "lock $MIN_PMTU" "after an ICMP"
	device_mtu_set to_r2a "$FULL_MTU"
	check_route_mtu "lock $MIN_PMTU" "device restored"
	log_test "Lock of the path stays if the device had the same MTU"
}

# The router has the lock from packets of its own, and it counts for those that
# it forwards
forwarding()
{
	topo_create
	route_via_a
	lock_at_device_mtu to_r2a
	restore_mtu to_r2a
	ip netns exec "$h1" ping -q -c 1 -W 2 -M "do" -s $((FULL_MTU - 28)) \
		"$H2" > /dev/null
	check_err $? "the router doesn't forward a packet of $FULL_MTU bytes"
	log_test "Forwarding after the device was restored"
}

flush()
{
	topo_create
	route_via_a
	lock_at_device_mtu to_r2a
	ip -n "$r1" route flush cache
	check_route_mtu device "flushed"

	[[ $(error_mtu $((DEV_MTU + 1))) == "$DEV_MTU" ]]
	check_err $? "flushed: the error doesn't name the MTU of the device"
	r1_ping want "$TOO_LARGE" > /dev/null
	check_route_mtu "lock $DEV_MTU" "after another ICMP"
	log_test "Flush of a locked exception"
}

route_mtu_is()
{
	[[ $(route_mtu) == "$1" ]]
}

expiry()
{
	topo_create
	route_via_a
	ip netns exec "$r1" sysctl -qw net.ipv4.route.mtu_expires=1
	r1_ping want 1000 > /dev/null
	check_route_mtu "lock $MIN_PMTU" "after an ICMP"
	slowwait 10 route_mtu_is device
	check_err $? "the exception doesn't expire"

	path_mtu_set "$FULL_MTU"
	slowwait 10 r1_ping "do" "$FULL_MTU" > /dev/null
	check_err $? "expired: a packet of $FULL_MTU bytes doesn't get through"
	log_test "Expiry of a locked exception"
}

##############################################################################
# Tests: who uses it

# Have R1 send a datagram of a size to H2 and wait for it there
udp_send()
{
	local size=$1; shift
	local got

	got=$(
		ip netns exec "$h2" python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 5001))
s.settimeout(5)
print("bound", flush=True)
print(len(s.recv(65535)))' | {
			read -r _
			ip netns exec "$r1" python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 1) # IP_MTU_DISCOVER, _WANT
s.sendto(bytes(int(sys.argv[1])), (sys.argv[2], 5001))' "$size" "$H2"
			cat
		} 2> /dev/null
	)
	[[ $got == "$size" ]]
}

udp()
{
	topo_create
	route_via_a
	lock_at_device_mtu to_r2a
	udp_send 1000
	check_err $? "locked: a large datagram doesn't arrive"
	restore_mtu to_r2a
	udp_send 1472
	check_err $? "device restored: a large datagram doesn't arrive"
	check_route_mtu_full "device restored"
	log_test "UDP"
}

raw()
{
	topo_create
	route_via_a
	lock_at_device_mtu to_r2a
	# IP_PMTUDISC_DO: the size is the sender's own business
	[[ $(error_mtu $((DEV_MTU + 1))) == "$DEV_MTU" ]]
	check_err $? "locked: no error for a packet that exceeds the MTU"
	restore_mtu to_r2a
	r1_ping "do" $((DEV_MTU + 1)) > /dev/null
	check_err $? "device restored: still an error"
	log_test "Raw socket that always sets DF"
}

# IP_MTU of a socket connected to H2
socket_mtu()
{
	local type=$1; shift

	ip netns exec "$r1" python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, getattr(socket, sys.argv[1]),
		  socket.IPPROTO_ICMP if sys.argv[1] == "SOCK_RAW" else 0)
s.connect((sys.argv[2], 5001))
print(s.getsockopt(socket.IPPROTO_IP, 14)) # IP_MTU' "$type" "$H2"
}

check_socket_mtu()
{
	local expected=$1; shift
	local what=$1; shift
	local type mtu

	for type in SOCK_DGRAM SOCK_RAW; do
		mtu=$(socket_mtu "$type")
		[[ $mtu == "$expected" ]]
		check_err $? "$what: IP_MTU of $type is $mtu, not $expected"
	done
}

ip_mtu()
{
	topo_create
	route_via_a
	device_mtu_set to_r2a 68
	check_socket_mtu 68 "device at 68"
	lock_at_device_mtu to_r2a
	check_socket_mtu "$DEV_MTU" "locked"
	restore_mtu to_r2a
	check_socket_mtu "$FULL_MTU" "device restored"
	log_test "IP_MTU of sockets"
}

##############################################################################
# Tests: how the route is built

vrf()
{
	topo_create
	ip -n "$r1" link add red type vrf table 100
	ip -n "$r1" link set dev red up
	ip -n "$r1" link set dev to_r2a master red
	ip -n "$r1" route add vrf red "$H2" via "$GATEWAY_A"
	VRF=red
	check_device_lock to_r2a
	log_test "VRF"
}

# Both devices change
multipath()
{
	topo_create
	ip -n "$r2" route add 192.0.2.0/24 via 198.51.100.5 metric 10
	ip -n "$r1" route add "$H2" nexthop via "$GATEWAY_A" \
		nexthop via "$GATEWAY_B"
	device_mtu_set to_r2b "$DEV_MTU"
	lock_at_device_mtu to_r2a
	check_route_mtu "lock $DEV_MTU" "first path" oif to_r2a
	check_route_mtu "lock $DEV_MTU" "second path" oif to_r2b
	device_mtu_set to_r2b "$FULL_MTU"
	restore_mtu to_r2a
	check_route_mtu_full "first path restored" oif to_r2a
	check_route_mtu_full "second path restored" oif to_r2b
	check_full_size "devices restored"
	log_test "Multipath route"
}

# The devices differ: an ICMP is for all paths, but no path may get an MTU above
# its device's
multipath_devices()
{
	topo_create
	ip -n "$r1" route add "$H2" nexthop via "$GATEWAY_A" \
		nexthop via "$GATEWAY_B"
	device_mtu_set to_r2b "$DEV_MTU"

	r1_ping want "$TOO_LARGE" -I to_r2a > /dev/null
	check_route_mtu "lock $MIN_PMTU" "ICMP via first path" oif to_r2a
	check_route_mtu "lock $DEV_MTU" "ICMP via first path" oif to_r2b

	ip -n "$r1" route flush cache
	r1_ping want "$TOO_LARGE" -I to_r2b > /dev/null
	check_route_mtu "lock $DEV_MTU" "ICMP via second path" oif to_r2a
	check_route_mtu "lock $DEV_MTU" "ICMP via second path" oif to_r2b

	ip -n "$r1" route flush cache
	path_mtu_set 1000
	r1_ping "do" 1001 -I to_r2a > /dev/null
	check_route_mtu 1000 "ICMP without lock" oif to_r2a
	check_route_mtu "$DEV_MTU" "ICMP without lock" oif to_r2b
	log_test "Multipath route over devices of different MTUs"
}

nexthop()
{
	topo_create
	ip -n "$r1" nexthop add id 1 via "$GATEWAY_A" dev to_r2a
	ip -n "$r1" route add "$H2" nhid 1
	check_device_lock to_r2a
	log_test "Nexthop object"
}

nexthop_group()
{
	topo_create
	ip -n "$r1" nexthop add id 1 via "$GATEWAY_A" dev to_r2a
	ip -n "$r1" nexthop add id 2 via "$GATEWAY_B" dev to_r2b
	ip -n "$r1" nexthop add id 3 group 1/2
	ip -n "$r1" route add "$H2" nhid 3
	device_mtu_set to_r2b "$DEV_MTU"
	lock_at_device_mtu to_r2a
	device_mtu_set to_r2b "$FULL_MTU"
	restore_mtu to_r2a
	check_route_mtu_full "first path restored" oif to_r2a
	check_route_mtu_full "second path restored" oif to_r2b
	check_full_size "devices restored"
	log_test "Nexthop group"
}

# The outer route is the one with the lock: R1's tunnel ends at H2
check_tunnel()
{
	local type=$1; shift

	topo_create
	route_via_a
	ip -n "$h2" route add 192.0.2.0/24 via 203.0.113.1
	ip -n "$r1" link add tun type "$type" local 198.51.100.1 remote "$H2"
	ip -n "$h2" link add tun type "$type" local "$H2" remote 198.51.100.1
	ip -n "$r1" addr add 10.0.0.1/24 dev tun
	ip -n "$h2" addr add 10.0.0.2/24 dev tun
	ip -n "$r1" link set dev tun up
	ip -n "$h2" link set dev tun up

	device_mtu_set to_r2a "$DEV_MTU"
	ip netns exec "$r1" ping -q -c 1 -W 1 -M "do" -s "$PATH_MTU" \
		10.0.0.2 > /dev/null
	check_route_mtu "lock $DEV_MTU" "outer route after an ICMP"
	restore_mtu to_r2a
	check_route_mtu_full "outer route, device restored"

	ip netns exec "$r1" ping -q -c 1 -W 2 -M want -s 1000 10.0.0.2 \
		> /dev/null
	check_err $? "device restored: a large packet doesn't get through"
	log_test "Tunnel, $type"
}

ipip()
{
	check_tunnel ipip
}

gre()
{
	check_tunnel gre
}

# By design: below 1280 a device has no IPv6, and its addresses are gone
ipv6_below_minimum()
{
	local n

	topo_create
	ip netns exec "$r1" sysctl -qw net.ipv6.conf.to_r2a.accept_dad=0
	ip -n "$r1" addr add 2001:db8:1::1/64 dev to_r2a nodad
	device_mtu_set to_r2a 1279
	n=$(ip -n "$r1" -6 addr show dev to_r2a | wc -l)
	((n == 0))
	check_err $? "an IPv6 address is left at an MTU of 1279"
	device_mtu_set to_r2a 1280
	ip -n "$r1" addr add 2001:db8:1::1/64 dev to_r2a nodad
	check_err $? "no IPv6 address can be added at an MTU of 1280"
	ip -n "$r1" -6 route get 2001:db8:1::2 | grep -q "mtu lock"
	check_fail $? "IPv6 knows no lock"
	log_test "IPv6 below its minimum MTU and back"
}

require_command ip
require_command ping
require_command python3

tests_run
exit "$EXIT_STATUS"
