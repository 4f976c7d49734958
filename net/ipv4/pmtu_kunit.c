// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what IPv4 and TCP do about the path MTU: the next hop
 * exceptions that remember it, the GSO skbs that exceed it, and the MSS that
 * TCP derives from it.
 *
 * A network namespace has one device, whose driver can stop its queue, and a
 * default route:
 *
 *   192.0.2.1 [device] --- 192.0.2.2 (gateway) --- 198.51.100.1 (destination)
 */

#include <kunit/test.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <net/tcp.h>

#define ADDR	0xc0000201
#define GATEWAY	0xc0000202
#define DEST	0xc6336401

#define QUEUE_LEN	8

struct pmtu_context {
	struct net *net;
	struct net_device *dev;
};

/* What the device has sent to the destination */
struct pmtu_dev_priv {
	unsigned int packets;
	unsigned int longest;
};

static netdev_tx_t pmtu_dev_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct pmtu_dev_priv *priv = netdev_priv(dev);

	if (skb->protocol == htons(ETH_P_IP) &&
	    ip_hdr(skb)->daddr == htonl(DEST)) {
		priv->packets++;
		priv->longest = max(priv->longest, skb->len);
	}
	consume_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops pmtu_dev_ops = {
	.ndo_start_xmit	= pmtu_dev_xmit,
};

static void pmtu_dev_setup(struct net_device *dev)
{
	dev->netdev_ops = &pmtu_dev_ops;
	dev->type = ARPHRD_NONE;
	dev->flags = IFF_NOARP;
	/* No packets but ours, the queue is short */
	dev->priv_flags |= IFF_NO_ADDRCONF;
	dev->mtu = ETH_DATA_LEN;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = IP_MAX_MTU;
	dev->tx_queue_len = QUEUE_LEN;
	dev->features = NETIF_F_SG | NETIF_F_HW_CSUM;
	dev->needs_free_netdev = true;
}

static int pmtu_dev_create(struct pmtu_context *ctx)
{
	struct net_device *dev;
	int err;

	dev = alloc_netdev(sizeof(struct pmtu_dev_priv), "pmtu%d",
			   NET_NAME_ENUM, pmtu_dev_setup);
	if (!dev)
		return -ENOMEM;

	dev_net_set(dev, ctx->net);
	err = register_netdev(dev);
	if (err) {
		free_netdev(dev);
		return err;
	}

	ctx->dev = dev;
	rtnl_lock();
	err = dev_change_flags(dev, dev->flags | IFF_UP, NULL);
	rtnl_unlock();
	return err;
}

static void set_addr(struct sockaddr *addr, u32 ip)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(ip);
}

static int pmtu_add_routes(struct pmtu_context *ctx)
{
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
	struct ifreq ifr = {};
	int err;

	strscpy(ifr.ifr_name, ctx->dev->name);
	set_addr(&ifr.ifr_addr, ADDR);
	err = devinet_ioctl(ctx->net, SIOCSIFADDR, &ifr);
	if (err)
		return err;

	set_addr(&route.rt_dst, INADDR_ANY);
	set_addr(&route.rt_genmask, INADDR_ANY);
	set_addr(&route.rt_gateway, GATEWAY);
	return ip_rt_ioctl(ctx->net, SIOCADDRT, &route);
}

static int pmtu_init(struct kunit *test)
{
	struct pmtu_context *ctx;
	struct net *net;
	int err;

	ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	if (!ctx)
		return -ENOMEM;
	test->priv = ctx;

	net = copy_net_ns(CLONE_NEWNET, &init_user_ns, &init_net);
	if (IS_ERR(net))
		return PTR_ERR(net);
	ctx->net = net;

	err = pmtu_dev_create(ctx);
	if (err)
		return err;
	return pmtu_add_routes(ctx);
}

static void pmtu_exit(struct kunit *test)
{
	struct pmtu_context *ctx = test->priv;

	if (ctx && ctx->dev)
		unregister_netdev(ctx->dev);
	if (ctx && ctx->net)
		put_net(ctx->net);
}

static void set_dev_mtu(struct kunit *test, unsigned int mtu)
{
	struct pmtu_context *ctx = test->priv;
	int err;

	rtnl_lock();
	err = dev_set_mtu(ctx->dev, mtu);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
}

static struct rtable *route_to_dest(struct kunit *test)
{
	struct flowi4 fl4 = { .daddr = htonl(DEST) };
	struct pmtu_context *ctx = test->priv;
	struct rtable *rt;

