// SPDX-License-Identifier: GPL-2.0

//! A software model of the Marvell PPv2.2 packet processor.
//!
//! Ports 0 and 1 are wired to each other. The driver, which knows nothing of
//! this, finds them in the device tree if the kernel's parameter says
//! `ppv2_model=on`. After a comma there may be
//!
//! - `dma-offset`: bus addresses are 0x40000000 above physical ones,
//! - `eager`: a released buffer is the next to be used, and a frame that is
//!   under way arrives in the very release.
//!
//! `ppv2_model/` in debugfs has `counters` and what the wire does to frames:
//! `rate` in Mbit/s, `delay` in ns, `loss` (one in so many), `extra` bytes for
//! one frame in `extra_every`; and `slack`, by how many bytes a frame may exceed
//! the MAC's limit: longer ones than buffers are scattered only if it is not 0,
//! or if the driver sets the limit too high.
//!
//! # Registers
//!
//! With side effects ([`regs::Register`]): selection and set-up of RX and TX
//! queues, their status and update registers, the doorbell of the aggregated
//! TX queues, reservations, sent counters (read clears), interrupt groups,
//! enables, causes and masks, taking and releasing of buffers with the latches
//! that belong to it, counts of pools, commands of the TX scheduler, and the
//! indexed tables of parser, classifier and scheduler ([`regs::BANKS`]).
//!
//! Plain memory: all others that the driver uses, those of the MACs (of which
//! the largest frame size is looked at), of the system controller and of the
//! firmware, whose commands are done at once. Counters of the hardware read 0.
//!
//! Any other register of the packet processor is told of once and counted as
//! `unknown`; what hardware would choke on is `badrelease` or `misuse`.
//!
//! # What is assumed of the hardware
//!
//! - A frame is received into buffers of the short pool if it fits one, of the
//!   long pool if not; if it fits none of these, it is scattered over several.
//!   Then the status has the buffer header's bit and a resource error, the size
//!   is what the first buffer holds, and the transport's checksum is not
//!   vouched for. If the pool has too few buffers, the frame takes none.
//! - The buffer's header is at its start, the data behind the same headroom in
//!   each. Word 0 and byte 14 are the next buffer's bus address, word 1 and
//!   byte 15 its cookie; as in the RX descriptor, whose order this is.
//! - The FCS is not stored, but counts for the MAC's limit.
//! - Frames are all for the first RX queue: parser and classifier only keep
//!   what is written to them. Headers are found without them.
//! - A pool holds one buffer ready, which it does not count. Its pointers are
//!   kept inside, not in the memory that the driver offers.
//! - Reservations are granted as far as there is room in the TX queue.
//!
//! What is simpler than in hardware: both MACs run at the rate of the wire
//! whatever the link's speed, pause frames and shapers do nothing, descriptors
//! leave the aggregated queue in the doorbell, and frames are sent in batches
//! of 5 us, whose completions are all seen at the batch's start.

mod bm;
mod journal;
mod memory;
mod packet;
mod ppv2;
mod regs;
mod wire;

use core::ptr::null_mut;
use core::str::FromStr;
use journal::Report;
use kernel::{
    bindings,
    debugfs::{self, Reader},
    ffi::{c_int, c_void},
    fmt, new_spinlock_irq,
    prelude::*,
    sync::SpinLockIrq,
    types::ForeignOwnable,
    uaccess::UserSliceReader,
};
use memory::Window;
use packet::Sum;
use ppv2::{Ppv2, NEVER};
use regs::POOLS;
use wire::Wire;

/// What module! would define for pr_warn!.
const __LOG_PREFIX: &[u8] = b"ppv2_model\0";

/// Ports that the device tree has.
const CONNECTED: usize = 2;

/// Words of the windows that the firmware and the system controller have.
const CM3_WORDS: usize = 0x800 / 4;
const SYSTEM_WORDS: usize = 0x2000 / 4;

/// The first word of the firmware's window is a command; this bit is up until
/// it is done, which is at once.
const CM3_BUSY: u32 = 1 << 31;

fn now() -> u64 {
    // SAFETY: It has no requirements.
    unsafe { bindings::ppv2_model_now() }
}

/// Checksums by the kernel's own function.
struct KernelSum;

impl Sum for KernelSum {
    fn sum(data: &[u8], sum: u32) -> u32 {
        // SAFETY: `data` is valid for reads of its length.
        let own = unsafe { bindings::ppv2_model_sum(data.as_ptr().cast(), data.len() as i32) };

        sum + u32::from(own)
    }
}

