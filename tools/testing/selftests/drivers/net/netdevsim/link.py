#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""
Emulated link of netdevsim: rate, TX completions, back-pressure.

 +- NetNS src ------------------+            +- NetNS dst ------------------+
 |                              |            |                              |
 |  UDP / TCP sender            |            |            UDP / TCP sink    |
 |      |                       |            |                   ^          |
 |  src.dev  10.99.0.1/24       |            |       10.99.0.2/24  dst.dev  |
 |      |                       |            |                   |          |
 +------|-----------------------+            +-------------------|----------+
        |                                                        |
        +--> ring --> wire (ethtool -s speed) ------------------>+
               |
               +--> TX completion (ethtool -C tx-usecs, tx-frames)

In virtual time (UML with time-travel=inf-cpu) the CPU costs nothing, so
durations must be exact. In real time they may only be longer than the wire
takes, by what the CPU adds.
"""

import fcntl
import itertools
import socket
import struct
import sys
import termios
import time
from pathlib import Path

sys.path.append((Path(__file__).resolve().parents[3]).as_posix())

# pylint: disable=wrong-import-position
from net.lib.py import CmdExitFailure, KsftSkipEx, NetdevFamily, NetdevSimDev, \
    NetNS, NetNSEnter, cmd, defer, ip, ksft_busy_wait, ksft_eq, \
    ksft_exit, ksft_ge, ksft_gt, ksft_lt, ksft_pr, ksft_run, \
    ksft_variants, tc

SRC_ADDR, DST_ADDR, PORT = "10.99.0.1", "10.99.0.2", 9000

ETH_HLEN = 14
UDP_HEADERS = ETH_HLEN + 20 + 8
# Preamble, start of frame delimiter, FCS, gap between frames
FRAME_OVERHEAD = 7 + 1 + 4 + 12

# Resolution of UML's clock
UML_CLOCK_NS = 256

# What Python's socket module does not name
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35


def virtual_time():
    """ Timing is exact, see above """
    return "time-travel=inf-cpu" in Path("/proc/cmdline").read_text("ascii")


def wire_ns(payload, frames, mbps):
    """ Time that the wire takes for a number of UDP frames """
    frame = max(UDP_HEADERS + payload, 60) + FRAME_OVERHEAD
    return frames * frame * 8 * 1000 / mbps


class Port:
    """ One end of the link """

    def __init__(self, addr, queues):
        self.ns = NetNS()
        defer(self.ns.__del__)
        cmd("sysctl -qw net.ipv6.conf.default.disable_ipv6=1", ns=self.ns)

        self.addr = addr
        self.bus = NetdevSimDev(queue_count=queues)
        defer(self.bus.remove)
        self.nsim = self.bus.nsims[0]
        self.dev = self.nsim.ifname
        self.mac = self.nsim.dev["address"]

        ip(f"link set dev {self.dev} netns {self.ns}")
        self.ip(f"addr add {addr}/24 dev {self.dev}")
        self.ifindex = self.link()["ifindex"]

    def ip(self, args, **kwargs):
        """ ip(8) in the namespace of this port """
        return ip(args, **{"ns": self.ns, **kwargs})

    def up(self):
        """ Bring the port up """
        self.ip(f"link set dev {self.dev} up")

    def link(self):
        """ ip -s link show of this port """
        return self.ip(f"-s link show dev {self.dev}", json=True)[0]

    def ethtool(self, opt, args="", **kwargs):
        """ ethtool(8) in the namespace of this port """
        return cmd(f"ethtool {opt} {self.dev} {args}", ns=self.ns, **kwargs)

    def set_speed(self, mbps):
        """ Link rate of this port's transmitter """
        self.ethtool("-s", f"speed {mbps} duplex full autoneg off")

    def coalesce(self, usecs, frames):
        """ TX interrupt moderation """
        self.ethtool("-C", f"tx-usecs {usecs} tx-frames {frames}")

    def txq(self, idx=0):
        """ Statistics of a TX queue from debugfs """
        rows = Path(self.nsim.dfs_dir, "link/txq").read_text("ascii")
        names, *rows = [row.split() for row in rows.splitlines()]
        return dict(zip(names, map(int, rows[idx])))

    def bql(self, name, val=None, queue=0):
        """ Byte queue limits of a TX queue, 0 without CONFIG_BQL """
        path = f"/sys/class/net/{self.dev}/queues/tx-{queue}/byte_queue_limits"
        if cmd(f"test -d {path}", ns=self.ns, fail=False).ret:
            return 0
        if val is not None:
            cmd(f"sh -c 'echo {val} > {path}/{name}'", ns=self.ns,
                shell=True)
        return int(cmd(f"cat {path}/{name}", ns=self.ns).stdout)

    def max_l3_len(self):
        """ Longest L3 packet in one frame since the last call """
        val = int(Path(self.nsim.dfs_dir, "link/max_l3_len").read_text("ascii"))
        self.nsim.dfs_write("link/max_l3_len", "0")
        return val


