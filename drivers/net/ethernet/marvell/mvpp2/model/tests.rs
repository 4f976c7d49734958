// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the packet processor, on memory of their own.

use super::*;
use core::iter::zip;

/// Memory that only the tests have.
struct Fake {
    bytes: KVVec<u8>,
    offset: u64,
}

impl Fake {
    fn range(&self, address: u64, length: usize) -> Result<core::ops::Range<usize>> {
        let start = address.checked_sub(self.offset).ok_or(EFAULT)? as usize;
        let range = start..start.checked_add(length).ok_or(EFAULT)?;

        (range.end <= self.bytes.len())
            .then_some(range)
            .ok_or(EFAULT)
    }
}

impl Memory for Fake {
    fn read(&self, address: u64, to: &mut [u8]) -> Result {
        let range = self.range(address, to.len())?;

        to.copy_from_slice(self.bytes.get(range).ok_or(EFAULT)?);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result {
        let range = self.range(address, from.len())?;

        self.bytes
            .get_mut(range)
            .ok_or(EFAULT)?
            .copy_from_slice(from);
        Ok(())
    }

    fn physical(&self, address: u64) -> Option<u64> {
        self.range(address, 1).ok().map(|range| range.start as u64)
    }
}

/// Checksums by the book (RFC 1071), not by the kernel.
struct Book;

impl Sum for Book {
    fn sum(data: &[u8], sum: u32) -> u32 {
        let word = |pair: &[u8]| match *pair {
            [high, low] => u32::from(high) << 8 | u32::from(low),
            [high] => u32::from(high) << 8,
            _ => 0,
        };
        let mut total = data
            .chunks(2)
            .map(word)
            .fold(sum, |total, word| total + word);

        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total
    }
}

const MEMORY: usize = 1 << 20;
const RX_RING: u64 = 0x10000;
const AGGREGATED: u64 = 0x20000;
const TX_RING: u64 = 0x30000;
const TX_DATA: u64 = 0x40000;
const BUFFERS: u64 = 0x80000;

const POOL: usize = 3;
const BUFFER_SIZE: usize = 1024;
const HEADROOM: usize = 64;
/// What a buffer holds of a frame.
const ROOM: usize = BUFFER_SIZE - HEADROOM;
/// High enough that no half of an address is zero.
const HIGH: u64 = 0x12_4000_0000;

/// Two connected ports, as a driver would set them up; it talks to port 1.
struct Bench {
    ppv2: Ppv2<Fake, Book>,
    now: u64,
    offset: u64,
}

/// A frame that tells where each byte belongs.
fn frame(length: usize) -> Result<KVec<u8>> {
    let mut frame = KVec::with_capacity(length, GFP_KERNEL)?;

    for i in 0..length {
        frame.push((i % 251) as u8, GFP_KERNEL)?;
    }
    Ok(frame)
}

impl Bench {
    fn with(offset: u64, eager: bool) -> Result<Self> {
        let bytes = KVVec::from_elem(0xee, MEMORY, GFP_KERNEL)?;
        let ppv2 = Ppv2::new(Fake { bytes, offset }, eager)?;
        let mut bench = Self {
            ppv2,
            now: 1000,
            offset,
        };

        bench.set_limit(0, 8000);
        bench.set_limit(1, 8000);
        bench.write(regs::POOL_BUF_SIZE + 4 * POOL, BUFFER_SIZE as u32);
        bench.set_up_rx(16);
        bench.set_up_tx(16);
        Ok(bench)
    }

    fn new() -> Result<Self> {
        Self::with(0, false)
    }

    fn write(&mut self, register: usize, value: u32) {
        self.ppv2.write(|| self.now, register, 4, value);
    }

    fn read(&mut self, register: usize) -> u32 {
        self.ppv2.read(|| self.now, register, 4)
    }

    fn set_limit(&mut self, port: usize, bytes: u32) {
        let mac = if port == 0 { 0x7e00 } else { 0x9e00 };

        if let Some(word) = self.ppv2.macs.get_mut(mac / 4) {
            *word = bytes / 2 << 2;
        }
    }

    /// Queue 32, the first of port 1, with so many free descriptors.
    fn set_up_rx(&mut self, size: u32) {
        self.write(0x2040, 32);
        self.write(0x2044, ((self.offset + RX_RING) >> 8) as u32);
        self.write(0x2048, size);
        self.write(0x204c, 4); // interrupt from four frames on
        self.write(regs::RX_COALESCE_TIME + 4 * 32, 33_333); // or after 100 us
        let pools = (POOL << 24 | POOL << 20) as u32;
        self.write(
            regs::RXQ_CONFIG + 4 * 32,
            (HEADROOM as u32 / 32) << 28 | pools,
        );
        self.write(0x3000 + 4 * 32, size << 16);
        self.write(0x5400, 1 << 7); // port 1, thread 0
        self.write(0x5404, 1 << 8); // its first queue
        self.write(0x5424, 1);
        self.write(regs::CAUSE_MASK + 4, 0xff_00ff);
    }

