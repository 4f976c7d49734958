// SPDX-License-Identifier: GPL-2.0

//! The packet processor itself: queues, interrupts, registers and the wire.
//!
//! Nothing in here knows of the kernel around it: time and memory are given.
//! Time is in ns; [`Ppv2::next_alarm`] says when [`Ppv2::run`] is to be called.

use super::{
    bm::{Buffer, Order, Pool},
    journal::{Journal, Misuse},
    packet::{self, Sum, Transport},
    regs::{self, Register, BANKS, FIRST_TXQ, POOLS, PORTS, RXQS, RXQS_PER_PORT, THREADS},
    regs::{TXQS, TXQS_PER_PORT, WINDOW},
    wire::{Flight, Wire},
};
use core::{iter::zip, marker::PhantomData};
use kernel::prelude::*;

/// An alarm that is not set.
pub(crate) const NEVER: u64 = u64::MAX;

/// Interrupts of a port: one a thread, and the link's.
pub(crate) const INTERRUPTS_PER_PORT: usize = 10;

/// The clock that coalescing times are counted in.
const CLOCK_HZ: u64 = 333_333_333;
/// From a cause to its interrupt.
const INTERRUPT_DELAY: u64 = 500;
/// From a doorbell to the first frame.
const DOORBELL_DELAY: u64 = 200;
/// Frames are sent in batches that keep the wire busy for about so long: each
/// one would cost a timer otherwise.
const BATCH: u64 = 5000;
/// One bit for each thread.
const ALL_THREADS: u32 = (1 << THREADS) - 1;

const DESCRIPTOR: usize = 32;
const MARVELL_HEADER: usize = 2;
const FCS: usize = 4;
/// Preamble, FCS and gap between frames.
const FRAME_OVERHEAD: usize = 24;
const MIN_FRAME: usize = 60;
/// What a port can send at most.
const MAX_FRAME: usize = 16384;
const MAX_TXQ: usize = 2048;
const MAX_RXQ: u32 = COUNT_MASK;
const BUFFER_HEADER: usize = 32;
/// Bus addresses in descriptors have so many bits.
const ADDRESS_MASK: u64 = (1 << 40) - 1;

const RXQ_DISABLE: u32 = 1 << 31;
const RX_POOL_SHIFT: u32 = 16;
const RX_L4_GOOD: u32 = 1 << 22;
/// The frame is scattered: buffers have headers.
const RX_BUF_HDR: u32 = 1 << 31;
/// There is an error, and it is "resource".
const RX_RESOURCE_ERROR: u32 = 1 << 15 | 3 << 13;
const BUF_HDR_LAST: u16 = 1 << 12;
const TX_FIRST: u32 = 1 << 29;
const TX_LAST: u32 = 1 << 28;
const TXQ_DRAIN: u32 = 1 << 31;
const COUNT_MASK: u32 = 0x3fff;

/// Memory as the hardware sees it.
pub(crate) trait Memory {
    /// Reads from a bus address; an error if there is no memory.
    fn read(&self, address: u64, to: &mut [u8]) -> Result;
    /// Writes to a bus address; an error if there is no memory.
    fn write(&mut self, address: u64, from: &[u8]) -> Result;
    /// The physical address of a bus address that has memory.
    fn physical(&self, address: u64) -> Option<u64>;
}

#[derive(Clone, Copy, Default)]
struct RxQueue {
    base: u64,
    size: u32,
    index: u32,
    threshold: u32,
    occupied: u32,
    free: u32,
    /// Frames have waited for as long as they may.
    timed_out: bool,
}

impl RxQueue {
    fn interrupts(&self) -> bool {
        let threshold = (self.threshold & COUNT_MASK).max(1);

        self.occupied != 0 && (self.timed_out || self.occupied >= threshold)
    }

    fn status(&self) -> u32 {
        self.occupied & COUNT_MASK | (self.free & COUNT_MASK) << 16
    }
}

struct TxQueue {
    base: u64,
    size: u32,
    put: u32,
    get: u32,
    pending: u32,
    threshold: u32,
    prefetch: u32,
    /// What each thread has reserved and not used.
    reserved: [u32; THREADS],
    /// Sent descriptors that each thread has not seen.
    sent: [u32; THREADS],
    /// Which thread each descriptor came from.
    owners: KVVec<u8>,
}

impl TxQueue {
    fn new() -> Self {
        Self {
            base: 0,
            size: 0,
            put: 0,
            get: 0,
            pending: 0,
            threshold: 0,
            prefetch: 0,
            reserved: [0; THREADS],
            sent: [0; THREADS],
            owners: KVVec::new(),
        }
    }

    fn place(&mut self, base: u32) {
        self.base = u64::from(base);
        self.put = 0;
        self.get = 0;
        self.pending = 0;
    }

    fn prefetch(&mut self, value: u32) {
        self.prefetch = value;
        if value & TXQ_DRAIN != 0 {
            self.get = self.put;
            self.pending = 0;
        }
    }

    fn room(&self) -> u32 {
        let reserved: u32 = self.reserved.iter().sum();

        self.size
            .saturating_sub(self.pending)
            .saturating_sub(reserved)
    }

    /// Grants as much as there is room for.
    fn reserve(&mut self, thread: usize, wanted: u32) -> Option<u32> {
        let granted = wanted.min(self.room());

        *self.reserved.get_mut(thread)? += granted;
        Some(granted)
    }

    fn interrupts(&self, thread: usize, timed_out: bool) -> bool {
        let threshold = (self.threshold >> 16 & COUNT_MASK).max(1);
        let sent = self.sent.get(thread).copied().unwrap_or(0);

        sent != 0 && (timed_out || sent >= threshold)
    }
}

#[derive(Clone, Copy, Default)]
struct Thread {
    rxq: usize,
    txq: usize,
    reserved: u32,
    allocated: Buffer,
    aggregated: u32,
}

#[derive(Clone, Copy, Default)]
struct Group {
    first: usize,
    size: usize,
}

