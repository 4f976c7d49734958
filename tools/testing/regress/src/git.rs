// SPDX-License-Identifier: GPL-2.0
//! The repository below the build folder, worked with git's own commands.
//!
//! Neither the user's git configuration nor the environment has a say here:
//! the same input gives the same commits on every machine.

use crate::process;
use anyhow::{bail, Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Author and committer of what is assembled; mails get the sender's.
const IDENTITY: (&str, &str) = ("net-regress", "net-regress@localhost");

/// Options that make git's output and behaviour the same everywhere.
const OPTIONS: [(&str, &str); 8] = [
    ("core.abbrev", "12"),
    ("core.hooksPath", "/dev/null"),
    ("core.quotePath", "false"),
    // It may start a daemon that writes into KDIR.
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    // KDIR may belong to another user; it is only read.
    ("safe.directory", "*"),
];

/// `git`, free of the user's configuration, with the neutral identity.
pub fn plain() -> Command {
    let mut git = Command::new("git");
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("GIT_") {
            git.env_remove(variable);
        }
    }
    git.env("GIT_CONFIG_COUNT", OPTIONS.len().to_string());
    for (number, (name, value)) in OPTIONS.iter().enumerate() {
        git.env(format!("GIT_CONFIG_KEY_{number}"), name)
            .env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env("GIT_AUTHOR_NAME", IDENTITY.0)
        .env("GIT_AUTHOR_EMAIL", IDENTITY.1)
        .env("GIT_COMMITTER_NAME", IDENTITY.0)
        .env("GIT_COMMITTER_EMAIL", IDENTITY.1);
    dated(&mut git, 0);
    git
}

/// Sets both dates, in seconds since 1970.
pub fn dated(git: &mut Command, seconds: u64) {
    let date = format!("@{seconds} +0000");
    git.env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date);
}

/// The first line of a command's output.
pub fn line(command: &mut Command) -> Result<String> {
    Ok(process::output(command)?
        .lines()
        .next()
        .unwrap_or_default()
        .to_string())
}

/// The first line of the output, or `None` if the command fails.
pub fn line_if_ok(command: &mut Command) -> Option<String> {
    line(command.stderr(Stdio::null())).ok()
}

/// Raw standard output; failure is an error with what git said.
pub fn bytes(command: &mut Command) -> Result<Vec<u8>> {
    fed(command, b"")
}

/// Runs `command` with `input`; raw standard output.
pub fn fed(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let output = try_fed(command, input)?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}): {}",
            process::describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// Runs `command` with `input`, whatever its exit status.
pub fn try_fed(command: &mut Command, input: &[u8]) -> Result<std::process::Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start git; `regress setup` installs it")?;
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        // A child that ends early makes this fail; its status tells.
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output()
    })
    .with_context(|| format!("lost `{}`", process::describe(command)))
}

/// A bare repository.
#[derive(Debug, Clone)]
pub struct Repo {
    pub dir: PathBuf,
}