    /// Queue 128, the first of port 0, and thread 0's aggregated queue.
    fn set_up_tx(&mut self, size: u32) {
        self.write(0x2080, 128);
        self.write(0x2084, (self.offset + TX_RING) as u32);
        self.write(0x2088, size);
        self.write(
            regs::AGGR_TXQ_ADDRESS,
            ((self.offset + AGGREGATED) >> 8) as u32,
        );
        self.write(regs::AGGR_TXQ_SIZE, size);
        self.write(regs::SCHEDULER_PORT, 16);
        self.write(0x8004, 1);
    }

    fn buffer(&self, number: usize) -> Buffer {
        let cookie = BUFFERS + (number * BUFFER_SIZE) as u64;

        Buffer {
            dma: cookie + self.offset,
            cookie,
        }
    }

    fn release(&mut self, buffer: Buffer) {
        let high = (buffer.dma >> 32) as u32 | ((buffer.cookie >> 32) as u32) << 8;

        self.write(regs::RELEASE_HIGH, high);
        self.write(regs::RELEASE_COOKIE, buffer.cookie as u32);
        self.write(0x6480 + 4 * POOL, buffer.dma as u32);
    }

    fn fill_pool(&mut self, count: usize) {
        for number in 0..count {
            self.release(self.buffer(number));
        }
    }

    fn count(&self) -> usize {
        self.ppv2.pool(POOL).0
    }

    fn memory<const N: usize>(&self, address: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];

        self.ppv2.memory.read(self.offset + address, &mut bytes)?;
        Ok(bytes)
    }

    fn memory_is(&self, address: u64, expected: &[u8]) -> Result<bool> {
        let mut bytes = KVec::from_elem(0, expected.len(), GFP_KERNEL)?;

        self.ppv2.memory.read(address, &mut bytes)?;
        Ok(&bytes[..] == expected)
    }

    /// Status, size and buffer of a descriptor in the RX ring.
    fn received(&self, index: u64) -> Result<(u32, usize, Buffer)> {
        let at = RX_RING + index * DESCRIPTOR as u64;
        let status = u32::from_le_bytes(self.memory(at)?);
        let size = u16::from_le_bytes(self.memory(at + 6)?);
        let dma = u64::from_le_bytes(self.memory(at + 16)?);
        let cookie = u64::from_le_bytes(self.memory(at + 24)?);

        Ok((status, usize::from(size), Buffer { dma, cookie }))
    }

    fn receive(&mut self, length: usize) -> Result {
        let frame = frame(length)?;

        self.ppv2.take_in(self.now, 1, &frame, None);
        self.ppv2.update_lines(self.now, 1);
        Ok(())
    }

    /// Does what is due until `until`; returns all interrupts.
    fn wait(&mut self, until: u64) -> u64 {
        let mut interrupts = 0;

        while self.ppv2.next_alarm() <= until {
            self.now = self.ppv2.next_alarm();
            interrupts |= self.ppv2.run(self.now);
        }
        self.now = until;
        interrupts
    }

    /// Puts a frame into the aggregated queue, in two pieces; no doorbell.
    fn queue_frame(&mut self, slot: u64, queue: u8, length: usize) -> Result {
        let first = length / 3;
        let data = TX_DATA + slot * 2048;
        let pieces = [
            (TX_FIRST, data, first),
            (TX_LAST, data + first as u64, length - first),
        ];

        self.ppv2
            .memory
            .write(self.offset + data, &frame(length)?)?;
        for (number, (command, address, size)) in zip(0.., pieces) {
            let mut bytes = [0; DESCRIPTOR];
            let command = command | 7 << 13; // no checksums
            bytes[0..4].copy_from_slice(&u32::to_le_bytes(command));
            bytes[5] = queue;
            bytes[6..8].copy_from_slice(&(size as u16).to_le_bytes());
            bytes[16..24].copy_from_slice(&(self.offset + address).to_le_bytes());
            let at = AGGREGATED + (2 * slot + number) * DESCRIPTOR as u64;
            self.ppv2.memory.write(self.offset + at, &bytes)?;
        }
        Ok(())
    }

    fn send(&mut self, frames: u64, length: usize) -> Result {
        for slot in 0..frames {
            self.queue_frame(slot, 128, length)?;
        }
        self.write(0x2090, 2 * frames as u32);
        Ok(())
    }
}