/// What happened at a port.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    /// Frames that were sent.
    pub(crate) tx: u64,
    /// Frames that were received, whole or scattered.
    pub(crate) rx: u64,
    /// Frames that were scattered over several buffers.
    pub(crate) scatter: u64,
    /// Frames that found no buffers.
    pub(crate) no_buffer: u64,
    /// Frames that found no descriptor.
    pub(crate) full_queue: u64,
    /// Frames that found the queue disabled.
    pub(crate) disabled: u64,
    /// Frames that were longer than the MAC's limit.
    pub(crate) oversize: u64,
    /// Frames with a wrong TCP or UDP checksum.
    pub(crate) bad_checksum: u64,
    /// Frames that the wire has lost on their way here.
    pub(crate) lost: u64,
}

impl Counters {
    fn drop(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Oversize => self.oversize += 1,
            Dropped::Disabled => self.disabled += 1,
            Dropped::FullQueue => self.full_queue += 1,
            Dropped::NoBuffer => self.no_buffer += 1,
        }
    }
}

struct Port {
    /// TX queues that the scheduler serves.
    queues: u32,
    next_queue: usize,
    /// Threads that this port interrupts.
    interrupt_enable: u32,
    groups: [Group; 16],
    /// Completions of a thread have waited for as long as they may.
    timed_out: [bool; THREADS],
    counters: Counters,
    send_at: u64,
    completion_at: u64,
}

impl Port {
    fn new() -> Self {
        Self {
            queues: 0,
            next_queue: 0,
            interrupt_enable: 0,
            groups: [Group::default(); 16],
            timed_out: [false; THREADS],
            counters: Counters::default(),
            send_at: NEVER,
            completion_at: NEVER,
        }
    }
}

/// What happened to the whole.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Registers read.
    pub(crate) reads: u64,
    /// Registers written.
    pub(crate) writes: u64,
    /// Interrupts delivered.
    pub(crate) interrupts: u64,
}

/// The packet processor.
pub(crate) struct Ppv2<M: Memory, S: Sum> {
    memory: M,
    registers: KVVec<u32>,
    /// What each register of a window does.
    kinds: KVVec<Register>,
    banks: KVVec<KVVec<u32>>,
    /// Registers of the MACs, which have no side effects.
    pub(crate) macs: KVVec<u32>,
    pools: KVVec<Pool>,
    rxqs: KVVec<RxQueue>,
    /// When frames have waited for long enough in each RX queue.
    rx_alarms: KVVec<u64>,
    /// None of them is earlier.
    next_rx_alarm: u64,
    txqs: KVVec<TxQueue>,
    threads: [Thread; THREADS],
    ports: [Port; PORTS],
    group: u32,
    /// Interrupt lines that are up, and those that were not delivered.
    lines: u64,
    raised: u64,
    interrupt_at: u64,
    /// No alarm is set to an earlier time.
    next: u64,
    frame: KVVec<u8>,
    /// The wire between ports 0 and 1.
    pub(crate) wire: Wire,
    flights: [Flight; 2],
    eager: bool,
    totals: Totals,
    /// What the driver did that it should not.
    pub(crate) journal: Journal,
    _sum: PhantomData<S>,
}

fn clocks_to_ns(clocks: u32) -> u64 {
    u64::from(clocks) * 1_000_000_000 / CLOCK_HZ + 1
}

/// The port that a TX queue belongs to.
fn port_of(txq: usize) -> Option<usize> {
    let port = txq.checked_sub(FIRST_TXQ)? / TXQS_PER_PORT;

    (port < PORTS).then_some(port)
}

/// What is at the other end of a port's wire.
fn peer_of(port: usize) -> Option<usize> {
    match port {
        0 => Some(1),
        1 => Some(0),
        _ => None,
    }
}

fn half(high: u32, shift: u32) -> u64 {
    u64::from(high >> shift & 0xff) << 32
}

impl<M: Memory, S: Sum> Ppv2<M, S> {
    /// A packet processor out of reset. If it is `eager`, buffers are used
    /// again the moment they are released.
    pub(crate) fn new(memory: M, eager: bool) -> Result<Self> {
        let mut this = Self {
            memory,
            registers: KVVec::from_elem(0, THREADS * WINDOW / 4, GFP_KERNEL)?,
            kinds: KVVec::with_capacity(WINDOW / 4, GFP_KERNEL)?,
            banks: KVVec::new(),
            macs: KVVec::from_elem(0, 0xb000 / 4, GFP_KERNEL)?,
            pools: KVVec::new(),
            rxqs: KVVec::from_elem(RxQueue::default(), RXQS, GFP_KERNEL)?,
            rx_alarms: KVVec::from_elem(NEVER, RXQS, GFP_KERNEL)?,
            next_rx_alarm: NEVER,
            txqs: KVVec::new(),
            threads: [Thread::default(); THREADS],
            ports: core::array::from_fn(|_| Port::new()),
            group: 0,
            lines: 0,
            raised: 0,
            interrupt_at: NEVER,
            next: NEVER,
            frame: KVVec::from_elem(0, MAX_FRAME, GFP_KERNEL)?,
            wire: Wire::default(),
            flights: [Flight::new()?, Flight::new()?],
            eager,
            totals: Totals::default(),
            journal: Journal::new()?,
            _sum: PhantomData,
        };

        for register in (0..WINDOW).step_by(4) {
            this.kinds.push(regs::decode(register), GFP_KERNEL)?;
        }
        for bank in &BANKS {
            let words = KVVec::from_elem(0, bank.words() * bank.entries, GFP_KERNEL)?;
            this.banks.push(words, GFP_KERNEL)?;
        }
        for _ in 0..POOLS {
            this.pools.push(Pool::new()?, GFP_KERNEL)?;
        }
        for txq in 0..TXQS {
            let mut queue = TxQueue::new();
            if port_of(txq).is_some() {
                queue.owners = KVVec::from_elem(0, MAX_TXQ, GFP_KERNEL)?;
            }
            this.txqs.push(queue, GFP_KERNEL)?;
        }
        Ok(this)
    }

    /// What happened at a port so far.
    pub(crate) fn counters(&self, port: usize) -> Counters {
        self.ports
            .get(port)
            .map_or(Counters::default(), |p| p.counters)
    }

    /// What happened so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Free buffers of a pool, and their size.
    pub(crate) fn pool(&self, pool: usize) -> (usize, u32) {
        let count = self.pools.get(pool).map_or(0, Pool::count);

        (count, self.shared(regs::POOL_BUF_SIZE + 4 * pool))
    }

