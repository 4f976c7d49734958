// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of mvpp2's buffers and rings, included by mvpp2_main.c: that the
 * frames of every MTU fit the buffers they are received in, that buffers of
 * scattered frames are given back, that pools change hands or stay, and that a
 * Tx queue which is running takes any packet.
 *
 * The registers are plain memory. Buffers that the driver gives back, and pools
 * that it fills, end in replacements of the functions that do so.
 */

#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/dma-map-ops.h>
#include <linux/logic_iomem.h>
#include <linux/unaligned.h>

#define MVPP2_TEST_REGS		MVPP22_ADDR_SPACE_SZ
#define MVPP2_TEST_MAC_REGS	SZ_4K
#define MVPP2_TEST_IO_SIZE	(MVPP2_TEST_REGS + MVPP2_TEST_MAC_REGS)

#define MVPP2_TEST_QUEUES	8
#define MVPP2_TEST_MAX_CHAIN	8

/* A buffer as it is given back */
struct mvpp2_test_put {
	int pool;
	dma_addr_t dma_addr;
	phys_addr_t phys_addr;
};

struct mvpp2_test {
	struct mvpp2 priv;
	struct net_device *dev;
	struct mvpp2_port *port;

	/* Another port of the same controller */
	struct mvpp2_port other_port;
	struct net_device *other_dev;

	struct mvpp2_test_put puts[4 * MVPP2_TEST_MAX_CHAIN];
	unsigned int num_puts;

	/* Buffers that can still be allocated */
	int bufs_left;
	/* The driver gave up the per-CPU pools */
	bool shared;
};

/* Registers */

#ifdef CONFIG_INDIRECT_IOMEM
/* UML has no memory that readl() could read, but emulates it */
static u32 mvpp2_test_io[MVPP2_TEST_IO_SIZE / sizeof(u32)];

static unsigned long mvpp2_test_read(void *priv, unsigned int offset, int size)
{
	return mvpp2_test_io[offset / sizeof(u32)];
}

static void mvpp2_test_write(void *priv, unsigned int offset, int size,
			     unsigned long val)
{
	mvpp2_test_io[offset / sizeof(u32)] = val;
}

static const struct logic_iomem_ops mvpp2_test_io_ops = {
	.read = mvpp2_test_read,
	.write = mvpp2_test_write,
};

static long mvpp2_test_io_map(unsigned long offset, size_t size,
			      const struct logic_iomem_ops **ops, void **priv)
{
	*ops = &mvpp2_test_io_ops;
	return offset;
}

static const struct logic_iomem_region_ops mvpp2_test_region_ops = {
	.map = mvpp2_test_io_map,
};

static struct resource mvpp2_test_res =
	DEFINE_RES_MEM_NAMED(0xe0000000, MVPP2_TEST_IO_SIZE, "mvpp2 KUnit");

KUNIT_DEFINE_ACTION_WRAPPER(mvpp2_test_iounmap, iounmap, void __iomem *);

/* Once and for all: a region can't be removed */
static void __iomem *mvpp2_test_ioremap(struct kunit *test)
{
	void __iomem *io;

	if (!mvpp2_test_res.parent &&
	    logic_iomem_add_region(&mvpp2_test_res, &mvpp2_test_region_ops))
		return NULL;

	io = ioremap(mvpp2_test_res.start, MVPP2_TEST_IO_SIZE);
	if (!io || kunit_add_action_or_reset(test, mvpp2_test_iounmap,
					     (void __force *)io))
		return NULL;

	memset(mvpp2_test_io, 0, sizeof(mvpp2_test_io));
	return io;
}
#else
static void __iomem *mvpp2_test_ioremap(struct kunit *test)
{
	return (void __iomem __force *)kunit_kzalloc(test, MVPP2_TEST_IO_SIZE,
						     GFP_KERNEL);
}
#endif

/* What takes the place of the hardware */

static struct mvpp2_test *mvpp2_test_ctx(void)
{
	return kunit_get_current_test()->priv;
}

/* Take a buffer back and have it used at once: its header says other things */
static void mvpp2_test_pool_put(struct mvpp2_port *port, int pool,
				dma_addr_t dma_addr, phys_addr_t phys_addr)
{
	struct mvpp2_test *ctx = mvpp2_test_ctx();

	if (ctx->num_puts < ARRAY_SIZE(ctx->puts))
		ctx->puts[ctx->num_puts] = (struct mvpp2_test_put) {
			.pool = pool,
			.dma_addr = dma_addr,
			.phys_addr = phys_addr,
		};
	ctx->num_puts++;
	memset(phys_to_virt(phys_addr), 0xff, sizeof(struct mvpp2_buff_hdr));
}

