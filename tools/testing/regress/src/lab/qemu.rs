// SPDX-License-Identifier: GPL-2.0
//! QEMU: a virtual machine of the `microvm` kind, its root the host's over 9p.

use super::Job;
use crate::case::Lab;
use crate::ui;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// MiB of memory of one machine.
pub const MEMORY: u64 = 1024;

/// How long the probe's guest may take; with KVM it takes about a second.
const PROBE: Duration = Duration::from_secs(15);

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accel {
    Kvm,
    /// Emulation: works everywhere, about ten times slower.
    #[default]
    Tcg,
}

impl std::fmt::Display for Accel {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Accel::Kvm => "KVM",
            Accel::Tcg => "TCG",
        })
    }
}

/// CPUs of one machine: two show races, more than the host has only wait. An
/// emulated clock that counts instructions differs between CPUs: one there.
pub fn cpus(accel: Accel) -> usize {
    match accel {
        Accel::Kvm => std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(2)),
        Accel::Tcg => 1,
    }
}

/// How the guest's instructions run. Emulated, each takes 1 ns by the guest's
/// clock: its CPU is then as fast on a busy host as on an idle one, and its TSC
/// is exact. Without, Linux finds no TSC it could trust, its timers are as
/// coarse as the tick, and a link's rate is what the host has left.
fn accelerate(command: &mut Command, accel: Accel) {
    match accel {
        Accel::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accel::Tcg => command.args(["-accel", "tcg", "-cpu", "max", "-icount", "shift=0"]),
    };
    command.args(["-smp", &cpus(accel).to_string()]);
}

/// Finds out whether KVM really works by booting `job`'s kernel with it: the
/// device may be there and the guest still hang. Asked once a boot of the host.
pub fn probe(job: &Job, memory: &Path) -> Result<Accel> {
    if !is_native(&job.kernel)
        || fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_err()
    {
        return Ok(Accel::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = fs::read_to_string(memory).unwrap_or_default();
    if let Some(accel) = known.strip_prefix(boot.trim()) {
        return Ok(if accel.trim() == "KVM" {
            Accel::Kvm
        } else {
            Accel::Tcg
        });
    }
    let step = ui::Step::start("KVM: /dev/kvm is there; booting a guest to see whether it works");
    let probe = Job {
        lab: Lab::Qemu,
        argv: vec!["true".into()],
        tools: Vec::new(),
        env: Vec::new(),
        timeout: PROBE,
        accel: Accel::Kvm,
        ..job.clone()
    };
    let works = probe.run()?.ending == super::Ending::Exit(0);
    let accel = if works { Accel::Kvm } else { Accel::Tcg };
    step.done(if works {
        "it does"
    } else {
        "it does not; emulating with TCG, which is slower"
    });
    fs::write(memory, format!("{} {accel}\n", boot.trim()))
        .with_context(|| format!("cannot write {}", memory.display()))?;
    Ok(accel)
}

/// KVM runs only the host's own architecture, x86_64 here.
fn is_native(_kernel: &Path) -> bool {
    cfg!(target_arch = "x86_64")
}

/// The command that boots `job`, output and verdict on virtio ports.
pub fn command(job: &Job) -> Result<Command> {
    let mut command = base(job);
    command
        .arg("-chardev")
        .arg(format!("file,id=output,path={}", escape(&job.output())))
        .args(["-device", "virtserialport,chardev=output,nr=1"])
        .stdin(Stdio::null());
    to_console(&mut command, job)?;
    Ok(command)
}

/// The same guest with this process's terminal as its terminal.
pub fn interactive(job: &Job) -> Result<Command> {
    let mut command = base(job);
    command
        .args(["-chardev", "stdio,id=terminal,signal=off"])
        .args(["-device", "virtconsole,chardev=terminal,nr=0"]);
    Ok(command)
}

fn base(job: &Job) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    accelerate(&mut command, job.accel);
    let mut parameters = job.kernel_parameters(&job.init(), &job.file());
    parameters.extend(
        [
            "root=root",
            "rootfstype=9p",
            "rootflags=trans=virtio,version=9p2000.L,msize=512000,cache=loose",
            "console=ttyS0",
            "panic=-1",
            "reboot=t",
        ]
        .map(String::from),
    );
    if job.accel == Accel::Tcg {
        // There is no other clock to watch it with.
        parameters.push("tsc=reliable".into());
    }
    command
        .args(["-M", "microvm,acpi=off,rtc=on"])
        .args(["-m", &MEMORY.to_string()])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args(["-global", "virtio-mmio.force-legacy=false"])
        .arg("-kernel")
        .arg(&job.kernel)
        .args(["-append", &parameters.join(" ")])
        .arg("-serial")
        .arg(format!("file:{}", job.console().display()))
        .args([
            "-fsdev",
            "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        ])
        .args(["-device", "virtio-9p-device,fsdev=root,mount_tag=root"])
        .args(["-device", "virtio-serial-device,max_ports=4"])
        .arg("-chardev")
        .arg(format!("file,id=verdict,path={}", escape(&job.verdict())))
        .args(["-device", "virtserialport,chardev=verdict,nr=2"]);
    command
}

/// QEMU's own complaints stand beside the console.
fn to_console(command: &mut Command, job: &Job) -> Result<()> {
    let path = job.dir.join("qemu.log");
    let log =
        fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    command.stdout(log.try_clone()?).stderr(log);
    Ok(())
}

/// A path within an option: QEMU wants commas doubled.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