    /// The longest frame that a port's MAC passes on, with FCS.
    pub(crate) fn mac_limit(&self, port: usize) -> usize {
        // Ports are wired to MACs in this order.
        let Some(mac) = [0, 2, 3, 1].get(port) else {
            return 0;
        };
        let base = 0x7e00 + 0x1000 * mac;
        let word = |offset: usize| self.macs.get((base + offset) / 4).copied().unwrap_or(0);
        let is_xlg = *mac == 0 && word(0x11c) >> 13 & 7 == 1;
        let units = if is_xlg {
            word(0x104) & 0x1fff
        } else {
            word(0) >> 2 & 0x1fff
        };

        units as usize * 2
    }

    // Registers without side effects.

    fn shared(&self, offset: usize) -> u32 {
        self.registers.get(offset / 4).copied().unwrap_or(0)
    }

    fn of_thread(&self, thread: usize, offset: usize) -> u32 {
        self.shared(thread * WINDOW + offset)
    }

    fn bank_word(&mut self, bank: usize, offset: usize) -> Option<&mut u32> {
        let layout = BANKS.get(bank)?;
        let entry = self.shared(layout.index) as usize % layout.entries;

        self.banks
            .get_mut(bank)?
            .get_mut(entry * layout.words() + (offset - layout.first) / 4)
    }

    // Alarms.

    /// When something may happen next.
    pub(crate) fn next_alarm(&self) -> u64 {
        self.next
    }

    fn wake(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    fn earliest(&self) -> u64 {
        let ports = self.ports.iter().map(|p| p.send_at.min(p.completion_at));
        let flights = self.flights.iter().map(Flight::next);
        let next = flights.fold(ports.fold(self.interrupt_at, u64::min), u64::min);

        next.min(self.next_rx_alarm)
    }

    /// Does everything that is due. Returns the interrupts to deliver.
    pub(crate) fn run(&mut self, now: u64) -> u64 {
        for port in 0..PORTS {
            self.run_port(now, port);
        }
        for port in 0..self.flights.len() {
            self.run_flight(now, port);
        }
        if self.next_rx_alarm <= now {
            self.run_rxqs(now);
        }
        let interrupts = self.deliver(now);
        self.next = self.earliest();
        interrupts
    }

    fn run_port(&mut self, now: u64, port: usize) {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);

        if due(self.ports.get(port).map(|p| p.send_at)) {
            self.send_batch(now, port);
        }
        if due(self.ports.get(port).map(|p| p.completion_at)) {
            self.time_out(port);
            self.update_lines(now, port);
        }
    }

    /// Completions have waited for as long as they may.
    fn time_out(&mut self, port: usize) {
        let waits: [bool; THREADS] =
            core::array::from_fn(|thread| self.has_completions(port, thread));

        if let Some(port) = self.ports.get_mut(port) {
            port.completion_at = NEVER;
            for (timed_out, waits) in zip(&mut port.timed_out, waits) {
                *timed_out |= waits;
            }
        }
    }

    fn run_flight(&mut self, now: u64, port: usize) {
        let mut has_frames = false;

        while let Some(frame) = self.flights.get_mut(port).and_then(|f| f.arrived(now)) {
            self.take_in(now, port, &frame, None);
            has_frames = true;
        }
        if has_frames {
            self.update_lines(now, port);
        }
    }

    fn run_rxqs(&mut self, now: u64) {
        for queue in 0..RXQS {
            self.run_rxq(now, queue);
        }
        self.next_rx_alarm = self.rx_alarms.iter().copied().fold(NEVER, u64::min);
    }

    fn run_rxq(&mut self, now: u64, queue: usize) {
        let Some(alarm) = self.rx_alarms.get_mut(queue).filter(|alarm| **alarm <= now) else {
            return;
        };
        *alarm = NEVER;
        if let Some(rxq) = self.rxqs.get_mut(queue).filter(|rxq| rxq.occupied != 0) {
            rxq.timed_out = true;
            self.update_lines(now, queue / RXQS_PER_PORT);
        }
    }

    fn deliver(&mut self, now: u64) -> u64 {
        if self.interrupt_at > now {
            return 0;
        }
        let raised = core::mem::take(&mut self.raised);
        self.interrupt_at = NEVER;
        self.totals.interrupts += u64::from(raised.count_ones());
        raised
    }

    // Interrupts.

    fn cause(&self, port: usize, thread: usize) -> u32 {
        let Some(state) = self.ports.get(port) else {
            return 0;
        };
        let group = state.groups.get(thread).copied().unwrap_or_default();
        let timed_out = state.timed_out.get(thread).copied().unwrap_or(false);
        let mut cause = 0;

        for bit in 0..group.size.min(8) {
            let queue = self.rxqs.get(port * RXQS_PER_PORT + group.first + bit);
            cause |= u32::from(queue.is_some_and(RxQueue::interrupts)) << bit;
        }
        for bit in 0..TXQS_PER_PORT {
            let queue = self.txqs.get(FIRST_TXQ + port * TXQS_PER_PORT + bit);
            let interrupts = queue.is_some_and(|q| q.interrupts(thread, timed_out));
            cause |= u32::from(interrupts) << (16 + bit);
        }
        cause
    }

    /// Threads that a port interrupts, one bit each.
    fn enabled(&self, port: usize) -> u32 {
        self.ports.get(port).map_or(0, |p| p.interrupt_enable)
    }

    fn update_line(&mut self, now: u64, port: usize, thread: usize) {
        let line = 1u64 << (port * INTERRUPTS_PER_PORT + thread);
        let enabled = self.enabled(port) & 1 << thread != 0;
        let mask = self.of_thread(thread, regs::CAUSE_MASK + 4 * port);

        if !enabled || mask == 0 || self.cause(port, thread) & mask == 0 {
            self.lines &= !line;
            self.raised &= !line;
        } else if self.lines & line == 0 {
            self.lines |= line;
            self.raised |= line;
            self.interrupt_at = self.interrupt_at.min(now + INTERRUPT_DELAY);
            self.wake(self.interrupt_at);
        }
    }

    /// Only what is enabled can go up, only what is up can go down.
    fn update_lines(&mut self, now: u64, port: usize) {
        let up = (self.lines >> (port * INTERRUPTS_PER_PORT)) as u32;
        let mut threads = (self.enabled(port) | up) & ALL_THREADS;

        while threads != 0 {
            self.update_line(now, port, threads.trailing_zeros() as usize);
            threads &= threads - 1;
        }
    }