static int mvpp2_test_bufs_add(struct mvpp2_port *port,
			       struct mvpp2_bm_pool *bm_pool, int buf_num)
{
	struct mvpp2_test *ctx = mvpp2_test_ctx();
	int num = min(buf_num, ctx->bufs_left);

	ctx->bufs_left -= num;
	bm_pool->buf_num += num;
	return num;
}

static void mvpp2_test_bufs_free(struct device *dev, struct mvpp2 *priv,
				 struct mvpp2_bm_pool *bm_pool, int buf_num)
{
	bm_pool->buf_num -= buf_num;
}

static int mvpp2_test_switch_buffers(struct mvpp2 *priv, bool percpu)
{
	if (!percpu)
		mvpp2_test_ctx()->shared = true;
	return 0;
}

/* A controller with two ports */

KUNIT_DEFINE_ACTION_WRAPPER(mvpp2_test_free_netdev, free_netdev,
			    struct net_device *);

static struct net_device *mvpp2_test_netdev(struct kunit *test,
					    struct device *parent, int priv_size)
{
	struct net_device *dev;

	dev = alloc_etherdev_mqs(priv_size, MVPP2_TEST_QUEUES,
				 MVPP2_TEST_QUEUES);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, mvpp2_test_free_netdev,
						  dev));
	SET_NETDEV_DEV(dev, parent);
	dev->netdev_ops = &mvpp2_netdev_ops;
	return dev;
}

static void mvpp2_test_rxq(struct kunit *test, struct mvpp2_port *port)
{
	struct mvpp2_rx_queue *rxq;

	port->nrxqs = 1;
	port->rxqs = kunit_kzalloc(test, sizeof(*port->rxqs), GFP_KERNEL);
	rxq = kunit_kzalloc(test, sizeof(*rxq), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, port->rxqs);
	KUNIT_ASSERT_NOT_NULL(test, rxq);
	port->rxqs[0] = rxq;
}

static int mvpp2_test_init(struct kunit *test)
{
	struct mvpp2_test *ctx;
	struct device *parent;
	void __iomem *io;
	int i;

	ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	io = mvpp2_test_ioremap(test);
	if (!ctx || !io)
		return -ENOMEM;
	test->priv = ctx;

	parent = kunit_device_register(test, "mvpp2");
	if (IS_ERR(parent))
		return PTR_ERR(parent);

	ctx->priv.hw_version = MVPP22;
	ctx->priv.nthreads = 1;
	for (i = 0; i < MVPP2_MAX_THREADS; i++)
		ctx->priv.swth_base[i] = io;

	ctx->dev = mvpp2_test_netdev(test, parent, sizeof(*ctx->port));
	ctx->port = netdev_priv(ctx->dev);
	ctx->port->dev = ctx->dev;
	ctx->port->priv = &ctx->priv;
	ctx->port->base = io + MVPP2_TEST_REGS;
	mvpp2_test_rxq(test, ctx->port);

	ctx->other_dev = mvpp2_test_netdev(test, parent, 0);
	ctx->other_port.dev = ctx->other_dev;

	ctx->priv.port_list[0] = ctx->port;
	ctx->priv.port_list[1] = &ctx->other_port;
	ctx->priv.port_count = 2;

	kunit_activate_static_stub(test, mvpp2_bm_pool_put,
				   mvpp2_test_pool_put);
	kunit_activate_static_stub(test, mvpp2_bm_bufs_add,
				   mvpp2_test_bufs_add);
	kunit_activate_static_stub(test, mvpp2_bm_bufs_free,
				   mvpp2_test_bufs_free);
	kunit_activate_static_stub(test, mvpp2_bm_switch_buffers,
				   mvpp2_test_switch_buffers);
	mvpp2_setup_bm_pool();
	return 0;
}

/* MTU: frames and buffers */

static int mvpp2_test_host_cache_line(void)
{
	return cache_line_size();
}

/* The driver rounds to what this machine has, the tests to what they set */
static int mvpp2_test_cache_line;
#undef cache_line_size
#define cache_line_size()	mvpp2_test_cache_line

static unsigned int mvpp2_test_gmac_mru(struct mvpp2_port *port)
{
	u32 val;

	mvpp2_gmac_max_rx_size_set(port);
	val = readl(port->base + MVPP2_GMAC_CTRL_0_REG);
	return ((val & MVPP2_GMAC_MAX_RX_SIZE_MASK) >>
		MVPP2_GMAC_MAX_RX_SIZE_OFFS) * 2;
}

