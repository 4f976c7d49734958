// SPDX-License-Identifier: GPL-2.0
//! What a guest needs beside its kernel: the selftests of the assembled tree.

use crate::build::Image;
use crate::case::Lab;
use crate::lab::qemu::{self, Accel};
use crate::lab::Job;
use crate::lock::{self, Lock};
use crate::process;
use crate::project::Project;
use crate::tree::Assembled;
use anyhow::{bail, Context, Result};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The selftests and what they take from the rest of the tree.
const PATHS: [&str; 7] = [
    "Documentation/netlink",
    "tools/build",
    "tools/include",
    "tools/lib",
    "tools/net/ynl",
    "tools/scripts",
    "tools/testing/selftests",
];

/// Selftests of the patched tree, the same for every kernel.
pub struct Bench<'a> {
    project: &'a Project,
    tests: PathBuf,
    version: String,
}

impl<'a> Bench<'a> {
    /// Exports the selftests; one export serves as long as they do not change.
    pub fn new(project: &'a Project, assembled: &Assembled) -> Result<Self> {
        let git = || {
            let mut git = Command::new("git");
            git.arg("--git-dir").arg(&assembled.git_dir);
            git
        };
        let listing = process::output(
            git()
                .args(["ls-tree", &assembled.patched, "--"])
                .args(PATHS),
        )?;
        let mut hasher = DefaultHasher::new();
        listing.hash(&mut hasher);
        let tests = project
            .build
            .join("tests")
            .join(format!("{:016x}", hasher.finish()));
        if !tests.is_dir() {
            let paths = listing
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(_, path)| path);
            let mut archive = git();
            archive
                .args(["archive", "--format=tar", &assembled.patched, "--"])
                .args(paths);
            export(&mut archive, &tests)
                .with_context(|| format!("cannot write the selftests to {}", tests.display()))?;
        }
        let makefile =
            process::output(git().args(["show", &format!("{}:Makefile", assembled.source)]))?;
        Ok(Bench {
            project,
            tests,
            version: version(&makefile),
        })
    }

    /// Folder of all selftests.
    pub fn selftests(&self) -> PathBuf {
        self.tests.join("tools/testing/selftests")
    }

    /// Version of the base kernel, say `7.3.4`.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn check_selftest(&self, selftest: &str) -> Result<()> {
        if !self.selftests().join(selftest).is_file() {
            bail!("neither the kernel nor any series has the selftest {selftest}");
        }
        Ok(())
    }

    /// Keeps the runs of another regress out of the folders of ours, until the
    /// result is read.
    pub fn lock_runs(&self) -> Result<Lock> {
        lock::acquire(&self.project.build.join("runs"))
    }

    /// A job that runs `selftest` in its own folder; `dir` is below the build
    /// folder's `runs/`.
    pub fn selftest_job(
        &self,
        lab: Lab,
        image: &Image,
        selftest: &str,
        args: &[String],
        dir: &Path,
    ) -> Job {
        let script = self.selftests().join(selftest);
        let folder = script.parent().expect("a selftest is in a folder");
        let name = script
            .file_name()
            .expect("a selftest has a name")
            .to_string_lossy();
        let mut argv = vec![format!("./{name}")];
        argv.extend_from_slice(args);
        Job {
            lab,
            kernel: image.path.clone(),
            argv,
            cwd: folder.to_path_buf(),
            env: Vec::new(),
            tools: Vec::new(),
            parameters: Vec::new(),
            keep: vec![self.tests.clone()],
            timeout: Duration::from_secs(300),
            dir: self.project.build.join("runs").join(dir),
            guest: self.project.harness().join("guest"),
            accel: Accel::default(),
        }
    }

    /// Lets the QEMU jobs use KVM if it works here. Gives what they use, or
    /// nothing if there is none.
    pub fn set_accel<'j>(&self, jobs: impl Iterator<Item = &'j mut Job>) -> Result<Option<Accel>> {
        let mut known = None;
        for job in jobs.filter(|job| job.lab == Lab::Qemu) {
            let accel = match known {
                Some(accel) => accel,
                None => {
                    let dir = self.project.build.join("runs/kvm-probe");
                    qemu::probe(&Job { dir, ..job.clone() }, &self.project.build.join("kvm"))?
                }
            };
            job.accel = accel;
            known = Some(accel);
        }
        Ok(known)
    }
}

/// Unpacks the archive that `git` writes into `dir`, whole or not at all.
fn export(git: &mut Command, dir: &Path) -> Result<()> {
    let parent = dir.parent().context("the folder has no parent")?;
    let temporary = parent.join(format!(".{}", std::process::id()));
    fs::create_dir_all(&temporary)?;
    let mut git = git
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start git")?;
    let archive = git.stdout.take().context("git has no output")?;
    let tar = Command::new("tar")
        .arg("-xC")
        .arg(&temporary)
        .stdin(archive)
        .status();
    let done = git.wait()?.success() && tar.context("cannot start tar")?.success();
    if done && fs::rename(&temporary, dir).is_ok() {
        return Ok(());
    }
    fs::remove_dir_all(&temporary)?;
    if !dir.is_dir() {
        bail!("`git archive | tar` failed; is the disk full?");
    }
    Ok(())
}

/// `7.3.4-rc1` out of the kernel's Makefile.
fn version(makefile: &str) -> String {
    let value = |name: &str| {
        let line = makefile
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
        line.unwrap_or_default().trim().to_string()
    };
    let numbers = ["VERSION", "PATCHLEVEL", "SUBLEVEL"].map(value);
    numbers.join(".") + &value("EXTRAVERSION")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let makefile = "# x\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\nNAME = N\n";
        assert_eq!(version(makefile), "7.3.4");
        assert_eq!(
            version(&makefile.replace("EXTRAVERSION =", "EXTRAVERSION = -rc1")),
            "7.3.4-rc1"
        );
    }
}
