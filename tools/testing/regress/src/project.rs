// SPDX-License-Identifier: GPL-2.0
//! Where things are: the project's own files, the build folder, the results.

use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// The project and the make-style variables that the user set.
#[derive(Debug, Clone)]
pub struct Project {
    /// Root of the project: the folder that holds `series/`.
    pub root: PathBuf,
    /// Build folder (`O=`, default `build/`): trees, objects, kernels, logs.
    pub build: PathBuf,
    /// Results and mails (`out/`).
    pub out: PathBuf,
    /// The user's own kernel: a git tree or a tarball (`KDIR=`).
    pub kdir: Option<PathBuf>,
    /// Kernel architecture of the QEMU lab (`ARCH=`).
    pub arch: String,
    /// Build with clang and lld (`LLVM=1`).
    pub llvm: bool,
    /// Show every command of a build (`V=1`).
    pub verbose: bool,
}

impl Project {
    /// Finds the project from the current folder upwards.
    pub fn find_root() -> Result<PathBuf> {
        let cwd = std::env::current_dir().context("cannot tell the current folder")?;
        for dir in cwd.ancestors() {
            if dir.join("series").is_dir() && dir.join("tools/testing/regress").is_dir() {
                return Ok(dir.to_path_buf());
            }
        }
        bail!(
            "{} is not inside net-regress; go to its folder",
            cwd.display()
        )
    }

    /// The harness's own folder.
    pub fn harness(&self) -> PathBuf {
        self.root.join("tools/testing/regress")
    }

    /// The work tree that `regress tree` makes: the user edits and commits there.
    pub fn tree(&self) -> PathBuf {
        self.build.join("linux")
    }

    /// The log file of one step, in its own folder below the build folder.
    pub fn log(&self, name: &str) -> PathBuf {
        self.build.join("logs").join(format!("{name}.log"))
    }

    /// `path` as the user would type it from the project's root.
    pub fn show<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
