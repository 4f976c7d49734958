// SPDX-License-Identifier: GPL-2.0
/*
 * What the model of the PPv2.2 needs of the kernel and has no Rust abstraction:
 * emulated registers, interrupts, a timer, and a device tree for the hardware.
 *
 * How the hardware behaves is not in here, see ppv2.rs.
 */
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/logic_iomem.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/of_platform.h>
#include <linux/platform_device.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <net/checksum.h>

#include "ppv2_model.h"
#include "ppv2_model_dma.h"

#define PPV2_MODEL_INTERRUPTS	64

extern char __dtbo_ppv2_model_begin[], __dtbo_ppv2_model_end[];
extern char __dtbo_ppv2_model_offset_begin[], __dtbo_ppv2_model_offset_end[];

/* The one that there is: logic_iomem does not say whose region is mapped. */
static struct {
	void *model;
	struct irq_domain *domain;
	struct hrtimer timer;
} ppv2;

/* What the kernel's parameter asks for. */
static struct {
	bool on;
	bool dma_offset;
	bool eager;
} ppv2_wish;

static int __init ppv2_model_setup(char *options)
{
	char *option;

	while ((option = strsep(&options, ","))) {
		if (!strcmp(option, "on"))
			ppv2_wish.on = true;
		else if (!strcmp(option, "dma-offset"))
			ppv2_wish.dma_offset = true;
		else if (!strcmp(option, "eager"))
			ppv2_wish.eager = true;
		else
			pr_err("ppv2_model: unknown option %s\n", option);
	}
	return 1;
}
__setup("ppv2_model=", ppv2_model_setup);

/* Puts the hardware into the device tree, from where all else follows. */
static int __init ppv2_model_init(void)
{
	void *begin = __dtbo_ppv2_model_begin;
	void *end = __dtbo_ppv2_model_end;
	int id;

	if (!ppv2_wish.on)
		return 0;
	if (ppv2_wish.dma_offset) {
		begin = __dtbo_ppv2_model_offset_begin;
		end = __dtbo_ppv2_model_offset_end;
	}
	return of_overlay_fdt_apply(begin, end - begin, &id, NULL);
}
device_initcall(ppv2_model_init);

/* Whether released buffers are to be used again at once. */
bool ppv2_model_is_eager(void)
{
	return ppv2_wish.eager;
}

/* How much bus addresses are above physical ones. */
u64 ppv2_model_dma_offset(void)
{
	return ppv2_wish.dma_offset ? PPV2_MODEL_DMA_OFFSET : 0;
}

/* All of the memory, which has physical address 0. */
void *ppv2_model_memory(u64 *bytes)
{
	*bytes = PFN_PHYS(max_low_pfn);
	return phys_to_virt(0);
}

u64 ppv2_model_now(void)
{
	return ktime_get_ns();
}

/* Calls ppv2_model_run() at this time, instead of any other that was asked for. */
void ppv2_model_alarm(u64 at)
{
	hrtimer_start(&ppv2.timer, ns_to_ktime(at), HRTIMER_MODE_ABS_HARD);
}

/* Sum of big-endian words in one's complement. */
u16 ppv2_model_sum(const void *data, int bytes)
{
	__sum16 sum = csum_fold(csum_partial(data, bytes, 0));

	return ~be16_to_cpu((__force __be16)sum);
}

static enum hrtimer_restart ppv2_model_expired(struct hrtimer *timer)
{
	u64 interrupts = ppv2_model_run(ppv2.model);

	while (interrupts) {
		generic_handle_domain_irq(ppv2.domain, __ffs64(interrupts));
		interrupts &= interrupts - 1;
	}
	return HRTIMER_NORESTART;
}

static unsigned long ppv2_model_iomem_read(void *window, unsigned int offset,
					   int size)
{
	return ppv2_model_read(ppv2.model, (uintptr_t)window, offset, size);
}

static void ppv2_model_iomem_write(void *window, unsigned int offset, int size,
				   unsigned long value)
{
	ppv2_model_write(ppv2.model, (uintptr_t)window, offset, size, value);
}

