// SPDX-License-Identifier: GPL-2.0

//! The wire between ports 0 and 1, the same in both directions.

use kernel::prelude::*;

/// The rate without any other wish, in Mbit/s.
const RATE: u64 = 10_000;

/// Frames that can be on the way in a direction.
const ON_THE_WAY: usize = 8192;

/// What the wire does to frames.
pub(crate) struct Wire {
    /// In Mbit/s; 0 is as if it were 1.
    pub(crate) rate: u64,
    /// From one end to the other, in ns.
    pub(crate) delay: u64,
    /// One in so many frames is lost; 0: none.
    pub(crate) loss: u64,
    /// Bytes that are appended to a frame.
    pub(crate) extra: u64,
    /// One in so many frames has them; 0 or 1: all.
    pub(crate) extra_every: u64,
    /// Bytes above its limit that a MAC lets pass.
    pub(crate) slack: u64,
    until_loss: u64,
    until_extra: u64,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            rate: RATE,
            delay: 0,
            loss: 0,
            extra: 0,
            extra_every: 1,
            slack: 0,
            until_loss: 0,
            until_extra: 0,
        }
    }
}

/// Counts to `every`; true when there.
fn is_due(count: &mut u64, every: u64) -> bool {
    *count += 1;
    if *count < every {
        return false;
    }
    *count = 0;
    true
}

impl Wire {
    /// How long so many bytes take, in ns.
    pub(crate) fn time(&self, bytes: u64) -> u64 {
        bytes * 8000 / self.rate.max(1)
    }

    /// Whether the next frame is lost.
    pub(crate) fn loses(&mut self) -> bool {
        self.loss != 0 && is_due(&mut self.until_loss, self.loss)
    }

    /// Bytes that the next frame gets.
    pub(crate) fn next_extra(&mut self) -> usize {
        if self.extra != 0 && is_due(&mut self.until_extra, self.extra_every) {
            usize::try_from(self.extra).unwrap_or(0)
        } else {
            0
        }
    }
}

struct Travelling {
    arrives: u64,
    frame: KVec<u8>,
}

/// Frames on their way to a port, in the order in which they left.
pub(crate) struct Flight {
    ring: KVVec<Option<Travelling>>,
    first: usize,
    count: usize,
}

impl Flight {
    /// Nothing on the way.
    pub(crate) fn new() -> Result<Self> {
        let mut ring = KVVec::with_capacity(ON_THE_WAY, GFP_KERNEL)?;

        for _ in 0..ON_THE_WAY {
            ring.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            ring,
            first: 0,
            count: 0,
        })
    }

    /// When the next frame arrives.
    pub(crate) fn next(&self) -> u64 {
        match self.ring.get(self.first) {
            Some(Some(travelling)) => travelling.arrives,
            _ => u64::MAX,
        }
    }

    /// A frame leaves; an error if it can't be kept.
    pub(crate) fn depart(&mut self, arrives: u64, bytes: &[u8]) -> Result {
        if self.count == ON_THE_WAY {
            return Err(ENOSPC);
        }
        let mut frame = KVec::with_capacity(bytes.len(), GFP_ATOMIC)?;
        frame.extend_from_slice(bytes, GFP_ATOMIC)?;
        let last = (self.first + self.count) % ON_THE_WAY;

        *self.ring.get_mut(last).ok_or(ENOSPC)? = Some(Travelling { arrives, frame });
        self.count += 1;
        Ok(())
    }

    /// Takes a frame that has arrived.
    pub(crate) fn arrived(&mut self, now: u64) -> Option<KVec<u8>> {
        if self.next() > now {
            return None;
        }
        let travelling = self.ring.get_mut(self.first)?.take()?;

        self.first = (self.first + 1) % ON_THE_WAY;
        self.count -= 1;
        Some(travelling.frame)
    }
}