static unsigned int mvpp2_test_xlg_mru(struct mvpp2_port *port)
{
	u32 val;

	mvpp2_xlg_max_rx_size_set(port);
	val = readl(port->base + MVPP22_XLG_CTRL1_REG);
	return ((val & MVPP22_XLG_CTRL1_FRAMESIZELIMIT_MASK) >>
		MVPP22_XLG_CTRL1_FRAMESIZELIMIT_OFFS) * 2;
}

struct mru_case {
	const char *name;
	unsigned int (*mru)(struct mvpp2_port *port);
	int cache_line;
};

static const struct mru_case mru_cases[] = {
	{ "GMAC, cache lines of 16", mvpp2_test_gmac_mru, 16 },
	{ "GMAC, cache lines of 32", mvpp2_test_gmac_mru, 32 },
	{ "GMAC, cache lines of 64", mvpp2_test_gmac_mru, 64 },
	{ "GMAC, cache lines of 128", mvpp2_test_gmac_mru, 128 },
	{ "GMAC, cache lines of 256", mvpp2_test_gmac_mru, 256 },
	{ "XLG, cache lines of 16", mvpp2_test_xlg_mru, 16 },
	{ "XLG, cache lines of 32", mvpp2_test_xlg_mru, 32 },
	{ "XLG, cache lines of 64", mvpp2_test_xlg_mru, 64 },
	{ "XLG, cache lines of 128", mvpp2_test_xlg_mru, 128 },
	{ "XLG, cache lines of 256", mvpp2_test_xlg_mru, 256 },
};

KUNIT_ARRAY_PARAM_DESC(mru, mru_cases, name);

/* A frame of this MTU as the MAC sees it, with a VLAN tag */
static unsigned int mvpp2_test_frame(int mtu)
{
	return mtu + ETH_HLEN + VLAN_HLEN + ETH_FCS_LEN;
}

/* What the hardware takes for the size of a pool's buffers */
static unsigned int mvpp2_test_buf_size(struct mvpp2 *priv, int pkt_size)
{
	struct mvpp2_bm_pool pool = { .id = 1 };

	mvpp2_bm_pool_bufsize_set(priv, &pool, MVPP2_RX_BUF_SIZE(pkt_size));
	return mvpp2_read(priv, MVPP2_POOL_BUF_SIZE_REG(pool.id));
}

/* At every MTU that can be set the MAC passes on the frames of that MTU, and no
 * frame that the buffers of its pool, as large as the hardware takes them for,
 * have no room for
 */
static void mru(struct kunit *test)
{
	const struct mru_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	unsigned int room_long, room_jumbo;
	int mtu;

	mvpp2_test_cache_line = c->cache_line;
	room_long = mvpp2_test_buf_size(&ctx->priv, MVPP2_BM_LONG_PKT_SIZE) -
		    MVPP2_SKB_HEADROOM;
	room_jumbo = mvpp2_test_buf_size(&ctx->priv, MVPP2_BM_JUMBO_PKT_SIZE) -
		     MVPP2_SKB_HEADROOM;
	KUNIT_ASSERT_EQ(test, room_long, MVPP2_BM_LONG_PKT_SIZE);
	KUNIT_ASSERT_EQ(test, room_jumbo, MVPP2_BM_JUMBO_PKT_SIZE);

	for (mtu = ETH_MIN_MTU; mtu <= MVPP2_MAX_MTU; mtu++) {
		int pkt_size = MVPP2_RX_PKT_SIZE(mtu);
		unsigned int room, mru;

		room = pkt_size > MVPP2_BM_LONG_PKT_SIZE ? room_jumbo :
							   room_long;
		ctx->port->pkt_size = pkt_size;
		mru = c->mru(ctx->port);

		KUNIT_ASSERT_GE_MSG(test, mru, mvpp2_test_frame(mtu),
				    "at an MTU of %d", mtu);
		KUNIT_ASSERT_LE_MSG(test, MVPP2_MH_SIZE + mru, room,
				    "at an MTU of %d", mtu);
	}
}

/* The largest MTU's frames fill the largest buffer */
static void max_mtu(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, MVPP2_MH_SIZE + mvpp2_test_frame(MVPP2_MAX_MTU),
			MVPP2_BM_JUMBO_PKT_SIZE);
	KUNIT_EXPECT_GT(test,
			MVPP2_MH_SIZE + mvpp2_test_frame(MVPP2_MAX_MTU + 1),
			MVPP2_BM_JUMBO_PKT_SIZE);
}

