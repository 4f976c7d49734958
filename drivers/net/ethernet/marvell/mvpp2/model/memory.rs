// SPDX-License-Identifier: GPL-2.0

//! The machine's memory as the packet processor sees it.

use super::ppv2::Memory;
use kernel::{bindings, prelude::*};

/// All memory, at bus addresses that start with `offset`.
///
/// # Invariants
///
/// `base` is the start of `bytes` bytes of memory that is always mapped.
pub(crate) struct Window {
    base: *mut u8,
    bytes: u64,
    offset: u64,
}

// SAFETY: The memory is the machine's, and belongs to no thread.
unsafe impl Send for Window {}

impl Window {
    /// What device drivers can get as DMA memory.
    pub(crate) fn of_machine() -> Self {
        let mut bytes = 0;
        // SAFETY: `bytes` is valid for writes.
        let base = unsafe { bindings::ppv2_model_memory(&mut bytes) }.cast();
        // SAFETY: It has no requirements.
        let offset = unsafe { bindings::ppv2_model_dma_offset() };

        // INVARIANT: UML's linear mapping is as large as ppv2_model_memory()
        // says and is never taken down.
        Self {
            base,
            bytes,
            offset,
        }
    }

    /// Where a range of bus addresses is, if all of it is memory.
    fn locate(&self, address: u64, length: usize) -> Result<*mut u8> {
        let start = address.checked_sub(self.offset).ok_or(EFAULT)?;
        let end = start.checked_add(length as u64).ok_or(EFAULT)?;

        if end > self.bytes {
            return Err(EFAULT);
        }
        Ok(self.base.wrapping_add(start as usize))
    }
}

impl Memory for Window {
    fn read(&self, address: u64, to: &mut [u8]) -> Result {
        let from = self.locate(address, to.len())?;

        // SAFETY: By the type invariant and the check in locate(), `from` is
        // valid for `to.len()` bytes. The driver has given them to the
        // hardware: nobody else writes to them, and `to` is not part of them.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result {
        let to = self.locate(address, from.len())?;

        // SAFETY: By the type invariant and the check in locate(), `to` is
        // valid for `from.len()` bytes. The driver has given them to the
        // hardware: what it does to them is what hardware would do.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn physical(&self, address: u64) -> Option<u64> {
        self.locate(address, 1).ok()?;
        address.checked_sub(self.offset)
    }
}
