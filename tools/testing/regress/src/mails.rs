// SPDX-License-Identifier: GPL-2.0
//! `regress series`: the mails of a series, ready for `git send-email`, and
//! what netdev would say about them.

use crate::assemble::{self, Builder};
use crate::cli::SeriesArgs;
use crate::git::{self, Repo};
use crate::project::Project;
use crate::series::{Entry, Kind, Series, Stored};
use crate::tree::{self, Assembled};
use crate::{lock, process, ui};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// More mails than this in one series, and netdev sends them back.
const MOST_MAILS: usize = 15;

/// A series of more mails than this has a cover letter.
const MOST_WITHOUT_COVER: usize = 2;

/// Folders that checkpatch.pl and get_maintainer.pl want to see, to believe
/// that they are in a kernel tree.
const TOP_FOLDERS: [&str; 11] = [
    "Documentation",
    "arch",
    "drivers",
    "fs",
    "include",
    "init",
    "ipc",
    "kernel",
    "lib",
    "net",
    "scripts",
];

/// What those two read: top-level files, scripts, licences, and all headers
/// for the names that are used in them.
const NEEDED: &str = "/*\n!/*/\n/scripts/\n/LICENSES/\n/include/\n";

/// `regress series`.
pub fn command(project: &Project, args: &SeriesArgs) -> Result<ExitCode> {
    let (sender, out) = match (Sender::of_user(project)?, args.check) {
        (Some(sender), _) => (sender, project.out.clone()),
        (None, true) => (Sender::nobody(), project.build.join("check")),
        (None, false) => bail!(
            "mails need a sender, and git knows none; say\n  \
             git config --global user.name \"Your Name\"\n  \
             git config --global user.email you@example.org"
        ),
    };
    let writer = Writer::new(project, sender, args.version, &out)?;
    let chosen = writer.choose(&args.names)?;
    let mut findings = Vec::new();
    for series in &chosen {
        findings.extend(writer.write(series, args.check)?);
    }
    if args.check {
        findings.extend(writer.check_together()?);
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} findings", findings.len());
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// Writes and checks all series without a sender; what is wrong with them.
pub fn check_all(project: &Project) -> Result<Vec<String>> {
    let writer = Writer::new(
        project,
        Sender::nobody(),
        None,
        &project.build.join("check"),
    )?;
    let mut findings = Vec::new();
    for series in &writer.stored.series {
        findings.extend(writer.write(series, true)?);
    }
    findings.extend(writer.check_together()?);
    Ok(findings)
}

/// Who sends and signs the mails.
#[derive(Debug, Clone)]
struct Sender {
    name: String,
    email: String,
}

impl Sender {
    fn of_user(project: &Project) -> Result<Option<Self>> {
        let value = |key: &str| {
            let mut git = Command::new("git");
            git.current_dir(&project.root)
                .args(["config", "--get", key]);
            git::line_if_ok(&mut git).filter(|value| !value.is_empty())
        };
        let sender = value("user.name").zip(value("user.email"));
        Ok(sender.map(|(name, email)| Sender { name, email }))
    }

    /// Mails that are only checked, never sent.
    fn nobody() -> Self {
        Sender {
            name: "Not To Be Sent".into(),
            email: "nobody@localhost".into(),
        }
    }
}

/// Findings of checkpatch.pl that do not count.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    accept: Vec<Accept>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accept {
    r#type: String,
    #[serde(default)]
    only: Option<Only>,
    reason: String,
}

#[derive(Deserialize, PartialEq, Eq)]
enum Only {
    #[serde(rename = "no history")]
    NoHistory,
}

struct Writer<'a> {
    project: &'a Project,
    assembled: Assembled,
    repo: Repo,
    stored: Stored,
    sender: Sender,
    version: Option<u32>,
    /// Each series gets a folder in there.
    out: PathBuf,
    /// Seconds since 1970.
    now: u64,
    accepted: Vec<Accept>,
    /// A sparse work tree in which the kernel's scripts run.
    scripts: PathBuf,
    _lock: lock::Lock,
}

