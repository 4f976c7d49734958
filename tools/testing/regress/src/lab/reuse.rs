// SPDX-License-Identifier: GPL-2.0
//! A run in virtual time that nothing could make differ need not be repeated.
//!
//! What such a run gives follows from what it is given (`regress test` runs
//! cases afresh and compares), so its result stands until one of these changes:
//! the job, its kernel, PID 1, the programs it must have, this program.

use super::{read_text, Channels, Ending, Job, Ran};
use crate::case::Lab;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

impl Job {
    fn key_file(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// All that the run depends on, as text.
    fn key(&self) -> String {
        let mut files = vec![
            self.kernel.clone(),
            self.init(),
            std::env::current_exe().unwrap_or_default(),
        ];
        files.extend(self.tools.iter().filter_map(|tool| find(tool)));
        let stamps: Vec<String> = files.iter().map(|file| stamp(file)).collect();
        format!(
            "{}{}\n{}\n",
            self.job_file(Channels::of(self.lab)),
            self.parameters.join(" "),
            stamps.join("\n")
        )
    }

    /// What the last run gave, if a further one would give the same.
    pub fn reuse(&self) -> Result<Option<Ran>> {
        let known = fs::read_to_string(self.key_file()).unwrap_or_default();
        if self.lab != Lab::Uml || known != self.key() {
            return Ok(None);
        }
        let output = read_text(&self.output())?;
        Ok(Some(Ran {
            ending: self.ending(None, &output)?,
            output,
            console: self.console(),
            wall: Duration::ZERO,
        }))
    }

    pub fn forget(&self) {
        let _ = fs::remove_file(self.key_file());
    }

    /// Keeps what `ran` gave, unless the harness or the host may be at fault.
    pub fn remember(&self, ran: &Ran) -> Result<()> {
        if self.lab != Lab::Uml || !matches!(ran.ending, Ending::Exit(_) | Ending::Panic(_)) {
            return Ok(());
        }
        let path = self.key_file();
        fs::write(&path, self.key()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Where the guest, whose PATH this is a part of, finds a program.
fn find(tool: &str) -> Option<PathBuf> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    std::env::split_paths(path)
        .map(|dir| dir.join(tool))
        .find(|file| file.is_file())
}

/// Path, length and time of the last change.
fn stamp(file: &Path) -> String {
    let told = fs::metadata(file).and_then(|data| Ok((data.len(), data.modified()?)));
    let (length, time) = told.unwrap_or((0, UNIX_EPOCH));
    let age = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} {length} {}", file.display(), age.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(dir: &Path) -> Job {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("linux"), "kernel").unwrap();
        for (name, text) in [
            ("console.log", ""),
            ("output.log", "x"),
            ("verdict", "exit 1\n"),
        ] {
            fs::write(dir.join(name), text).unwrap();
        }
        Job {
            lab: Lab::Uml,
            kernel: dir.join("linux"),
            argv: vec!["true".into()],
            cwd: "/".into(),
            env: Vec::new(),
            tools: vec!["sh".into()],
            parameters: Vec::new(),
            keep: Vec::new(),
            timeout: Duration::from_secs(1),
            dir: dir.to_path_buf(),
            guest: dir.to_path_buf(),
            accel: Default::default(),
        }
    }

    fn ran(ending: Ending) -> Ran {
        Ran {
            ending,
            output: String::new(),
            console: PathBuf::new(),
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_result_stands_until_something_changes() {
        let dir = std::env::temp_dir().join(format!("regress-reuse-{}", std::process::id()));
        let mut job = job(&dir);
        assert!(job.reuse().unwrap().is_none());

        job.remember(&ran(Ending::Hang(Duration::ZERO))).unwrap();
        assert!(job.reuse().unwrap().is_none(), "a hang proves nothing");

        job.remember(&ran(Ending::Exit(1))).unwrap();
        let known = job.reuse().unwrap().expect("it is known");
        assert_eq!(
            (known.ending, known.output.as_str()),
            (Ending::Exit(1), "x")
        );

        job.argv.push("again".into());
        assert!(job.reuse().unwrap().is_none(), "another command");
        job.argv.pop();
        job.parameters.push("a=1".into());
        assert!(job.reuse().unwrap().is_none(), "another parameter");
        job.parameters.pop();
        fs::write(&job.kernel, "another").unwrap();
        assert!(job.reuse().unwrap().is_none(), "another kernel");

        job.remember(&ran(Ending::Exit(1))).unwrap();
        assert!(job.reuse().unwrap().is_some());
        job.forget();
        assert!(job.reuse().unwrap().is_none());
        job.lab = Lab::Qemu;
        job.remember(&ran(Ending::Exit(1))).unwrap();
        assert!(job.reuse().unwrap().is_none(), "real time");
        fs::remove_dir_all(&dir).unwrap();
    }
}