struct xdp_case {
	const char *name;
	bool xdp, other_xdp;
	/* Whether the long pool has room for packets of the new MTU */
	bool fits;
	int err;
	bool shared;
};

static const struct xdp_case xdp_cases[] = {
	{ "no program, MTU fits", false, false, true, 0, false },
	{ "no program, MTU too large", false, false, false, 0, true },
	{ "program, MTU fits", true, false, true, 0, false },
	{ "program, MTU too large", true, false, false, -EINVAL, false },
	{ "other port's program, MTU fits", false, true, true, 0, false },
	{ "other port's program, MTU too large", false, true, false, -EINVAL,
	  false },
};

KUNIT_ARRAY_PARAM_DESC(xdp, xdp_cases, name);

/* Per-CPU pools, and so XDP, have no jumbo buffers */
static void xdp_mtu(struct kunit *test)
{
	const struct xdp_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	int mtu = ETH_DATA_LEN, err;
	struct bpf_prog prog;

	ctx->priv.percpu_pools = 1;
	ctx->port->xdp_prog = c->xdp ? &prog : NULL;
	ctx->other_port.xdp_prog = c->other_xdp ? &prog : NULL;

	mvpp2_test_cache_line = mvpp2_test_host_cache_line();
	while (MVPP2_RX_PKT_SIZE(mtu + 1) <= MVPP2_BM_LONG_PKT_SIZE)
		mtu++;
	if (!c->fits)
		mtu++;

	rtnl_lock();
	err = mvpp2_change_mtu(ctx->dev, mtu);
	rtnl_unlock();

	KUNIT_EXPECT_EQ(test, err, c->err);
	KUNIT_EXPECT_EQ(test, ctx->shared, c->shared);
}

static struct kunit_case mvpp2_mtu_cases[] = {
	KUNIT_CASE_PARAM(mru, mru_gen_params),
	KUNIT_CASE(max_mtu),
	KUNIT_CASE_PARAM(xdp_mtu, xdp_gen_params),
	{}
};

static struct kunit_suite mvpp2_mtu_suite = {
	.name = "mvpp2_mtu",
	.init = mvpp2_test_init,
	.test_cases = mvpp2_mtu_cases,
};

/* Scattered frames */

struct chain_case {
	const char *name;
	int hw_version;
	bool dma_offset;
};

static const struct chain_case chain_cases[] = {
	{ "PPv2.1", MVPP21, false },
	{ "PPv2.2", MVPP22, false },
	{ "PPv2.3", MVPP23, false },
	{ "PPv2.1, DMA addresses differ", MVPP21, true },
	{ "PPv2.2, DMA addresses differ", MVPP22, true },
	{ "PPv2.3, DMA addresses differ", MVPP23, true },
};

KUNIT_ARRAY_PARAM_DESC(chain, chain_cases, name);

struct chain_buf {
	void *virt;
	dma_addr_t dma_addr;
};

/* Buffers as the hardware has them. With an offset, the DMA address of each is
 * the physical address of memory behind, where nothing is to be looked for:
 * what is there looks like the only buffer of a frame.
 */
struct chain {
	struct chain_buf bufs[MVPP2_TEST_MAX_CHAIN];
};

static void mvpp2_test_free_range_map(void *dev)
{
	kfree(((struct device *)dev)->dma_range_map);
	((struct device *)dev)->dma_range_map = NULL;
}

static struct chain *chain_create(struct kunit *test, bool dma_offset)
{
	const size_t size = MVPP2_TEST_MAX_CHAIN * SZ_512;
	struct mvpp2_test *ctx = test->priv;
	struct device *dev = ctx->dev->dev.parent;
	struct chain *chain;
	void *mem;
	int i;

	chain = kunit_kzalloc(test, sizeof(*chain), GFP_KERNEL);
	mem = kunit_kmalloc(test, 2 * size, GFP_KERNEL | GFP_DMA);
	KUNIT_ASSERT_NOT_NULL(test, chain);
	KUNIT_ASSERT_NOT_NULL(test, mem);
	memset(mem, 0xff, 2 * size);

	if (dma_offset) {
		phys_addr_t phys = virt_to_phys(mem);

		KUNIT_ASSERT_EQ(test, 0,
				dma_direct_set_offset(dev, phys, phys + size,
						      size));
		KUNIT_ASSERT_EQ(test, 0,
				kunit_add_action_or_reset(test,
							  mvpp2_test_free_range_map,
							  dev));
	}

