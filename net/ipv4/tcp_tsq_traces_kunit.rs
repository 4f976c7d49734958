// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of how TCP Small Queues learn, on random traces.
//!
//! A trace is a simulated device with its own lateness, truesize and RTT; what
//! is checked is what the learned time does for that device, never how
//! `tcp_tsq_update()` computes it. The traces are the same in every run.

use kernel::prelude::*;

// What module! would define for pr_err!
const __LOG_PREFIX: &[u8] = b"tcp_tsq_traces\0";

#[kunit_tests(tcp_tsq_traces)]
mod tests {
    use super::*;
    use kernel::bindings::{tcp_tsq, tcp_tsq_sample, tcp_tsq_update};

    /// Traces of each test.
    const TRACES: u32 = 1_000_000;

    /// What `sk_pacing_shift` allows for in any case, in us.
    const ALLOWED_US: u32 = 1000;

    /// The longest time that may be learned, in us.
    const MAX_US: u32 = 500_000;

    /// What was not needed for so long is given back, in us.
    const WINDOW_US: u32 = 250_000;

    /// Pseudo-random numbers: xorshift64* (Marsaglia 2003, Vigna 2016).
    struct Random(u64);

    impl Random {
        /// The numbers of trace `number`, which must not be the first 2^64th.
        fn new(number: u32) -> Self {
            let mut random = Random((u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // Neighbouring seeds have their first numbers in common.
            random.next();
            random
        }

        fn next(&mut self) -> u32 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
        }

        /// A number from `low` to `high`, both included.
        fn within(&mut self, low: u32, high: u32) -> u32 {
            let range = u64::from(high - low) + 1;
            low + ((u64::from(self.next()) * range) >> 32) as u32
        }

        /// Each order of magnitude is as likely as any other.
        fn any_size(&mut self) -> u32 {
            let shift = self.within(0, 31);
            self.next() >> shift
        }
    }

    /// What TCP keeps of a socket, with its clock.
    #[derive(Clone, Copy)]
    struct Socket {
        tsq: tcp_tsq,
        /// Learned, in us; 0: nothing.
        time_us: u32,
        now_us: u32,
    }

    impl Socket {
        fn new(now_us: u32) -> Self {
            Socket {
                tsq: tcp_tsq::default(),
                time_us: 0,
                now_us,
            }
        }

        /// A completion for which it has waited `waited_us`, and that left
        /// `left_us` in the queues.
        fn completed(&mut self, mut sample: tcp_tsq_sample) {
            self.now_us = self.now_us.wrapping_add(sample.waited_us);
            sample.now_us = self.now_us;
            // SAFETY: Both pointers are valid for the call, and nothing keeps them.
            self.time_us = unsafe { tcp_tsq_update(&mut self.tsq, self.time_us, &sample) };
        }

        /// The same socket in a kernel that booted `by_us` earlier.
        fn shifted(mut self, by_us: u32) -> Self {
            let shift = |time_us: &mut u32| *time_us = time_us.wrapping_add(by_us);
            shift(&mut self.tsq.grown_us);
            shift(&mut self.tsq.window_us);
            shift(&mut self.now_us);
            self
        }

        fn is_within_bounds(&self) -> bool {
            self.time_us == 0 || (ALLOWED_US < self.time_us && self.time_us <= MAX_US)
        }
    }

    /// A device that completes what it was given some time later.
    struct Device {
        /// How late completions are, in us.
        late_us: u32,
        /// Truesize of a byte on the wire, in eighths.
        overhead: u32,
        rtt_us: u32,
    }

    impl Device {
        /// One that is later than `ALLOWED_US`.
        fn late(random: &mut Random) -> Self {
            let magnitude = random.within(0, 5);
            let low_us = (ALLOWED_US + 100) << magnitude;
            Device {
                late_us: random.within(low_us, 2 * low_us),
                overhead: random.within(8, 28),
                rtt_us: random.within(100, 20_000),
            }
        }

        /// The shortest time with which it never starves, in us.
        fn needed_us(&self) -> u32 {
            self.late_us * self.overhead / 8
        }