    fn has_completions(&self, port: usize, thread: usize) -> bool {
        let first = FIRST_TXQ + port * TXQS_PER_PORT;
        let queues = self.txqs.get(first..first + TXQS_PER_PORT).unwrap_or(&[]);

        queues
            .iter()
            .any(|q| q.sent.get(thread).is_some_and(|sent| *sent != 0))
    }

    // Buffers.

    fn release(&mut self, now: u64, pool: usize, buffer: Buffer) {
        // The driver knows a buffer by its physical address: that both belong
        // together shows whether it has mixed up anything.
        let matches = self.memory.physical(buffer.dma) == Some(buffer.cookie);
        let order = if self.eager { Order::Lifo } else { Order::Fifo };
        let given = match self.pools.get_mut(pool) {
            Some(p) if matches && buffer.is_aligned() => p.give(buffer, order).is_ok(),
            _ => false,
        };

        if !given {
            self.journal
                .misuse(Misuse::BadRelease, buffer.dma, buffer.cookie);
        } else if self.eager {
            self.hurry(now);
        }
    }

    /// A frame that is under way arrives right now, if the wire could carry it
    /// within what is sent at once anyway: the rate stays what it is.
    fn hurry(&mut self, now: u64) {
        let soon = now + BATCH;

        for port in 0..self.flights.len() {
            if self.hurry_flight(now, soon, port) || self.hurry_port(now, soon, port) {
                return;
            }
        }
    }

    /// What is on a long wire keeps its order.
    fn hurry_flight(&mut self, now: u64, soon: u64, port: usize) -> bool {
        let Some(frame) = self.flights.get_mut(port).and_then(|f| f.arrived(soon)) else {
            return false;
        };

        self.take_in(now, port, &frame, None);
        self.update_lines(now, port);
        true
    }

    fn hurry_port(&mut self, now: u64, soon: u64, port: usize) -> bool {
        let is_free = self.ports.get(port).is_some_and(|p| p.send_at <= soon);

        if !is_free || self.wire.delay != 0 {
            return false;
        }
        match self.send_next(now, port) {
            0 => false,
            length => {
                let busy = self.wire.time((length + FRAME_OVERHEAD) as u64);
                self.after_sending(now, port, busy);
                true
            }
        }
    }

    // Receive.

    /// A frame comes in at a port, with what is known of it if a port sent it.
    ///
    /// Interrupts are left to the caller: there may be more to come.
    fn take_in(&mut self, now: u64, port: usize, frame: &[u8], filled: Option<&Transport>) {
        let result = self.try_receive(now, port, frame, filled);

        if let (Err(dropped), Some(port)) = (result, self.ports.get_mut(port)) {
            port.counters.drop(dropped);
        }
    }

    fn try_receive(
        &mut self,
        now: u64,
        port: usize,
        frame: &[u8],
        filled: Option<&Transport>,
    ) -> Result<(), Dropped> {
        let limit = (self.mac_limit(port) as u64).saturating_add(self.wire.slack);

        if (frame.len() + FCS) as u64 > limit {
            return Err(Dropped::Oversize);
        }
        // There is no classifier: a port's frames are all for its first queue.
        let id = port * RXQS_PER_PORT;
        let config = self.shared(regs::RXQ_CONFIG + 4 * id);
        let queue = self.rxqs.get(id).copied().unwrap_or_default();

        if config & RXQ_DISABLE != 0 || queue.base == 0 || queue.size == 0 {
            return Err(Dropped::Disabled);
        }
        if queue.free == 0 || queue.occupied >= queue.size {
            return Err(Dropped::FullQueue);
        }
        let room = self.choose_pool(config, frame.len() + MARVELL_HEADER)?;
        let parsed = packet::parse::<S>(frame, filled);
        if let Some(port) = self.ports.get_mut(port) {
            port.counters.rx += 1;
            port.counters.bad_checksum += u64::from(parsed.bad_checksum);
        }
        let received = self.store(port, &room, frame, parsed.status)?;
        self.post(id, queue, &received);
        self.start_rx_timer(now, id);
        Ok(())
    }

    /// The pool that a frame's buffers come from: the short one if it fits.
    fn choose_pool(&self, config: u32, length: usize) -> Result<Room, Dropped> {
        let offset = (config >> 28 & 7) as usize * 32;
        let capacity = |pool: usize| (self.pool(pool).1 as usize).saturating_sub(offset);
        let (short, long) = ((config >> 20 & 0xf) as usize, (config >> 24 & 0xf) as usize);
        let pool = if length <= capacity(short) {
            short
        } else {
            long
        };
        let room = Room {
            pool,
            offset,
            capacity: capacity(pool),
        };

        // With less, headers and the Marvell header would not fit.
        if room.capacity < BUFFER_HEADER || self.pool(pool).0 < length.div_ceil(room.capacity) {
            return Err(Dropped::NoBuffer);
        }
        Ok(room)
    }

    fn take(&mut self, pool: usize) -> Result<Buffer, Dropped> {
        self.pools
            .get_mut(pool)
            .and_then(Pool::take)
            .ok_or(Dropped::NoBuffer)
    }

    fn write_memory(&mut self, address: u64, from: &[u8]) {
        if self.memory.write(address, from).is_err() {
            self.journal
                .misuse(Misuse::NoMemory, address, from.len() as u64);
        }
    }

    /// Puts a frame into buffers.
    fn store(
        &mut self,
        port: usize,
        room: &Room,
        frame: &[u8],
        status: u32,
    ) -> Result<Received, Dropped> {
        let status = status | (room.pool as u32) << RX_POOL_SHIFT;
        let buffer = self.take(room.pool)?;
        let data = buffer.dma + room.offset as u64;
        let length = frame.len() + MARVELL_HEADER;

        self.write_memory(data, &[0; MARVELL_HEADER]);
        if length <= room.capacity {
            self.write_memory(data + MARVELL_HEADER as u64, frame);
            return Ok(Received {
                status,
                size: length,
                buffer,
            });
        }
        if let Some(port) = self.ports.get_mut(port) {
            port.counters.scatter += 1;
        }
        self.scatter(room, buffer, frame)?;
        let status = status & !RX_L4_GOOD | RX_BUF_HDR | RX_RESOURCE_ERROR;
        Ok(Received {
            status,
            size: room.capacity,
            buffer,
        })
    }