/// What the headers of a chain say: data, and where the chain goes on.
fn follow(bench: &Bench, buffer: Buffer) -> Result<(usize, u16, Buffer)> {
    let at = buffer.cookie;
    let low = |at| -> Result<u64> { Ok(u32::from_le_bytes(bench.memory(at)?).into()) };
    let high = |at| -> Result<u64> { Ok(u64::from(bench.memory::<1>(at)?[0]) << 32) };
    let count = u16::from_le_bytes(bench.memory(at + 8)?);
    let info = u16::from_le_bytes(bench.memory(at + 10)?);
    let dma = low(at)? | high(at + 14)?;
    let cookie = low(at + 4)? | high(at + 15)?;

    Ok((count.into(), info, Buffer { dma, cookie }))
}

/// An Ethernet frame with IPv4 or IPv6 and TCP or UDP, without checksums.
fn packet(is_ipv6: bool, is_udp: bool, length: usize) -> Result<KVec<u8>> {
    let mut bytes = frame(length)?;
    let protocol = if is_udp { 17 } else { 6 };
    let (kind, total) = if is_ipv6 {
        (0x86dd, length - 54)
    } else {
        (0x0800, length - 14)
    };

    bytes[12..14].copy_from_slice(&u16::to_be_bytes(kind));
    if is_ipv6 {
        bytes[14] = 0x60;
        bytes[18..20].copy_from_slice(&(total as u16).to_be_bytes());
        bytes[20] = protocol;
    } else {
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&(total as u16).to_be_bytes());
        bytes[20..22].fill(0);
        bytes[23] = protocol;
    }
    Ok(bytes)
}

fn command(is_ipv6: bool, is_udp: bool) -> u32 {
    let words = if is_ipv6 { 10 } else { 5 };

    14 | words << 8 | u32::from(is_udp) << 24 | u32::from(is_ipv6) << 26
}

#[kunit_tests(ppv2_model)]
mod cases {
    use super::*;

    #[test]
    fn pool_counts_all_but_one() -> Result {
        let mut bench = Bench::new()?;

        assert_eq!(bench.read(0x60c0 + 4 * POOL), 0);
        bench.fill_pool(21);
        assert_eq!(bench.read(0x60c0 + 4 * POOL), 16);
        assert_eq!(bench.read(0x6140 + 4 * POOL), 4);
        assert_eq!(bench.count(), 21);
        Ok(())
    }

    #[test]
    fn pool_gives_what_it_got() -> Result {
        let mut bench = Bench::with(HIGH, false)?;

        bench.fill_pool(2);
        for number in 0..2 {
            let buffer = bench.buffer(number);
            assert_eq!(bench.read(0x6400 + 4 * POOL), buffer.dma as u32);
            assert_eq!(bench.read(0x6440), buffer.cookie as u32);
            assert_eq!(bench.read(0x6444), 0x12);
        }
        assert_eq!(bench.read(0x6400 + 4 * POOL), 0);
        assert_eq!(bench.ppv2.journal.bad_releases, 0);
        Ok(())
    }

    #[test]
    fn pool_refuses_what_is_no_buffer() -> Result {
        let mut bench = Bench::with(HIGH, false)?;
        let good = bench.buffer(0);

        bench.release(Buffer { dma: 0, cookie: 0 });
        bench.release(Buffer {
            dma: good.dma + 1,
            cookie: good.cookie + 1,
        });
        bench.release(Buffer {
            dma: good.cookie,
            cookie: good.dma,
        });
        bench.release(Buffer {
            dma: good.dma,
            cookie: good.cookie + 32,
        });
        assert_eq!(bench.ppv2.journal.bad_releases, 4);
        assert_eq!(bench.count(), 0);
        Ok(())
    }

    #[test]
    fn pool_has_an_end() -> Result {
        let mut pool = Pool::new()?;
        let buffer = Buffer {
            dma: 32,
            cookie: 32,
        };

        for _ in 0..crate::bm::CAPACITY {
            pool.give(buffer, Order::Fifo)?;
        }
        assert!(pool.give(buffer, Order::Fifo).is_err());
        assert!(pool.give(buffer, Order::Lifo).is_err());
        Ok(())
    }

    #[test]
    fn eager_pool_gives_the_last_first() -> Result {
        let mut bench = Bench::with(0, true)?;

        bench.fill_pool(3);
        for number in [2, 1, 0] {
            let buffer = bench.buffer(number);
            assert_eq!(bench.read(0x6400 + 4 * POOL), buffer.dma as u32);
        }
        Ok(())
    }

    #[test]
    fn eager_frame_arrives_in_the_release() -> Result {
        let mut bench = Bench::with(0, true)?;

        bench.send(1, 600)?;
        assert_eq!(bench.ppv2.counters(1).rx, 0);
        bench.fill_pool(1);
        assert_eq!(bench.ppv2.counters(1).rx, 1);
        assert_eq!(bench.count(), 0);
        Ok(())
    }