impl Repo {
    /// Opens the repository, or makes it: either whole or not at all.
    pub fn open(dir: &Path) -> Result<Self> {
        if !dir.join("HEAD").exists() {
            let fresh = dir.with_extension("new");
            remove_dir(&fresh)?;
            process::output(
                plain()
                    .args(["init", "--quiet", "--bare", "--initial-branch=regress"])
                    .arg(&fresh),
            )?;
            std::fs::rename(&fresh, dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let repo = Repo {
            dir: dir.to_path_buf(),
        };
        if repo.line(&["config", "--get", "regress.format"]).is_err() {
            repo.configure()?;
        }
        Ok(repo)
    }

    /// Lets notes follow a commit through `git commit --amend` and `git rebase`.
    fn configure(&self) -> Result<()> {
        for (name, value) in [
            ("notes.rewriteRef", "refs/notes/*"),
            ("gc.auto", "0"),
            ("core.abbrev", "12"),
            ("regress.format", "1"),
        ] {
            self.line(&["config", name, value])?;
        }
        Ok(())
    }

    /// `git` on this repository.
    pub fn git<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut git = plain();
        git.arg("--git-dir").arg(&self.dir).args(args);
        git
    }

    /// `git` in a linked work tree of this repository.
    pub fn git_in<S: AsRef<std::ffi::OsStr>>(work_tree: &Path, args: &[S]) -> Command {
        let mut git = plain();
        git.arg("-C").arg(work_tree).args(args);
        git
    }

    pub fn line<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Result<String> {
        line(&mut self.git(args))
    }

    /// The full id of the commit that `revision` names, if there is one.
    pub fn commit(&self, revision: &str) -> Option<String> {
        let revision = format!("{revision}^{{commit}}");
        line_if_ok(&mut self.git(&["rev-parse", "--verify", "--quiet", &revision]))
    }

    /// The id of a revision's tree.
    pub fn tree(&self, revision: &str) -> Result<String> {
        self.line(&["rev-parse", "--verify", &format!("{revision}^{{tree}}")])
    }

    pub fn set_ref(&self, name: &str, commit: &str) -> Result<()> {
        self.line(&["update-ref", name, commit]).map(drop)
    }

    /// A file's content at a revision, if it is there.
    pub fn file(&self, revision: &str, path: &str) -> Option<Vec<u8>> {
        bytes(&mut self.git(&["cat-file", "blob", &format!("{revision}:{path}")])).ok()
    }

    /// Stores bytes as a blob.
    pub fn blob(&self, content: &[u8]) -> Result<String> {
        let id = fed(
            &mut self.git(&["hash-object", "-w", "--stdin", "--no-filters"]),
            content,
        )?;
        Ok(String::from_utf8_lossy(&id).trim().to_string())
    }

    /// Makes a commit without parents.
    pub fn root_commit(&self, tree: &str, message: &str) -> Result<String> {
        let mut git = self.git(&["commit-tree", tree, "-F", "-"]);
        let id = fed(&mut git, message.as_bytes())?;
        Ok(String::from_utf8_lossy(&id).trim().to_string())
    }

    /// Makes `dir` anew as a work tree of some files only, by patterns as in
    /// .gitignore.
    pub fn sparse_checkout(&self, commit: &str, dir: &Path, patterns: &str) -> Result<()> {
        remove_dir(dir)?;
        self.line(&["worktree", "prune"])?;
        let mut add = self.git(&["worktree", "add", "--quiet", "--no-checkout", "--detach"]);
        process::output(add.arg(dir).arg(commit))?;
        let git_dir = line(&mut Repo::git_in(dir, &["rev-parse", "--absolute-git-dir"]))?;
        let info = Path::new(&git_dir).join("info");
        std::fs::create_dir_all(&info)?;
        std::fs::write(info.join("sparse-checkout"), patterns)?;
        process::output(&mut Repo::sparse_git_in(
            dir,
            &["reset", "--hard", "--quiet"],
        ))?;
        Ok(())
    }

    /// `git` in a work tree made by `sparse_checkout`.
    pub fn sparse_git_in<S: AsRef<std::ffi::OsStr>>(work_tree: &Path, args: &[S]) -> Command {
        let options = ["core.sparseCheckout=true", "core.sparseCheckoutCone=false"];
        let mut git = Repo::git_in(work_tree, &options.map(|option| ["-c", option]).concat());
        git.args(args);
        git
    }

    /// Makes `dir` a linked work tree at `commit`, detached; one that is there
    /// already is moved, and only files that differ are written.
    pub fn checkout(&self, commit: &str, dir: &Path) -> Result<()> {
        if self.is_work_tree(dir) {
            let head = line(&mut Repo::git_in(dir, &["rev-parse", "HEAD"]))?;
            if head == commit && status(dir)?.is_empty() {
                return Ok(());
            }
            process::output(&mut Repo::git_in(dir, &["reset", "--hard", "--quiet"]))?;
            process::output(&mut Repo::git_in(
                dir,
                &["checkout", "--quiet", "--detach", commit],
            ))?;
            return Ok(());
        }
        let fresh = self.fresh_work_tree(dir, commit)?;
        process::output(&mut Repo::git_in(&fresh, &["reset", "--hard", "--quiet"]))?;
        self.adopt(&fresh, dir)
    }

    /// True for a linked work tree of this repository that is whole.
    pub fn is_work_tree(&self, dir: &Path) -> bool {
        if !dir.join(".git").is_file() {
            return false;
        }
        let common = line_if_ok(&mut Repo::git_in(dir, &["rev-parse", "--git-common-dir"]));
        let real = |path: &Path| path.canonicalize().ok();
        common.is_some_and(|common| real(&dir.join(common)) == real(&self.dir))
            && line_if_ok(&mut Repo::git_in(dir, &["rev-parse", "--verify", "HEAD"])).is_some()
    }

    /// An empty work tree beside `dir`, to be filled and adopted.
    pub fn fresh_work_tree(&self, dir: &Path, commit: &str) -> Result<PathBuf> {
        let fresh = dir.with_extension("new");
        remove_dir(&fresh)?;
        if dir.exists() {
            bail!(
                "{} is there, but is no work tree of {}; move it away",
                dir.display(),
                self.dir.display()
            );
        }
        self.line(&["worktree", "prune"])?;
        let mut git = self.git(&["worktree", "add", "--quiet", "--no-checkout", "--detach"]);
        process::output(git.arg(&fresh).arg(commit))?;
        if self.seed().join("index").exists() {
            self.plant_seed(&fresh)?;
        }
        Ok(fresh)
    }

    /// Where an import leaves the files that it unpacked, and their index: the
    /// first work tree takes them instead of writing them again.
    pub fn seed(&self) -> PathBuf {
        self.dir.with_file_name("seed")
    }

    fn plant_seed(&self, fresh: &Path) -> Result<()> {
        let seed = self.seed();
        let git_dir = line(&mut Repo::git_in(
            fresh,
            &["rev-parse", "--absolute-git-dir"],
        ))?;
        let plant = || -> std::io::Result<()> {
            std::fs::rename(fresh.join(".git"), seed.join("tree/.git"))?;
            std::fs::remove_dir(fresh)?;
            std::fs::rename(seed.join("tree"), fresh)?;
            std::fs::rename(seed.join("index"), Path::new(&git_dir).join("index"))
        };
        plant()
            .with_context(|| format!("cannot move {} to {}", seed.display(), fresh.display()))?;
        remove_dir(&seed)
    }

    /// Gives a filled work tree its name.
    pub fn adopt(&self, fresh: &Path, dir: &Path) -> Result<()> {
        process::output(self.git(&["worktree", "move"]).arg(fresh).arg(dir))?;
        Ok(())
    }
}

/// Tracked files that differ from HEAD in a work tree, one a line as in
/// `git status --porcelain`; nothing is written, not even the index.
pub fn status(work_tree: &Path) -> Result<String> {
    let args = [
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--ignore-submodules=all",
    ];
    let text = bytes(&mut Repo::git_in(work_tree, &args))?;
    Ok(String::from_utf8_lossy(&text).trim_end().to_string())
}

/// Removes a folder, if it is there.
pub fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}
