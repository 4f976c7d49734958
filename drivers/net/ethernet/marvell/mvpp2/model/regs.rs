// SPDX-License-Identifier: GPL-2.0

//! Register map of the packet processor: what an offset means.
//!
//! Names follow the driver's mvpp2.h. Each software thread of the driver sees
//! the same registers through a window of its own.

/// Software threads, each with a window of registers.
pub(crate) const THREADS: usize = 9;
/// Ports of the packet processor.
pub(crate) const PORTS: usize = 4;
/// Queues that a port can have in each direction, and RX queues that it owns.
pub(crate) const TXQS_PER_PORT: usize = 8;
/// RX queues that belong to a port.
pub(crate) const RXQS_PER_PORT: usize = 32;
/// All RX queues.
pub(crate) const RXQS: usize = PORTS * RXQS_PER_PORT;
/// The first TX queue that belongs to a port: those before are the parser's.
pub(crate) const FIRST_TXQ: usize = 128;
/// All TX queues, also those that belong to no port.
pub(crate) const TXQS: usize = 256;
/// Pools of the buffer manager.
pub(crate) const POOLS: usize = 16;
/// Bytes of a thread's window.
pub(crate) const WINDOW: usize = 0x10000;

/// Buffer size of pool 0; the others follow.
pub(crate) const POOL_BUF_SIZE: usize = 0x180;
/// Configuration of RX queue 0; the others follow.
pub(crate) const RXQ_CONFIG: usize = 0x800;
/// Where thread 0's aggregated TX queue is; the others follow.
pub(crate) const AGGR_TXQ_ADDRESS: usize = 0x2100;
/// How many descriptors it has.
pub(crate) const AGGR_TXQ_SIZE: usize = 0x2140;
/// How long completions of port 0 may wait, in clocks; the others follow.
pub(crate) const TX_COALESCE_TIME: usize = 0x5140;
/// How long frames in RX queue 0 may wait, in clocks; the others follow.
pub(crate) const RX_COALESCE_TIME: usize = 0x5200;
/// Which causes of port 0 interrupt a thread; the others follow.
pub(crate) const CAUSE_MASK: usize = 0x54a0;
/// Second half of the addresses to release: bits 7:0 DMA, 15:8 cookie.
pub(crate) const RELEASE_HIGH: usize = 0x64c4;
/// The cookie to release.
pub(crate) const RELEASE_COOKIE: usize = 0x64c0;
/// Which port the TX scheduler's registers are about.
pub(crate) const SCHEDULER_PORT: usize = 0x8000;

/// What a register does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// Which PPv2 this is.
    Version,
    /// Selects the RX queue that the following five are about.
    RxqSelect,
    /// Where its descriptors are, in units of 256 bytes.
    RxqAddress,
    /// How many they are.
    RxqSize,
    /// How many frames must wait for an interrupt.
    RxqThreshold,
    /// The next descriptor to be written.
    RxqIndex,
    /// Selects the TX queue that the following six are about.
    TxqSelect,
    /// Where its descriptors are.
    TxqAddress,
    /// How many they are.
    TxqSize,
    /// How many completions make an interrupt.
    TxqThreshold,
    /// The next descriptor to be read.
    TxqIndex,
    /// Prefetch buffer, and the bit that drains the queue.
    TxqPrefetch,
    /// Descriptors that were not sent yet.
    TxqPending,
    /// Doorbell: so many descriptors were added to the aggregated queue.
    AggrTxqUpdate,
    /// Asks for room in a TX queue.
    ReserveRequest,
    /// How much of it was granted.
    ReserveResult,
    /// Gives back what a thread has reserved in a TX queue.
    ReserveClear,
    /// Descriptors of a thread's aggregated queue that were not fetched yet.
    AggrTxqStatus(usize),
    /// The next one to be fetched.
    AggrTxqIndex(usize),
    /// Frames of an RX queue that were processed, descriptors that are new.
    RxqUpdate(usize),
    /// Frames that wait in an RX queue, descriptors that are free.
    RxqStatus(usize),
    /// Descriptors of a TX queue that were sent, for this thread; read clears.
    TxqSent(usize),
    /// Selects a group of RX queues: port and thread.
    GroupSelect,
    /// The first RX queue of the group and how many there are.
    GroupConfig,
    /// Which threads a port interrupts: bits 15:0 set, 31:16 clear.
    InterruptEnable(usize),
    /// Why a port interrupts this thread.
    Cause(usize),
    /// Which of these reasons do.
    CauseMask(usize),
    /// Buffers in a pool, without the prefetched, in units of eight.
    PoolCount(usize),
    /// The rest, again without the prefetched one.
    PoolPrefetched(usize),
    /// Read takes a buffer; the other two latch what belongs to it.
    PoolAllocate(usize),
    /// The cookie of the buffer that was taken.
    AllocatedCookie,
    /// Upper halves of the addresses of the buffer that was taken.
    AllocatedHigh,
    /// Write gives a buffer back.
    PoolRelease(usize),
    /// Enables and disables the TX queues of the selected port.
    SchedulerCommand,
    /// An entry of an indexed table.
    Bank(usize),
    /// No side effect: reads give what was written.
    Plain,
    /// The driver is not known to use it.
    Unknown,
}