impl<'a> Writer<'a> {
    fn new(project: &'a Project, sender: Sender, version: Option<u32>, out: &Path) -> Result<Self> {
        let assembled = tree::kernels(project)?;
        let lock = lock::acquire(&project.build)?;
        let repo = assembled.repo();
        let stored = Stored::read(&project.root)?;
        let path = project.harness().join("checkpatch.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let accepted: Accepted =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        let scripts = project.build.join("mails");
        repo.sparse_checkout(&assembled.patched, &scripts, &patterns(&stored))?;
        for folder in TOP_FOLDERS {
            std::fs::create_dir_all(scripts.join(folder))?;
        }
        Ok(Writer {
            project,
            assembled,
            repo,
            stored,
            sender,
            version,
            out: out.to_path_buf(),
            now: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            accepted: accepted.accept,
            scripts,
            _lock: lock,
        })
    }

    fn choose(&self, names: &[String]) -> Result<Vec<&Series>> {
        let all = || self.stored.series.iter();
        for name in names {
            if !all().any(|series| series.name == *name) {
                let known: Vec<&str> = all().map(|series| series.name.as_str()).collect();
                bail!(
                    "there is no series `{name}`; the series are: {}",
                    known.join(", ")
                );
            }
        }
        Ok(all()
            .filter(|series| names.is_empty() || names.contains(&series.name))
            .collect())
    }

    /// Writes one series into `out/NAME`; what is wrong with it.
    fn write(&self, series: &Series, apply: bool) -> Result<Vec<String>> {
        let step = ui::Step::start(format!("series {}", series.name));
        let tip = self.commits(series)?;
        let out = self.out.join(&series.name);
        let fresh = out.with_extension("new");
        let mails = self.format(series, &tip, &fresh, &[])?;
        let recipients = self.recipients(&mails)?;
        let mails = self.format(series, &tip, &fresh, &recipients)?;
        let mut findings = self.check_patches(series)?;
        findings.extend(self.checkpatch(&mails)?);
        if apply {
            self.apply(series, &mails, &tip)?;
        }
        git::remove_dir(&out)?;
        std::fs::rename(&fresh, &out).with_context(|| format!("cannot make {}", out.display()))?;
        step.done(&format!(
            "{} mails in {}{}",
            mails.len(),
            self.project.show(&out),
            if apply { ", each applies" } else { "" }
        ));
        Ok(findings)
    }

    /// The series alone on the kernel source, in the order of its mails.
    fn commits(&self, series: &Series) -> Result<String> {
        let mut builder = Builder::new(&self.repo, &self.assembled.source)?;
        builder.set_date(self.now);
        builder.author = Some((self.sender.name.clone(), self.sender.email.clone()));
        for entry in &series.entries {
            builder.entry(entry).with_context(|| {
                format!(
                    "series {} does not apply in the order of its mails, on its own",
                    series.name
                )
            })?;
        }
        Ok(builder.tip.clone())
    }

    /// Has git write the mails into `dir`, which is made anew.
    fn format(
        &self,
        series: &Series,
        tip: &str,
        dir: &Path,
        recipients: &[String],
    ) -> Result<Vec<PathBuf>> {
        git::remove_dir(dir)?;
        std::fs::create_dir_all(dir)?;
        // A branch, since git takes the cover letter from its description.
        let branch = format!("mails/{}", series.name);
        self.repo.set_ref(&format!("refs/heads/{branch}"), tip)?;
        let mut git = git::plain();
        git::dated(&mut git, self.now);
        git.arg("--git-dir").arg(&self.repo.dir);
        let count = series.entries.len();
        if let Some(cover) = &series.cover {
            let text = format!("{}\n\n{}\n", cover.subject, cover.body);
            git.arg("-c")
                .arg(format!("branch.{branch}.description={text}"));
        } else if count > MOST_WITHOUT_COVER {
            bail!(
                "series {} has {count} mails, so it needs a cover letter, series/{}.cover: \
                 subject, blank line, text",
                series.name,
                series.name
            );
        }
        git.args(["format-patch", "--quiet", "--signoff", "--no-signature"])
            .arg(format!("--subject-prefix=PATCH {}", series.to))
            .arg("--output-directory")
            .arg(dir)
            .env("GIT_COMMITTER_NAME", &self.sender.name)
            .env("GIT_COMMITTER_EMAIL", &self.sender.email)
            .args(recipients);
        if series.cover.is_some() && count > 1 {
            git.args(["--cover-letter", "--cover-from-description=subject"]);
        }
        if let Some(version) = self.version {
            git.arg(format!("--reroll-count={version}"));
        }
        if self.assembled.clone.is_some() {
            git.arg(format!("--base={}", self.assembled.source));
        }
        git.arg(format!("{}..{branch}", self.assembled.source));
        process::output(&mut git)?;
        let mut mails: Vec<PathBuf> = std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        mails.sort();
        let first = mails.len() - count;
        for (mail, entry) in mails[first..].iter().zip(&series.entries) {
            add_notes(mail, &entry.patch.notes)?;
        }
        Ok(mails)
    }

    /// Options of git format-patch for those whom get_maintainer.pl names:
    /// maintainers in To, reviewers and lists in Cc.
    fn recipients(&self, mails: &[PathBuf]) -> Result<Vec<String>> {
        let ask = |option: &str, more: &[&str]| -> Result<Vec<String>> {
            let mut script = Command::new("perl");
            script
                .current_dir(&self.scripts)
                .arg("scripts/get_maintainer.pl")
                .args(["--no-git", "--no-git-fallback", "--no-rolestats"])
                .args(["--no-roles", "--no-substatus"])
                .args(more)
                .args(mails.iter().filter(|mail| !is_cover(mail)));
            if self.assembled.clone.is_none() {
                script.arg("--no-fixes");
            }
            let text = process::output(&mut script).context("get_maintainer.pl failed")?;
            Ok(text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(|line| format!("--{option}={line}"))
                .collect())
        };
        let mut all = ask("to", &["--no-l", "--no-r"])?;
        all.extend(ask("cc", &["--no-m"])?);
        Ok(all)
    }

    /// What netdev asks of the patches themselves.
    fn check_patches(&self, series: &Series) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        if series.entries.len() > MOST_MAILS {
            findings.push(format!(
                "series/{}: {} mails; netdev takes at most {MOST_MAILS}",
                series.name,
                series.entries.len()
            ));
        }
        let mut unchecked = 0;
        for entry in &series.entries {
            let tags = fixes(&entry.patch.body);
            if tags.is_empty() && entry.kind == Kind::Fix && series.to == "net" {
                findings.push(format!("{}: a fix for net needs a Fixes: tag", entry.path));
            }
            for tag in tags {
                match self.check_tag(entry, tag) {
                    Ok(true) => {}
                    Ok(false) => unchecked += 1,
                    Err(finding) => findings.push(finding),
                }
            }
        }
        if unchecked > 0 {
            let why = match self.assembled.clone {
                Some(_) => "the clone in KDIR does not reach back to their commits",
                None => "this kernel source has no history; KDIR= a clone has",
            };
            ui::note(&format!(
                "{unchecked} Fixes: tags could not be checked: {why}"
            ));
        }
        Ok(findings)
    }

