// SPDX-License-Identifier: GPL-2.0
//! The kernel that the series is applied to: the user's own (`KDIR=`) or
//! Debian's. Either ends as a commit in our repository; the user's is only read.

use crate::debian::{self, Apt};
use crate::git::{self, Repo};
use crate::project::Project;
use crate::{process, ui};
use anyhow::{bail, Context, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The base tree.
#[derive(Debug, Clone)]
pub struct Source {
    pub commit: String,
    /// For people: version and origin.
    pub name: String,
    /// The user's clone, if the base tree has a history.
    pub clone: Option<PathBuf>,
}

/// Folder names of a kernel's top level that tell it from anything else.
const KERNEL_FILES: [&str; 5] = ["Kbuild", "Kconfig", "MAINTAINERS", "Makefile", "kernel"];

/// What an in-place build leaves; such a tree cannot be built elsewhere.
const BUILD_LEFTOVERS: [&str; 2] = [".config", "include/config"];

/// Finds the base tree, fetching and importing it the first time.
pub fn get(project: &Project, repo: &Repo, update: bool) -> Result<Source> {
    let importer = Importer { project, repo };
    let Some(kdir) = &project.kdir else {
        return importer.debian(update);
    };
    let kdir = kdir
        .canonicalize()
        .with_context(|| format!("KDIR={}: it cannot be read", kdir.display()))?;
    let source = if kdir.is_file() {
        importer.tarball(&kdir)
    } else if is_git(&kdir) {
        importer.clone(&kdir)
    } else {
        importer.plain(&kdir)
    };
    source.with_context(|| format!("KDIR={} cannot be used", kdir.display()))
}

/// True if the folder itself is a repository or a work tree, not merely in one.
fn is_git(dir: &Path) -> bool {
    dir.join(".git").exists() || (dir.join("HEAD").is_file() && dir.join("objects").is_dir())
}

struct Importer<'a> {
    project: &'a Project,
    repo: &'a Repo,
}