    /// Puts a frame into a chain of buffers that starts with `buffer`.
    fn scatter(&mut self, room: &Room, mut buffer: Buffer, frame: &[u8]) -> Result<(), Dropped> {
        let mut header = MARVELL_HEADER;
        let mut rest = frame;

        loop {
            let (piece, behind) = rest.split_at(rest.len().min(room.capacity - header));
            let next = match behind.is_empty() {
                true => None,
                false => Some(self.take(room.pool)?),
            };
            let at = buffer.dma + (room.offset + header) as u64;

            self.write_memory(at, piece);
            self.write_memory(buffer.dma, &buffer_header(piece.len() + header, next));
            rest = behind;
            header = 0;
            match next {
                Some(next) => buffer = next,
                None => return Ok(()),
            }
        }
    }

    /// Fills in the next descriptor of an RX queue.
    fn post(&mut self, id: usize, queue: RxQueue, received: &Received) {
        let at = queue.base + u64::from(queue.index) * DESCRIPTOR as u64;

        self.write_memory(at, &received.descriptor());
        if let Some(queue) = self.rxqs.get_mut(id) {
            queue.index = (queue.index + 1) % queue.size.max(1);
            queue.occupied += 1;
            queue.free -= 1;
        }
    }

    fn start_rx_timer(&mut self, now: u64, id: usize) {
        let delay = clocks_to_ns(self.shared(regs::RX_COALESCE_TIME + 4 * id));
        let waits = self
            .rxqs
            .get(id)
            .is_some_and(|q| q.occupied != 0 && !q.timed_out);

        if let Some(alarm) = self.rx_alarms.get_mut(id).filter(|alarm| **alarm == NEVER) {
            if waits {
                *alarm = now + delay;
                self.next_rx_alarm = self.next_rx_alarm.min(now + delay);
                self.wake(now + delay);
            }
        }
    }

    fn update_rxq(&mut self, now: u64, id: usize, value: u32) {
        let Some(queue) = self.rxqs.get_mut(id) else {
            return;
        };
        let (processed, new) = (value & 0xffff, value >> 16);

        if processed > queue.occupied {
            self.journal
                .misuse(Misuse::RxProcessed, id as u64, u64::from(value));
        }
        queue.occupied = queue.occupied.saturating_sub(processed);
        queue.free = (queue.free + new).min(COUNT_MASK);
        queue.timed_out = false;
        self.start_rx_timer(now, id);
        self.update_lines(now, id / RXQS_PER_PORT);
    }

    // Transmit.

    /// Moves descriptors from a thread's aggregated queue to where they belong.
    fn doorbell(&mut self, now: u64, thread: usize, count: u32) {
        let size = self.shared(regs::AGGR_TXQ_SIZE + 4 * thread);
        let base = u64::from(self.shared(regs::AGGR_TXQ_ADDRESS + 4 * thread)) << 8;

        if size == 0 || count > size {
            self.journal
                .misuse(Misuse::AggregatedQueue, thread as u64, u64::from(count));
            return;
        }
        for _ in 0..count {
            let Some(next) = self.threads.get_mut(thread).map(|t| &mut t.aggregated) else {
                return;
            };
            let index = *next;
            *next = (index + 1) % size;
            self.enqueue(now, thread, base + u64::from(index) * DESCRIPTOR as u64);
        }
    }

    fn enqueue(&mut self, now: u64, thread: usize, from: u64) {
        let mut descriptor = [0; DESCRIPTOR];

        if self.memory.read(from, &mut descriptor).is_err() {
            return self
                .journal
                .misuse(Misuse::NoMemory, from, DESCRIPTOR as u64);
        }
        let id = usize::from(descriptor[5]);
        let (Some(port), Some(queue)) = (port_of(id), self.txqs.get_mut(id)) else {
            return self.journal.misuse(Misuse::TxQueue, id as u64, from);
        };
        if queue.base == 0 || queue.pending >= queue.size {
            return self
                .journal
                .misuse(Misuse::TxQueueFull, id as u64, u64::from(queue.size));
        }
        let to = queue.base + u64::from(queue.put) * DESCRIPTOR as u64;
        if let Some(owner) = queue.owners.get_mut(queue.put as usize) {
            *owner = thread as u8;
        }
        if let Some(reserved) = queue.reserved.get_mut(thread) {
            *reserved = reserved.saturating_sub(1);
        }
        queue.put = (queue.put + 1) % queue.size;
        queue.pending += 1;
        self.write_memory(to, &descriptor);
        self.kick(now, port);
    }

    fn kick(&mut self, now: u64, port: usize) {
        let Some(port) = self.ports.get_mut(port).filter(|p| p.send_at == NEVER) else {
            return;
        };

        port.send_at = now + DOORBELL_DELAY;
        self.wake(now + DOORBELL_DELAY);
    }

    fn send_batch(&mut self, now: u64, port: usize) {
        let mut busy = 0;

        while busy < BATCH {
            match self.send_next(now, port) {
                0 => break,
                length => busy += self.wire.time((length + FRAME_OVERHEAD) as u64),
            }
        }
        self.after_sending(now, port, busy);
    }

    /// The wire was given frames that keep it `busy`.
    fn after_sending(&mut self, now: u64, port: usize, busy: u64) {
        let delay = clocks_to_ns(self.shared(regs::TX_COALESCE_TIME + 4 * port));

        self.update_lines(now, port);
        if let Some(peer) = peer_of(port) {
            self.update_lines(now, peer);
        }
        if let Some(port) = self.ports.get_mut(port) {
            // A timer that is late does not make the wire slower.
            port.send_at = match busy {
                0 => NEVER,
                _ => port.send_at.saturating_add(busy),
            };
            if busy != 0 && port.completion_at == NEVER {
                port.completion_at = now + delay;
            }
        }
    }

    /// Sends a frame; returns its length, 0 if there is none.
    fn send_next(&mut self, now: u64, port: usize) -> usize {
        let Some((first, queues)) = self.ports.get(port).map(|p| (p.next_queue, p.queues)) else {
            return 0;
        };

        for i in 0..TXQS_PER_PORT {
            let queue = (first + i) % TXQS_PER_PORT;
            if queues & 1 << queue == 0 {
                continue;
            }
            let length = self.send_from(now, port, queue);
            if length != 0 {
                return length;
            }
        }
        0
    }