class Link:
    """ Two linked ports, each in a namespace, and a UDP flow between them """

    def __init__(self, speed=0, queues=1):
        self.src = Port(SRC_ADDR, queues)
        self.dst = Port(DST_ADDR, queues)
        self.connect()
        for port, peer in ((self.src, self.dst), (self.dst, self.src)):
            port.ip(f"neigh add {peer.addr} lladdr {peer.mac} "
                    f"dev {port.dev} nud permanent")
            if speed:
                port.set_speed(speed)
            port.up()

        with NetNSEnter(str(self.dst.ns)):
            self.rx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        defer(self.rx.close)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.rx.bind((DST_ADDR, PORT))
        self.rx.settimeout(10)
        self.tx = self.udp_sender()
        self.queues = queues
        self.seq = 0

    def connect(self):
        """ Plug the cable in """
        with open(f"/run/netns/{self.src.ns}", encoding="ascii") as src, \
             open(f"/run/netns/{self.dst.ns}", encoding="ascii") as dst:
            NetdevSimDev.ctrl_write("link_device",
                                    f"{src.fileno()}:{self.src.ifindex} "
                                    f"{dst.fileno()}:{self.dst.ifindex}")

    def disconnect(self):
        """ Pull the cable out """
        with open(f"/run/netns/{self.src.ns}", encoding="ascii") as src:
            NetdevSimDev.ctrl_write("unlink_device",
                                    f"{src.fileno()}:{self.src.ifindex}")

    def udp_sender(self):
        """ A socket of its own has a send queue (SIOCOUTQ) of its own """
        with NetNSEnter(str(self.src.ns)):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        defer(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        sock.connect((DST_ADDR, PORT))
        return sock

    def send(self, count, size=1000, sock=None):
        """ Numbered datagrams """
        for _ in range(count):
            (sock or self.tx).send(struct.pack("!I", self.seq).ljust(size))
            self.seq += 1

    def receive(self, count):
        """ Datagrams as [(number, arrival in ns)] """
        got = []
        for _ in range(count):
            data, anc, _, _ = self.rx.recvmsg(65536, 64)
            sec, nsec = struct.unpack("qq", anc[0][2])
            got.append((struct.unpack_from("!I", data)[0],
                        sec * 10 ** 9 + nsec))
        return got

    def drain(self):
        """ Datagrams that have arrived, until none came for a while """
        self.rx.settimeout(0.2)
        got = []
        try:
            while True:
                got += self.receive(1)
        except socket.timeout:
            self.rx.settimeout(10)
        return got

    def unlimit(self):
        """ Let the ring fill up: raise BQL's limit, a completion adopts it """
        for idx in range(self.queues):
            self.src.bql("limit_min", 1 << 20, queue=idx)
            self.tx.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, idx)
            self.send(1)
            self.receive(1)
        self.tx.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
        self.check_idle()
        self.seq = 0

    def unsent(self):
        """ Bytes that the sender's socket still owns: not completed yet """
        buf = fcntl.ioctl(self.tx, termios.TIOCOUTQ, struct.pack("i", 0))
        return struct.unpack("i", buf)[0]

    def check_idle(self):
        """ Everything sent has been completed, nothing leaked """
        ksft_busy_wait(lambda: not self.unsent(), comment="skbs leaked")
        ksft_eq(self.src.txq()["pending"], 0)
        ksft_eq(self.src.bql("inflight"), 0)

    def check_works(self):
        """ The link still (or again) carries packets in order """
        first = self.seq
        self.send(20)
        ksft_eq([seq for seq, _ in self.receive(20)],
                list(range(first, first + 20)))
        self.check_idle()


