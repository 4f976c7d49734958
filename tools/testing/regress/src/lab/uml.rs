// SPDX-License-Identifier: GPL-2.0
//! User Mode Linux: the kernel is a program, its root the host's over hostfs.

use super::{affinity, Job};
use crate::case::Lab;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// MiB of memory; only what the guest touches is used.
const MEMORY: u32 = 1536;

/// Wall clock of a guest in virtual time, in ns since 1970: always the same day.
const EPOCH: u64 = 1_577_836_800_000_000_000;

/// The channels' numbers, always the same: they are part of the kernel's command
/// line, which its random number generator takes as entropy. So base and patched
/// have the same numbers, in any folder. Far above those that this process has
/// in use.
const CONSOLE: RawFd = 200;
const OUTPUT: RawFd = 201;
const VERDICT: RawFd = 202;

/// PID 1 and the job's file, for the same reason: until the guest mounts its own
/// /proc it sees the host's, where /proc/self is this program.
const INIT: RawFd = 203;
const JOB: RawFd = 204;

/// The command that boots `job`. Console, output and verdict go to files, for a
/// pipe that fills up would make virtual time depend on its reader.
pub fn command(job: &Job, cpu: usize) -> Result<Command> {
    let output = append(&job.output())?;
    let mut command = base(job, cpu)?;
    command
        .arg(format!("con1=null,fd:{OUTPUT}"))
        .stdin(Stdio::null());
    inherit(&mut command, output, OUTPUT);
    Ok(command)
}

/// The same guest with this process's terminal as its terminal.
pub fn interactive(job: &Job) -> Result<Command> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let terminal = terminal.context("there is no terminal; give a command behind `--`")?;
    let mut command = base(job, affinity::current())?;
    command
        .arg(format!("con1=fd:{OUTPUT}"))
        .stdin(Stdio::inherit());
    inherit(&mut command, terminal, OUTPUT);
    Ok(command)
}

fn base(job: &Job, cpu: usize) -> Result<Command> {
    let console = append(&job.console())?;
    let verdict = append(&job.verdict())?;
    let own = |number: RawFd| PathBuf::from(format!("/proc/self/fd/{number}"));
    let mut command = Command::new(&job.kernel);
    command
        .arg(format!("mem={MEMORY}M"))
        .args(["root=none", "rootfstype=hostfs", "rootflags=/", "con=null"])
        .arg(format!("con0=null,fd:{CONSOLE}"))
        .arg(format!("con2=null,fd:{VERDICT}"))
        // UML's own folder; by default it would be in the user's home.
        .arg(format!("uml_dir={}/", job.dir.display()))
        .arg("umid=uml")
        // Where the host can't, UML traces its processes: slower.
        .arg("seccomp=auto")
        .args(job.kernel_parameters(&own(INIT), &own(JOB)))
        .stdout(console.try_clone()?)
        .stderr(console.try_clone()?);
    if job.lab == Lab::Uml {
        command
            .arg("time-travel=inf-cpu")
            .arg(format!("time-travel-start={EPOCH}"));
        no_host_entropy(&mut command);
    }
    place_memory(&mut command, &job.dir);
    inherit(&mut command, console, CONSOLE);
    inherit(&mut command, verdict, VERDICT);
    inherit(&mut command, open(&job.init())?, INIT);
    inherit(&mut command, open(&job.file())?, JOB);
    affinity::pin(&mut command, cpu);
    no_core(&mut command);
    Ok(command)
}

/// UML's memory is a file: on /dev/shm if that is large enough (a container's
/// often is not, and UML would die of SIGBUS), else in the run's folder.
fn place_memory(command: &mut Command, dir: &Path) {
    for variable in ["TMPDIR", "TMP", "TEMP"] {
        command.env_remove(variable);
    }
    let free = super::free_space(Path::new("/dev/shm")).unwrap_or(0);
    if free < u64::from(MEMORY) << 20 {
        command.env("TMPDIR", dir);
    }
}

fn append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Gives `file` to the program as `number`.
fn inherit(command: &mut Command, file: File, number: RawFd) {
    // SAFETY: dup2(2) is async-signal-safe; the closure owns the file, so its
    // number is valid as long as the command is.
    unsafe {
        command.pre_exec(move || match libc::dup2(file.as_raw_fd(), number) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// UML asks the host for random numbers by getrandom(2). Where it fails the
/// guest has only those that follow from its own seed (`init.sh`), and they are
/// the same in every run.
fn no_host_entropy(command: &mut Command) {
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let ret = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let filter = [
        step(load, 0, 0, 0), // seccomp_data.nr
        step(jump, libc::SYS_getrandom as u32, 0, 1),
        step(ret, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0, 0),
        step(ret, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    // SAFETY: prctl(2) is async-signal-safe; the filter lives in the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_ptr().cast_mut(),
            };
            // Without it only root may filter.
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == -1
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// A panic ends UML by abort(3): no core file of the guest's memory.
pub fn no_core(command: &mut Command) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: setrlimit(2) is async-signal-safe and reads a plain struct.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_CORE, &none) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}