	rt = ip_route_output_key(ctx->net, &fl4);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, rt);
	return rt;
}

struct route_mtu {
	unsigned int mtu;
	bool locked;
};

static struct route_mtu route_mtu(struct kunit *test)
{
	struct rtable *rt = route_to_dest(test);
	struct route_mtu now = {
		.mtu	= dst_mtu(&rt->dst),
		.locked	= ip_mtu_locked(&rt->dst),
	};

	ip_rt_put(rt);
	return now;
}

/* As if a router had answered a packet to the destination with "fragmentation
 * needed, next-hop MTU is @mtu".
 */
static void receive_icmp(struct kunit *test, struct sk_buff *quoted, u32 mtu)
{
	struct pmtu_context *ctx = test->priv;

	local_bh_disable();
	ipv4_update_pmtu(quoted, ctx->net, mtu, 0, IPPROTO_UDP);
	local_bh_enable();
}

KUNIT_DEFINE_ACTION_WRAPPER(kfree_skb_action, kfree_skb, struct sk_buff *);

static struct sk_buff *quoted_packet(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(sizeof(struct iphdr), GFP_KERNEL);
	struct iphdr *iph;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	kunit_add_action(test, kfree_skb_action, skb);
	iph = skb_put_zero(skb, sizeof(*iph));
	iph->saddr = htonl(ADDR);
	iph->daddr = htonl(DEST);
	return skb;
}

/* As "ip route flush cache" does it */
static void flush_exceptions(struct kunit *test)
{
	struct pmtu_context *ctx = test->priv;

	rt_genid_bump_ipv4(ctx->net);
	fnhe_genid_bump(ctx->net);
}

enum pmtu_event {
	NONE,
	DEVICE,		/* the MTU of the device is set */
	ICMP,		/* an ICMP reports an MTU */
	FLUSH,		/* the exceptions are flushed */
};

struct exception_case {
	const char *name;
	unsigned int min_pmtu;	/* 0: the default */
	struct {
		enum pmtu_event event;
		unsigned int mtu;
	} steps[6];
	struct route_mtu expected;
};

