// SPDX-License-Identifier: GPL-2.0
/*
 * Emulated link: a transmitter of finite rate with late TX completions.
 *
 * Once a port has a speed (ethtool -s), its frames no longer reach the peer at
 * once. They wait in the ring of their TX queue, leave one after the other
 * over the one wire of the port, arrive when their last bit has been sent, and
 * stay with their sender until the TX completion:
 *
 *   ndo_start_xmit     wire timer: last bit sent        IRQ timer
 *        |                      |                           |
 *        v                      v                           v
 *   [ txq->ring ] --- wire ---> + --> [ txq->done ] ------> freed, BQL, wake
 *                               |
 *                               +---> copy to the peer's RX queue
 *
 * The rings share the wire packet by packet, in turn. A GSO packet is one entry
 * in the ring and one delivery, like a TSO descriptor and its aggregate after
 * LRO, but takes the time of all its frames.
 */

#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/tcp.h>
#include <net/netdev_queues.h>

#include "netdevsim.h"

/* Preamble, start of frame delimiter, FCS and the gap between two frames */
#define NSIM_LINK_FRAME_OVERHEAD	(7 + 1 + ETH_FCS_LEN + 12)

/* Packets that one run of the wire timer delivers: a CPU that is late lets
 * NAPI run in between, rather than overflow the peer's RX queue.
 */
#define NSIM_LINK_BUDGET		NAPI_POLL_WEIGHT

struct nsim_link_cb {
	ktime_t queued;
	struct skb_ext *psp_ext;
	u32 frames;	/* on the wire, after segmentation */
	u32 bytes;	/* in all frames, padded, without overhead */
	u32 max_l3_len;	/* in one frame */
};

struct nsim_link_txq {
	struct nsim_link *link;
	struct netdev_queue *txq;
	struct sk_buff_head ring;	/* on the wire (head) or waiting for it */
	struct sk_buff_head done;	/* sent, completion is pending */
	struct hrtimer irq_timer;

	u64 packets;
	u64 frames;
	u64 wire_bytes;
	u64 irqs;
	u64 stops;
	u64 wakes;
};

struct nsim_link {
	struct netdevsim *ns;
	spinlock_t lock;		/* protects all below */
	u32 speed;			/* Mbit/s, 0 while down or not emulated */
	u32 busy_frac;			/* of a ns, in units of 1 / speed */
	ktime_t busy_until;
	struct nsim_link_txq *sending;	/* whose head is on the wire */
	struct hrtimer wire_timer;
	u32 max_l3_len;
	struct dentry *ddir;
	unsigned int num_txq;
	struct nsim_link_txq txq[] __counted_by(num_txq);
};

static struct nsim_link_cb *nsim_link_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct nsim_link_cb) > sizeof(skb->cb));
	return (struct nsim_link_cb *)skb->cb;
}

static u32 nsim_link_hdr_len(const struct sk_buff *skb)
{
	return skb->encapsulation ? skb_inner_tcp_all_headers(skb) :
				    skb_tcp_all_headers(skb);
}

/* What goes on the wire: TSO repeats the headers in each frame */
static void nsim_link_measure(const struct sk_buff *skb,
			      struct nsim_link_cb *cb)
{
	u32 full_frames = 0, full_len = 0, last_len = skb->len;

	if (skb_is_gso(skb)) {
		full_frames = skb_shinfo(skb)->gso_segs - 1;
		full_len = nsim_link_hdr_len(skb) + skb_shinfo(skb)->gso_size;
		last_len -= full_frames * skb_shinfo(skb)->gso_size;
	}

	cb->frames = full_frames + 1;
	cb->bytes = full_frames * max_t(u32, full_len, ETH_ZLEN) +
		    max_t(u32, last_len, ETH_ZLEN);
	cb->max_l3_len = max(full_len, last_len) - skb_network_offset(skb);
}

static u64 nsim_link_wire_bytes(const struct nsim_link_cb *cb)
{
	return cb->bytes + (u64)cb->frames * NSIM_LINK_FRAME_OVERHEAD;
}

static int nsim_link_ring_size(const struct nsim_link_txq *q)
{
	return max_t(u32, READ_ONCE(q->link->ns->ethtool.ring.tx_pending), 1);
}

/* Negative after the user has shrunk a full ring */
static int nsim_link_ring_space(const struct nsim_link_txq *q)
{
	int used = skb_queue_len(&q->ring) + skb_queue_len(&q->done);

	return nsim_link_ring_size(q) - used;
}

static int nsim_link_wake_space(const struct nsim_link_txq *q)
{
	return DIV_ROUND_UP(nsim_link_ring_size(q), 2);
}

