/* SPDX-License-Identifier: GPL-2.0 */
/* What the Rust model of the PPv2.2 and its C shim know of each other. */
#ifndef _PPV2_MODEL_H
#define _PPV2_MODEL_H

#include <linux/types.h>

/**
 * enum ppv2_model_window - what an access to emulated registers is for
 * @PPV2_MODEL_PACKETS: the packet processor, one window of 64 KiB a thread
 * @PPV2_MODEL_MACS: the MACs
 * @PPV2_MODEL_CM3: the memory that is shared with the flow control's firmware
 * @PPV2_MODEL_SYSTEM: the system controller
 * @PPV2_MODEL_WINDOWS: how many there are
 */
enum ppv2_model_window {
	PPV2_MODEL_PACKETS,
	PPV2_MODEL_MACS,
	PPV2_MODEL_CM3,
	PPV2_MODEL_SYSTEM,
	PPV2_MODEL_WINDOWS,
};

/* In C, called by Rust. */

bool ppv2_model_is_eager(void);
u64 ppv2_model_dma_offset(void);
void *ppv2_model_memory(u64 *bytes);
u64 ppv2_model_now(void);
void ppv2_model_alarm(u64 at);
u16 ppv2_model_sum(const void *data, int bytes);

/* In Rust, called by C: the latter three in any context. */

void *ppv2_model_create(void);
u32 ppv2_model_read(void *model, u32 window, u32 offset, int size);
void ppv2_model_write(void *model, u32 window, u32 offset, int size, u32 value);
u64 ppv2_model_run(void *model);

#endif /* _PPV2_MODEL_H */