static const struct logic_iomem_ops ppv2_model_iomem_ops = {
	.read = ppv2_model_iomem_read,
	.write = ppv2_model_iomem_write,
};

static long ppv2_model_map(enum ppv2_model_window window, unsigned long offset,
			   const struct logic_iomem_ops **ops, void **priv)
{
	*ops = &ppv2_model_iomem_ops;
	*priv = (void *)(uintptr_t)window;
	return offset;
}

#define PPV2_MODEL_MAP(name, window)					\
static long name##_map(unsigned long offset, size_t size,		\
		       const struct logic_iomem_ops **ops, void **priv)	\
{									\
	return ppv2_model_map(window, offset, ops, priv);		\
}									\
									\
static const struct logic_iomem_region_ops name##_ops = {		\
	.map = name##_map,						\
}

PPV2_MODEL_MAP(ppv2_model_packets, PPV2_MODEL_PACKETS);
PPV2_MODEL_MAP(ppv2_model_macs, PPV2_MODEL_MACS);
PPV2_MODEL_MAP(ppv2_model_cm3, PPV2_MODEL_CM3);
PPV2_MODEL_MAP(ppv2_model_system, PPV2_MODEL_SYSTEM);

/* As in ppv2_model.dtso; UML's PCI would have 0xf0000000 and up. */
static struct {
	struct resource resource;
	const struct logic_iomem_region_ops *ops;
} ppv2_model_regions[PPV2_MODEL_WINDOWS] = {
	[PPV2_MODEL_PACKETS] = {
		DEFINE_RES_MEM_NAMED(0xd2000000, 0x100000, "ppv2-packets"),
		&ppv2_model_packets_ops,
	},
	[PPV2_MODEL_MACS] = {
		DEFINE_RES_MEM_NAMED(0xd2129000, 0xb000, "ppv2-macs"),
		&ppv2_model_macs_ops,
	},
	[PPV2_MODEL_CM3] = {
		DEFINE_RES_MEM_NAMED(0xd2220000, 0x800, "ppv2-cm3"),
		&ppv2_model_cm3_ops,
	},
	[PPV2_MODEL_SYSTEM] = {
		DEFINE_RES_MEM_NAMED(0xd2440000, 0x2000, "ppv2-system"),
		&ppv2_model_system_ops,
	},
};

static int ppv2_model_irq_map(struct irq_domain *domain, unsigned int irq,
			      irq_hw_number_t hwirq)
{
	irq_set_chip_and_handler(irq, &dummy_irq_chip, handle_simple_irq);
	return 0;
}

/* Not irq_sim: its interrupts wait for UML's tick. */
static const struct irq_domain_ops ppv2_model_irq_ops = {
	.map = ppv2_model_irq_map,
	.xlate = irq_domain_xlate_onecell,
};

/*
 * The devices on the bus are found by their drivers last, when all is in place.
 * There is no way back: regions of logic_iomem stay for good.
 */
static int ppv2_model_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	int window, err;

	ppv2.model = ppv2_model_create();
	if (!ppv2.model)
		return -ENOMEM;
	hrtimer_setup(&ppv2.timer, ppv2_model_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_HARD);
	ppv2.domain = irq_domain_create_linear(dev_fwnode(dev),
					       PPV2_MODEL_INTERRUPTS,
					       &ppv2_model_irq_ops, NULL);
	if (!ppv2.domain)
		return -ENOMEM;
	for (window = 0; window < PPV2_MODEL_WINDOWS; window++) {
		err = logic_iomem_add_region(&ppv2_model_regions[window].resource,
					     ppv2_model_regions[window].ops);
		if (err)
			return err;
	}
	return of_platform_default_populate(dev->of_node, NULL, dev);
}

static const struct of_device_id ppv2_model_match[] = {
	{ .compatible = "uml,ppv2-model-bus" },
	{ }
};

static struct platform_driver ppv2_model_driver = {
	.probe = ppv2_model_probe,
	.driver = {
		.name = "ppv2-model",
		.of_match_table = ppv2_model_match,
		.suppress_bind_attrs = true,
	},
};
builtin_platform_driver(ppv2_model_driver);