    /// Sends a frame of this queue; returns its length, 0 if there is none.
    fn send_from(&mut self, now: u64, port: usize, queue: usize) -> usize {
        // An empty one for so long: it takes no memory.
        let mut frame = core::mem::replace(&mut self.frame, KVVec::new());
        let sent = self.assemble(FIRST_TXQ + port * TXQS_PER_PORT + queue, &mut frame);

        if let (Some(_), Some(port)) = (&sent, self.ports.get_mut(port)) {
            port.next_queue = (queue + 1) % TXQS_PER_PORT;
            port.counters.tx += 1;
        }
        let length = sent.map_or(0, |sent| self.transmit(now, port, &mut frame, &sent));
        self.frame = frame;
        length
    }

    /// Fetches a frame from a TX queue.
    fn assemble(&mut self, id: usize, frame: &mut [u8]) -> Option<Sent> {
        let mut length = 0;
        let mut command = 0;

        while let Some(descriptor) = self.fetch(id) {
            if descriptor.command & TX_FIRST != 0 {
                length = 0;
                command = descriptor.command;
            }
            let end = length + descriptor.size;
            match frame
                .get_mut(length..end)
                .map(|to| self.memory.read(descriptor.address, to))
            {
                Some(Ok(())) => length = end,
                Some(Err(_)) => self.journal.misuse(Misuse::NoMemory, descriptor.address, 0),
                None => self
                    .journal
                    .misuse(Misuse::FrameTooLong, id as u64, end as u64),
            }
            if descriptor.command & TX_LAST != 0 {
                break;
            }
        }
        let filled = packet::fill_checksums::<S>(frame.get_mut(..length)?, command);
        if length == 0 {
            return None;
        }
        if let Some(padding) = frame.get_mut(length..MIN_FRAME) {
            padding.fill(0);
        }
        Some(Sent {
            length: length.max(MIN_FRAME),
            filled,
        })
    }

    /// Takes the next descriptor from a TX queue.
    fn fetch(&mut self, id: usize) -> Option<TxDescriptor> {
        let queue = self
            .txqs
            .get_mut(id)
            .filter(|q| q.pending != 0 && q.size != 0)?;
        let at = queue.base + u64::from(queue.get) * DESCRIPTOR as u64;
        let owner = usize::from(*queue.owners.get(queue.get as usize)?);

        *queue.sent.get_mut(owner)? += 1;
        queue.get = (queue.get + 1) % queue.size;
        queue.pending -= 1;
        let mut bytes = [0; DESCRIPTOR];
        if self.memory.read(at, &mut bytes).is_err() {
            self.journal.misuse(Misuse::NoMemory, at, DESCRIPTOR as u64);
        }
        Some(TxDescriptor::new(&bytes))
    }

    /// Puts a frame on the wire; returns its length there.
    fn transmit(&mut self, now: u64, port: usize, frame: &mut [u8], sent: &Sent) -> usize {
        let Some(peer) = peer_of(port) else {
            return sent.length;
        };
        let extra = self.wire.next_extra();
        let end = sent.length.saturating_add(extra).min(frame.len());
        let (arrives, is_lost) = (now.saturating_add(self.wire.delay), self.wire.loses());

        if let Some(extra) = frame.get_mut(sent.length..end) {
            extra.fill(0);
        }
        let frame = frame.get(..end).unwrap_or(&[]);
        if !is_lost && self.wire.delay == 0 {
            self.take_in(now, peer, frame, sent.filled.as_ref());
        } else if is_lost || !self.depart(peer, arrives, frame) {
            self.lose(peer);
        }
        end
    }

    /// A frame is on its way to `peer`, if there is memory for it.
    fn depart(&mut self, peer: usize, arrives: u64, frame: &[u8]) -> bool {
        let flight = self.flights.get_mut(peer);
        let departs = flight.is_some_and(|flight| flight.depart(arrives, frame).is_ok());

        self.wake(arrives);
        departs
    }

    fn lose(&mut self, port: usize) {
        if let Some(port) = self.ports.get_mut(port) {
            port.counters.lost += 1;
        }
    }