    #[test]
    fn eager_frame_is_completed() -> Result {
        let mut bench = Bench::with(0, true)?;

        bench.write(0x2094, 1 << 16);
        bench.write(0x5420, 1);
        bench.write(regs::CAUSE_MASK, 0xff_0000);
        bench.send(1, 600)?;
        bench.fill_pool(1);
        assert_eq!(bench.wait(10_000), 1);
        assert_eq!(bench.read(0x3c00 + 4 * 128), 2 << 16);
        Ok(())
    }

    #[test]
    fn eager_wire_keeps_its_rate() -> Result {
        let mut bench = Bench::with(0, true)?;

        bench.ppv2.wire.rate = 1000;
        bench.send(8, 876)?; // 7.2 us each
        for number in 0..16 {
            bench.release(bench.buffer(number));
            bench.wait(1000 + DOORBELL_DELAY + 3000 * number as u64);
        }
        // So much is on the wire by now, or begins within a batch.
        let sent = bench.ppv2.counters(0).tx;
        assert!((6..=8).contains(&sent));
        assert_eq!(bench.ppv2.counters(1).rx, sent);
        bench.wait(1000 + DOORBELL_DELAY + 7 * 7200 - 1 - BATCH);
        assert!(bench.ppv2.counters(0).tx < 8);
        bench.wait(1000 + DOORBELL_DELAY + 7 * 7200);
        assert_eq!(bench.ppv2.counters(0).tx, 8);
        Ok(())
    }

    #[test]
    fn eager_wire_keeps_its_order() -> Result {
        let mut bench = Bench::with(0, true)?;

        bench.ppv2.wire.delay = 100_000;
        bench.send(1, 600)?;
        bench.wait(50_000);
        bench.queue_frame(1, 128, 700)?;
        bench.write(0x2090, 2);
        bench.fill_pool(4);
        assert_eq!(bench.ppv2.counters(1).rx, 0);
        bench.wait(98_000);
        bench.release(bench.buffer(4));
        assert_eq!(bench.ppv2.counters(1).rx, 1);
        assert_eq!(bench.received(0)?.1, 600 + MARVELL_HEADER);
        bench.wait(160_000);
        assert_eq!(bench.received(1)?.1, 700 + MARVELL_HEADER);
        Ok(())
    }

    /// What a driver sees that looks at a chain after it gave back its start.
    #[test]
    fn eager_release_shows_in_the_chain() -> Result {
        for eager in [false, true] {
            let mut bench = Bench::with(0x4000_0000, eager)?;

            bench.fill_pool(3);
            bench.receive(2 * ROOM - MARVELL_HEADER)?;
            let first = bench.received(0)?.2;
            let (_, _, before) = follow(&bench, first)?;
            bench.send(1, 1226)?; // too long for a buffer as well
            bench.release(first);
            let (_, _, after) = follow(&bench, first)?;
            let is_changed = before != after;
            assert_eq!(is_changed, eager);
        }
        Ok(())
    }

    #[test]
    fn frame_that_just_fits_is_whole() -> Result {
        let mut bench = Bench::new()?;
        let length = ROOM - MARVELL_HEADER;

        bench.fill_pool(2);
        bench.receive(length)?;
        let (status, size, buffer) = bench.received(0)?;
        assert_eq!(status & RX_BUF_HDR, 0);
        assert_eq!(status >> RX_POOL_SHIFT & 0xf, POOL as u32);
        assert_eq!(size, ROOM);
        assert_eq!(buffer, bench.buffer(0));
        let at = buffer.dma + (HEADROOM + MARVELL_HEADER) as u64;
        assert!(bench.memory_is(at, &frame(length)?)?);
        assert_eq!(bench.ppv2.counters(1).scatter, 0);
        assert_eq!(bench.count(), 1);
        Ok(())
    }

