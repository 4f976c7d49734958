// SPDX-License-Identifier: GPL-2.0
//! The assembled tree: a branch with one commit a mail, in a work tree below
//! the build folder that the user may edit.
//!
//! The same input gives the same commits. The work tree is moved to new ones
//! only when they are all there, and only while it holds nothing of the user's.

use crate::assemble::{self, Commits};
use crate::cli::{KernelChoice, TreeArgs};
use crate::git::{self, Repo};
use crate::project::Project;
use crate::series::{self, Stored};
use crate::source::{self, Source};
use crate::{lock, process, refresh, ui};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The branch that is checked out in the work tree.
pub const BRANCH: &str = "regress";

/// Notes that tie a commit to its patch: `SERIES PATH`, or `hook`.
pub const PATCH_NOTES: &str = "refs/notes/regress";

/// Notes that are mailed below the cut, git's usual ones.
pub const MAIL_NOTES: &str = "refs/notes/commits";

/// Changes when the way of assembling does, so that all is assembled anew.
const FORMAT: u32 = 1;

/// The assembled kernels, as full commit ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assembled {
    pub git_dir: PathBuf,
    /// The kernel as it came.
    pub source: String,
    pub source_name: String,
    /// The user's clone, where the source's history can be read.
    pub clone: Option<PathBuf>,
    /// The source with the project's menu.
    pub hook: String,
    /// With tests and what they need.
    pub base: String,
    /// With the fixes, too.
    pub patched: String,
    /// Each patch's commit, by the patch's path.
    pub patches: Vec<(String, String)>,
    /// Stands for everything that went in.
    key: String,
}

/// A kernel to build or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// `base`, `patched`, or the revision as it was typed.
    pub name: String,
    pub commit: String,
}

impl Assembled {
    /// The kernels that the user chose, base before patched.
    pub fn choose(&self, choice: &KernelChoice) -> Result<Vec<Kernel>> {
        let kernel = |name: &str, commit: &str| Kernel {
            name: name.into(),
            commit: commit.into(),
        };
        let base = kernel("base", &self.base);
        let patched = kernel("patched", &self.patched);
        Ok(match choice {
            KernelChoice::Base => vec![base],
            KernelChoice::Patched => vec![patched],
            KernelChoice::Both => vec![base, patched],
            KernelChoice::Revision(revision) => {
                let commit = self.repo().commit(revision).with_context(|| {
                    format!(
                        "there is no kernel `{revision}`: it is base, patched, both, or a \
                         revision of the assembled tree, such as patched~1 or {BRANCH}"
                    )
                })?;
                vec![kernel(revision, &commit)]
            }
        })
    }

    /// Makes `dir` a work tree at `commit`; only files that differ are written,
    /// so that a build there is incremental. `dir` is no place for the user.
    pub fn checkout(&self, commit: &str, dir: &Path) -> Result<()> {
        self.repo().checkout(commit, dir)
    }

    fn with(self, commits: Commits) -> Self {
        Assembled {
            hook: commits.hook,
            base: commits.base,
            patched: commits.patched,
            patches: commits.patches,
            ..self
        }
    }

    /// True if it was assembled from exactly these files.
    pub fn is_made_of(&self, repo: &Repo, stored: &Stored) -> Result<bool> {
        Ok(key(repo, &self.source, &self.source_name, stored)? == self.key)
    }

    pub fn repo(&self) -> Repo {
        Repo {
            dir: self.git_dir.clone(),
        }
    }
}