/// An indexed table: one register selects the entry, others are its words.
pub(crate) struct Bank {
    /// Offset of the register that selects the entry.
    pub(crate) index: usize,
    /// Offset of an entry's first word.
    pub(crate) first: usize,
    /// Offset of an entry's last word.
    pub(crate) last: usize,
    /// How many entries there are, a power of two.
    pub(crate) entries: usize,
}

impl Bank {
    /// Words of an entry.
    pub(crate) const fn words(&self) -> usize {
        (self.last - self.first) / 4 + 1
    }
}

/// All tables that the driver reads back: of the parser (TCAM and SRAM), of
/// the classifier (lookups, flows and C2), and of the TX scheduler.
pub(crate) const BANKS: [Bank; 6] = [
    Bank {
        index: 0x1100,
        first: 0x1104,
        last: 0x1118,
        entries: 256,
    },
    Bank {
        index: 0x1200,
        first: 0x1204,
        last: 0x1210,
        entries: 256,
    },
    Bank {
        index: 0x1814,
        first: 0x1818,
        last: 0x1818,
        entries: 128,
    },
    Bank {
        index: 0x1820,
        first: 0x1824,
        last: 0x182c,
        entries: 512,
    },
    Bank {
        index: 0x1b00,
        first: 0x1b10,
        last: 0x1b70,
        entries: 256,
    },
    Bank {
        index: SCHEDULER_PORT,
        first: 0x8008,
        last: 0x80a0,
        entries: 32,
    },
];

