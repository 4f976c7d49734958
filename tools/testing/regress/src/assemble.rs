// SPDX-License-Identifier: GPL-2.0
//! Makes commits of what is stored, in an index of its own: no work tree and no
//! branch is touched, so a patch that does not apply leaves everything as it was.

use crate::git::{self, Repo};
use crate::patch;
use crate::process;
use crate::series::{Content, Entry, Mode, Stored};
use anyhow::{bail, Context, Result};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The project's menu, by its name in the assembled tree.
pub const MENU: &str = "Kconfig.regress";

/// Subject of the commit that hooks the menu in; it is never mailed.
pub const HOOK_SUBJECT: &str = "Kconfig: source the menu of net-regress";

/// The commits of the assembled tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commits {
    pub hook: String,
    pub base: String,
    pub patched: String,
    /// Each patch's commit, by the patch's path in the project.
    pub patches: Vec<(String, String)>,
    /// Patches that needed a three-way merge.
    pub merged: Vec<String>,
}

/// Applies everything to `source`: the menu, base patches, fixes.
pub fn assemble(repo: &Repo, source: &str, stored: &Stored) -> Result<Commits> {
    let mut builder = Builder::new(repo, source)?;
    let hook = builder.hook(&stored.kconfig)?;
    let mut commits = Commits {
        base: hook.clone(),
        patched: hook.clone(),
        hook,
        patches: Vec::new(),
        merged: Vec::new(),
    };
    for (series, entry) in stored.base_first() {
        let merged = builder
            .entry(entry)
            .with_context(|| format!("series {}: nothing was changed", series.name))?;
        let commit = builder.tip.clone();
        if merged {
            commits.merged.push(entry.path.clone());
        }
        if entry.kind == crate::series::Kind::Base {
            commits.base = commit.clone();
        }
        commits.patched = commit.clone();
        commits.patches.push((entry.path.clone(), commit));
    }
    Ok(commits)
}

/// Grows a chain of commits.
pub struct Builder<'a> {
    repo: &'a Repo,
    index: PathBuf,
    date: u64,
    /// Name and address of the author, if not the neutral one.
    pub author: Option<(String, String)>,
    pub tip: String,
}

impl<'a> Builder<'a> {
    /// Starts at a commit, whose date all the others get.
    pub fn new(repo: &'a Repo, start: &str) -> Result<Self> {
        let date = repo.line(&["log", "-1", "--no-show-signature", "--format=%ct", start])?;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let builder = Builder {
            repo,
            index: repo
                .dir
                .join(format!("assemble-{}-{number}.index", std::process::id())),
            date: date.parse().unwrap_or_default(),
            author: None,
            tip: start.to_string(),
        };
        process::output(&mut builder.git(&["read-tree", start]))?;
        Ok(builder)
    }

    fn git(&self, args: &[&str]) -> Command {
        let mut git = self.repo.git(args);
        git.env("GIT_INDEX_FILE", &self.index)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .current_dir(&self.repo.dir);
        git
    }

    fn commit(&mut self, message: &str) -> Result<()> {
        let tree = self.write_tree()?;
        let mut git = self.git(&["commit-tree", &tree, "-p", &self.tip, "-F", "-"]);
        git::dated(&mut git, self.date);
        if let Some((name, email)) = &self.author {
            git.env("GIT_AUTHOR_NAME", name)
                .env("GIT_AUTHOR_EMAIL", email);
        }
        let id = git::fed(&mut git, message.as_bytes())?;
        self.tip = String::from_utf8_lossy(&id).trim().to_string();
        Ok(())
    }

    /// Dates the commits to come, in seconds since 1970.
    pub fn set_date(&mut self, seconds: u64) {
        self.date = seconds;
    }

    pub fn write_tree(&self) -> Result<String> {
        git::line(&mut self.git(&["write-tree"]))
    }

    fn put(&self, path: &str, content: &Content) -> Result<()> {
        let blob = self.repo.blob(&content.bytes)?;
        self.update_index(&format!("{} {blob}\t{path}\0", content.mode.git()))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let nothing = "0".repeat(40);
        self.update_index(&format!("0 {nothing}\t{path}\0"))
    }

