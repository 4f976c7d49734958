// SPDX-License-Identifier: GPL-2.0
//! Labs: a job runs as the only program of a guest, and every way in which a
//! guest can end is told apart.
//!
//! The root is the host's, read-only. PID 1 is `guest/init.sh`; it gets the job
//! as a file of shell assignments and gives the verdict on a channel of its
//! own, so nothing that a kernel or a job prints can be taken for one.

mod affinity;
pub mod pool;
pub mod qemu;
mod reuse;
pub mod splats;
mod terminal;
pub mod uml;

use crate::case::Lab;
use crate::process::{self, Group};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use terminal::Terminal;

/// How long a guest may take to power off after its verdict; then it is ended.
const OFF: Duration = Duration::from_secs(10);

/// Lines of the console that an error shows.
const CONSOLE_TAIL: usize = 12;

/// A command to be run in a guest.
#[derive(Debug, Clone)]
pub struct Job {
    pub lab: Lab,
    /// `linux` for UML, `bzImage` for QEMU.
    pub kernel: PathBuf,
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    /// Programs that the guest must have.
    pub tools: Vec<String>,
    /// Parameters for the kernel, beside the lab's own.
    pub parameters: Vec<String>,
    /// Folders of the host that the guest's tmpfs mounts must not hide.
    pub keep: Vec<PathBuf>,
    /// Of wall time, boot included.
    pub timeout: Duration,
    /// Where job, console, output and verdict are left.
    pub dir: PathBuf,
    /// Folder of `init.sh`.
    pub guest: PathBuf,
    pub accel: qemu::Accel,
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The job ended with this exit status.
    Exit(i32),
    /// The guest lacks these programs.
    Missing(Vec<String>),
    /// PID 1 could not prepare the guest.
    Broken(String),
    /// The kernel panicked: the line that says so.
    Panic(String),
    /// The kernel complained: the line, and what it means.
    Splat(String, &'static str),
    /// No verdict within the time.
    Hang(Duration),
    /// The kernel was gone before a verdict came.
    EarlyExit(String),
}

/// A guest that has ended.
#[derive(Debug)]
pub struct Ran {
    pub ending: Ending,
    /// What the job printed.
    pub output: String,
    pub console: PathBuf,
    pub wall: Duration,
}

impl Ending {
    /// One line without paths or times, the same on every run.
    pub fn summary(&self) -> String {
        match self {
            Ending::Exit(0) => "passed".into(),
            Ending::Exit(1) => "exit status 1 (failed)".into(),
            Ending::Exit(2) => "exit status 2 (expected failure)".into(),
            Ending::Exit(4) => "exit status 4 (skipped)".into(),
            Ending::Exit(status) => format!("exit status {status}"),
            Ending::Missing(tools) => {
                let wanted =
                    |tool: &String| format!("{tool} (Debian package {})", splats::package(tool));
                let all: Vec<String> = tools.iter().map(wanted).collect();
                format!(
                    "missing in the guest: {}; `regress setup` installs it",
                    all.join(", ")
                )
            }
            Ending::Broken(reason) => format!("the guest could not be prepared: {reason}"),
            Ending::Panic(line) => format!("panic: {line}"),
            Ending::Splat(line, means) => format!("{means}: {line}"),
            Ending::Hang(timeout) => format!("hang: no verdict within {} s", timeout.as_secs()),
            Ending::EarlyExit(how) => {
                format!("early exit: the kernel was gone before a verdict came ({how})")
            }
        }
    }

    /// True if the kernel itself failed. A UML that dies of a bad access may be
    /// gone without a word.
    pub fn is_kernel_failure(&self) -> bool {
        matches!(
            self,
            Ending::Panic(_) | Ending::Splat(..) | Ending::EarlyExit(_)
        )
    }
}

impl Ran {
    /// The reason for a skip or a failure in the selftest's own words.
    pub fn last_words(&self) -> Option<&str> {
        let lines = self.output.lines().rev();
        let mut tagged = lines.filter(|line| line.contains("SKIP") || line.contains("FAIL"));
        tagged.next().map(str::trim)
    }