/* Put the head of the ring on the wire, once the frame before has left */
static void nsim_link_send(struct nsim_link *link, struct nsim_link_txq *q)
{
	const struct nsim_link_cb *cb = nsim_link_cb(skb_peek(&q->ring));
	u64 duration;

	/* 1 bit at 1 Mbit/s takes 1000 ns */
	duration = nsim_link_wire_bytes(cb) * BITS_PER_BYTE * 1000;
	duration = div_u64_rem(duration + link->busy_frac, link->speed,
			       &link->busy_frac);

	link->busy_until = max(link->busy_until, cb->queued) + duration;
	link->sending = q;
}

static void nsim_link_send_next(struct nsim_link *link)
{
	unsigned int i, this = link->sending - link->txq;

	link->sending = NULL;
	for (i = 1; i <= link->num_txq; i++) {
		struct nsim_link_txq *q;

		q = &link->txq[(this + i) % link->num_txq];
		if (!skb_queue_empty(&q->ring)) {
			nsim_link_send(link, q);
			return;
		}
	}
}

static void nsim_link_lost(struct nsim_link *link, struct nsim_link_cb *cb)
{
	if (cb->psp_ext)
		__skb_ext_put(cb->psp_ext);
	dev_dstats_tx_dropped(link->ns->netdev);
}

/* TX interrupt: @completed takes the skbs, to be freed without the lock */
static void nsim_link_complete(struct nsim_link_txq *q,
			       struct sk_buff_head *completed)
{
	unsigned int packets = skb_queue_len(&q->done), bytes = 0;
	struct sk_buff *skb;

	if (!packets)
		return;

	skb_queue_walk(&q->done, skb)
		bytes += nsim_link_cb(skb)->bytes;
	skb_queue_splice_tail_init(&q->done, completed);

	q->irqs++;
	if (!netif_txq_completed_wake(q->txq, packets, bytes,
				      nsim_link_ring_space(q),
				      nsim_link_wake_space(q)))
		q->wakes++;
}

static void nsim_link_coalesce(struct nsim_link_txq *q,
			       struct sk_buff_head *completed)
{
	const struct ethtool_coalesce *coal = &q->link->ns->ethtool.coalesce;
	u32 max_frames = coal->tx_max_coalesced_frames;
	u32 usecs = coal->tx_coalesce_usecs;

	if (!usecs || (max_frames && skb_queue_len(&q->done) >= max_frames)) {
		hrtimer_try_to_cancel(&q->irq_timer);
		nsim_link_complete(q, completed);
	} else if (skb_queue_len(&q->done) == 1) {
		hrtimer_start(&q->irq_timer,
			      ktime_add_us(q->link->busy_until, usecs),
			      HRTIMER_MODE_ABS_SOFT);
	}
}

/* The last bit of the packet on the wire has left and arrives at the peer */
static void nsim_link_sent(struct nsim_link *link, struct sk_buff_head *arrived,
			   struct sk_buff_head *completed)
{
	struct nsim_link_txq *q = link->sending;
	struct sk_buff *skb, *copy;
	struct nsim_link_cb *cb;

	skb = __skb_dequeue(&q->ring);
	cb = nsim_link_cb(skb);
	q->packets++;
	q->frames += cb->frames;
	q->wire_bytes += nsim_link_wire_bytes(cb);
	if (link->max_l3_len < cb->max_l3_len)
		link->max_l3_len = cb->max_l3_len;

	/* The peer's GRO writes to the headers and to the list of frags */
	copy = pskb_copy(skb, GFP_ATOMIC);
	if (copy)
		__skb_queue_tail(arrived, copy);
	else
		nsim_link_lost(link, cb);

	__skb_queue_tail(&q->done, skb);
	nsim_link_coalesce(q, completed);
}

static void nsim_link_deliver(struct nsim_link *link, struct sk_buff *skb)
{
	struct nsim_link_cb *cb = nsim_link_cb(skb);
	struct net_device *dev = link->ns->netdev;
	unsigned int len = skb->len;
	struct netdevsim *peer_ns;
	struct nsim_rq *rq;

	rcu_read_lock();
	peer_ns = nsim_peer(link->ns);
	if (!peer_ns || !netif_running(peer_ns->netdev)) {
		nsim_link_lost(link, cb);
		dev_kfree_skb_any(skb);
		goto out_unlock;
	}

	rq = nsim_peer_rq(peer_ns, skb);
	if (nsim_forward_skb(dev, peer_ns->netdev, skb, rq,
			     cb->psp_ext) == NET_RX_DROP) {
		dev_dstats_tx_dropped(dev);
		goto out_unlock;
	}

	dev_dstats_tx_add(dev, len);
	napi_schedule(&rq->napi);
out_unlock:
	rcu_read_unlock();
}