	for (i = 0; i < MVPP2_TEST_MAX_CHAIN; i++) {
		struct chain_buf *buf = &chain->bufs[i];

		buf->virt = mem + i * SZ_512;
		buf->dma_addr = dma_map_single(dev, buf->virt, SZ_512,
					       DMA_FROM_DEVICE);
		KUNIT_ASSERT_EQ(test, 0, dma_mapping_error(dev, buf->dma_addr));
		KUNIT_ASSERT_EQ(test, dma_offset,
				buf->dma_addr != virt_to_phys(buf->virt));
	}

	return chain;
}

static void chain_destroy(struct kunit *test, struct chain *chain)
{
	struct mvpp2_test *ctx = test->priv;
	int i;

	for (i = 0; i < MVPP2_TEST_MAX_CHAIN; i++)
		dma_unmap_single(ctx->dev->dev.parent, chain->bufs[i].dma_addr,
				 SZ_512, DMA_FROM_DEVICE);
}

/* The header of a buffer, as the hardware writes it: the address of the next
 * buffer, its cookie, the number of bytes, the flags, and what is left of both
 * addresses in one byte each.
 */
static void chain_header(struct chain_buf *buf, struct chain_buf *next)
{
	phys_addr_t cookie = virt_to_phys(next->virt);
	u8 *hdr = buf->virt;

	put_unaligned_le32(lower_32_bits(next->dma_addr), hdr);
	put_unaligned_le32(lower_32_bits(cookie), hdr + 4);
	put_unaligned_le16(256, hdr + 8);
	put_unaligned_le16(next == buf ? BIT(12) : 0, hdr + 10);
	hdr[14] = upper_32_bits(next->dma_addr);
	hdr[15] = upper_32_bits(cookie);
}

/* A descriptor of a frame in num buffers, from first on */
static void chain_desc(struct mvpp2_test *ctx, struct mvpp2_rx_desc *desc,
		       struct chain *chain, int first, int num, int pool)
{
	struct chain_buf *buf = &chain->bufs[first];
	u32 status = pool << MVPP2_RXD_BM_POOL_ID_OFFS;
	phys_addr_t cookie = virt_to_phys(buf->virt);
	int i;

	if (num > 1)
		status |= MVPP2_RXD_BUF_HDR | MVPP2_RXD_ERR_SUMMARY;
	for (i = 0; num > 1 && i < num; i++)
		chain_header(buf + i, buf + min(i + 1, num - 1));

	memset(desc, 0, sizeof(*desc));
	if (ctx->priv.hw_version == MVPP21) {
		desc->pp21.status = cpu_to_le32(status);
		desc->pp21.buf_dma_addr = cpu_to_le32(buf->dma_addr);
		desc->pp21.buf_cookie = cpu_to_le32(cookie);
	} else {
		desc->pp22.status = cpu_to_le32(status);
		desc->pp22.buf_dma_addr_key_hash = cpu_to_le64(buf->dma_addr);
		desc->pp22.buf_cookie_misc = cpu_to_le64(cookie);
	}
}

/* Each buffer is back in its pool once, in order, under its own addresses */
static void chain_expect(struct kunit *test, struct chain *chain, int num,
			 int pool)
{
	struct mvpp2_test *ctx = test->priv;
	int i;

	KUNIT_ASSERT_EQ(test, ctx->num_puts, num);
	for (i = 0; i < num; i++) {
		struct mvpp2_test_put *put = &ctx->puts[i];
		struct chain_buf *buf = &chain->bufs[i];

		KUNIT_EXPECT_EQ(test, put->pool, pool);
		KUNIT_EXPECT_EQ(test, put->dma_addr, buf->dma_addr);
		KUNIT_EXPECT_EQ(test, put->phys_addr, virt_to_phys(buf->virt));
	}
}

static void given_back(struct kunit *test)
{
	const struct chain_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_rx_desc desc;
	struct chain *chain;
	int num;

	ctx->priv.hw_version = c->hw_version;
	chain = chain_create(test, c->dma_offset);

	for (num = 2; num <= MVPP2_TEST_MAX_CHAIN; num++) {
		int pool = num % MVPP2_BM_POOLS_NUM;

		ctx->num_puts = 0;
		chain_desc(ctx, &desc, chain, 0, num, pool);
		mvpp2_buff_hdr_pool_put(ctx->port, &desc, pool,
					mvpp2_rxdesc_status_get(ctx->port,
								&desc));
		chain_expect(test, chain, num, pool);
	}

	chain_destroy(test, chain);
}