def test_settings():
    """ ethtool -s sets the speed, refuses what makes no sense """
    link = Link()
    port = link.src

    def speed():
        lines = port.ethtool("").stdout.splitlines()
        return [line.split(":")[1].strip() for line in lines
                if "Speed:" in line or "Duplex:" in line]

    ksft_eq(speed(), ["Unknown!", "Unknown! (255)"])
    link.check_works()
    ksft_eq(port.txq()["packets"], 0, comment="emulated without a speed")

    port.set_speed(2500)
    ksft_eq(speed(), ["2500Mb/s", "Full"])
    link.check_works()
    ksft_eq(port.txq()["packets"], 20)

    # Refused, although ethtool's ioctl path exits with 0
    for args in "duplex half", "autoneg on":
        port.ethtool("-s", args, fail=False)
    ksft_eq(speed(), ["2500Mb/s", "Full"])

    port.ip(f"link set dev {port.dev} down")
    ksft_eq(speed(), ["2500Mb/s", "Full"])
    port.set_speed(0)
    ksft_eq(speed(), ["Unknown!", "Unknown! (255)"])


@ksft_variants([(10, 1), (10, 1472), (100, 400), (1000, 1472)])
def test_rate(mbps, size):
    """ Frames arrive at the pace of the wire, in order """
    count = 60
    link = Link(speed=mbps)
    start = time.time_ns()
    link.send(count, size)
    got = link.receive(count)

    ksft_ge(got[-1][1] - start, wire_ns(size, count, mbps) - UML_CLOCK_NS)
    took = got[-1][1] - got[0][1]
    want = wire_ns(size, count - 1, mbps)
    ksft_pr(f"{mbps} Mbit/s: {took} ns, {want:.1f} ns on the wire")
    if virtual_time():
        ksft_lt(abs(took - want), 2 * UML_CLOCK_NS)
    else:
        ksft_lt(took, want * 1.5 + 500e6)

    ksft_eq([seq for seq, _ in got], list(range(count)))
    link.check_idle()
    txq = link.src.txq()
    ksft_eq(txq["packets"], count)
    ksft_eq(txq["frames"], count)
    ksft_eq(txq["wire_bytes"], round(wire_ns(size, count, mbps) * mbps / 8000))
    ksft_eq(link.dst.link()["stats64"]["rx"]["packets"], count)


