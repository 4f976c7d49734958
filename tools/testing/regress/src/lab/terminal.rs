// SPDX-License-Identifier: GPL-2.0
//! The user's terminal, lent to a guest: it gets the keys, Ctrl-C too, and the
//! terminal is given back as it was.

use anyhow::{bail, Result};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The terminal on standard input; dropping it restores its modes and owner.
pub struct Terminal {
    modes: libc::termios,
}

impl Terminal {
    pub fn take() -> Result<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!("a shell needs a terminal; give a command behind `--` to run it without one");
        }
        // SAFETY: termios is plain data that tcgetattr(3) fills.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            libc::tcgetattr(0, &mut modes);
            modes
        };
        Ok(Terminal { modes })
    }

    /// Rows and columns.
    pub fn size(&self) -> String {
        // SAFETY: winsize is plain data that the ioctl fills.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            libc::ioctl(0, libc::TIOCGWINSZ, &mut size);
            size
        };
        match (size.ws_row, size.ws_col) {
            (0, _) | (_, 0) => "24 80".to_string(),
            (rows, columns) => format!("{rows} {columns}"),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // SAFETY: plain system calls; SIGTTOU would stop us, the background
        // process that takes the terminal back.
        unsafe {
            let old = libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            libc::tcsetpgrp(0, libc::getpgrp());
            libc::tcsetattr(0, libc::TCSAFLUSH, &self.modes);
            libc::signal(libc::SIGTTOU, old);
        }
    }
}

/// Makes the process group of `command` the terminal's foreground group.
pub fn in_foreground(command: &mut Command) {
    // SAFETY: signal(2), tcsetpgrp(3) and getpid(2) are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            libc::tcsetpgrp(0, libc::getpid());
            libc::signal(libc::SIGTTOU, libc::SIG_DFL);
            Ok(())
        });
    }
}