static const struct exception_case exception_cases[] = {
	/* Learned from the path, not locked */
	{ "path: taken", 0, { { ICMP, 1000 } }, { 1000, false } },
	{ "path: higher than the device's is ignored", 0,
	  { { ICMP, 1501 } }, { 1500, false } },
	{ "path: higher than the path's is ignored", 0,
	  { { ICMP, 1000 }, { ICMP, 1200 } }, { 1000, false } },
	{ "path: kept when the device goes up", 0,
	  { { ICMP, 1000 }, { DEVICE, 9000 } }, { 1000, false } },
	{ "path: kept when the device goes down, but not below", 0,
	  { { ICMP, 1000 }, { DEVICE, 1001 } }, { 1000, false } },
	{ "path: capped by the device", 0,
	  { { ICMP, 1000 }, { DEVICE, 800 } }, { 800, false } },
	{ "path: capped by the device, which goes up again", 0,
	  { { ICMP, 1000 }, { DEVICE, 800 }, { DEVICE, 1500 } },
	  { 1500, false } },
	{ "path: gone after a flush", 0,
	  { { ICMP, 1000 }, { FLUSH } }, { 1500, false } },

	/* Around min_pmtu */
	{ "min_pmtu + 1", 0, { { ICMP, 553 } }, { 553, false } },
	{ "min_pmtu", 0, { { ICMP, 552 } }, { 552, false } },
	{ "min_pmtu - 1", 0, { { ICMP, 551 } }, { 552, true } },
	{ "0", 0, { { ICMP, 0 } }, { 552, true } },
	{ "smallest min_pmtu", 68, { { ICMP, 68 } }, { 68, false } },
	{ "smallest min_pmtu - 1", 68, { { ICMP, 67 } }, { 68, true } },
	{ "min_pmtu at the device's", 1500, { { ICMP, 1499 } },
	  { 1500, true } },
	{ "min_pmtu above the device's", 2000, { { ICMP, 1499 } },
	  { 1500, true } },

	/* Locked because the path's MTU is below min_pmtu */
	{ "locked path: not locked any lower", 0,
	  { { ICMP, 400 }, { ICMP, 300 } }, { 552, true } },
	{ "locked path: lock takes an exception down", 0,
	  { { ICMP, 1000 }, { ICMP, 400 } }, { 552, true } },
	{ "locked path: kept when the device goes up", 0,
	  { { ICMP, 400 }, { DEVICE, 9000 } }, { 552, true } },
	{ "locked path: kept when the device goes down, but not below", 0,
	  { { ICMP, 400 }, { DEVICE, 553 } }, { 552, true } },
	{ "locked path: kept when the device goes down and up", 0,
	  { { ICMP, 400 }, { DEVICE, 1000 }, { DEVICE, 1500 } },
	  { 552, true } },
	{ "locked path: unlocked by a device at min_pmtu", 0,
	  { { ICMP, 400 }, { DEVICE, 552 } }, { 552, false } },
	{ "locked path: unlocked by a smaller device", 0,
	  { { ICMP, 400 }, { DEVICE, 500 } }, { 500, false } },
	{ "locked path: kept if the device is at min_pmtu by chance", 0,
	  { { DEVICE, 552 }, { ICMP, 400 }, { DEVICE, 1500 } },
	  { 552, true } },
	{ "locked path: kept at the smallest min_pmtu", 68,
	  { { DEVICE, 68 }, { ICMP, 67 }, { DEVICE, 1500 } }, { 68, true } },
	{ "locked path: gone after a flush", 0,
	  { { ICMP, 400 }, { FLUSH } }, { 1500, false } },
	{ "locked path: learned anew after a flush", 0,
	  { { ICMP, 400 }, { FLUSH }, { ICMP, 1000 } }, { 1000, false } },

	/* Locked while it was the device's MTU that is below min_pmtu */
	{ "locked device: at its MTU", 0,
	  { { DEVICE, 68 }, { ICMP, 68 } }, { 68, true } },
	{ "locked device: not locked any lower", 0,
	  { { DEVICE, 400 }, { ICMP, 300 } }, { 400, true } },
	{ "locked device: goes down", 0,
	  { { DEVICE, 400 }, { ICMP, 400 }, { DEVICE, 300 } },
	  { 300, false } },
	{ "locked device: goes down and up", 0,
	  { { DEVICE, 400 }, { ICMP, 400 }, { DEVICE, 300 },
	    { DEVICE, 1500 } }, { 1500, false } },
	{ "locked device: gone after a flush", 0,
	  { { DEVICE, 68 }, { ICMP, 68 }, { FLUSH }, { DEVICE, 1500 } },
	  { 1500, false } },
	{ "locked device: goes up from 68", 0,
	  { { DEVICE, 68 }, { ICMP, 68 }, { DEVICE, 1500 } },
	  { 1500, false } },
	{ "locked device: goes up from min_pmtu - 1", 0,
	  { { DEVICE, 551 }, { ICMP, 551 }, { DEVICE, 1500 } },
	  { 1500, false } },
	{ "locked device: goes up by 1", 0,
	  { { DEVICE, 68 }, { ICMP, 68 }, { DEVICE, 69 } }, { 69, false } },
	{ "locked device: goes up to min_pmtu", 0,
	  { { DEVICE, 68 }, { ICMP, 68 }, { DEVICE, 552 } },
	  { 552, false } },
	{ "locked device: goes up twice", 0,
	  { { DEVICE, 68 }, { ICMP, 68 }, { DEVICE, 400 },
	    { DEVICE, 1500 } }, { 1500, false } },
	{ "locked device: goes up from below a large min_pmtu", 2000,
	  { { DEVICE, 1500 }, { ICMP, 1400 }, { DEVICE, 9000 } },
	  { 9000, false } },
	{ "locked device: goes up, the path is locked by its next ICMP", 0,
	  { { DEVICE, 400 }, { ICMP, 300 }, { DEVICE, 1500 },
	    { ICMP, 300 } }, { 552, true } },
};

KUNIT_ARRAY_PARAM_DESC(exception, exception_cases, name);

static void exception(struct kunit *test)
{
	const struct exception_case *c = test->param_value;
	struct sk_buff *quoted = quoted_packet(test);
	struct pmtu_context *ctx = test->priv;
	struct route_mtu now = {};
	int i;

	if (c->min_pmtu)
		ctx->net->ipv4.ip_rt_min_pmtu = c->min_pmtu;

	for (i = 0; i < ARRAY_SIZE(c->steps) && c->steps[i].event; i++) {
		if (c->steps[i].event == DEVICE)
			set_dev_mtu(test, c->steps[i].mtu);
		else if (c->steps[i].event == ICMP)
			receive_icmp(test, quoted, c->steps[i].mtu);
		else
			flush_exceptions(test);
		/* Whoever sends next caches the route */
		now = route_mtu(test);
	}

	KUNIT_EXPECT_EQ(test, now.mtu, c->expected.mtu);
	KUNIT_EXPECT_EQ(test, now.locked, c->expected.locked);
}