@ksft_variants(["on", "off"])
def test_tso(tso):
    """ A GSO packet takes the time of all its frames """
    total, mbps = 1 << 20, 20
    link = Link(speed=mbps)
    link.src.ethtool("-K", f"tso {tso}")
    with NetNSEnter(str(link.dst.ns)):
        server = socket.create_server((DST_ADDR, PORT))
    defer(server.close)
    with NetNSEnter(str(link.src.ns)):
        client = socket.socket()
    defer(client.close)
    client.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, total * 2)
    client.connect((DST_ADDR, PORT))
    conn, _ = server.accept()
    defer(conn.close)
    conn.settimeout(10)

    start, got = time.monotonic(), 0
    client.sendall(bytes(total))
    while got < total:
        got += len(conn.recv(1 << 20))
    rate = total * 8 / (time.monotonic() - start) / 1e6

    # Payload by what such a frame takes on the wire, with TCP timestamps
    goodput = mbps * 1448 / (ETH_HLEN + 1500 + FRAME_OVERHEAD)
    ksft_pr(f"{rate:.2f} Mbit/s, {goodput:.2f} is the most")
    ksft_lt(rate, goodput)
    ksft_gt(rate, goodput * (0.98 if virtual_time() else 0.1))

    txq = link.src.txq()
    ksft_ge(txq["frames"], total // 1448)
    if tso == "on":
        ksft_gt(txq["frames"], txq["packets"] * 2)
    else:
        ksft_eq(txq["frames"], txq["packets"])
    ksft_eq(link.src.max_l3_len(), 1500)


def test_complete_at_once():
    """ tx-usecs 0: a packet is the sender's until its last bit is sent """
    link = Link(speed=1)
    link.send(10)
    ksft_gt(link.unsent(), 0)
    link.receive(10)
    link.check_idle()
    ksft_eq(link.src.txq()["irqs"], 10)


def test_complete_by_time():
    """ tx-usecs: what has arrived is completed later, all at once """
    usecs = 300000
    link = Link(speed=100)
    link.unlimit()
    link.src.coalesce(usecs, 0)
    irqs = link.src.txq()["irqs"]
    start = time.monotonic()
    link.send(5)
    link.receive(5)
    ksft_gt(link.unsent(), 0)
    ksft_eq(link.src.txq()["pending"], 5)
    ksft_eq(link.src.txq()["irqs"], irqs)

    ksft_busy_wait(lambda: not link.unsent(), sleep=0.001, deadline=5)
    late = (time.monotonic() - start) * 1e6
    ksft_pr(f"completed after {late:.0f} us")
    ksft_ge(late, usecs)
    if virtual_time():
        ksft_lt(late, usecs + 25000, comment="polled by the tick")
    ksft_eq(link.src.txq()["irqs"], irqs + 1)
    link.check_idle()


def test_complete_by_frames():
    """ tx-frames: a number of packets is completed before its time """
    link = Link(speed=100)
    link.unlimit()
    link.src.coalesce(60 * 10 ** 6, 4)
    irqs = link.src.txq()["irqs"]
    link.send(3)
    link.receive(3)
    ksft_eq(link.src.txq()["pending"], 3)
    link.send(1)
    link.receive(1)
    link.check_idle()
    ksft_eq(link.src.txq()["irqs"], irqs + 1)


def test_coalesce_while_running():
    """ ethtool -C takes effect at once, also on what waits already """
    link = Link(speed=100)
    link.unlimit()
    link.src.coalesce(60 * 10 ** 6, 0)
    link.send(3)
    link.receive(3)
    ksft_eq(link.src.txq()["pending"], 3)
    link.src.coalesce(10, 0)
    link.check_idle()
    link.check_works()


def test_ring_full():
    """ A full ring stops the queue, completions wake it; nothing is lost """
    count, ring = 200, 16
    link = Link(speed=10)
    link.unlimit()
    link.src.ethtool("-G", f"tx {ring}")
    link.src.coalesce(60 * 10 ** 6, 0)
    link.send(count, 500)
    ksft_eq(link.src.txq()["pending"], ring)
    ksft_eq(link.src.txq()["stops"], 1)
    ksft_eq(link.src.txq()["wakes"], 0)

    link.src.coalesce(5000, 0)
    ksft_eq([seq for seq, _ in link.receive(count)], list(range(count)))
    link.check_idle()

    txq = link.src.txq()
    ksft_pr(f"{txq}")
    ksft_ge(txq["stops"], 10)
    ksft_eq(txq["stops"], txq["wakes"])
    with NetNSEnter(str(link.src.ns)):
        nl = NetdevFamily()
    qstats = nl.qstats_get({"ifindex": link.src.ifindex, "scope": ["queue"]},
                           dump=True)
    qstats = [q for q in qstats if q["queue-type"] == "tx"][0]
    ksft_eq(qstats["tx-stop"], txq["stops"])
    ksft_eq(qstats["tx-wake"], txq["wakes"])


def test_ring_resize():
    """ A ring that shrinks or grows while it is full keeps going """
    link = Link(speed=10)
    link.unlimit()
    link.src.ethtool("-G", "tx 64")
    link.src.coalesce(60 * 10 ** 6, 0)
    link.send(200, 500)
    ksft_eq(link.src.txq()["pending"], 64)
    link.src.ethtool("-G", "tx 1")
    link.src.coalesce(10, 0)
    link.receive(100)
    link.src.ethtool("-G", "tx 32")
    link.receive(100)
    link.check_idle()


def test_bql():
    """ Byte queue limits hold the ring short and end with the packets """
    link = Link(speed=10)
    if not link.src.bql("limit_max"):
        raise KsftSkipEx("no BQL")
    link.src.bql("limit_max", 3000)
    link.src.coalesce(60 * 10 ** 6, 0)
    link.send(100)
    ksft_eq(link.src.bql("inflight"),
            link.src.txq()["pending"] * (UDP_HEADERS + 1000))
    ksft_gt(link.src.bql("inflight"), 0)
    ksft_lt(link.src.txq()["pending"], 5)

    link.src.coalesce(10, 0)
    link.receive(100)
    link.check_idle()
    ksft_gt(link.src.bql("limit"), 0)
    ksft_lt(link.src.bql("limit"), 3001)
    ksft_eq(link.src.txq()["stops"], 0, comment="the ring was never full")


def queue_link(queues):
    """ A link whose socket priority selects the TX queue """
    link = Link(speed=1, queues=queues)
    try:
        tc(f"qdisc replace dev {link.src.dev} root mqprio num_tc 2 "
           "map 0 1 queues 1@0 1@1 hw 0", ns=link.src.ns)
    except CmdExitFailure as exc:
        raise KsftSkipEx("no mqprio") from exc
    return link


def test_queues():
    """ Queues share the wire in turn and are completed apart """
    count = 50
    link = queue_link(2)
    other = link.udp_sender()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1)
    link.unlimit()
    packets = [link.src.txq(queue)["packets"] for queue in (0, 1)]
    ksft_eq(packets, [1, 1])

    link.send(count)
    link.send(count, sock=other)
    got = link.receive(2 * count)
    order = [seq for seq, _ in got]
    for half in ([s for s in order if s < count],
                 [s for s in order if s >= count]):
        ksft_eq(half, sorted(half))
        ksft_eq(len(half), count)

    # In turn, as soon as both had something to send
    longest = max(len(list(run)) for _, run in
                  itertools.groupby(order[20:-20], lambda s: s < count))
    if virtual_time():
        ksft_eq(longest, 1)
    else:
        ksft_lt(longest, count / 2)
    for queue in 0, 1:
        ksft_eq(link.src.txq(queue)["packets"], 1 + count)
        ksft_eq(link.src.txq(queue)["pending"], 0)
    took = got[-1][1] - got[0][1]
    ksft_gt(took, wire_ns(1000, 2 * count - 1, 1) * 0.9)