impl Importer<'_> {
    fn debian(&self, update: bool) -> Result<Source> {
        const LATEST: &str = "refs/sources/debian";
        if let (Some(commit), false) = (self.repo.commit(LATEST), update) {
            let source = self.source(commit)?;
            ui::reused(&format!(
                "{}; `regress tree --update` looks for a newer one",
                source.name
            ));
            return Ok(source);
        }
        let step = ui::Step::start("looking for Debian's kernel source");
        let dir = self.project.build.join("apt");
        let apt = Apt::update(&dir, &self.project.log("apt-update"))?;
        let candidate = apt.candidate()?;
        let what = format!("{} {}", candidate.package, candidate.version);
        step.done(&what);
        if let Some(note) = candidate.note {
            ui::note(note);
        }
        let kept = format!("refs/sources/{}", ref_name(&what));
        if let Some(commit) = self.repo.commit(&kept) {
            self.repo.set_ref(LATEST, &commit)?;
            let source = self.source(commit)?;
            ui::reused(&source.name);
            return Ok(source);
        }
        let step = ui::Step::start(format!("downloading {what}"));
        let deb = apt.download(&candidate, &self.project.log("apt-download"))?;
        step.done("signatures are good");
        let tarball = debian::unpack(
            &deb,
            candidate.package,
            &dir.join("unpacked"),
            &self.project.log("unpack"),
        )?;
        let commit = self.import_tarball(&tarball, &format!("Debian {what}"))?;
        self.repo.set_ref(&kept, &commit)?;
        self.repo.set_ref(LATEST, &commit)?;
        // It is in the repository now.
        git::remove_dir(&dir.join("download"))?;
        git::remove_dir(&dir.join("unpacked"))?;
        self.source(commit)
    }

    fn tarball(&self, file: &Path) -> Result<Source> {
        let state = file.metadata()?;
        let key = format!(
            "{}\n{}\n{}.{}",
            file.display(),
            state.len(),
            state.mtime(),
            state.mtime_nsec()
        );
        let kept = format!("refs/sources/tar-{}", self.repo.blob(key.as_bytes())?);
        if let Some(commit) = self.repo.commit(&kept) {
            let source = self.source(commit)?;
            ui::reused(&source.name);
            return Ok(source);
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let commit = self.import_tarball(file, &name)?;
        self.repo.set_ref(&kept, &commit)?;
        self.source(commit)
    }

    /// A folder without git: added anew each time, which is fast when git's
    /// index knows the files from before.
    fn plain(&self, dir: &Path) -> Result<Source> {
        check_is_kernel(dir)?;
        if let Some(left) = BUILD_LEFTOVERS.iter().find(|left| dir.join(left).exists()) {
            bail!(
                "it was built in place ({left} is there), so it cannot be built elsewhere; \
                 `make mrproper` there, or make it a git tree"
            );
        }
        let key = self.repo.blob(dir.as_os_str().as_encoded_bytes())?;
        let index = self.repo.dir.join(format!("plain-{key}.index"));
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let commit = self.import(dir, &index, &name)?;
        self.repo
            .set_ref(&format!("refs/sources/plain-{key}"), &commit)?;
        self.source(commit)
    }

    /// The user's clone: we borrow its objects and take its HEAD.
    fn clone(&self, dir: &Path) -> Result<Source> {
        let in_clone = |args: &[&str]| git::line(&mut Repo::git_in(dir, args));
        let commit = in_clone(&["rev-parse", "--verify", "HEAD^{commit}"])
            .context("it has no commit yet")?;
        if in_clone(&["rev-parse", "--is-bare-repository"])? == "false" {
            check_is_clean(dir)?;
        }
        let place = |what: &str| -> Result<PathBuf> {
            let path = dir.join(in_clone(&["rev-parse", "--git-path", what])?);
            Ok(path.canonicalize().unwrap_or(path))
        };
        self.borrow(&place("objects")?, &place("shallow")?)?;
        if self.repo.commit(&commit).is_none() {
            bail!("its HEAD {commit} cannot be read through its object store");
        }
        self.check_has_kernel(&commit)?;
        self.repo.set_ref("refs/sources/clone", &commit)?;
        Ok(Source {
            name: format!(
                "Linux {}, commit {} of {}",
                self.version(&commit)?,
                &commit[..12],
                dir.display()
            ),
            commit,
            clone: Some(dir.to_path_buf()),
        })
    }

    /// Lets our repository see the objects of another one, which stays as it
    /// is, and know where that one's history ends.
    fn borrow(&self, objects: &Path, shallow: &Path) -> Result<()> {
        let list = self.repo.dir.join("objects/info/alternates");
        let before = std::fs::read_to_string(&list).unwrap_or_default();
        let line = objects.display().to_string();
        let others = before
            .lines()
            .filter(|other| *other != line && Path::new(other).is_dir());
        let text: String = std::iter::once(line.as_str())
            .chain(others)
            .map(|line| format!("{line}\n"))
            .collect();
        if text != before {
            std::fs::write(&list, text)
                .with_context(|| format!("cannot write {}", list.display()))?;
        }
        let ours = self.repo.dir.join("shallow");
        match std::fs::read(shallow) {
            Ok(ends) => std::fs::write(&ours, ends)?,
            Err(_) if ours.exists() => std::fs::remove_file(&ours)?,
            Err(_) => {}
        }
        Ok(())
    }

    /// Unpacks a tarball and imports it; the files are left as the seed of the
    /// first work tree.
    fn import_tarball(&self, tarball: &Path, name: &str) -> Result<String> {
        let step = ui::Step::start(format!("unpacking {name}"));
        let scratch = self.project.build.join("unpack.new");
        let seed = self.repo.seed();
        git::remove_dir(&scratch)?;
        git::remove_dir(&seed)?;
        let tree = scratch.join("tree");
        std::fs::create_dir_all(&tree)?;
        let mut tar = Command::new("tar");
        // xz unpacks its blocks side by side.
        tar.env("XZ_DEFAULTS", "-T0")
            .args(["--extract", "--no-same-owner", "--file"])
            .arg(tarball)
            .arg("--directory")
            .arg(&tree);
        process::run_logged(&mut tar, &self.project.log("unpack"))?;
        let mut inside = std::fs::read_dir(&tree)?;
        let top = match (inside.next(), inside.next()) {
            (Some(top), None) => top?.path(),
            _ => tree.clone(),
        };
        check_is_kernel(&top)?;
        step.done("");
        std::fs::create_dir(&seed)?;
        std::fs::rename(&top, seed.join("tree"))?;
        git::remove_dir(&scratch)?;
        let index = seed.join("index.new");
        let commit = self.import(&seed.join("tree"), &index, name)?;
        std::fs::rename(&index, seed.join("index"))?;
        Ok(commit)
    }

    /// Makes a folder a commit that depends on nothing but its files.
    fn import(&self, dir: &Path, index: &Path, name: &str) -> Result<String> {
        let step = ui::Step::start(format!("reading {name} into git"));
        self.drop_broken_packs();
        // One pack, written in one go; -f as Debian's .gitignore ends in `/*`.
        let options = ["-c", "core.bigFileThreshold=1", "-c", "core.compression=1"];
        let mut add = git::plain();
        add.args(options)
            .arg("--git-dir")
            .arg(&self.repo.dir)
            .arg("--work-tree")
            .arg(dir)
            .args(["add", "--all", "--force", "."])
            .current_dir(dir)
            .env("GIT_INDEX_FILE", index)
            .env_remove("GIT_OPTIONAL_LOCKS");
        process::run_logged(&mut add, &self.project.log("import"))?;
        let mut write = self.repo.git(&["write-tree"]);
        let tree = git::line(write.env("GIT_INDEX_FILE", index))?;
        let version = self.version(&tree)?;
        let message = format!("Linux {version} ({name})\n");
        let commit = self.repo.root_commit(&tree, &message)?;
        step.done(&format!("Linux {version}"));
        Ok(commit)
    }

    /// Removes what an interrupted import left.
    fn drop_broken_packs(&self) {
        let Ok(packs) = std::fs::read_dir(self.repo.dir.join("objects/pack")) else {
            return;
        };
        for pack in packs.flatten() {
            if pack.file_name().to_string_lossy().starts_with("tmp_") {
                let _ = std::fs::remove_file(pack.path());
            }
        }
    }

    fn check_has_kernel(&self, commit: &str) -> Result<()> {
        let names = self.repo.git(&["ls-tree", "--name-only", commit]);
        let text = process::output(&mut { names })?;
        for file in KERNEL_FILES {
            if !text.lines().any(|line| line == file) {
                bail!("it is no kernel tree: there is no {file} in it");
            }
        }
        Ok(())
    }

    /// An imported source, named by its commit's subject.
    fn source(&self, commit: String) -> Result<Source> {
        let name = self
            .repo
            .line(&["log", "-1", "--no-show-signature", "--format=%s", &commit])?;
        Ok(Source {
            commit,
            name,
            clone: None,
        })
    }

    /// The kernel's version, by its Makefile.
    fn version(&self, tree: &str) -> Result<String> {
        let text = self
            .repo
            .file(tree, "Makefile")
            .context("it has no Makefile")?;
        version(&String::from_utf8_lossy(&text)).context("its Makefile names no kernel version")
    }
}

