// SPDX-License-Identifier: GPL-2.0
//! Child processes: each runs in a process group of its own, dies with us, and
//! leaves its output in a log.

use anyhow::{bail, Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where the watchdog hears of process groups; -1 before it runs.
static WATCHDOG: AtomicI32 = AtomicI32::new(-1);
static GROUPS: Mutex<Vec<i32>> = Mutex::new(Vec::new());
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C, SIGTERM and SIGHUP end every child before us; the watchdog does it
/// when we are killed. Call it first: it forks.
pub fn kill_children_on_signals() {
    start_watchdog();
    // SAFETY: prctl(2) takes no pointer here. Grandchildren whose parent died
    // become ours, so that Group can wait for them.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let handler = || {
        INTERRUPTED.store(true, Ordering::SeqCst);
        let groups = GROUPS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for &pgid in groups.iter() {
            kill_group(pgid, libc::SIGKILL);
        }
    };
    ctrlc::set_handler(handler).expect("the handler is set once");
}

/// True once the user asked us to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Forks a process that waits until we are gone, SIGKILL included, and then
/// ends the process groups that we left.
fn start_watchdog() {
    let mut pipe = [0; 2];
    // SAFETY: there is one thread yet, so the child may do as it likes.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return;
        }
        match libc::fork() {
            -1 => return,
            0 => {
                libc::setsid();
                libc::close(pipe[1]);
                watch(File::from_raw_fd(pipe[0]));
                libc::_exit(0);
            }
            _ => libc::close(pipe[0]),
        };
    }
    WATCHDOG.store(pipe[1], Ordering::SeqCst);
}

/// The watchdog: `+N` and `-N` tell of groups that come and go.
fn watch(parent: File) {
    let mut groups = Vec::new();
    for line in BufReader::new(parent).lines().map_while(Result::ok) {
        let Ok(change) = line.parse::<i32>() else {
            continue;
        };
        match change {
            1.. => groups.push(change),
            _ => groups.retain(|&pgid| pgid != -change),
        }
    }
    for pgid in groups {
        kill_group(pgid, libc::SIGKILL);
    }
}

/// Tells the watchdog of a group that came (positive) or went (negative).
fn tell_watchdog(change: i32) {
    let line = format!("{change:+}\n");
    let fd = WATCHDOG.load(Ordering::SeqCst);
    // SAFETY: the buffer is valid for its length; a write of few bytes to a
    // pipe is atomic, and without a watchdog the descriptor is -1.
    unsafe { libc::write(fd, line.as_ptr().cast(), line.len()) };
}

fn kill_group(pgid: i32, signal: i32) {
    // SAFETY: kill(2) takes no pointer; a group that is gone gives ESRCH.
    unsafe { libc::kill(-pgid, signal) };
}

/// A running child and its process group; dropping it kills the whole group.
pub struct Group {
    child: Child,
    pgid: i32,
}

impl Group {
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let parent = std::process::id() as i32;
        // SAFETY: prctl(2), getppid(2) and _exit(2) are async-signal-safe.
        unsafe {
            command.process_group(0).pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(1);
                }
                Ok(())
            });
        }
        let mut groups = GROUPS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if interrupted() {
            bail!("interrupted");
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name}; `regress setup` installs it"))?;
        let pgid = child.id() as i32;
        groups.push(pgid);
        tell_watchdog(pgid);
        Ok(Group { child, pgid })
    }

    /// Waits until the child ends; `None` when `timeout` passed first.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<ExitStatus>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let status = self.child.try_wait()?;
            if interrupted() {
                bail!("interrupted");
            }
            if status.is_some() {
                return Ok(status);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill_group(self.pgid, libc::SIGKILL);
        let _ = self.child.wait();
        // SAFETY: waitpid(2) may be told to store no status. It ends with
        // ECHILD once every member of the group is gone.
        while unsafe { libc::waitpid(-self.pgid, std::ptr::null_mut(), 0) } > 0 {}
        tell_watchdog(-self.pgid);
        let mut groups = GROUPS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        groups.retain(|&pgid| pgid != self.pgid);
    }
}

/// Runs `command` to its end with all output in `log`; an exit status other
/// than 0 is an error that shows the log's last lines and its path.
pub fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let status = status_logged(command, log)?;
    if !status.success() {
        bail!(
            "`{}` failed ({status}); its last lines:\n{}\nthe whole log: {}",
            describe(command),
            tail(log, 15),
            log.display()
        );
    }
    Ok(())
}

/// Runs `command` to its end with all output in `log`.
pub fn status_logged(command: &mut Command, log: &Path) -> Result<ExitStatus> {
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let status = Group::spawn(command)?.wait(None)?;
    Ok(status.expect("without a timeout the child has ended"))
}

/// The standard output of a short `command`; failure is an error with its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}): {}",
            describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command line, as a person would type it.
pub fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The last `lines` lines of a log.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