/// Offsets of registers without side effect, first and last of each range.
const PLAIN: [(usize, usize); 44] = [
    (0x0000, 0x0064), // RX FIFOs
    (0x0140, 0x014c), // RX control
    (POOL_BUF_SIZE, 0x01bc),
    (RXQ_CONFIG, 0x09fc),
    (0x1000, 0x1010), // parser: where each port starts
    (0x1100, 0x1100), // parser: TCAM index
    (0x1200, 0x1200), // parser: SRAM index
    (0x1230, 0x1230), // parser: TCAM control
    (0x1240, 0x1244), // parser: hits
    (0x1500, 0x150c), // RSS tables, which are only written
    (0x1800, 0x1800), // classifier: mode
    (0x1810, 0x1810), // classifier: way of each port
    (0x1814, 0x1814), // classifier: lookup index
    (0x1820, 0x1820), // classifier: flow index
    (0x1980, 0x198c), // classifier: oversize frames
    (0x19b0, 0x19bc), // classifier: forwarding
    (0x19d0, 0x19d0), // classifier: forwarding control
    (0x1b00, 0x1b00), // classifier: C2 index
    (0x1b90, 0x1b90), // classifier: C2 control
    (0x20a4, 0x20a4), // TX interrupt status
    (AGGR_TXQ_ADDRESS, 0x2120),
    (AGGR_TXQ_SIZE, 0x2160),
    (0x4000, 0x4060), // bus windows
    (0x4100, 0x4164), // bus attributes
    (0x5040, 0x504c), // Marvell header
    (TX_COALESCE_TIME, 0x514c),
    (RX_COALESCE_TIME, 0x53fc),
    (0x54bc, 0x54bc), // cause mask at power on
    (0x5520, 0x552c), // causes of RX errors
    (0x55b0, 0x55b0), // other causes
    (0x6000, 0x603c), // pools: where their pointers are
    (0x6040, 0x607c), // pools: sizes
    (0x6080, 0x60bc), // pools: read pointers
    (0x6200, 0x623c), // pools: start and stop
    (0x6240, 0x627c), // pools: interrupt causes
    (0x6280, 0x62bc), // pools: interrupt masks
    (0x6310, 0x6310), // pools: upper half of where their pointers are
    (RELEASE_COOKIE, RELEASE_HIGH),
    (0x7000, 0x702c), // drops of each port
    (0x7040, 0x7040), // hit counters: index
    (0x7100, 0x7228), // hit counters: queues
    (0x7700, 0x7704), // hit counters: classifier
    (SCHEDULER_PORT, SCHEDULER_PORT),
    (0x8800, 0x8898), // TX FIFOs, snooping, flush
];

const fn slot(offset: usize, first: usize) -> usize {
    (offset - first) / 4
}

/// What the register at `offset` of a window does.
pub(crate) fn decode(offset: usize) -> Register {
    use Register::*;

    match offset {
        _ if offset % 4 != 0 => Unknown,
        0x50b0 => Version,
        0x2040 => RxqSelect,
        0x2044 => RxqAddress,
        0x2048 => RxqSize,
        0x204c => RxqThreshold,
        0x2050 => RxqIndex,
        0x2080 => TxqSelect,
        0x2084 => TxqAddress,
        0x2088 => TxqSize,
        0x2090 => AggrTxqUpdate,
        0x2094 => TxqThreshold,
        0x2098 => TxqIndex,
        0x209c => TxqPrefetch,
        0x20a0 => TxqPending,
        0x20b0 => ReserveRequest,
        0x20b4 => ReserveResult,
        0x20b8 => ReserveClear,
        0x2180..=0x21a0 => AggrTxqStatus(slot(offset, 0x2180)),
        0x21c0..=0x21e0 => AggrTxqIndex(slot(offset, 0x21c0)),
        0x3000..=0x31fc => RxqUpdate(slot(offset, 0x3000)),
        0x3400..=0x35fc => RxqStatus(slot(offset, 0x3400)),
        0x3c00..=0x3ffc => TxqSent(slot(offset, 0x3c00)),
        0x5400 => GroupSelect,
        0x5404 => GroupConfig,
        0x5420..=0x542c => InterruptEnable(slot(offset, 0x5420)),
        0x5480..=0x548c => Cause(slot(offset, 0x5480)),
        0x54a0..=0x54ac => CauseMask(slot(offset, CAUSE_MASK)),
        0x60c0..=0x60fc => PoolCount(slot(offset, 0x60c0)),
        0x6140..=0x617c => PoolPrefetched(slot(offset, 0x6140)),
        0x6400..=0x643c => PoolAllocate(slot(offset, 0x6400)),
        0x6440 => AllocatedCookie,
        0x6444 => AllocatedHigh,
        0x6480..=0x64bc => PoolRelease(slot(offset, 0x6480)),
        0x8004 => SchedulerCommand,
        _ => table_or_plain(offset),
    }
}

fn table_or_plain(offset: usize) -> Register {
    let within = |&(first, last): &(usize, usize)| (first..=last).contains(&offset);

    if let Some(bank) = BANKS
        .iter()
        .position(|b| (b.first..=b.last).contains(&offset))
    {
        Register::Bank(bank)
    } else if PLAIN.iter().any(within) {
        Register::Plain
    } else {
        Register::Unknown
    }
}