    /// What a person needs to look into it.
    pub fn details(&self) -> String {
        let log = |path: &Path| path.display().to_string();
        format!(
            "{}\nlast lines of the console ({}):\n{}\nlast lines of the output ({}):\n{}",
            self.ending.summary(),
            log(&self.console),
            indent(&process::tail(&self.console, CONSOLE_TAIL)),
            log(&self.console.with_file_name("output.log")),
            indent(&last(&self.output, CONSOLE_TAIL)),
        )
    }
}

fn indent(text: &str) -> String {
    let lines: Vec<&str> = if text.is_empty() {
        vec!["(none)"]
    } else {
        text.lines().collect()
    };
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

fn last(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

impl Job {
    pub fn console(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    pub fn output(&self) -> PathBuf {
        self.dir.join("output.log")
    }

    fn verdict(&self) -> PathBuf {
        self.dir.join("verdict")
    }

    /// Boots the guest, runs the job and waits for the guest's end.
    pub fn run(&self) -> Result<Ran> {
        self.run_on(affinity::current())
    }

    /// The same; of the host's CPUs UML uses this one.
    pub fn run_on(&self, cpu: usize) -> Result<Ran> {
        self.prepare(Channels::of(self.lab))?;
        let mut command = match self.lab {
            Lab::Uml | Lab::UmlRealtime => uml::command(self, cpu)?,
            Lab::Qemu => qemu::command(self)?,
        };
        self.finish(Group::spawn(&mut command)?)
    }

    /// The same on this process's terminal, which the guest gets for itself.
    pub fn run_on_terminal(&self) -> Result<Ran> {
        let terminal = Terminal::take()?;
        self.prepare(Channels {
            output: "",
            size: terminal.size(),
            ..Channels::of(self.lab)
        })?;
        let mut command = match self.lab {
            Lab::Uml | Lab::UmlRealtime => uml::interactive(self)?,
            Lab::Qemu => qemu::interactive(self)?,
        };
        terminal::in_foreground(&mut command);
        let ran = self.finish(Group::spawn(&mut command)?);
        drop(terminal);
        ran
    }

    fn finish(&self, mut guest: Group) -> Result<Ran> {
        let start = Instant::now();
        let end = self.wait(&mut guest)?;
        drop(guest);
        let output = read_text(&self.output())?;
        let ending = self.ending(end, &output)?;
        Ok(Ran {
            ending,
            output,
            console: self.console(),
            wall: start.elapsed(),
        })
    }

    /// Waits for a verdict and the guest's end, at most the job's timeout.
    fn wait(&self, guest: &mut Group) -> Result<Option<ExitStatus>> {
        let mut deadline = Instant::now() + self.timeout;
        let mut judged = false;
        loop {
            let status = guest.wait(Some(Duration::from_millis(40)))?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            if !judged && read_text(&self.verdict())?.ends_with('\n') {
                judged = true;
                deadline = Instant::now() + OFF;
            }
        }
    }

    /// Tells apart how the guest ended; the kernel's own failure counts first.
    fn ending(&self, end: Option<ExitStatus>, output: &str) -> Result<Ending> {
        let console = read_text(&self.console())?;
        if let Some(line) = splats::panic(&console) {
            return Ok(Ending::Panic(line.to_string()));
        }
        if let Some((line, means)) = splats::find(&console) {
            return Ok(Ending::Splat(line.to_string(), means));
        }
        let verdict = read_text(&self.verdict())?;
        if let Some(verdict) = verdict.lines().next() {
            return parse_verdict(verdict, output)
                .with_context(|| format!("{} is no verdict", self.verdict().display()));
        }
        check_space(&self.dir)?;
        Ok(match end {
            None => Ending::Hang(self.timeout),
            Some(status) => Ending::EarlyExit(status.to_string()),
        })
    }

    /// Writes the job file and empties the channels.
    pub fn prepare(&self, channels: Channels) -> Result<()> {
        let dir = &self.dir;
        self.forget();
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        check_space(dir)?;
        // A UML that was killed leaves its folder.
        let _ = fs::remove_dir_all(dir.join("uml"));
        for file in [self.console(), self.output(), self.verdict()] {
            fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        }
        let job = self.file();
        fs::write(&job, self.job_file(channels))
            .with_context(|| format!("cannot write {}", job.display()))
    }

    fn job_file(&self, channels: Channels) -> String {
        let list = |words: &mut dyn Iterator<Item = String>| {
            let quoted: Vec<String> = words.map(|word| quote(&word)).collect();
            format!("({})", quoted.join(" "))
        };
        let path = |path: &PathBuf| path.display().to_string();
        let mut env = vec![
            "HOME=/tmp".to_string(),
            "TMPDIR=/tmp".to_string(),
            "LANG=C".to_string(),
        ];
        env.extend(self.env.iter().map(|(key, value)| format!("{key}={value}")));
        let mut keep: Vec<String> = self.keep.iter().map(path).collect();
        let builtin = self.kernel.with_file_name("modules.builtin");
        keep.extend([&self.dir, &self.guest, &self.cwd].map(path));
        keep.extend(self.kernel.parent().map(|dir| dir.display().to_string()));
        keep.sort();
        keep.dedup();
        [
            format!("job_argv={}", list(&mut self.argv.iter().cloned())),
            format!("job_cwd={}", quote(&path(&self.cwd))),
            format!("job_env={}", list(&mut env.into_iter())),
            format!("job_tools={}", list(&mut self.tools.iter().cloned())),
            format!("job_builtin={}", quote(&path(&builtin))),
            format!("job_keep={}", list(&mut keep.into_iter())),
            format!("job_output={}", quote(channels.output)),
            format!("job_console={}", channels.console),
            format!("job_size={}", quote(&channels.size)),
            format!("job_verdict={}\n", quote(channels.verdict)),
        ]
        .join("\n")
    }

    fn init(&self) -> PathBuf {
        self.guest.join("init.sh")
    }

    fn file(&self) -> PathBuf {
        self.dir.join("job")
    }

    /// The kernel parameters of both labs, with what PID 1 and the job's file are
    /// called there, and the job's own.
    fn kernel_parameters(&self, init: &Path, file: &Path) -> Vec<String> {
        let path = |name: &str, path: &Path| format!("{name}=\"{}\"", path.display());
        let mut parameters = vec![
            "ro".into(),
            path("init", init),
            path("job", file),
            "oops=panic".into(),
            "random.trust_cpu=on".into(),
        ];
        parameters.extend_from_slice(&self.parameters);
        parameters
    }
}

/// Names of the channels as the guest sees them.
pub struct Channels {
    pub output: &'static str,
    pub console: &'static str,
    pub verdict: &'static str,
    pub size: String,
}

impl Channels {
    pub fn of(lab: Lab) -> Self {
        let (output, console, verdict) = match lab {
            Lab::Uml | Lab::UmlRealtime => ("/dev/tty1", "/dev/tty1", "/dev/tty2"),
            Lab::Qemu => ("/dev/vport*p1", "/dev/hvc0", "/dev/vport*p2"),
        };
        Channels {
            output,
            console,
            verdict,
            size: String::new(),
        }
    }
}

/// `exit N`, `missing TOOL...` or `broken REASON`.
fn parse_verdict(verdict: &str, output: &str) -> Result<Ending> {
    let (word, rest) = verdict.split_once(' ').unwrap_or((verdict, ""));
    match word {
        "exit" => {
            let status: i32 = rest.trim().parse()?;
            let missing = splats::missing_tools(output);
            if status != 0 && !missing.is_empty() {
                return Ok(Ending::Missing(missing));
            }
            Ok(Ending::Exit(status))
        }
        "missing" => Ok(Ending::Missing(
            rest.split_whitespace().map(str::to_string).collect(),
        )),
        "broken" => Ok(Ending::Broken(rest.to_string())),
        _ => bail!("`{verdict}` is unknown"),
    }
}

/// A word for the shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A log as text, whatever bytes a kernel printed.
fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A full disk would look like a guest that says nothing.
fn check_space(dir: &Path) -> Result<()> {
    const NEEDED: u64 = 4 << 20;
    match free_space(dir) {
        Some(free) if free < NEEDED => bail!(
            "the disk is full: {} KiB are free where {} is, a guest needs {} KiB for its logs; \
             make room, or put the build folder elsewhere with O=",
            free >> 10,
            dir.display(),
            NEEDED >> 10
        ),
        _ => Ok(()),
    }
}

/// Bytes that are free where `path` is, if the kernel tells.
fn free_space(path: &Path) -> Option<u64> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: statvfs is plain data, and the path ends with a NUL.
    let (result, stat) = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat), stat)
    };
    (result == 0).then(|| stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        assert_eq!(parse_verdict("exit 4", "").unwrap(), Ending::Exit(4));
        let missing = Ending::Missing(vec!["iperf3".into(), "jq".into()]);
        assert_eq!(parse_verdict("missing iperf3 jq ", "").unwrap(), missing);
        assert!(missing.summary().contains("iperf3 (Debian package iperf3)"));
        assert!(parse_verdict("hello", "").is_err());
        assert!(parse_verdict("exit", "").is_err());
    }

    #[test]
    fn words_survive_the_shell() {
        let word = "it's \"$HOME\" `x`";
        let script = format!("printf %s {}", quote(word));
        let echo = process::output(std::process::Command::new("sh").args(["-c", &script])).unwrap();
        assert_eq!(echo, word);
    }
}