/// Everything that the lock protects.
struct State {
    ppv2: Ppv2<Window, KernelSum>,
    cm3: KVVec<u32>,
    system: KVVec<u32>,
    armed: u64,
}

impl State {
    fn new() -> Result<Self> {
        // SAFETY: It has no requirements.
        let eager = unsafe { bindings::ppv2_model_is_eager() };

        Ok(Self {
            ppv2: Ppv2::new(Window::of_machine(), eager)?,
            cm3: KVVec::from_elem(0, CM3_WORDS, GFP_KERNEL)?,
            system: KVVec::from_elem(0, SYSTEM_WORDS, GFP_KERNEL)?,
            armed: NEVER,
        })
    }

    fn memory(&mut self, window: u32) -> &mut [u32] {
        match window {
            bindings::ppv2_model_window_PPV2_MODEL_MACS => &mut self.ppv2.macs,
            bindings::ppv2_model_window_PPV2_MODEL_CM3 => &mut self.cm3,
            bindings::ppv2_model_window_PPV2_MODEL_SYSTEM => &mut self.system,
            _ => &mut [],
        }
    }

    fn read(&mut self, window: u32, offset: usize, size: i32) -> u32 {
        if window == bindings::ppv2_model_window_PPV2_MODEL_PACKETS {
            return self.ppv2.read(now, offset, size);
        }
        match self.memory(window).get(offset / 4) {
            Some(word) if size == 4 => *word,
            _ => {
                self.ppv2.bad_access(offset, size);
                0
            }
        }
    }

    fn write(&mut self, window: u32, offset: usize, size: i32, value: u32) {
        let is_command = window == bindings::ppv2_model_window_PPV2_MODEL_CM3 && offset == 0;
        let value = if is_command { value & !CM3_BUSY } else { value };

        if window == bindings::ppv2_model_window_PPV2_MODEL_PACKETS {
            return self.ppv2.write(now, offset, size, value);
        }
        match self.memory(window).get_mut(offset / 4) {
            Some(word) if size == 4 => *word = value,
            _ => self.ppv2.bad_access(offset, size),
        }
    }

    /// Sets the timer if something is to happen before it expires.
    fn arm(&mut self) {
        let next = self.ppv2.next_alarm();

        if next < self.armed {
            self.armed = next;
            // SAFETY: The timer is set up before anything can get here.
            unsafe { bindings::ppv2_model_alarm(next) };
        }
    }
}

/// The model, which lives as long as the kernel.
#[pin_data]
struct Model {
    #[pin]
    state: SpinLockIrq<State>,
}

impl Model {
    fn new() -> Result<Pin<KBox<Self>>> {
        let state = State::new()?;

        KBox::pin_init(
            pin_init!(Self { state <- new_spinlock_irq!(state) }),
            GFP_KERNEL,
        )
    }

    /// Does something at the hardware, and all that follows from it.
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = act(&mut state);

        state.arm();
        while let Some(report) = state.ppv2.journal.take() {
            tell(report);
        }
        result
    }

    /// # Safety
    ///
    /// `model` must be what [`ppv2_model_create`] has returned.
    unsafe fn from_shim<'a>(model: *mut c_void) -> &'a Self {
        // SAFETY: It was made by into_foreign() and is never freed.
        unsafe { <Pin<KBox<Self>> as ForeignOwnable>::borrow(model) }.get_ref()
    }
}

/// Makes the model; null if that is not possible.
#[export]
extern "C" fn ppv2_model_create() -> *mut c_void {
    let create = || -> Result<*mut c_void> {
        let model = Model::new()?.into_foreign();

        // SAFETY: `model` was made as it is in from_shim().
        add_files(unsafe { Model::from_shim(model) })?;
        Ok(model)
    };

    create().unwrap_or(null_mut())
}

/// A register is read.
///
/// # Safety
///
/// `model` must be what [`ppv2_model_create`] has returned.
#[export]
unsafe extern "C" fn ppv2_model_read(
    model: *mut c_void,
    window: u32,
    offset: u32,
    size: c_int,
) -> u32 {
    // SAFETY: By the requirement of this function.
    let model = unsafe { Model::from_shim(model) };

    model.with(|state| state.read(window, offset as usize, size))
}