/* A queue that holds frames of one, three and two buffers when it is emptied */
static void given_back_on_down(struct kunit *test)
{
	const struct chain_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_rx_queue *rxq = ctx->port->rxqs[0];
	struct chain *chain;

	ctx->priv.hw_version = c->hw_version;
	chain = chain_create(test, c->dma_offset);

	rxq->descs = kunit_kcalloc(test, 4, sizeof(*rxq->descs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, rxq->descs);
	rxq->last_desc = 3;
	chain_desc(ctx, &rxq->descs[0], chain, 0, 1, 2);
	chain_desc(ctx, &rxq->descs[1], chain, 1, 3, 2);
	chain_desc(ctx, &rxq->descs[2], chain, 4, 2, 2);

	mvpp2_write(&ctx->priv, MVPP2_RXQ_STATUS_REG(rxq->id), 3);
	mvpp2_rxq_drop_pkts(ctx->port, rxq);
	chain_expect(test, chain, 6, 2);
	KUNIT_EXPECT_EQ(test, rxq->next_desc_to_proc, 3);

	chain_destroy(test, chain);
}

static struct kunit_case mvpp2_chain_cases[] = {
	KUNIT_CASE_PARAM(given_back, chain_gen_params),
	KUNIT_CASE_PARAM(given_back_on_down, chain_gen_params),
	{}
};

static struct kunit_suite mvpp2_chain_suite = {
	.name = "mvpp2_chain",
	.init = mvpp2_test_init,
	.test_cases = mvpp2_chain_cases,
};

/* Pools */

struct pools_case {
	const char *name;
	int old_mtu, new_mtu;
	/* That can be allocated when the MTU changes */
	int bufs;
};

static const struct pools_case pools_cases[] = {
	{ "to jumbo, no buffer", 1500, 9000, 0 },
	{ "to jumbo, one buffer", 1500, 9000, 1 },
	{ "to jumbo, one too few", 1500, 9000, MVPP2_BM_JUMBO_BUF_NUM - 1 },
	{ "from jumbo, no buffer", 9000, 1500, 0 },
	{ "from jumbo, one too few", 9000, 1500, MVPP2_BM_SHORT_BUF_NUM - 1 },
};

KUNIT_ARRAY_PARAM_DESC(pools, pools_cases, name);

static void pools_expect(struct kunit *test, int long_pool, int mtu)
{
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_port *port = ctx->port;

	KUNIT_ASSERT_NOT_NULL(test, port->pool_long);
	KUNIT_ASSERT_NOT_NULL(test, port->pool_short);
	KUNIT_EXPECT_EQ(test, port->pool_long->id, long_pool);
	KUNIT_EXPECT_EQ(test, port->pool_short->id, long_pool - 1);
	KUNIT_EXPECT_EQ(test, ctx->dev->mtu, mtu);
}

/* Without the buffers for a new MTU the port goes on with those that it has,
 * and nothing is left of the attempt
 */
static void pools(struct kunit *test)
{
	const struct pools_case *c = test->param_value;
	bool to_jumbo = c->new_mtu > c->old_mtu;
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_bm_pool *pools;
	int old_long, new_long, i, err;

	pools = kunit_kcalloc(test, MVPP2_BM_POOLS_NUM, sizeof(*pools),
			      GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pools);
	for (i = 0; i < MVPP2_BM_POOLS_NUM; i++)
		pools[i].id = i;
	ctx->priv.bm_pools = pools;

	old_long = to_jumbo ? MVPP2_BM_LONG : MVPP2_BM_JUMBO;
	new_long = to_jumbo ? MVPP2_BM_JUMBO : MVPP2_BM_LONG;
	mvpp2_test_cache_line = mvpp2_test_host_cache_line();
	ctx->bufs_left = INT_MAX;
	ctx->dev->mtu = c->old_mtu;
	ctx->port->pkt_size = MVPP2_RX_PKT_SIZE(c->old_mtu);
	KUNIT_ASSERT_EQ(test, 0, mvpp2_swf_bm_pool_init(ctx->port));
	pools_expect(test, old_long, c->old_mtu);

	ctx->bufs_left = c->bufs;
	rtnl_lock();
	err = mvpp2_bm_update_mtu(ctx->dev, c->new_mtu);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, -ENOMEM);
	pools_expect(test, old_long, c->old_mtu);
	KUNIT_EXPECT_EQ(test, pools[to_jumbo ? MVPP2_BM_JUMBO :
					       MVPP2_BM_SHORT].buf_num, 0);

	ctx->bufs_left = INT_MAX;
	rtnl_lock();
	err = mvpp2_bm_update_mtu(ctx->dev, c->new_mtu);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
	pools_expect(test, new_long, c->new_mtu);
	KUNIT_EXPECT_EQ(test, ctx->port->pool_long->buf_num,
			mvpp2_pools[new_long].buf_num);
	KUNIT_EXPECT_EQ(test, ctx->port->pool_short->buf_num,
			mvpp2_pools[new_long - 1].buf_num);
}