static const unsigned int dev_mtus[] = {
	68, 400, 551, 552, 553, 1500, 9000, IP_MAX_MTU
};

static void mtu_desc(const unsigned int *mtu, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "device at %u", *mtu);
}

KUNIT_ARRAY_PARAM(dev_mtu, dev_mtus, mtu_desc);

static struct route_mtu expected_after_icmp(struct kunit *test,
					    unsigned int dev_mtu, u32 icmp_mtu)
{
	struct pmtu_context *ctx = test->priv;
	unsigned int min_pmtu = ctx->net->ipv4.ip_rt_min_pmtu;

	if (icmp_mtu > dev_mtu)
		return (struct route_mtu){ dev_mtu, false };
	if (icmp_mtu < min_pmtu)
		return (struct route_mtu){ min(dev_mtu, min_pmtu), true };
	return (struct route_mtu){ icmp_mtu, false };
}

/* Every value that the 16 bits of an ICMP can have, on a fresh route */
static void icmp_value(struct kunit *test)
{
	unsigned int dev_mtu = *(const unsigned int *)test->param_value;
	struct sk_buff *quoted = quoted_packet(test);
	struct route_mtu now, expected;
	u32 icmp_mtu;

	set_dev_mtu(test, dev_mtu);
	for (icmp_mtu = 0; icmp_mtu <= U16_MAX; icmp_mtu++) {
		flush_exceptions(test);
		KUNIT_ASSERT_EQ(test, route_mtu(test).mtu, dev_mtu);
		receive_icmp(test, quoted, icmp_mtu);
		now = route_mtu(test);
		expected = expected_after_icmp(test, dev_mtu, icmp_mtu);
		KUNIT_ASSERT_EQ_MSG(test, now.mtu, expected.mtu,
				    "after an ICMP with MTU %u", icmp_mtu);
		KUNIT_ASSERT_EQ_MSG(test, now.locked, expected.locked,
				    "after an ICMP with MTU %u", icmp_mtu);
		cond_resched();
	}
}

/* An ICMP never raises the MTU of a route that others have lowered */
static void icmp_sequence(struct kunit *test)
{
	unsigned int dev_mtu = *(const unsigned int *)test->param_value;
	struct sk_buff *quoted = quoted_packet(test);
	unsigned int mtu, last;
	int icmp_mtu;

	set_dev_mtu(test, dev_mtu);
	last = route_mtu(test).mtu;
	for (icmp_mtu = U16_MAX; icmp_mtu >= -U16_MAX; icmp_mtu--) {
		receive_icmp(test, quoted, abs(icmp_mtu));
		mtu = route_mtu(test).mtu;
		KUNIT_ASSERT_LE_MSG(test, mtu, last,
				    "after an ICMP with MTU %d", abs(icmp_mtu));
		last = mtu;
		cond_resched();
	}
}

static struct kunit_case exception_kunit_cases[] = {
	KUNIT_CASE_PARAM(exception, exception_gen_params),
	KUNIT_CASE_PARAM(icmp_value, dev_mtu_gen_params),
	KUNIT_CASE_PARAM(icmp_sequence, dev_mtu_gen_params),
	{}
};

static struct kunit_suite exception_suite = {
	.name = "ipv4_pmtu",
	.init = pmtu_init,
	.exit = pmtu_exit,
	.test_cases = exception_kunit_cases,
};

/* A GSO skb whose segments exceed the MTU */

struct gso_case {
	const char *name;
	unsigned int dev_mtu;
	unsigned int payload;
	bool df;
	bool stopped;		/* the queue takes QUEUE_LEN packets, + 1 */
	bool full;		/* it has them already */
	int expected;		/* return value */
	unsigned int packets;	/* that it has put on the wire */
};

#define GSO_SIZE	1000
#define GSO_HLEN	(sizeof(struct iphdr) + sizeof(struct tcphdr))