def check_in_flight(link, interrupt, sent=200):
    """ What was in flight is delivered or dropped, and counted once """
    before = link.src.link()["stats64"]["tx"]
    link.send(sent, 1000)
    link.receive(5)
    ksft_gt(link.unsent(), 0)
    interrupt()
    ksft_busy_wait(lambda: not link.unsent(), deadline=3, comment="leaked")
    ksft_eq(link.src.txq()["pending"], 0)

    after = link.src.link()["stats64"]["tx"]
    got = 5 + len(link.drain())
    delivered = after["packets"] - before["packets"]
    dropped = after["dropped"] - before["dropped"]
    ksft_pr(f"{sent} sent, {got} received, {dropped} dropped in flight")
    ksft_eq(delivered, got)
    ksft_gt(dropped, 0)
    ksft_ge(sent, delivered + dropped)


def busy_link():
    """ Slow, with late completions, and with enough in the ring """
    link = Link(speed=1)
    link.unlimit()
    link.src.coalesce(10 ** 6, 0)
    return link


def test_down_in_flight():
    """ ip link set down drops what is in flight, up starts afresh """
    link = busy_link()
    port = link.src
    check_in_flight(link, lambda: port.ip(f"link set dev {port.dev} down"))
    ksft_eq(port.bql("inflight"), 0)
    port.coalesce(0, 0)
    port.up()
    port.ip(f"neigh replace {DST_ADDR} lladdr {link.dst.mac} "
            f"dev {port.dev} nud permanent")
    ksft_busy_wait(lambda: port.link()["operstate"] != "DOWN")
    link.check_works()