static void nsim_link_free(struct sk_buff_head *completed)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(completed)))
		dev_consume_skb_any(skb);
}

static enum hrtimer_restart nsim_link_wire_timer(struct hrtimer *timer)
{
	struct nsim_link *link = timer_container_of(link, timer, wire_timer);
	struct sk_buff_head arrived, completed;
	int budget = NSIM_LINK_BUDGET;
	struct sk_buff *skb;
	unsigned long flags;
	ktime_t now;

	__skb_queue_head_init(&arrived);
	__skb_queue_head_init(&completed);

	spin_lock_irqsave(&link->lock, flags);
	now = ktime_get();
	while (link->speed && link->sending && link->busy_until <= now &&
	       budget--) {
		nsim_link_sent(link, &arrived, &completed);
		nsim_link_send_next(link);
	}
	if (link->speed && link->sending)
		hrtimer_start(timer, link->busy_until, HRTIMER_MODE_ABS_SOFT);
	spin_unlock_irqrestore(&link->lock, flags);

	while ((skb = __skb_dequeue(&arrived)))
		nsim_link_deliver(link, skb);
	nsim_link_free(&completed);

	return HRTIMER_NORESTART;
}

static enum hrtimer_restart nsim_link_irq_timer(struct hrtimer *timer)
{
	struct nsim_link_txq *q = timer_container_of(q, timer, irq_timer);
	struct sk_buff_head completed;
	unsigned long flags;

	__skb_queue_head_init(&completed);

	spin_lock_irqsave(&q->link->lock, flags);
	nsim_link_complete(q, &completed);
	spin_unlock_irqrestore(&q->link->lock, flags);

	nsim_link_free(&completed);

	return HRTIMER_NORESTART;
}

void nsim_link_xmit(struct netdevsim *ns, struct sk_buff *skb,
		    struct skb_ext *psp_ext)
{
	struct nsim_link_cb *cb = nsim_link_cb(skb);
	struct nsim_link *link = ns->link;
	struct nsim_link_txq *q;
	unsigned long flags;

	q = &link->txq[skb_get_queue_mapping(skb)];
	nsim_link_measure(skb, cb);
	cb->psp_ext = psp_ext;
	skb_tx_timestamp(skb);

	spin_lock_irqsave(&link->lock, flags);
	if (!link->speed || nsim_link_ring_space(q) < 1) {
		spin_unlock_irqrestore(&link->lock, flags);
		nsim_link_lost(link, cb);
		dev_kfree_skb_any(skb);
		return;
	}

	netdev_tx_sent_queue(q->txq, cb->bytes);
	cb->queued = ktime_get();
	__skb_queue_tail(&q->ring, skb);
	if (!link->sending) {
		nsim_link_send(link, q);
		hrtimer_start(&link->wire_timer, link->busy_until,
			      HRTIMER_MODE_ABS_SOFT);
	}
	if (!netif_txq_maybe_stop(q->txq, nsim_link_ring_space(q), 1,
				  nsim_link_wake_space(q)))
		q->stops++;
	spin_unlock_irqrestore(&link->lock, flags);
}

/* Nothing is queued any more: drop what was not sent, complete everything */
static void nsim_link_flush(struct nsim_link *link)
{
	struct sk_buff_head completed;
	struct sk_buff *skb;
	unsigned int i;

	__skb_queue_head_init(&completed);

	hrtimer_cancel(&link->wire_timer);
	for (i = 0; i < link->num_txq; i++)
		hrtimer_cancel(&link->txq[i].irq_timer);

	spin_lock_irq(&link->lock);
	link->sending = NULL;
	for (i = 0; i < link->num_txq; i++) {
		struct nsim_link_txq *q = &link->txq[i];

		skb_queue_walk(&q->ring, skb)
			nsim_link_lost(link, nsim_link_cb(skb));
		skb_queue_splice_tail_init(&q->ring, &q->done);
		nsim_link_complete(q, &completed);
	}
	spin_unlock_irq(&link->lock);

	nsim_link_free(&completed);
}

static void nsim_link_set_rate(struct nsim_link *link, u32 speed)
{
	spin_lock_irq(&link->lock);
	link->speed = speed;
	link->busy_frac = 0;
	spin_unlock_irq(&link->lock);

	if (!speed)
		nsim_link_flush(link);
}

