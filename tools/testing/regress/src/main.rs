// SPDX-License-Identifier: GPL-2.0
//! `regress`: takes a public networking bug report and proves it fixed.
//!
//! Gets a kernel tree, applies the series, builds *base* and *patched*, boots
//! them in a lab (User Mode Linux or QEMU), runs each report's reproduction on
//! both and prints the verdicts.

mod assemble;
mod bench;
mod bisect;
mod boot;
mod build;
mod case;
mod cli;
mod counts;
mod debian;
mod figure;
mod git;
mod html;
mod judge;
mod kunit;
mod lab;
mod list;
mod lock;
mod mails;
mod patch;
mod process;
mod project;
mod readme;
mod refresh;
mod results;
mod run;
mod rust;
mod selftest;
mod series;
mod setup;
mod source;
mod test;
mod tree;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    process::kill_children_on_signals();
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            ui::error(&error);
            ExitCode::from(2)
        }
    }
}