static struct kunit_case mvpp2_pool_cases[] = {
	KUNIT_CASE_PARAM(pools, pools_gen_params),
	{}
};

static struct kunit_suite mvpp2_pool_suite = {
	.name = "mvpp2_pool",
	.init = mvpp2_test_init,
	.test_cases = mvpp2_pool_cases,
};

/* Tx queues */

/* An empty aggregated queue has room for the largest packet */
static void largest_packet(struct kunit *test)
{
	struct mvpp2_tx_queue aggr_txq = {};
	struct mvpp2_test *ctx = test->priv;

	KUNIT_EXPECT_EQ(test, 0,
			mvpp2_aggr_desc_num_check(ctx->port, &aggr_txq,
						  MVPP2_MAX_SKB_DESCS));
}

struct ring_case {
	const char *name;
	int size;
};

static const struct ring_case ring_cases[] = {
	{ "smallest ring", 1 },
	{ "default ring", MVPP2_MAX_TXD_DFLT },
	{ "largest ring", MVPP2_MAX_TXD_MAX },
};

KUNIT_ARRAY_PARAM_DESC(ring, ring_cases, name);

static void mvpp2_test_free_percpu(void *pcpu)
{
	free_percpu((void __percpu __force *)pcpu);
}

static struct mvpp2_tx_queue *mvpp2_test_txq(struct kunit *test, int size)
{
	struct ethtool_ringparam ring = {
		.rx_pending = MVPP2_MAX_RXD_DFLT,
		.tx_pending = size,
	};
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_tx_queue *txq;

	txq = kunit_kzalloc(test, sizeof(*txq), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, txq);
	txq->pcpu = alloc_percpu(struct mvpp2_txq_pcpu);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)txq->pcpu);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, mvpp2_test_free_percpu,
						  (void __force *)txq->pcpu));

	KUNIT_ASSERT_EQ(test, 0, mvpp2_check_ringparam_valid(ctx->dev, &ring));
	ctx->port->tx_ring_size = ring.tx_pending;
	KUNIT_ASSERT_EQ(test, 0, mvpp2_txq_init(ctx->port, txq));
	return txq;
}

/* While the queue isn't stopped, the ring takes the largest packet, whatever the
 * CPU has in reserve
 */
static void running_queue(struct kunit *test)
{
	const struct ring_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_tx_queue *txq = mvpp2_test_txq(test, c->size);
	struct mvpp2_txq_pcpu *pcpu = per_cpu_ptr(txq->pcpu, 0);
	int refused = 0, count, reserved;

	/* All that is asked for */
	mvpp2_write(&ctx->priv, MVPP2_TXQ_RSVD_RSLT_REG,
		    MVPP2_TXQ_RSVD_RSLT_MASK);

	KUNIT_EXPECT_GE(test, pcpu->stop_threshold, MVPP2_MAX_SKB_DESCS);
	for (count = 0; count < pcpu->stop_threshold; count++) {
		for (reserved = 0; reserved < MVPP2_CPU_DESC_CHUNK; reserved++) {
			pcpu->count = count;
			pcpu->reserved_num = reserved;
			if (mvpp2_txq_reserved_desc_num_proc(ctx->port, txq,
							     pcpu,
							     MVPP2_MAX_SKB_DESCS))
				refused++;
		}
	}
	KUNIT_EXPECT_EQ(test, refused, 0);

	/* Together they are never more than the ring has */
	KUNIT_EXPECT_LE(test, pcpu->stop_threshold - 1 + MVPP2_MAX_SKB_DESCS +
			MVPP2_CPU_DESC_CHUNK - 1, txq->size);

	mvpp2_txq_deinit(ctx->port, txq);
}

struct unmappable_case {
	const char *name;
	/* Pages that can be mapped, of the three that a packet consists of */
	int mappable;
	/* Where the queues are */
	int index;
};

