// SPDX-License-Identifier: GPL-2.0

//! What the driver did that it should not, or that the model does not know.

use super::regs::WINDOW;
use kernel::prelude::*;

/// How hardware can be misused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// A buffer that is none was given back.
    BadRelease,
    /// An address without memory behind it.
    NoMemory,
    /// An access that is not 32 bits wide, or beyond all windows.
    Access,
    /// An RX queue that does not exist.
    RxQueue,
    /// A TX queue that no port has.
    TxQueue,
    /// A descriptor that a queue does not have.
    QueueIndex,
    /// A TX queue that has no room, or is not set up.
    TxQueueFull,
    /// An aggregated queue that has no room, or is not set up.
    AggregatedQueue,
    /// A frame that no port can send.
    FrameTooLong,
    /// More frames were processed than had come in.
    RxProcessed,
    /// The scheduler of a port that does not exist.
    SchedulerPort,
    /// A group of RX queues that does not exist.
    Group,
}

/// Something that is to be told once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    /// Register at this offset of a window.
    Unknown(usize),
    /// What was done, and two values that tell more.
    Misuse(Misuse, u64, u64),
}

/// Reports that can wait at a time; more are counted only.
const WAITING: usize = 8;

/// Counts everything, and tells of each kind once.
pub(crate) struct Journal {
    seen_registers: KVVec<bool>,
    seen_misuses: u32,
    waiting: [Option<Report>; WAITING],
    has_news: bool,
    /// Buffers that were given back and are none.
    pub(crate) bad_releases: u64,
    /// Accesses to registers that the model does not know.
    pub(crate) unknowns: u64,
    /// All other misuses.
    pub(crate) misuses: u64,
}

impl Journal {
    /// An empty journal.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            seen_registers: KVVec::from_elem(false, WINDOW, GFP_KERNEL)?,
            seen_misuses: 0,
            waiting: [None; WAITING],
            has_news: false,
            bad_releases: 0,
            unknowns: 0,
            misuses: 0,
        })
    }

    fn tell(&mut self, report: Report) {
        if let Some(free) = self.waiting.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(report);
            self.has_news = true;
        }
    }

    /// Notes an access to an unknown register of a window.
    pub(crate) fn unknown(&mut self, register: usize) {
        self.unknowns += 1;
        if let Some(seen) = self.seen_registers.get_mut(register) {
            if !core::mem::replace(seen, true) {
                self.tell(Report::Unknown(register));
            }
        }
    }

    /// Notes a misuse.
    pub(crate) fn misuse(&mut self, misuse: Misuse, first: u64, second: u64) {
        match misuse {
            Misuse::BadRelease => self.bad_releases += 1,
            _ => self.misuses += 1,
        }
        if self.seen_misuses & 1 << misuse as u32 == 0 {
            self.seen_misuses |= 1 << misuse as u32;
            self.tell(Report::Misuse(misuse, first, second));
        }
    }

    /// Takes a report that was not told yet.
    pub(crate) fn take(&mut self) -> Option<Report> {
        if !self.has_news {
            return None;
        }
        let report = self.waiting.iter_mut().find_map(Option::take);

        self.has_news = report.is_some();
        report
    }
}