        /// Time in which whatever can be learned has been, in us.
        fn learning_us(&self) -> u32 {
            40 * self.late_us.max(self.rtt_us)
        }

        /// One completion, `late_us` after the socket was throttled; returns for
        /// how long the device had nothing to send, in us.
        fn complete(&self, socket: &mut Socket, late_us: u32) -> u32 {
            let allowed_us = socket.time_us.max(ALLOWED_US) * 8 / self.overhead;
            let left_us = allowed_us.saturating_sub(late_us) * self.overhead / 8;
            socket.completed(tcp_tsq_sample {
                waited_us: late_us,
                rtt_us: self.rtt_us,
                left_us,
                ..Default::default()
            });
            late_us.saturating_sub(allowed_us)
        }

        /// Completions for `for_us`; returns the share of it, in %, in which the
        /// device had nothing to send.
        fn run(&self, socket: &mut Socket, for_us: u32) -> u32 {
            let (mut time_us, mut idle_us) = (0, 0);
            while time_us < for_us {
                idle_us += self.complete(socket, self.late_us);
                time_us += self.late_us;
            }
            (u64::from(idle_us) * 100 / u64::from(time_us)) as u32
        }

        /// True if it has what it needs, within a quarter of the lateness, and
        /// not more than that or an eighth too much.
        fn is_served(&self, socket: &mut Socket) -> bool {
            let starved = self.run(socket, 2 * WINDOW_US) > 3;
            let needed_us = self.needed_us();
            let step_us = self.late_us / 4 + 1;
            // Rounded: what is allowed, to us on the wire; what is left; what is needed
            let rounding_us = self.overhead / 8 + 2;
            let slack_us = step_us.max(socket.time_us / 8 + rounding_us);
            !starved
                && socket.time_us + step_us >= needed_us
                && socket.time_us <= needed_us + slack_us
        }
    }

    /// A device that was late from the first trace on is served for good.
    fn converges(random: &mut Random) -> bool {
        let device = Device::late(random);
        let mut socket = Socket::new(random.next());
        device.run(&mut socket, device.learning_us());
        device.is_served(&mut socket)
    }

    /// A restart after idling forgets (tcp_cwnd_restart()), and it is learned again.
    fn learns_again(random: &mut Random) -> bool {
        let device = Device::late(random);
        let mut socket = Socket::new(random.next());
        device.run(&mut socket, device.learning_us());
        socket.time_us = 0;
        socket.now_us = socket.now_us.wrapping_add(random.any_size());
        device.run(&mut socket, device.learning_us());
        device.is_served(&mut socket)
    }

    /// Completions that come less late are followed, and the device does not
    /// starve for it.
    fn follows(random: &mut Random) -> bool {
        let mut device = Device::late(random);
        let mut socket = Socket::new(random.next());
        device.run(&mut socket, device.learning_us());
        device.late_us = random.within(ALLOWED_US + 100, device.late_us);
        let starved = device.run(&mut socket, 3 * WINDOW_US) > 3;
        !starved && device.is_served(&mut socket)
    }

    /// What was learned goes when completions are in time again.
    fn forgets(random: &mut Random) -> bool {
        let mut device = Device::late(random);
        let mut socket = Socket::new(random.next());
        device.run(&mut socket, device.learning_us());
        let learned_us = socket.time_us;
        device.late_us = random.within(ALLOWED_US / 2, ALLOWED_US);
        device.overhead = 8;
        device.run(&mut socket, 3 * WINDOW_US);
        learned_us > 0 && socket.time_us == 0
    }

    /// One stall among completions in time teaches nothing.
    fn ignores_a_stall(random: &mut Random) -> bool {
        let device = Device {
            late_us: random.within(1, ALLOWED_US),
            ..Device::late(random)
        };
        let mut socket = Socket::new(random.next());
        let stall = random.within(0, 15);
        (0..16).all(|number| {
            let late_us = match number == stall {
                true => random.any_size() / 2,
                false => device.late_us,
            };
            device.complete(&mut socket, late_us);
            socket.time_us == 0
        })
    }