/// A register is written.
///
/// # Safety
///
/// `model` must be what [`ppv2_model_create`] has returned.
#[export]
unsafe extern "C" fn ppv2_model_write(
    model: *mut c_void,
    window: u32,
    offset: u32,
    size: c_int,
    value: u32,
) {
    // SAFETY: By the requirement of this function.
    let model = unsafe { Model::from_shim(model) };

    model.with(|state| state.write(window, offset as usize, size, value));
}

/// The time of the alarm has come. Returns interrupts, one bit each.
///
/// # Safety
///
/// `model` must be what [`ppv2_model_create`] has returned.
#[export]
unsafe extern "C" fn ppv2_model_run(model: *mut c_void) -> u64 {
    // SAFETY: By the requirement of this function.
    let model = unsafe { Model::from_shim(model) };

    model.with(|state| {
        state.armed = NEVER;
        state.ppv2.run(now())
    })
}

fn tell(report: Report) {
    match report {
        Report::Unknown(register) => pr_warn!("unknown register {register:#x}\n"),
        Report::Misuse(misuse, first, second) => {
            pr_warn!("misuse: {misuse:?}, {first:#x}, {second:#x}\n")
        }
    }
}

/// The file "counters".
struct CountersFile(&'static Model);

fn show_counters(file: &CountersFile, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    file.0.with(|state| {
        let ppv2 = &state.ppv2;

        for pool in 0..POOLS {
            let (count, size) = ppv2.pool(pool);
            writeln!(f, "pool{pool} n {count} bufsize {size}")?;
        }
        for port in 0..CONNECTED {
            let c = ppv2.counters(port);
            write!(
                f,
                "port{port} tx {} rx {} scatter {}",
                c.tx, c.rx, c.scatter
            )?;
            write!(f, " nobuf {} fullq {}", c.no_buffer, c.full_queue)?;
            write!(f, " disabled {} oversize {}", c.disabled, c.oversize)?;
            write!(f, " badcsum {} lost {}", c.bad_checksum, c.lost)?;
            writeln!(f, " maclimit {}", ppv2.mac_limit(port))?;
        }
        let (totals, journal) = (ppv2.totals(), &ppv2.journal);
        write!(f, "mmio rd {} wr {}", totals.reads, totals.writes)?;
        write!(
            f,
            " irqs {} badrelease {}",
            totals.interrupts, journal.bad_releases
        )?;
        writeln!(
            f,
            " unknown {} misuse {}",
            journal.unknowns, journal.misuses
        )
    })
}

/// A file with a number that says something about the wire.
struct Knob {
    model: &'static Model,
    of: fn(&mut Wire) -> &mut u64,
}

impl fmt::Debug for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.model.with(|state| *(self.of)(&mut state.ppv2.wire));

        write!(f, "{value}")
    }
}

impl Reader for Knob {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let mut bytes = [0; 24];
        let text = bytes.get_mut(..reader.len()).ok_or(EINVAL)?;

        reader.read_slice(text)?;
        let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
        let value = u64::from_str(text.trim()).map_err(|_| EINVAL)?;
        self.model
            .with(|state| *(self.of)(&mut state.ppv2.wire) = value);
        Ok(())
    }
}

fn add_knob(
    dir: &debugfs::Dir,
    name: &'static CStr,
    model: &'static Model,
    of: fn(&mut Wire) -> &mut u64,
) -> Result {
    let file = KBox::pin_init(dir.read_write_file(name, Knob { model, of }), GFP_KERNEL)?;

    // The file stays, as the model does.
    let _ = file.into_foreign();
    Ok(())
}

fn add_files(model: &'static Model) -> Result {
    let dir = debugfs::Dir::new(c"ppv2_model");
    let counters = dir.read_callback_file(c"counters", CountersFile(model), &show_counters);
    let counters = KBox::pin_init(counters, GFP_KERNEL)?;

    let _ = counters.into_foreign();
    add_knob(&dir, c"rate", model, |wire| &mut wire.rate)?;
    add_knob(&dir, c"delay", model, |wire| &mut wire.delay)?;
    add_knob(&dir, c"loss", model, |wire| &mut wire.loss)?;
    add_knob(&dir, c"extra", model, |wire| &mut wire.extra)?;
    add_knob(&dir, c"extra_every", model, |wire| &mut wire.extra_every)?;
    add_knob(&dir, c"slack", model, |wire| &mut wire.slack)
}