void nsim_link_open(struct netdevsim *ns)
{
	nsim_link_set_rate(ns->link, ns->ethtool.speed);
}

void nsim_link_stop(struct netdevsim *ns)
{
	unsigned int i;

	nsim_link_set_rate(ns->link, 0);
	for (i = 0; i < ns->link->num_txq; i++)
		netdev_tx_reset_queue(ns->link->txq[i].txq);
}

/* The peer's RX queues, which may have stopped ours, no longer wake them */
static void nsim_link_wake_queues(struct nsim_link *link)
{
	unsigned int i;

	synchronize_net();

	spin_lock_irq(&link->lock);
	for (i = 0; i < link->num_txq; i++)
		if (nsim_link_ring_space(&link->txq[i]) > 0)
			netif_tx_wake_queue(link->txq[i].txq);
	spin_unlock_irq(&link->lock);
}

void nsim_link_set_speed(struct netdevsim *ns, u32 speed)
{
	if (!netif_running(ns->netdev)) {
		WRITE_ONCE(ns->ethtool.speed, speed);
	} else if (speed) {
		nsim_link_set_rate(ns->link, speed);
		WRITE_ONCE(ns->ethtool.speed, speed);
		nsim_link_wake_queues(ns->link);
	} else {
		WRITE_ONCE(ns->ethtool.speed, 0);
		nsim_link_set_rate(ns->link, 0);
	}
}

void nsim_link_set_coalesce(struct netdevsim *ns,
			    const struct ethtool_coalesce *coal)
{
	struct nsim_link *link = ns->link;
	unsigned int i;

	spin_lock_irq(&link->lock);
	ns->ethtool.coalesce = *coal;
	/* Whatever waits for the old delay is completed at once */
	for (i = 0; i < link->num_txq; i++)
		if (!skb_queue_empty(&link->txq[i].done))
			hrtimer_start(&link->txq[i].irq_timer, 0,
				      HRTIMER_MODE_ABS_SOFT);
	spin_unlock_irq(&link->lock);
}

static int nsim_link_txq_show(struct seq_file *s, void *data)
{
	struct nsim_link *link = s->private;
	unsigned int i;

	seq_puts(s, "txq pending packets frames wire_bytes irqs stops wakes\n");

	spin_lock_irq(&link->lock);
	for (i = 0; i < link->num_txq; i++) {
		struct nsim_link_txq *q = &link->txq[i];

		seq_printf(s, "%u %u %llu %llu %llu %llu %llu %llu\n", i,
			   skb_queue_len(&q->ring) + skb_queue_len(&q->done),
			   q->packets, q->frames, q->wire_bytes, q->irqs,
			   q->stops, q->wakes);
	}
	spin_unlock_irq(&link->lock);

	return 0;
}
DEFINE_SHOW_ATTRIBUTE(nsim_link_txq);

void nsim_link_get_queue_stats_tx(struct netdevsim *ns, int idx,
				  struct netdev_queue_stats_tx *stats)
{
	struct nsim_link *link = ns->link;

	spin_lock_irq(&link->lock);
	stats->stop = link->txq[idx].stops;
	stats->wake = link->txq[idx].wakes;
	spin_unlock_irq(&link->lock);
}

int nsim_link_init(struct netdevsim *ns)
{
	struct net_device *dev = ns->netdev;
	struct nsim_link *link;
	unsigned int i;

	link = kzalloc_flex(*link, txq, dev->num_tx_queues, GFP_KERNEL_ACCOUNT);
	if (!link)
		return -ENOMEM;

	link->ns = ns;
	link->num_txq = dev->num_tx_queues;
	spin_lock_init(&link->lock);
	hrtimer_setup(&link->wire_timer, nsim_link_wire_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_SOFT);

	for (i = 0; i < link->num_txq; i++) {
		struct nsim_link_txq *q = &link->txq[i];

		q->link = link;
		q->txq = netdev_get_tx_queue(dev, i);
		__skb_queue_head_init(&q->ring);
		__skb_queue_head_init(&q->done);
		hrtimer_setup(&q->irq_timer, nsim_link_irq_timer,
			      CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	}

	link->ddir = debugfs_create_dir("link", ns->nsim_dev_port->ddir);
	debugfs_create_file("txq", 0400, link->ddir, link, &nsim_link_txq_fops);
	debugfs_create_u32("max_l3_len", 0600, link->ddir, &link->max_l3_len);

	ns->link = link;
	return 0;
}

void nsim_link_uninit(struct netdevsim *ns)
{
	debugfs_remove(ns->link->ddir);
	kfree(ns->link);
	ns->link = NULL;
}