    #[test]
    fn longer_frame_is_scattered() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(2);
        bench.receive(ROOM - MARVELL_HEADER + 1)?;
        let (status, size, first) = bench.received(0)?;
        assert_eq!(status & RX_BUF_HDR, RX_BUF_HDR);
        assert_eq!(status & RX_RESOURCE_ERROR, RX_RESOURCE_ERROR);
        assert_eq!(size, ROOM);
        let (count, info, second) = follow(&bench, first)?;
        assert_eq!((count, info & BUF_HDR_LAST), (ROOM, 0));
        assert_eq!(second, bench.buffer(1));
        let (count, info, none) = follow(&bench, second)?;
        assert_eq!((count, info & BUF_HDR_LAST), (1, BUF_HDR_LAST));
        assert_eq!(none, Buffer::default());
        assert_eq!(bench.ppv2.counters(1).scatter, 1);
        Ok(())
    }

    #[test]
    fn chain_holds_the_frame() -> Result {
        for (offset, buffers) in [(0, 2), (0, 7), (HIGH, 2), (HIGH, 8)] {
            let mut bench = Bench::with(offset, false)?;
            let length = buffers * ROOM - MARVELL_HEADER - 5;
            let sent = frame(length)?;

            bench.fill_pool(buffers + 1);
            bench.receive(length)?;
            let mut buffer = bench.received(0)?.2;
            let mut header = MARVELL_HEADER;
            let mut seen = 0;
            for number in 0..buffers {
                assert_eq!(buffer, bench.buffer(number));
                let (count, info, next) = follow(&bench, buffer)?;
                let data = count - header;
                let at = buffer.dma + (HEADROOM + header) as u64;
                assert!(bench.memory_is(at, &sent[seen..seen + data])?);
                let is_last = info & BUF_HDR_LAST != 0;
                assert_eq!(is_last, (number + 1 == buffers));
                seen += data;
                header = 0;
                buffer = next;
            }
            assert_eq!(seen, length);
            assert_eq!(bench.count(), 1);
        }
        Ok(())
    }

    #[test]
    fn frame_without_enough_buffers_takes_none() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(2);
        bench.receive(3 * ROOM - MARVELL_HEADER)?;
        assert_eq!(bench.ppv2.counters(1).no_buffer, 1);
        assert_eq!(bench.ppv2.counters(1).rx, 0);
        assert_eq!(bench.count(), 2);
        Ok(())
    }

    #[test]
    fn mac_limit_counts_the_fcs() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(2);
        bench.set_limit(1, 800);
        bench.receive(797)?;
        assert_eq!(bench.ppv2.counters(1).oversize, 1);
        bench.receive(796)?;
        assert_eq!(bench.ppv2.counters(1).rx, 1);
        assert_eq!(bench.ppv2.mac_limit(1), 800);
        Ok(())
    }

    #[test]
    fn mac_with_slack_lets_longer_frames_pass() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(2);
        bench.set_limit(1, 800);
        bench.ppv2.wire.slack = 4;
        bench.receive(801)?;
        assert_eq!(bench.ppv2.counters(1).oversize, 1);
        bench.receive(800)?;
        assert_eq!(bench.ppv2.counters(1).rx, 1);
        Ok(())
    }

    #[test]
    fn xlg_has_a_limit_of_its_own() -> Result {
        let mut bench = Bench::new()?;

        bench.ppv2.macs[(0x7e00 + 0x104) / 4] = 500;
        assert_eq!(bench.ppv2.mac_limit(0), 8000);
        bench.ppv2.macs[(0x7e00 + 0x11c) / 4] = 1 << 13;
        assert_eq!(bench.ppv2.mac_limit(0), 1000);
        Ok(())
    }

    #[test]
    fn rx_queue_fills_and_drains() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(20);
        for _ in 0..17 {
            bench.receive(100)?;
        }
        assert_eq!(bench.read(0x3400 + 4 * 32), 16);
        assert_eq!(bench.ppv2.counters(1).full_queue, 1);
        assert_eq!(bench.count(), 4);
        bench.write(0x3000 + 4 * 32, 3 << 16 | 5);
        assert_eq!(bench.read(0x3400 + 4 * 32), 3 << 16 | 11);
        // The ring has an end.
        bench.receive(100)?;
        assert_eq!(bench.received(0)?.2, bench.buffer(16));
        Ok(())
    }

    #[test]
    fn disabled_rx_queue_takes_nothing() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(1);
        bench.write(regs::RXQ_CONFIG + 4 * 32, RXQ_DISABLE);
        bench.receive(100)?;
        assert_eq!(bench.ppv2.counters(1).disabled, 1);
        assert_eq!(bench.count(), 1);
        Ok(())
    }

    #[test]
    fn more_processed_than_there_was_is_misuse() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(1);
        bench.receive(100)?;
        bench.write(0x3000 + 4 * 32, 2);
        assert_eq!(bench.ppv2.journal.misuses, 1);
        assert_eq!(bench.read(0x3400 + 4 * 32) & COUNT_MASK, 0);
        Ok(())
    }

    #[test]
    fn rx_interrupt_by_count() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(8);
        for _ in 0..3 {
            bench.receive(100)?;
        }
        assert_eq!(bench.wait(2000), 0);
        bench.receive(100)?;
        assert_eq!(bench.wait(2000 + INTERRUPT_DELAY - 1), 0);
        assert_eq!(bench.wait(2000 + INTERRUPT_DELAY), 1 << INTERRUPTS_PER_PORT);
        assert_eq!(bench.read(0x5484), 1);
        // It is not repeated as long as the cause stays.
        bench.receive(100)?;
        assert_eq!(bench.wait(90_000), 0);
        Ok(())
    }

    #[test]
    fn rx_interrupt_by_time() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(1);
        bench.receive(100)?;
        assert_eq!(bench.wait(100_000), 0);
        assert_eq!(bench.wait(102_000), 1 << INTERRUPTS_PER_PORT);
        bench.write(0x3000 + 4 * 32, 1);
        assert_eq!(bench.read(0x5484), 0);
        assert_eq!(bench.wait(1_000_000), 0);
        Ok(())
    }

    #[test]
    fn masked_interrupt_waits() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(4);
        bench.write(regs::CAUSE_MASK + 4, 0);
        for _ in 0..4 {
            bench.receive(100)?;
        }
        assert_eq!(bench.wait(500_000), 0);
        bench.write(regs::CAUSE_MASK + 4, 1);
        assert_eq!(bench.wait(600_000), 1 << INTERRUPTS_PER_PORT);
        bench.write(regs::CAUSE_MASK + 4, 0);
        bench.write(0x5424, 1 << 16);
        bench.write(regs::CAUSE_MASK + 4, 1);
        assert_eq!(bench.wait(700_000), 0);
        Ok(())
    }

    #[test]
    fn frames_get_across() -> Result {
        for offset in [0, 0x4000_0000] {
            let mut bench = Bench::with(offset, false)?;

            bench.fill_pool(4);
            bench.send(3, 900)?;
            bench.wait(50_000);
            assert_eq!(bench.ppv2.counters(0).tx, 3);
            assert_eq!(bench.ppv2.counters(1).rx, 3);
            for index in 0..3 {
                let (_, size, buffer) = bench.received(index)?;
                assert_eq!(size, 900 + MARVELL_HEADER);
                let at = buffer.dma + (HEADROOM + MARVELL_HEADER) as u64;
                assert!(bench.memory_is(at, &frame(900)?)?);
            }
            assert_eq!(bench.ppv2.journal.misuses, 0);
        }
        Ok(())
    }

    #[test]
    fn short_frame_is_padded() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(1);
        bench.send(1, 30)?;
        bench.wait(50_000);
        assert_eq!(bench.received(0)?.1, MIN_FRAME + MARVELL_HEADER);
        Ok(())
    }

    #[test]
    fn sent_is_cleared_by_reading() -> Result {
        let mut bench = Bench::new()?;

        bench.send(2, 900)?;
        assert_eq!(bench.read(0x3c00 + 4 * 128), 0);
        assert_eq!(bench.read(0x20a0), 4);
        bench.wait(50_000);
        assert_eq!(bench.read(0x20a0), 0);
        // Each thread sees its own only.
        assert_eq!(bench.read(WINDOW + 0x3c00 + 4 * 128), 0);
        assert_eq!(bench.read(0x3c00 + 4 * 128), 4 << 16);
        assert_eq!(bench.read(0x3c00 + 4 * 128), 0);
        Ok(())
    }

    #[test]
    fn tx_interrupt_by_count_or_time() -> Result {
        for (threshold, delay, due) in [(4, 0xffffff, 20_000), (100, 33_333, 130_000)] {
            let mut bench = Bench::new()?;

            bench.write(0x2094, threshold << 16);
            bench.write(regs::TX_COALESCE_TIME, delay);
            bench.write(0x5420, 1);
            bench.write(regs::CAUSE_MASK, 0xff_0000);
            bench.send(2, 900)?;
            let early = u64::from(threshold == 4);
            assert_eq!(bench.wait(due / 2), early);
            bench.wait(due);
            assert_eq!(bench.read(0x5480), 1 << 16);
            bench.read(0x3c00 + 4 * 128);
            assert_eq!(bench.read(0x5480), 0);
        }
        Ok(())
    }

    #[test]
    fn disabled_tx_queue_waits() -> Result {
        let mut bench = Bench::new()?;

        bench.write(0x8004, 1 << 8);
        bench.send(1, 900)?;
        bench.wait(50_000);
        assert_eq!(bench.ppv2.counters(0).tx, 0);
        bench.write(0x8004, 1);
        bench.wait(100_000);
        assert_eq!(bench.ppv2.counters(0).tx, 1);
        Ok(())
    }

    #[test]
    fn drained_tx_queue_sends_nothing() -> Result {
        let mut bench = Bench::new()?;

        bench.write(0x8004, 1 << 8);
        bench.send(1, 900)?;
        bench.write(0x209c, TXQ_DRAIN);
        bench.write(0x8004, 1);
        bench.wait(50_000);
        assert_eq!(bench.ppv2.counters(0).tx, 0);
        assert_eq!(bench.read(0x20a0), 0);
        Ok(())
    }

    #[test]
    fn descriptors_for_no_queue_are_misuse() -> Result {
        let mut bench = Bench::new()?;

        bench.queue_frame(0, 5, 900)?; // belongs to no port
        bench.write(0x2090, 2);
        assert_eq!(bench.ppv2.journal.misuses, 2);
        bench.queue_frame(1, 129, 900)?; // is not set up
        bench.write(0x2090, 2);
        assert_eq!(bench.ppv2.journal.misuses, 4);
        bench.write(0x2090, 17); // more than the aggregated queue has
        assert_eq!(bench.ppv2.journal.misuses, 5);
        bench.wait(50_000);
        assert_eq!(bench.ppv2.counters(0).tx, 0);
        Ok(())
    }

    #[test]
    fn queues_that_do_not_exist_are_misuse() -> Result {
        let mut bench = Bench::new()?;

        for (misuses, register, limit) in [(1, 0x2040, RXQS), (2, 0x2080, TXQS)] {
            bench.write(register, limit as u32 - 1);
            assert_eq!(bench.ppv2.journal.misuses, misuses - 1);
            bench.write(register, limit as u32);
            assert_eq!(bench.ppv2.journal.misuses, misuses);
        }
        // Nothing is behind the registers that are about them.
        for register in [0x2044, 0x2048, 0x204c, 0x2084, 0x2088, 0x2094, 0x209c] {
            bench.write(register, 0x100);
            assert_eq!(bench.read(register), 0);
        }
        Ok(())
    }

    #[test]
    fn index_beyond_the_queue_is_misuse() -> Result {
        let mut bench = Bench::new()?;

        for (register, select, queue) in [(0x2050, 0x2040, 32), (0x2098, 0x2080, 128)] {
            let misuses = bench.ppv2.journal.misuses;

            bench.write(select, queue);
            bench.write(register, 15);
            assert_eq!(bench.ppv2.journal.misuses, misuses);
            bench.write(register, 16);
            assert_eq!(bench.ppv2.journal.misuses, misuses + 1);
            assert_eq!(bench.read(register), 15);
        }
        Ok(())
    }

    #[test]
    fn any_value_in_any_register_does_no_harm() -> Result {
        let mut bench = Bench::new()?;

        bench.ppv2.wire.delay = u64::MAX;
        bench.ppv2.wire.extra = u64::MAX;
        for value in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x5555_5555] {
            for register in (0..THREADS * WINDOW).step_by(4) {
                bench.write(register, value);
                bench.read(register);
            }
            bench.wait(bench.now + 100_000);
            bench.receive(900)?;
        }
        Ok(())
    }

    #[test]
    fn full_tx_queue_is_misuse() -> Result {
        let mut bench = Bench::new()?;

        bench.write(0x2088, 4);
        bench.write(0x8004, 1 << 8);
        bench.send(3, 900)?;
        assert_eq!(bench.ppv2.journal.misuses, 2);
        assert_eq!(bench.read(0x20a0), 4);
        Ok(())
    }

    #[test]
    fn addresses_without_memory_are_misuse() -> Result {
        let mut bench = Bench::new()?;

        bench.write(regs::AGGR_TXQ_ADDRESS, (MEMORY >> 8) as u32);
        bench.write(0x2090, 1);
        assert_eq!(bench.ppv2.journal.misuses, 1);
        bench.fill_pool(1);
        bench.write(0x2044, (MEMORY >> 8) as u32);
        bench.write(0x2040, 32);
        bench.write(0x2044, (MEMORY >> 8) as u32);
        bench.receive(100)?;
        assert_eq!(bench.ppv2.journal.misuses, 2);
        Ok(())
    }

    #[test]
    fn reservations_end_with_the_room() -> Result {
        let mut bench = Bench::new()?;
        let request = |count: u32| 128 << 16 | count;

        bench.write(0x20b0, request(10));
        assert_eq!(bench.read(0x20b4), 10);
        // Another thread gets what is left.
        bench.write(WINDOW + 0x20b0, request(10));
        assert_eq!(bench.read(WINDOW + 0x20b4), 6);
        bench.write(0x20b8, 128 << 16);
        bench.write(WINDOW + 0x20b0, request(16));
        assert_eq!(bench.read(WINDOW + 0x20b4), 10);
        Ok(())
    }

    #[test]
    fn reservations_are_used_up_by_frames() -> Result {
        let mut bench = Bench::new()?;
        let request = |count: u32| 128 << 16 | count;

        bench.write(0x20b0, request(16));
        bench.send(2, 900)?;
        bench.write(0x20b0, request(1));
        assert_eq!(bench.read(0x20b4), 0);
        bench.wait(50_000);
        bench.write(0x20b0, request(16));
        assert_eq!(bench.read(0x20b4), 4);
        Ok(())
    }

    #[test]
    fn bank_entries_are_kept_apart() -> Result {
        for bank in BANKS
            .iter()
            .filter(|bank| bank.index != regs::SCHEDULER_PORT)
        {
            let mut bench = Bench::new()?;

            for entry in [0, 1, bank.entries - 1] {
                bench.write(bank.index, entry as u32);
                bench.write(bank.first, 100 + entry as u32);
                bench.write(bank.last, 200 + entry as u32 + bank.first as u32);
            }
            for entry in [0, 1, bank.entries - 1] {
                bench.write(bank.index, entry as u32);
                let last = bench.read(bank.last);
                assert_eq!(last, 200 + entry as u32 + bank.first as u32);
            }
        }
        Ok(())
    }

    #[test]
    fn unknown_registers_are_told_once() -> Result {
        let mut bench = Bench::new()?;

        bench.read(0xfff0);
        bench.write(WINDOW + 0xfff0, 1);
        assert_eq!(bench.ppv2.journal.unknowns, 2);
        assert!(bench.ppv2.journal.take().is_some());
        assert!(bench.ppv2.journal.take().is_none());
        Ok(())
    }

    #[test]
    fn odd_accesses_are_misuse() -> Result {
        let mut bench = Bench::new()?;

        bench.ppv2.read(|| 0, 0x2040, 2);
        bench.ppv2.write(|| 0, THREADS * WINDOW, 4, 1);
        assert_eq!(bench.ppv2.journal.misuses, 2);
        Ok(())
    }

    #[test]
    fn checksums_are_filled_in_and_verified() -> Result {
        for (is_ipv6, is_udp) in [(false, false), (false, true), (true, false), (true, true)] {
            for length in [90, 91, 1514] {
                let mut bytes = packet(is_ipv6, is_udp, length)?;

                packet::fill_checksums::<Book>(&mut bytes, command(is_ipv6, is_udp));
                let parsed = packet::parse::<Book>(&bytes, None);
                assert!(!parsed.bad_checksum);
                assert_eq!(parsed.status & RX_L4_GOOD, RX_L4_GOOD);
                assert_eq!(parsed.status >> 25 & 3, if is_udp { 2 } else { 1 });
                assert_eq!(parsed.status & 1 << 24, 0);
                bytes[length - 1] ^= 1;
                let parsed = packet::parse::<Book>(&bytes, None);
                assert!(parsed.bad_checksum);
                assert_eq!(parsed.status & RX_L4_GOOD, 0);
            }
        }
        Ok(())
    }

    #[test]
    fn checksum_of_a_known_header() -> Result {
        // Any header whose checksum was computed by others.
        let mut bytes = KVec::from_elem(0u8, 129, GFP_KERNEL)?;
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];

        bytes[14..34].copy_from_slice(&header);
        packet::fill_checksums::<Book>(&mut bytes, command(false, true));
        assert_eq!(bytes[24..26], [0xb8, 0x61]);
        Ok(())
    }

    #[test]
    fn kernel_and_book_agree() -> Result {
        for length in [0, 1, 2, 3, 20, 255, 1500] {
            let bytes = frame(length)?;
            let kernel = crate::KernelSum::sum(&bytes, 0);

            // Both zeros are the same.
            assert_eq!(kernel % 0xffff, Book::sum(&bytes, 0) % 0xffff);
        }
        Ok(())
    }

    #[test]
    fn headers_that_are_not_there_are_left_alone() -> Result {
        for length in 0..60 {
            let mut bytes = packet(false, false, 90)?;

            bytes.truncate(length);
            let before = packet::parse::<Book>(&bytes, None).bad_checksum;
            assert!(!before);
            packet::fill_checksums::<Book>(&mut bytes, command(length % 2 == 0, true));
        }
        Ok(())
    }

    #[test]
    fn wire_has_a_rate() -> Result {
        let mut bench = Bench::new()?;

        bench.set_limit(1, 0);
        bench.ppv2.wire.rate = 1000;
        bench.send(8, 1226)?; // 10 us each
        bench.wait(1000 + DOORBELL_DELAY + 69_999);
        assert!(bench.ppv2.counters(0).tx < 8);
        bench.wait(1000 + DOORBELL_DELAY + 70_000);
        assert_eq!(bench.ppv2.counters(0).tx, 8);
        Ok(())
    }

    #[test]
    fn wire_has_a_length() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(1);
        bench.ppv2.wire.delay = 1_000_000;
        bench.send(1, 900)?;
        bench.wait(1_001_199);
        assert_eq!(bench.ppv2.counters(1).rx, 0);
        bench.wait(1_001_200);
        assert_eq!(bench.ppv2.counters(1).rx, 1);
        Ok(())
    }

    #[test]
    fn wire_loses_one_in_so_many() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(8);
        bench.ppv2.wire.loss = 3;
        bench.send(7, 900)?;
        bench.wait(50_000);
        assert_eq!(bench.ppv2.counters(1).lost, 2);
        assert_eq!(bench.ppv2.counters(1).rx, 5);
        Ok(())
    }

    #[test]
    fn wire_lengthens_one_in_so_many() -> Result {
        let mut bench = Bench::new()?;

        bench.fill_pool(8);
        bench.ppv2.wire.extra = 200;
        bench.ppv2.wire.extra_every = 2;
        bench.send(4, 900)?;
        bench.wait(50_000);
        assert_eq!(bench.ppv2.counters(1).rx, 4);
        assert_eq!(bench.ppv2.counters(1).scatter, 2);
        Ok(())
    }
}
