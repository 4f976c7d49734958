// SPDX-License-Identifier: GPL-2.0
//! The command line.

use crate::project::Project;
use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Takes a public networking bug report and proves it fixed: broken on the
/// base kernel, fixed on the patched one, same machine, same run.
#[derive(Parser)]
#[command(version, after_help = "KDIR=, O=, ARCH=, LLVM=1 and V=1 work as variables, before or behind the command.")]
struct Cli {
    #[command(flatten)]
    variables: Variables,
    #[command(subcommand)]
    command: Command,
}

/// Make-style variables; `regress build V=1` is read as `regress build --verbose=1`.
#[derive(Args)]
struct Variables {
    /// Your own kernel, a git tree or a tarball; never modified
    #[arg(long, env = "KDIR", global = true)]
    kdir: Option<PathBuf>,
    /// Build folder
    #[arg(long = "build-dir", env = "O", global = true, default_value = "build")]
    build: PathBuf,
    /// Architecture of the qemu lab
    #[arg(long, env = "ARCH", global = true, default_value = "x86_64")]
    arch: String,
    /// 1: build with clang and lld
    #[arg(long, env = "LLVM", global = true, default_value = "0")]
    llvm: String,
    /// 1: show the commands of a build
    #[arg(long, short = 'V', env = "V", global = true, default_value = "0")]
    verbose: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KernelChoice {
    Base,
    Patched,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabChoice {
    /// User Mode Linux
    Uml,
    /// QEMU
    Qemu,
}

#[derive(Subcommand)]
enum Command {
    /// List reports, their cases, series and figures
    List,
    // setup tree refresh build run kunit selftest boot series test: see the issue
}

pub fn run() -> Result<ExitCode> {
    let _ = (Cli::parse().command, Project::find_root()?);
    Ok(ExitCode::SUCCESS)
}