/// `regress tree`.
pub fn command(project: &Project, args: &TreeArgs) -> Result<ExitCode> {
    let _lock = lock::acquire(&project.build)?;
    let assembled = Assembler::new(project)?.run(args.update, args.force, true)?;
    let repo = assembled.repo();
    println!(
        "{}: {}",
        project.show(&project.tree()),
        assembled.source_name
    );
    for (name, from, to) in [
        ("base", &assembled.hook, &assembled.base),
        ("patched", &assembled.base, &assembled.patched),
    ] {
        println!("{name:8} {}", &to[..12]);
        let range = format!("{from}..{to}");
        let args = ["log", "--reverse", "--format=    %h %s", &range];
        print!("{}", process::output(&mut repo.git(&args))?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The kernels of the project as it is now, assembled if need be. Fails rather
/// than touch work that was not refreshed.
pub fn kernels(project: &Project) -> Result<Assembled> {
    let _lock = lock::acquire(&project.build)?;
    Assembler::new(project)?.run(false, false, false)
}

/// The repository below the build folder.
pub fn repo(project: &Project) -> Result<Repo> {
    Repo::open(&project.build.join("git"))
}

/// Files of the project that no series names.
pub fn strays(project: &Project) -> Result<Vec<String>> {
    series::strays(&project.root, &Stored::read(&project.root)?)
}

/// What was assembled last, if anything was.
pub fn last(repo: &Repo) -> Option<Assembled> {
    read_state(&repo.dir.join("assembled.json"))
}

fn read_state(path: &Path) -> Option<Assembled> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// After a refresh: the work tree's files are those of `commits` already, so
/// only the branch moves.
pub fn adopt(
    project: &Project,
    repo: &Repo,
    last: &Assembled,
    stored: &Stored,
    commits: Commits,
) -> Result<()> {
    write_notes(repo, stored, &commits)?;
    let mut new = last.clone().with(commits);
    new.key = key(repo, &new.source, &new.source_name, stored)?;
    let assembler = Assembler {
        project,
        repo: repo.clone(),
    };
    assembler.move_to(&project.tree(), &new)
}

/// What the user did in the work tree since it was assembled.
#[derive(Debug, PartialEq, Eq)]
enum UserWork {
    None,
    Commits,
    Uncommitted,
}

struct Assembler<'a> {
    project: &'a Project,
    repo: Repo,
}

impl<'a> Assembler<'a> {
    fn new(project: &'a Project) -> Result<Self> {
        Ok(Assembler {
            project,
            repo: repo(project)?,
        })
    }

    fn run(&self, update: bool, force: bool, with_work_tree: bool) -> Result<Assembled> {
        refresh::finish_interrupted(self.project)?;
        self.finish_interrupted()?;
        let source = source::get(self.project, &self.repo, update)?;
        self.take_attributes(&source.commit)?;
        let stored = Stored::read(&self.project.root)?;
        for stray in series::strays(&self.project.root, &stored)? {
            ui::note(&format!(
                "{stray} is in no file below series/, so it is left out"
            ));
        }
        let old = last(&self.repo);
        let key = key(&self.repo, &source.commit, &source.name, &stored)?;
        let new = match &old {
            Some(old) if old.key == key => {
                ui::reused("assembled tree");
                old.clone()
            }
            _ => self.assemble(&source, &stored, key)?,
        };
        self.move_work_tree(old.as_ref(), &new, force, with_work_tree)?;
        Ok(new)
    }

    /// A bare repository has no work tree to read the kernel's .gitattributes
    /// from; they say which function a hunk is in.
    fn take_attributes(&self, source: &str) -> Result<()> {
        let path = self.repo.dir.join("info/attributes");
        let attributes = self.repo.file(source, ".gitattributes").unwrap_or_default();
        if std::fs::read(&path).unwrap_or_default() == attributes {
            return Ok(());
        }
        series::Content::plain(attributes).write(&path)
    }

    fn assemble(&self, source: &Source, stored: &Stored, key: String) -> Result<Assembled> {
        let step = ui::Step::start("assembling the tree");
        let commits = assemble::assemble(&self.repo, &source.commit, stored)
            .with_context(|| format!("the series do not fit {}", source.name))?;
        for path in &commits.merged {
            ui::note(&format!(
                "{path} needed a three-way merge; `regress refresh --all` stores the result"
            ));
        }
        write_notes(&self.repo, stored, &commits)?;
        step.done(&format!("{} patches", commits.patches.len()));
        let before = Assembled {
            git_dir: self.repo.dir.clone(),
            source: source.commit.clone(),
            source_name: source.name.clone(),
            clone: source.clone.clone(),
            hook: String::new(),
            base: String::new(),
            patched: String::new(),
            patches: Vec::new(),
            key,
        };
        Ok(before.with(commits))
    }

    fn move_work_tree(
        &self,
        old: Option<&Assembled>,
        new: &Assembled,
        force: bool,
        wanted: bool,
    ) -> Result<()> {
        let dir = self.project.tree();
        if !self.repo.is_work_tree(&dir) {
            if wanted {
                self.make_work_tree(old, new, &dir)?;
            }
            return self.record(new);
        }
        let work = user_work(&dir, old)?;
        let same = old == Some(new);
        if work != UserWork::None && !force {
            if same {
                let shown = self.project.show(&dir);
                ui::note(&format!(
                    "{shown} has changes of yours; they are in no kernel until `regress refresh`"
                ));
                return Ok(());
            }
            bail!(
                "{} has {} that the project's files lack, and the tree must be assembled anew; \
                 nothing was done. `regress refresh` writes them into the project's files, \
                 `regress tree --force` drops them (a backup branch keeps them)",
                self.project.show(&dir),
                match work {
                    UserWork::Uncommitted => "uncommitted changes",
                    _ => "commits",
                }
            );
        }
        if work != UserWork::None {
            self.back_up(&dir)?;
        } else if same {
            return Ok(());
        }
        self.move_to(&dir, new)
    }

    /// Moves the work tree; if this is interrupted, the next run finishes it.
    fn move_to(&self, dir: &Path, new: &Assembled) -> Result<()> {
        series::Content::plain(serde_json::to_vec(new)?).write(&self.pending())?;
        self.switch(dir, new)?;
        self.record(new)
    }

    fn make_work_tree(&self, old: Option<&Assembled>, new: &Assembled, dir: &Path) -> Result<()> {
        let step = ui::Step::start(format!("checking out {}", self.project.show(dir)));
        if let Some(tip) = self.repo.commit(&format!("refs/heads/{BRANCH}")) {
            let known = [old, Some(new)].into_iter().flatten();
            if !known.into_iter().any(|state| state.patched == tip) {
                self.keep(&tip)?;
            }
        }
        let fresh = self.repo.fresh_work_tree(dir, &new.patched)?;
        let mut reset = Repo::git_in(&fresh, &["reset", "--hard", "--quiet"]);
        process::run_logged(&mut reset, &self.project.log("checkout"))?;
        process::output(&mut Repo::git_in(
            &fresh,
            &["checkout", "--quiet", "-B", BRANCH],
        ))?;
        self.repo.adopt(&fresh, dir)?;
        step.done("");
        Ok(())
    }

    /// Puts the work tree on the branch at the new commits, whatever is there.
    fn switch(&self, dir: &Path, new: &Assembled) -> Result<()> {
        for stop in ["rebase", "am", "cherry-pick"] {
            let _ = process::output(&mut Repo::git_in(dir, &[stop, "--quit"]));
        }
        let args = ["checkout", "--quiet", "--force", "-B", BRANCH, &new.patched];
        process::output(&mut Repo::git_in(dir, &args))?;
        Ok(())
    }

    /// Makes the new state the current one.
    fn record(&self, new: &Assembled) -> Result<()> {
        self.repo.set_ref("refs/tags/base", &new.base)?;
        self.repo.set_ref("refs/tags/patched", &new.patched)?;
        series::Content::plain(serde_json::to_vec_pretty(new)?)
            .write(&self.repo.dir.join("assembled.json"))?;
        match std::fs::remove_file(self.pending()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn pending(&self) -> PathBuf {
        self.repo.dir.join("pending.json")
    }

    /// A run that was killed while it moved the work tree left it half moved.
    fn finish_interrupted(&self) -> Result<()> {
        let Some(new) = read_state(&self.pending()) else {
            return Ok(());
        };
        let dir = self.project.tree();
        ui::note("an earlier run was interrupted; finishing it");
        if self.repo.is_work_tree(&dir) {
            let git_dir = git::line(&mut Repo::git_in(&dir, &["rev-parse", "--git-dir"]))?;
            let _ = std::fs::remove_file(dir.join(git_dir).join("index.lock"));
            if !git::status(&dir)?.is_empty() {
                self.back_up(&dir)?;
            }
            self.switch(&dir, &new)?;
        }
        self.record(&new)
    }

    /// Keeps the work tree's state, uncommitted changes included, as a branch.
    fn back_up(&self, dir: &Path) -> Result<()> {
        let head = git::line(&mut Repo::git_in(dir, &["rev-parse", "HEAD"]))?;
        let mut stash = Repo::git_in(dir, &["stash", "create"]);
        let stashed = git::line(stash.env_remove("GIT_OPTIONAL_LOCKS")).unwrap_or_default();
        self.keep(if stashed.is_empty() { &head } else { &stashed })
    }

    fn keep(&self, commit: &str) -> Result<()> {
        let name = (1..)
            .map(|number| format!("backup/{number}"))
            .find(|name| self.repo.commit(&format!("refs/heads/{name}")).is_none())
            .expect("numbers do not end");
        self.repo.set_ref(&format!("refs/heads/{name}"), commit)?;
        ui::note(&format!(
            "what {} had is kept as the branch {name}",
            self.project.show(&self.project.tree())
        ));
        Ok(())
    }
}

fn user_work(dir: &Path, old: Option<&Assembled>) -> Result<UserWork> {
    if !git::status(dir)?.is_empty() {
        return Ok(UserWork::Uncommitted);
    }
    let head = git::line(&mut Repo::git_in(dir, &["rev-parse", "HEAD"]))?;
    Ok(match old {
        Some(old) if old.patched == head => UserWork::None,
        _ => UserWork::Commits,
    })
}

/// A digest of all that goes into the tree.
fn key(repo: &Repo, source: &str, source_name: &str, stored: &Stored) -> Result<String> {
    let mut text = format!("{FORMAT} {source} {source_name}\n").into_bytes();
    for (path, content) in stored.files() {
        let size = content.bytes.len();
        text.extend(format!("{path} {} {size}\n", content.mode.git()).bytes());
        text.extend(content.bytes);
    }
    let mut hash = repo.git(&["hash-object", "--stdin"]);
    let key = git::fed(&mut hash, &text)?;
    Ok(String::from_utf8_lossy(&key).trim().to_string())
}

/// Ties each commit to its patch, and brings what is mailed below the cut.
pub fn write_notes(repo: &Repo, stored: &Stored, commits: &Commits) -> Result<()> {
    set_note(repo, PATCH_NOTES, &commits.hook, "hook")?;
    let entries = stored.base_first();
    for ((series, entry), (_, commit)) in entries.iter().zip(&commits.patches) {
        let text = format!("{} {}", series.name, entry.path);
        set_note(repo, PATCH_NOTES, commit, &text)?;
        set_note(repo, MAIL_NOTES, commit, &entry.patch.notes)?;
    }
    Ok(())
}

fn set_note(repo: &Repo, notes: &str, commit: &str, text: &str) -> Result<()> {
    if note(repo, notes, commit)? == text {
        return Ok(());
    }
    let notes = format!("--ref={notes}");
    if text.is_empty() {
        repo.line(&["notes", &notes, "remove", "--ignore-missing", commit])?;
        return Ok(());
    }
    let mut add = repo.git(&["notes", &notes, "add", "--force", "--file=-", commit]);
    git::fed(&mut add, text.as_bytes())?;
    Ok(())
}

/// A commit's note, without the newline at its end.
pub fn note(repo: &Repo, notes: &str, commit: &str) -> Result<String> {
    let format = "--format=%N";
    let notes = format!("--notes={notes}");
    let args = ["log", "-1", "--no-show-signature", format, &notes, commit];
    let text = git::bytes(&mut repo.git(&args))?;
    Ok(String::from_utf8_lossy(&text).trim_end_matches('\n').into())
}