static const struct gso_case gso_cases[] = {
	{ .name = "fits", .dev_mtu = 1500, .payload = 4 * GSO_SIZE,
	  .packets = 4 },
	{ .name = "fragmented", .dev_mtu = 600, .payload = 4 * GSO_SIZE,
	  .packets = 8 },
	{ .name = "fragmented, short tail", .dev_mtu = 600,
	  .payload = 4 * GSO_SIZE + 1, .packets = 9 },
	{ .name = "fragmented, queue takes a part", .dev_mtu = 600,
	  .payload = 16 * GSO_SIZE, .stopped = true, .expected = NET_XMIT_CN,
	  .packets = QUEUE_LEN + 1 },
	{ .name = "fragmented, queue takes nothing", .dev_mtu = 600,
	  .payload = 4 * GSO_SIZE, .stopped = true, .full = true,
	  .expected = NET_XMIT_DROP, .packets = QUEUE_LEN + 1 },
	{ .name = "DF", .dev_mtu = 600, .payload = 4 * GSO_SIZE, .df = true,
	  .expected = -EMSGSIZE },
	/* ip_fragment() refuses the tail as well */
	{ .name = "DF, tail fits", .dev_mtu = 600,
	  .payload = 4 * GSO_SIZE + 1, .df = true, .expected = -EMSGSIZE },
};

KUNIT_ARRAY_PARAM_DESC(gso, gso_cases, name);

static struct sk_buff *gso_skb(struct kunit *test, unsigned int payload, bool df)
{
	struct rtable *rt = route_to_dest(test);
	struct tcphdr *th;
	struct iphdr *iph;
	struct sk_buff *skb;

	skb = alloc_skb(LL_MAX_HEADER + GSO_HLEN + payload, GFP_KERNEL);
	if (!skb)
		ip_rt_put(rt);
	KUNIT_ASSERT_NOT_NULL(test, skb);

	skb_reserve(skb, LL_MAX_HEADER);
	skb_dst_set(skb, &rt->dst);
	skb->dev = rt->dst.dev;
	skb->protocol = htons(ETH_P_IP);

	skb_reset_network_header(skb);
	iph = skb_put_zero(skb, sizeof(*iph));
	iph->version = 4;
	iph->ihl = sizeof(*iph) / 4;
	iph->tot_len = htons(GSO_HLEN + payload);
	iph->frag_off = df ? htons(IP_DF) : 0;
	iph->ttl = IPDEFTTL;
	iph->protocol = IPPROTO_TCP;
	iph->saddr = htonl(ADDR);
	iph->daddr = htonl(DEST);
	ip_send_check(iph);

	skb_set_transport_header(skb, sizeof(*iph));
	th = skb_put_zero(skb, sizeof(*th));
	th->doff = sizeof(*th) / 4;
	th->ack = 1;
	skb_put_zero(skb, payload);
	skb->ip_summed = CHECKSUM_PARTIAL;
	__tcp_v4_send_check(skb, iph->saddr, iph->daddr);

	skb_shinfo(skb)->gso_type = SKB_GSO_TCPV4;
	skb_shinfo(skb)->gso_size = GSO_SIZE;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(payload, GSO_SIZE);
	return skb;
}

static int send_gso(struct kunit *test, unsigned int payload, bool df)
{
	struct pmtu_context *ctx = test->priv;
	struct sk_buff *skb = gso_skb(test, payload, df);

	return dst_output(ctx->net, NULL, skb);
}

static void gso(struct kunit *test)
{
	const struct gso_case *c = test->param_value;
	struct pmtu_context *ctx = test->priv;
	struct pmtu_dev_priv *sent = netdev_priv(ctx->dev);

	set_dev_mtu(test, c->dev_mtu);
	if (c->stopped)
		netif_stop_queue(ctx->dev);
	if (c->full)
		send_gso(test, 16 * GSO_SIZE, false);

	KUNIT_EXPECT_EQ(test, send_gso(test, c->payload, c->df), c->expected);

	/* Let the queue run before looking at what came out of it */
	local_bh_disable();
	netif_wake_queue(ctx->dev);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, sent->packets, c->packets);
	KUNIT_EXPECT_LE(test, sent->longest, c->dev_mtu);
}

static struct kunit_case gso_kunit_cases[] = {
	KUNIT_CASE_PARAM(gso, gso_gen_params),
	{}
};

static struct kunit_suite gso_suite = {
	.name = "ipv4_gso",
	.init = pmtu_init,
	.exit = pmtu_exit,
	.test_cases = gso_kunit_cases,
};

/* The MSS of TCP */

struct mss_case {
	const char *name;
	unsigned int pmtu;
	unsigned int min_pmtu;	/* 0: the default */
	unsigned int options;	/* bytes of TCP options in every segment */
	unsigned int peer_mss;	/* 0: as large as can be */
	unsigned int expected;
};