    /// A queue on the path, which the RTT shows, is no lateness of the device.
    fn ignores_the_path(random: &mut Random) -> bool {
        let mut socket = Socket::new(random.next());
        let queue_us = random.any_size() / 2;
        (0..16).all(|_| {
            socket.completed(tcp_tsq_sample {
                waited_us: queue_us + random.within(0, ALLOWED_US),
                queue_us,
                rtt_us: queue_us + random.within(1, 20_000),
                ..Default::default()
            });
            socket.time_us == 0
        })
    }

    /// A queue that lasts longer than completions are late keeps the device busy.
    fn leaves_it_to_others(random: &mut Random) -> bool {
        let device = Device::late(random);
        let mut socket = Socket::new(random.next());
        (0..16).all(|_| {
            let queue_us = random.within(device.late_us, 1_000_000);
            socket.completed(tcp_tsq_sample {
                waited_us: queue_us + device.late_us,
                queue_us,
                rtt_us: queue_us + device.rtt_us,
                ..Default::default()
            });
            socket.time_us == 0
        })
    }

    /// Only differences of times count: the clock wraps every 71 minutes.
    fn has_no_epoch(random: &mut Random) -> bool {
        let device = Device::late(random);
        let mut socket = Socket::new(random.next());
        let mut jitter = |socket: &mut Socket, other: &mut Socket| {
            let late_us = random.within(1, 2 * device.late_us);
            device.complete(socket, late_us);
            device.complete(other, late_us);
            socket.time_us == other.time_us
        };
        let mut copy = socket;
        let warm = (0..64).all(|_| jitter(&mut socket, &mut copy));
        let mut other = socket.shifted(u32::MAX - socket.now_us);
        warm && (0..64).all(|_| jitter(&mut socket, &mut other))
    }

    /// Whatever is seen: it stays within bounds, grows only where the device
    /// starved and the limit can follow, and shrinks only where it had something.
    fn is_bounded(random: &mut Random) -> bool {
        let mut socket = Socket::new(random.next());
        (0..16).all(|_| {
            let last_us = socket.time_us;
            let kind = random.next();
            let sample = tcp_tsq_sample {
                waited_us: random.any_size(),
                queue_us: random.any_size(),
                rtt_us: random.any_size(),
                left_us: if kind & 1 == 0 { 0 } else { random.any_size() },
                capped: kind & 6 == 0,
                ..Default::default()
            };
            socket.completed(sample);
            let may_grow = sample.left_us == 0 && !sample.capped;
            let may_shrink = sample.left_us > 0 || sample.queue_us > 0;
            socket.is_within_bounds()
                && (may_grow || socket.time_us <= last_us)
                && (may_shrink || socket.time_us >= last_us)
        })
    }

    /// The first trace, by number, on which `property` does not hold.
    fn exception(property: fn(&mut Random) -> bool) -> Option<u32> {
        let number = (0..TRACES).find(|&number| !property(&mut Random::new(number)))?;
        pr_err!("not on trace {number}\n");
        Some(number)
    }

    #[test]
    fn a_late_device_is_served() {
        assert_eq!(exception(converges), None);
    }

    #[test]
    fn a_restart_is_learned_again() {
        assert_eq!(exception(learns_again), None);
    }

    #[test]
    fn less_lateness_is_followed() {
        assert_eq!(exception(follows), None);
    }

    #[test]
    fn what_is_not_needed_goes() {
        assert_eq!(exception(forgets), None);
    }

    #[test]
    fn one_stall_is_no_lateness() {
        assert_eq!(exception(ignores_a_stall), None);
    }

    #[test]
    fn the_path_is_no_lateness() {
        assert_eq!(exception(ignores_the_path), None);
    }

    #[test]
    fn who_waits_behind_others_does_not_starve_the_device() {
        assert_eq!(exception(leaves_it_to_others), None);
    }

    #[test]
    fn there_is_no_epoch() {
        assert_eq!(exception(has_no_epoch), None);
    }

    #[test]
    fn everything_is_bounded() {
        assert_eq!(exception(is_bounded), None);
    }
}
