/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by C and device tree source. */
#ifndef _PPV2_MODEL_DMA_H
#define _PPV2_MODEL_DMA_H

/* Bus addresses are so much above physical ones with "dma-offset". */
#define PPV2_MODEL_DMA_OFFSET	0x40000000

#endif /* _PPV2_MODEL_DMA_H */