    /// True if the tag was checked against history.
    fn check_tag(&self, entry: &Entry, tag: &str) -> Result<bool, String> {
        let path = &entry.path;
        let Some((id, subject)) = parse_fixes(tag) else {
            return Err(format!(
                "{path}: `Fixes: {tag}` is not of the form: 12 hex digits (\"subject\")"
            ));
        };
        if self.assembled.clone.is_none() {
            return Ok(false);
        }
        let Some(commit) = self.repo.commit(id) else {
            return Ok(false);
        };
        let args = ["log", "-1", "--no-show-signature", "--format=%s", &commit];
        let found = self.repo.line(&args).map_err(|error| error.to_string())?;
        if found != subject {
            return Err(format!("{path}: the subject of {id} is \"{found}\""));
        }
        let ancestor = [
            "merge-base",
            "--is-ancestor",
            &commit,
            &self.assembled.source,
        ];
        if self.repo.line(&ancestor).is_err() {
            return Err(format!(
                "{path}: {id} is not part of {}",
                self.assembled.source_name
            ));
        }
        Ok(true)
    }

    /// The kernel's own checker, on every mail.
    fn checkpatch(&self, mails: &[PathBuf]) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        let mut accepted = vec![0; self.accepted.len()];
        for mail in mails.iter().filter(|mail| !is_cover(mail)) {
            let output = Command::new("perl")
                .current_dir(&self.scripts)
                .args([
                    "scripts/checkpatch.pl",
                    "--strict",
                    "--terse",
                    "--show-types",
                ])
                .args(["--no-summary", "--color=never"])
                .arg(mail)
                .stdin(Stdio::null())
                .output()
                .context("cannot start perl; `regress setup` installs it")?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines: Vec<&str> = said
                .lines()
                .filter(|line| finding_type(line).is_some())
                .collect();
            if lines.is_empty() && !output.status.success() {
                bail!(
                    "checkpatch.pl failed on {}: {}",
                    mail.display(),
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            for line in lines {
                match self.accepts(line) {
                    Some(index) => accepted[index] += 1,
                    None => findings.push(shorten(line, mail)),
                }
            }
        }
        for (accept, count) in self.accepted.iter().zip(accepted) {
            if count > 0 {
                ui::note(&format!(
                    "checkpatch.pl: {count} {} accepted: {}",
                    accept.r#type, accept.reason
                ));
            }
        }
        Ok(findings)
    }

    fn accepts(&self, line: &str) -> Option<usize> {
        let found = finding_type(line)?;
        self.accepted.iter().position(|accept| {
            accept.r#type == found
                && (accept.only != Some(Only::NoHistory) || self.assembled.clone.is_none())
        })
    }

    /// Applies the mails one by one to the kernel source, as a maintainer would.
    fn apply(&self, series: &Series, mails: &[PathBuf], tip: &str) -> Result<()> {
        let dir = self.project.build.join("am");
        self.repo
            .sparse_checkout(&self.assembled.source, &dir, &patterns(&self.stored))?;
        for mail in mails.iter().filter(|mail| !is_cover(mail)) {
            let mut am = Repo::sparse_git_in(&dir, &["am", "--quiet"]);
            am.env_remove("GIT_OPTIONAL_LOCKS");
            process::output(am.arg(mail))
                .with_context(|| format!("{} does not apply with git am", mail.display()))?;
        }
        let tree = git::line(&mut Repo::git_in(&dir, &["rev-parse", "HEAD^{tree}"]))?;
        if tree != self.repo.tree(tip)? {
            bail!(
                "series {}: the mails make another tree than the patches",
                series.name
            );
        }
        git::remove_dir(&dir)?;
        self.repo.line(&["worktree", "prune"])?;
        Ok(())
    }

    /// All series, one behind the other in the order of their mails, must make
    /// the patched kernel, apart from the menu.
    fn check_together(&self) -> Result<Option<String>> {
        let mut builder = Builder::new(&self.repo, &self.assembled.source)?;
        for series in &self.stored.series {
            for entry in &series.entries {
                builder
                    .entry(entry)
                    .context("the series do not fit together")?;
            }
        }
        let patched = &self.assembled.patched;
        let expected = assemble::tree_without_hook(&self.repo, patched, &self.assembled.source)?;
        let same = builder.write_tree()? == expected;
        Ok((!same).then(|| "the mails make another tree than the patched kernel".into()))
    }
}

/// Patterns for the sparse work trees: what is needed and what is touched.
fn patterns(stored: &Stored) -> String {
    let mut text = NEEDED.to_string();
    for (_, entry) in stored.base_first() {
        for file in &entry.files {
            text += &format!("/{}\n", file.path);
        }
        let diff = String::from_utf8_lossy(&entry.patch.diff);
        for line in diff.lines() {
            let names = line.strip_prefix("diff --git a/");
            if let Some((old, new)) = names.and_then(|names| names.split_once(" b/")) {
                text += &format!("/{old}\n/{new}\n");
            }
        }
    }
    text
}

fn is_cover(mail: &Path) -> bool {
    let name = mail.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with("0000-cover-letter.patch")
}

/// Puts notes below the cut, above the diffstat.
fn add_notes(mail: &Path, notes: &str) -> Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    const CUT: &[u8] = b"\n---\n";
    let text = std::fs::read(mail)?;
    let at = text
        .windows(CUT.len())
        .position(|window| window == CUT)
        .with_context(|| format!("{} has no `---`", mail.display()))?;
    let (head, tail) = text.split_at(at + CUT.len());
    std::fs::write(mail, [head, notes.as_bytes(), b"\n\n", tail].concat())?;
    Ok(())
}

