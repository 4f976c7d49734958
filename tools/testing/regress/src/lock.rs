// SPDX-License-Identifier: GPL-2.0
//! One `regress` at a time changes the trees below a build folder, and one runs
//! cases in its `runs/`.

use crate::{process, ui};
use anyhow::{bail, Context, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// Held while the folder is changed; the kernel drops it with the process.
pub struct Lock(#[allow(dead_code)] File);

/// Waits for the lock of the build folder or its `runs/`, which is made if it is
/// not there.
pub fn acquire(build: &Path) -> Result<Lock> {
    std::fs::create_dir_all(build).with_context(|| {
        format!(
            "cannot make the build folder {}; O= names another",
            build.display()
        )
    })?;
    let path = build.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut told = false;
    loop {
        // SAFETY: flock(2) on a descriptor that `file` keeps open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Lock(file));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::WouldBlock {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        if process::interrupted() {
            bail!("interrupted");
        }
        if !told {
            ui::note(&format!(
                "waiting for another regress in {}",
                build.display()
            ));
            told = true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