    fn reserve(&mut self, thread: usize, value: u32) {
        let wanted = value & COUNT_MASK;
        let id = (value >> 16) as usize;
        let queue = self.txqs.get_mut(id);
        let granted = queue.and_then(|queue| queue.reserve(thread, wanted));

        if granted.is_none() {
            self.journal
                .misuse(Misuse::TxQueue, id as u64, u64::from(value));
        }
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.reserved = granted.unwrap_or(0);
        }
    }

    fn schedule(&mut self, now: u64, value: u32) {
        let index = self.shared(regs::SCHEDULER_PORT) as usize;
        let port = index.wrapping_sub(16);
        let Some(queues) = self.ports.get_mut(port).map(|p| &mut p.queues) else {
            return self
                .journal
                .misuse(Misuse::SchedulerPort, index as u64, u64::from(value));
        };

        *queues = (*queues | value & 0xff) & !(value >> 8 & 0xff);
        self.kick(now, port);
    }

    // Registers.

    /// The driver accesses what is no register.
    pub(crate) fn bad_access(&mut self, offset: usize, size: i32) {
        self.journal
            .misuse(Misuse::Access, offset as u64, size as u64);
    }

    fn locate(&mut self, offset: usize, size: i32) -> Option<(usize, usize, Register)> {
        let (thread, register) = (offset / WINDOW, offset % WINDOW);

        if thread >= THREADS || size != 4 {
            self.bad_access(offset, size);
            return None;
        }
        let kind = match self.kinds.get(register / 4) {
            Some(kind) if register % 4 == 0 => *kind,
            _ => Register::Unknown,
        };
        if kind == Register::Unknown {
            self.journal.unknown(register);
        }
        Some((thread, register, kind))
    }

    /// What a thread's registers of the selected RX queue are about.
    fn rxq(&mut self, thread: usize) -> Option<&mut RxQueue> {
        let id = self.threads.get(thread)?.rxq;

        self.rxqs.get_mut(id)
    }

    /// What a thread's registers of the selected TX queue are about.
    fn txq(&mut self, thread: usize) -> Option<&mut TxQueue> {
        let id = self.threads.get(thread)?.txq;

        self.txqs.get_mut(id)
    }

    fn of_rxq(&mut self, thread: usize, get: impl FnOnce(&RxQueue) -> u32) -> u32 {
        self.rxq(thread).map_or(0, |queue| get(queue))
    }

    fn of_txq(&mut self, thread: usize, get: impl FnOnce(&TxQueue) -> u32) -> u32 {
        self.txq(thread).map_or(0, |queue| get(queue))
    }

    fn set_rxq(&mut self, thread: usize, set: impl FnOnce(&mut RxQueue)) {
        if let Some(queue) = self.rxq(thread) {
            set(queue);
        }
    }

    fn set_txq(&mut self, thread: usize, set: impl FnOnce(&mut TxQueue)) {
        if let Some(queue) = self.txq(thread) {
            set(queue);
        }
    }

    fn select_rxq(&mut self, thread: usize, value: u32) {
        if value as usize >= RXQS {
            self.journal
                .misuse(Misuse::RxQueue, thread as u64, u64::from(value));
        }
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.rxq = value as usize;
        }
    }

    fn select_txq(&mut self, thread: usize, value: u32) {
        if value as usize >= TXQS {
            self.journal
                .misuse(Misuse::TxQueue, thread as u64, u64::from(value));
        }
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.txq = value as usize;
        }
    }

    /// The driver reads a register. The time is asked for where it matters.
    pub(crate) fn read(&mut self, now: impl Fn() -> u64, offset: usize, size: i32) -> u32 {
        let Some((thread, register, kind)) = self.locate(offset, size) else {
            return 0;
        };

        self.totals.reads += 1;
        match kind {
            Register::Version => 0x10,
            Register::RxqAddress => self.of_rxq(thread, |queue| (queue.base >> 8) as u32),
            Register::RxqSize => self.of_rxq(thread, |queue| queue.size),
            Register::RxqThreshold => self.of_rxq(thread, |queue| queue.threshold),
            Register::RxqIndex => self.of_rxq(thread, |queue| queue.index),
            Register::TxqAddress => self.of_txq(thread, |queue| queue.base as u32),
            Register::TxqSize => self.of_txq(thread, |queue| queue.size),
            Register::TxqThreshold => self.of_txq(thread, |queue| queue.threshold),
            Register::TxqIndex => self.of_txq(thread, |queue| queue.get),
            Register::TxqPrefetch => self.of_txq(thread, |queue| queue.prefetch),
            Register::TxqPending => self.of_txq(thread, |queue| queue.pending),
            Register::ReserveResult => self.threads.get(thread).map_or(0, |t| t.reserved),
            Register::AggrTxqStatus(_) => 0, // fetched by the doorbell
            Register::AggrTxqIndex(of) => self.threads.get(of).map_or(0, |t| t.aggregated),
            Register::RxqStatus(id) => self.rxqs.get(id).map_or(0, RxQueue::status),
            Register::TxqSent(id) => self.read_sent(now(), thread, id),
            Register::InterruptEnable(port) => self.enabled(port),
            Register::Cause(port) => self.cause(port, thread),
            Register::PoolCount(pool) => self.prefetched(pool) & 0xfff8,
            Register::PoolPrefetched(pool) => self.prefetched(pool) & 7,
            Register::PoolAllocate(pool) => self.allocate(thread, pool),
            Register::AllocatedCookie => self.allocated(thread).cookie as u32,
            Register::AllocatedHigh => self.allocated_high(thread),
            Register::SchedulerCommand => self.scheduled(),
            Register::Bank(bank) => self.bank_word(bank, register).map_or(0, |word| *word),
            _ => self.of_thread(thread, register),
        }
    }

    /// The buffers that a pool counts: all but the one that is held ready.
    fn prefetched(&self, pool: usize) -> u32 {
        self.pool(pool).0.saturating_sub(1) as u32
    }

    fn allocate(&mut self, thread: usize, pool: usize) -> u32 {
        let pool = self.pools.get_mut(pool);
        let buffer = pool.and_then(Pool::take).unwrap_or_default();

        if let Some(thread) = self.threads.get_mut(thread) {
            thread.allocated = buffer;
        }
        buffer.dma as u32
    }

    /// The buffer that a thread has taken last.
    fn allocated(&self, thread: usize) -> Buffer {
        let thread = self.threads.get(thread);

        thread.map_or(Buffer::default(), |thread| thread.allocated)
    }

    fn allocated_high(&self, thread: usize) -> u32 {
        let buffer = self.allocated(thread);

        (buffer.dma >> 32 & 0xff) as u32 | ((buffer.cookie >> 32 & 0xff) as u32) << 8
    }

    fn scheduled(&self) -> u32 {
        let port = (self.shared(regs::SCHEDULER_PORT) as usize).checked_sub(16);

        port.and_then(|port| self.ports.get(port))
            .map_or(0, |port| port.queues)
    }

    fn read_sent(&mut self, now: u64, thread: usize, id: usize) -> u32 {
        let sent = self.txqs.get_mut(id).and_then(|q| q.sent.get_mut(thread));
        let sent = sent.map_or(0, core::mem::take);

        if let Some(port) = port_of(id) {
            if !self.has_completions(port, thread) {
                self.set_timed_out(port, thread, false);
            }
            self.update_line(now, port, thread);
        }
        sent << 16
    }

    fn set_timed_out(&mut self, port: usize, thread: usize, value: bool) {
        let port = self.ports.get_mut(port);

        if let Some(timed_out) = port.and_then(|p| p.timed_out.get_mut(thread)) {
            *timed_out = value;
        }
    }

    /// The driver writes a register. The time is asked for where it matters.
    pub(crate) fn write(&mut self, now: impl Fn() -> u64, offset: usize, size: i32, value: u32) {
        let Some((thread, register, kind)) = self.locate(offset, size) else {
            return;
        };

        self.totals.writes += 1;
        if let Some(word) = self.registers.get_mut(offset / 4) {
            *word = value;
        }
        match kind {
            Register::RxqSelect => self.select_rxq(thread, value),
            Register::RxqAddress => self.set_rxq(thread, |q| q.base = u64::from(value) << 8),
            Register::RxqSize => self.set_rxq(thread, |q| q.size = value.min(MAX_RXQ)),
            Register::RxqThreshold => self.set_rxq(thread, |q| q.threshold = value),
            Register::RxqIndex => self.place_rx_index(thread, value),
            Register::TxqSelect => self.select_txq(thread, value),
            Register::TxqAddress => self.set_txq(thread, |q| q.place(value)),
            Register::TxqSize => self.set_txq(thread, |q| q.size = value.min(MAX_TXQ as u32)),
            Register::TxqThreshold => self.set_txq(thread, |q| q.threshold = value),
            Register::TxqIndex => self.place_tx_index(thread, value),
            Register::TxqPrefetch => self.set_txq(thread, |q| q.prefetch(value)),
            Register::AggrTxqUpdate => self.doorbell(now(), thread, value & COUNT_MASK),
            Register::ReserveRequest => self.reserve(thread, value),
            Register::ReserveClear => self.clear_reserved(thread, value),
            Register::RxqUpdate(id) => self.update_rxq(now(), id, value),
            Register::RxqStatus(id) => self.reset_rxq(id),
            Register::GroupSelect => self.group = value,
            Register::GroupConfig => self.configure_group(value),
            Register::InterruptEnable(port) => self.enable_interrupts(now(), port, value),
            Register::CauseMask(port) => self.update_line(now(), port, thread),
            Register::PoolRelease(pool) => self.release_written(now(), thread, pool, value),
            Register::SchedulerCommand => self.schedule(now(), value),
            Register::Bank(bank) => {
                if let Some(word) = self.bank_word(bank, register) {
                    *word = value;
                }
            }
            _ => (),
        }
    }

    fn place_rx_index(&mut self, thread: usize, value: u32) {
        match self.rxq(thread).filter(|q| value < q.size.max(1)) {
            Some(queue) => queue.index = value,
            None => self
                .journal
                .misuse(Misuse::QueueIndex, thread as u64, u64::from(value)),
        }
    }

    fn place_tx_index(&mut self, thread: usize, value: u32) {
        match self.txq(thread).filter(|q| value < q.size.max(1)) {
            Some(queue) => (queue.put, queue.get) = (value, value),
            None => self
                .journal
                .misuse(Misuse::QueueIndex, thread as u64, u64::from(value)),
        }
    }

    fn clear_reserved(&mut self, thread: usize, value: u32) {
        let id = (value >> 16) as usize;
        let queue = self.txqs.get_mut(id);

        match queue.and_then(|queue| queue.reserved.get_mut(thread)) {
            Some(reserved) => *reserved = 0,
            None => self
                .journal
                .misuse(Misuse::TxQueue, id as u64, u64::from(value)),
        }
    }

    fn reset_rxq(&mut self, id: usize) {
        if let Some(queue) = self.rxqs.get_mut(id) {
            queue.occupied = 0;
            queue.free = 0;
            queue.timed_out = false;
        }
    }

    fn configure_group(&mut self, value: u32) {
        let (port, thread) = ((self.group >> 7 & 7) as usize, (self.group & 0xf) as usize);
        let group = Group {
            first: (value & 0x1f) as usize,
            size: (value >> 8 & 0xf) as usize,
        };

        match self
            .ports
            .get_mut(port)
            .and_then(|p| p.groups.get_mut(thread))
        {
            Some(of) => *of = group,
            None => self
                .journal
                .misuse(Misuse::Group, u64::from(self.group), u64::from(value)),
        }
    }

    fn enable_interrupts(&mut self, now: u64, port: usize, value: u32) {
        if let Some(enable) = self.ports.get_mut(port).map(|p| &mut p.interrupt_enable) {
            *enable = (*enable | value & 0xffff) & !(value >> 16);
        }
        self.update_lines(now, port);
    }

    fn release_written(&mut self, now: u64, thread: usize, pool: usize, value: u32) {
        let high = self.of_thread(thread, regs::RELEASE_HIGH);
        let cookie = u64::from(self.of_thread(thread, regs::RELEASE_COOKIE)) | half(high, 8);
        let dma = u64::from(value) | half(high, 0);

        self.release(now, pool, Buffer { dma, cookie });
    }
}