static const struct unmappable_case unmappable_cases[] = {
	{ "head", 0, 5 },
	{ "first fragment", 1, 5 },
	{ "second fragment", 2, 5 },
	{ "head, at the start", 0, 0 },
	{ "second fragment, over the start", 2, MVPP2_AGGR_TXQ_SIZE - 1 },
};

KUNIT_ARRAY_PARAM_DESC(unmappable, unmappable_cases, name);

/* A packet of three pages, of which so many can be mapped for DMA */
static struct sk_buff *unmappable_skb(struct kunit *test, int mappable)
{
	struct mvpp2_test *ctx = test->priv;
	struct page *pages = alloc_pages(GFP_KERNEL | GFP_DMA, 2);
	struct device *dev = ctx->dev->dev.parent;
	struct sk_buff *skb;
	phys_addr_t phys;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	split_page(pages, 2);
	phys = page_to_phys(pages);
	KUNIT_ASSERT_EQ(test, 0,
			dma_direct_set_offset(dev, phys, phys + SZ_1M,
					      mappable * PAGE_SIZE));
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test,
						  mvpp2_test_free_range_map,
						  dev));

	skb = build_skb(page_address(pages), PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put(skb, 100);
	for (i = 0; i < 2; i++)
		skb_add_rx_frag(skb, i, pages + 1 + i, 0, 100, PAGE_SIZE);
	__free_page(pages + 3);
	skb->dev = ctx->dev;
	return skb;
}

static void mvpp2_test_aggr_txq(struct kunit *test, int index)
{
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_tx_queue *aggr;

	aggr = kunit_kzalloc(test, sizeof(*aggr), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, aggr);
	aggr->descs = kunit_kcalloc(test, MVPP2_AGGR_TXQ_SIZE,
				    sizeof(*aggr->descs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, aggr->descs);
	aggr->last_desc = MVPP2_AGGR_TXQ_SIZE - 1;
	aggr->next_desc_to_proc = index;
	ctx->priv.aggr_txqs = aggr;
}

/* Nothing is left in the queues of a packet that can't be sent */
static void unmappable(struct kunit *test)
{
	const struct unmappable_case *c = test->param_value;
	struct mvpp2_test *ctx = test->priv;
	struct mvpp2_tx_queue *txq = mvpp2_test_txq(test, MVPP2_MAX_TXD_DFLT);
	struct mvpp2_txq_pcpu *pcpu = per_cpu_ptr(txq->pcpu, 0);
	struct sk_buff *skb;

	mvpp2_test_aggr_txq(test, c->index);
	mvpp2_write(&ctx->priv, MVPP2_TXQ_RSVD_RSLT_REG,
		    MVPP2_TXQ_RSVD_RSLT_MASK);
	txq->next_desc_to_proc = c->index;
	pcpu->txq_put_index = c->index;
	ctx->port->txqs = kunit_kzalloc(test, sizeof(*ctx->port->txqs),
					GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ctx->port->txqs);
	ctx->port->txqs[0] = txq;
	ctx->port->has_tx_irqs = true;
	skb = unmappable_skb(test, c->mappable);

	/* The DMA core warns of an address that it can't map */
	kunit_warning_suppress(test) {
		local_bh_disable();
		mvpp2_tx(skb, ctx->dev);
		local_bh_enable();
	}

	KUNIT_EXPECT_EQ(test, ctx->dev->stats.tx_dropped, 1);
	KUNIT_EXPECT_EQ(test, ctx->priv.aggr_txqs->next_desc_to_proc, c->index);
	KUNIT_EXPECT_EQ(test, txq->next_desc_to_proc, c->index);
	KUNIT_EXPECT_EQ(test, pcpu->txq_put_index, c->index);
	KUNIT_EXPECT_EQ(test, pcpu->count, 0);

	/* The rings were not allocated through the map */
	kunit_release_action(test, mvpp2_test_free_range_map,
			     ctx->dev->dev.parent);
	mvpp2_txq_deinit(ctx->port, txq);
}

static struct kunit_case mvpp2_tx_cases[] = {
	KUNIT_CASE(largest_packet),
	KUNIT_CASE_PARAM(running_queue, ring_gen_params),
	KUNIT_CASE_PARAM(unmappable, unmappable_gen_params),
	{}
};

static struct kunit_suite mvpp2_tx_suite = {
	.name = "mvpp2_tx",
	.init = mvpp2_test_init,
	.test_cases = mvpp2_tx_cases,
};

kunit_test_suites(&mvpp2_mtu_suite, &mvpp2_chain_suite, &mvpp2_pool_suite,
		  &mvpp2_tx_suite);
