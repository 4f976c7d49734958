// SPDX-License-Identifier: GPL-2.0

//! Pools of the buffer manager.

use kernel::prelude::*;

/// What a pool can hold: the pointers that the largest one of the driver has.
pub(crate) const CAPACITY: usize = 16384;

/// Buffers are aligned to this; the lower bits of an address mean other things.
const ALIGNMENT: u64 = 32;

/// A buffer: where the hardware writes, and what the driver knows it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// Address on the bus.
    pub(crate) dma: u64,
    /// Handed back as it came; the driver's is the physical address.
    pub(crate) cookie: u64,
}

impl Buffer {
    /// Whether the hardware could write there at all.
    pub(crate) fn is_aligned(&self) -> bool {
        self.dma != 0 && self.dma % ALIGNMENT == 0
    }
}

/// In which order buffers come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they were given: a buffer rests as long as possible.
    Fifo,
    /// What was given last comes first: a buffer is used again at once.
    Lifo,
}

/// A ring of free buffers.
pub(crate) struct Pool {
    ring: KVVec<Buffer>,
    first: usize,
    count: usize,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            ring: KVVec::from_elem(Buffer::default(), CAPACITY, GFP_KERNEL)?,
            first: 0,
            count: 0,
        })
    }

    /// How many buffers are free.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes the next buffer.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        if self.count == 0 {
            return None;
        }
        let buffer = self.ring.get(self.first).copied();
        self.first = (self.first + 1) % CAPACITY;
        self.count -= 1;
        buffer
    }

    /// Gives a buffer back; an error if there is no room for it.
    pub(crate) fn give(&mut self, buffer: Buffer, order: Order) -> Result {
        if self.count == CAPACITY {
            return Err(ENOSPC);
        }
        let at = match order {
            Order::Fifo => (self.first + self.count) % CAPACITY,
            Order::Lifo => {
                self.first = (self.first + CAPACITY - 1) % CAPACITY;
                self.first
            }
        };
        *self.ring.get_mut(at).ok_or(ENOSPC)? = buffer;
        self.count += 1;
        Ok(())
    }
}