static const struct mss_case mss_cases[] = {
	{ .name = "1500", .pmtu = 1500, .expected = 1460 },
	{ .name = "1500, timestamps", .pmtu = 1500, .options = 12,
	  .expected = 1448 },
	{ .name = "1500, small peer", .pmtu = 1500, .peer_mss = 536,
	  .expected = 536 },
	{ .name = "1500, large min_pmtu", .pmtu = 1500, .min_pmtu = 2000,
	  .expected = 1460 },
	{ .name = "min_pmtu", .pmtu = 552, .expected = 512 },
	/* Segments fit: nothing to gain from fragments */
	{ .name = "400", .pmtu = 400, .expected = 360 },
	{ .name = "88", .pmtu = 88, .expected = 48 },
	{ .name = "88, timestamps", .pmtu = 88, .options = 12,
	  .expected = 36 },
	/* They don't: as large as IP sends without DF, in whole fragments */
	{ .name = "87", .pmtu = 87, .expected = 492 },
	{ .name = "87, timestamps", .pmtu = 87, .options = 12,
	  .expected = 480 },
	{ .name = "68", .pmtu = 68, .expected = 508 },
	{ .name = "68, timestamps", .pmtu = 68, .options = 12,
	  .expected = 496 },
	{ .name = "68, small peer", .pmtu = 68, .peer_mss = 100,
	  .expected = 100 },
	{ .name = "68, min_pmtu 120", .pmtu = 68, .min_pmtu = 120,
	  .expected = 76 },
	{ .name = "68, min_pmtu 68", .pmtu = 68, .min_pmtu = 68,
	  .expected = 48 },
};

KUNIT_ARRAY_PARAM_DESC(mss, mss_cases, name);

KUNIT_DEFINE_ACTION_WRAPPER(sock_release_action, sock_release,
			    struct socket *);

static struct sock *tcp_socket(struct kunit *test, unsigned int options)
{
	struct pmtu_context *ctx = test->priv;
	struct socket *sock;
	struct tcp_sock *tp;
	int err;

	err = sock_create_kern(ctx->net, PF_INET, SOCK_STREAM, IPPROTO_TCP,
			       &sock);
	KUNIT_ASSERT_EQ(test, err, 0);
	kunit_add_action(test, sock_release_action, sock);

	tp = tcp_sk(sock->sk);
	tp->tcp_header_len = sizeof(struct tcphdr) + options;
	tp->rx_opt.mss_clamp = IP_MAX_MTU - GSO_HLEN;
	return sock->sk;
}

static void mss(struct kunit *test)
{
	const struct mss_case *c = test->param_value;
	struct sock *sk = tcp_socket(test, c->options);
	struct pmtu_context *ctx = test->priv;

	if (c->min_pmtu)
		ctx->net->ipv4.ip_rt_min_pmtu = c->min_pmtu;
	if (c->peer_mss)
		tcp_sk(sk)->rx_opt.mss_clamp = c->peer_mss;

	lock_sock(sk);
	KUNIT_EXPECT_EQ(test, tcp_sync_mss(sk, c->pmtu), c->expected);
	/* What IP_MTU and the PMTU discovery see stays the truth */
	KUNIT_EXPECT_EQ(test, inet_csk(sk)->icsk_pmtu_cookie, c->pmtu);
	release_sock(sk);
}

/* Wherever segments can fit, they do, and fill the path MTU */
static void mss_fits(struct kunit *test)
{
	struct sock *sk = tcp_socket(test, 0);
	unsigned int pmtu;

	lock_sock(sk);
	for (pmtu = 88; pmtu <= IP_MAX_MTU; pmtu++) {
		int mss = tcp_sync_mss(sk, pmtu);

		if (tcp_mss_to_mtu(sk, mss) != pmtu)
			break;
	}
	release_sock(sk);
	KUNIT_EXPECT_EQ(test, pmtu, IP_MAX_MTU + 1);
}

static struct kunit_case mss_kunit_cases[] = {
	KUNIT_CASE_PARAM(mss, mss_gen_params),
	KUNIT_CASE(mss_fits),
	{}
};

static struct kunit_suite mss_suite = {
	.name = "tcp_mss",
	.init = pmtu_init,
	.exit = pmtu_exit,
	.test_cases = mss_kunit_cases,
};

kunit_test_suites(&exception_suite, &gso_suite, &mss_suite);

MODULE_DESCRIPTION("KUnit tests of IPv4's path MTU");
MODULE_LICENSE("GPL");