    fn update_index(&self, line: &str) -> Result<()> {
        git::fed(
            &mut self.git(&["update-index", "-z", "--add", "--index-info"]),
            line.as_bytes(),
        )?;
        Ok(())
    }

    fn hook(&mut self, menu: &[u8]) -> Result<String> {
        if self.repo.file(&self.tip, MENU).is_some() {
            bail!(
                "this kernel has a {MENU} of its own: it is an assembled tree; \
                 give KDIR= the kernel below it"
            );
        }
        let mut top = self
            .repo
            .file(&self.tip, "Kconfig")
            .context("this kernel has no Kconfig")?;
        top.extend(format!("\nsource \"{MENU}\"\n").bytes());
        self.put("Kconfig", &Content::plain(top))?;
        self.put(MENU, &Content::plain(menu))?;
        self.commit(&format!("{HOOK_SUBJECT}\n"))?;
        Ok(self.tip.clone())
    }

    /// Commits one patch with its new files; true if it needed a merge.
    pub fn entry(&mut self, entry: &Entry) -> Result<bool> {
        let merged = self.apply(entry)?;
        for file in &entry.files {
            self.check_is_new(&file.path, entry)?;
            self.put(&file.path, &file.content)?;
        }
        self.commit(&entry.patch.message())?;
        Ok(merged)
    }

    fn check_is_new(&self, path: &str, entry: &Entry) -> Result<()> {
        let found = process::output(&mut self.git(&["ls-files", "--", path]))?;
        if !found.is_empty() {
            bail!(
                "{path} joins {} as a new file, but it is in the kernel already; \
                 store the edit of it in the patch instead",
                entry.path
            );
        }
        Ok(())
    }

    fn apply(&self, entry: &Entry) -> Result<bool> {
        let diff = &entry.patch.diff;
        if diff.is_empty() {
            return Ok(false);
        }
        let try_with = |more: &[&str]| {
            let args = ["apply", "--cached", "--whitespace=nowarn"];
            git::try_fed(&mut self.git(&[&args, more].concat()), diff)
        };
        let direct = try_with(&[])?;
        if direct.status.success() {
            return Ok(false);
        }
        if try_with(&["--3way"])?.status.success() {
            return Ok(true);
        }
        let said = String::from_utf8_lossy(&direct.stderr).into_owned();
        bail!("{}", explain(entry, &said));
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.index);
        let _ = std::fs::remove_file(self.index.with_extension("index.lock"));
    }
}

/// Says where a patch does not apply: file, hunk, and what git said.
fn explain(entry: &Entry, said: &str) -> String {
    let mut text = format!("{} does not apply", entry.path);
    for line in said.lines() {
        let Some(what) = line.strip_prefix("error: ") else {
            continue;
        };
        let place = what
            .strip_prefix("patch failed: ")
            .and_then(|place| place.rsplit_once(':'));
        let hunk = place.and_then(|(file, line)| {
            let (number, hunk) = patch::hunk(&entry.patch.diff, file, line)?;
            Some(format!("{file}, hunk {number}:\n{hunk}"))
        });
        match (hunk, place) {
            (Some(hunk), _) => text += &format!("\n{hunk}"),
            (None, None) if !what.ends_with(": patch does not apply") => {
                text += &format!("\n{what}");
            }
            (None, Some((file, line))) => text += &format!("\n{file}, line {line}"),
            _ => {}
        }
    }
    text
}

/// The tree of `commit` without the menu and its hook: what the mails make.
pub fn tree_without_hook(repo: &Repo, commit: &str, source: &str) -> Result<String> {
    let builder = Builder::new(repo, commit)?;
    let top = repo
        .file(source, "Kconfig")
        .context("this kernel has no Kconfig")?;
    builder.put("Kconfig", &Content::plain(top))?;
    builder.remove(MENU)?;
    builder.write_tree()
}

/// A file as a commit has it, with its mode.
pub fn content(repo: &Repo, commit: &str, path: &str) -> Result<Content> {
    let mode = repo.line(&["ls-tree", "--format=%(objectmode)", commit, "--", path])?;
    Ok(Content {
        mode: Mode::from_git(&mode).with_context(|| path.to_string())?,
        bytes: repo
            .file(commit, path)
            .with_context(|| format!("{path} is not in {commit}"))?,
    })
}