/// The Fixes: tags of a message.
fn fixes(body: &str) -> Vec<&str> {
    body.lines()
        .filter_map(|line| line.strip_prefix("Fixes:"))
        .map(str::trim)
        .collect()
}

/// Commit id and subject of a tag that is as it should be.
fn parse_fixes(tag: &str) -> Option<(&str, &str)> {
    let (id, rest) = tag.split_once(' ')?;
    let hex = id.len() >= 12 && id.chars().all(|c| c.is_ascii_hexdigit());
    let subject = rest.strip_prefix("(\"")?.strip_suffix("\")")?;
    hex.then_some((id, subject))
}

/// The type in a line `FILE:LINE: WARNING:TYPE: text`.
fn finding_type(line: &str) -> Option<&str> {
    ["ERROR:", "WARNING:", "CHECK:"].iter().find_map(|level| {
        let (_, rest) = line.split_once(&format!(": {level}"))?;
        Some(rest.split_once(':')?.0)
    })
}

fn shorten(line: &str, mail: &Path) -> String {
    let folder = mail
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new(""));
    let prefix = format!("{}/", folder.display());
    line.replace(&prefix, "").replacen(".new/", "/", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_tags_have_a_form() {
        let body = "text\n\nFixes: 28d35bcdd392 (\"net: x (\"y\")\")\nFixes: 12 (\"z\")\n";
        let tags = fixes(body);
        assert_eq!(
            parse_fixes(tags[0]),
            Some(("28d35bcdd392", "net: x (\"y\")"))
        );
        assert_eq!(parse_fixes(tags[1]), None);
        assert_eq!(parse_fixes("28d35bcdd392 net: x"), None);
    }

    #[test]
    fn findings_have_a_type() {
        let line = "/o/demo.new/0001-x.patch:12: WARNING:LONG_LINE: line length of 101";
        assert_eq!(finding_type(line), Some("LONG_LINE"));
        assert_eq!(finding_type("total: 0 errors"), None);
        let mail = Path::new("/o/demo.new/0001-x.patch");
        assert!(shorten(line, mail).starts_with("demo/0001-x.patch:12: WARNING"));
    }
}