def test_unlink_in_flight():
    """ Without a cable the frames are lost, but completed """
    link = busy_link()
    check_in_flight(link, link.disconnect)
    link.src.coalesce(0, 0)
    link.connect()
    ksft_busy_wait(lambda: link.src.link()["operstate"] != "DOWN")
    link.check_works()


def test_peer_down_in_flight():
    """ A peer that is down receives nothing, the sender completes """
    link = busy_link()
    link.src.coalesce(1000, 0)
    peer = link.dst
    check_in_flight(link, lambda: peer.ip(f"link set dev {peer.dev} down"))


def test_peer_removed_in_flight():
    """ So does one that is gone """
    link = busy_link()
    link.src.coalesce(1000, 0)
    check_in_flight(link, link.dst.bus.remove)


def test_removed_in_flight():
    """ A sender that is removed frees what it had queued """
    link = busy_link()
    link.send(200)
    link.receive(5)
    ksft_gt(link.unsent(), 0)
    link.src.bus.remove()
    ksft_eq(link.unsent(), 0)


def test_netns_move_in_flight():
    """ A port that changes its namespace leaves nothing behind """
    link = busy_link()
    port = link.src

    def move():
        port.ip(f"link set dev {port.dev} netns {link.dst.ns} name moved")
        port.ns, port.dev = link.dst.ns, "moved"

    check_in_flight(link, move)


def test_speed_off_in_flight():
    """ Back to no emulation: ring emptied, packets pass at once again """
    link = busy_link()
    check_in_flight(link, lambda: link.src.set_speed(0))
    packets = link.src.txq()["packets"]
    link.check_works()
    ksft_eq(link.src.txq()["packets"], packets)


def test_mtu():
    """ No packet on the wire is longer than the MTU says """
    link = Link(speed=100)
    for mtu in 1500, 576, 1500, 9000:
        for port in link.src, link.dst:
            port.ip(f"link set dev {port.dev} mtu {mtu}")
        link.src.max_l3_len()
        link.send(2, 20000)
        link.receive(2)
        # All but the last fragment carry a multiple of eight bytes
        ksft_eq(link.src.max_l3_len(), 20 + (mtu - 20) // 8 * 8)


def main() -> None:
    """ Ksft boiler plate main """
    ksft_run(cases=[test_settings, test_rate, test_tso,
                    test_complete_at_once, test_complete_by_time,
                    test_complete_by_frames, test_coalesce_while_running,
                    test_ring_full, test_ring_resize, test_bql, test_queues,
                    test_down_in_flight, test_unlink_in_flight,
                    test_peer_down_in_flight, test_peer_removed_in_flight,
                    test_removed_in_flight, test_netns_move_in_flight,
                    test_speed_off_in_flight, test_mtu])
    ksft_exit()


if __name__ == "__main__":
    main()