fn check_is_kernel(dir: &Path) -> Result<()> {
    for file in KERNEL_FILES {
        if !dir.join(file).exists() {
            bail!("it is no kernel tree: there is no {file} in it");
        }
    }
    Ok(())
}

/// Changes that no commit holds would be left out without a word otherwise.
fn check_is_clean(dir: &Path) -> Result<()> {
    let changes = git::status(dir)?;
    if changes.is_empty() {
        return Ok(());
    }
    let count = changes.lines().count();
    let mut shown: Vec<&str> = changes.lines().take(10).collect();
    if count > shown.len() {
        shown.push("...");
    }
    bail!(
        "{count} tracked files are not as in its HEAD, and only commits are used:\n{}\n\
         commit or stash them there; nothing was done",
        shown.join("\n")
    )
}

/// `7.3.4`, or `7.4.0-rc1`, from a kernel's top Makefile.
fn version(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        makefile
            .lines()
            .take(20)
            .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))
            .map(str::trim)
    };
    let number = |name| value(name).filter(|text| !text.is_empty());
    Some(format!(
        "{}.{}.{}{}",
        number("VERSION")?,
        number("PATCHLEVEL")?,
        number("SUBLEVEL").unwrap_or("0"),
        value("EXTRAVERSION").unwrap_or_default()
    ))
}

/// `text` as part of a ref's name.
fn ref_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+');
    text.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_makefiles() {
        let text = "# SPDX\nVERSION = 7\nPATCHLEVEL = 4\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n";
        assert_eq!(version(text).unwrap(), "7.4.0-rc1");
        assert_eq!(version("VERSION = 7\nPATCHLEVEL = 3\n").unwrap(), "7.3.0");
        assert_eq!(version("all:\n"), None);
    }

    #[test]
    fn versions_make_ref_names() {
        assert_eq!(ref_name("linux 7.3.4-1~bpo13+1"), "linux_7_3_4-1_bpo13+1");
    }
}