/// A frame that was sent.
struct Sent {
    length: usize,
    /// What its checksum was filled in for.
    filled: Option<Transport>,
}

/// Why a frame was not received.
enum Dropped {
    Oversize,
    Disabled,
    FullQueue,
    NoBuffer,
}

/// A pool, and what its buffers hold behind `offset`.
struct Room {
    pool: usize,
    offset: usize,
    capacity: usize,
}

/// What an RX descriptor says.
struct Received {
    status: u32,
    size: usize,
    buffer: Buffer,
}

impl Received {
    fn descriptor(&self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];

        bytes[0..4].copy_from_slice(&self.status.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.size as u16).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.buffer.dma.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.buffer.cookie.to_le_bytes());
        bytes
    }
}

/// The header of a buffer that holds `count` bytes and is followed by `next`.
fn buffer_header(count: usize, next: Option<Buffer>) -> [u8; BUFFER_HEADER] {
    let mut bytes = [0; BUFFER_HEADER];
    let info = if next.is_none() { BUF_HDR_LAST } else { 0 };
    let next = next.unwrap_or_default();

    bytes[0..4].copy_from_slice(&(next.dma as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&(next.cookie as u32).to_le_bytes());
    bytes[8..10].copy_from_slice(&(count as u16).to_le_bytes());
    bytes[10..12].copy_from_slice(&info.to_le_bytes());
    bytes[14] = (next.dma >> 32) as u8;
    bytes[15] = (next.cookie >> 32) as u8;
    bytes
}

/// What a TX descriptor says.
struct TxDescriptor {
    command: u32,
    size: usize,
    address: u64,
}

impl TxDescriptor {
    fn new(bytes: &[u8; DESCRIPTOR]) -> Self {
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let base = (u64::from(word(20)) << 32 | u64::from(word(16))) & ADDRESS_MASK;

        Self {
            command: word(0),
            size: (word(4) >> 16) as usize,
            address: base + u64::from(bytes[4]),
        }
    }
}

#[cfg(CONFIG_MVPP2_MODEL_KUNIT_TEST)]
#[path = "tests.rs"]
mod tests;
