// SPDX-License-Identifier: GPL-2.0
//! `regress refresh`: writes what was changed in the assembled tree back into
//! patches, new files and series files.
//!
//! Nothing is written unless the new files make exactly the tree that is there,
//! and a write that was interrupted is finished by the next command.

use crate::assemble::{self, Commits};
use crate::cli::RefreshArgs;
use crate::git::{self, Repo};
use crate::patch::Patch;
use crate::project::Project;
use crate::series::{self, Content, Entry, Kind, NewFile, Series, Stored, KCONFIG};
use crate::tree::{self, Assembled};
use crate::{lock, process, ui};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `regress refresh`.
pub fn command(project: &Project, args: &RefreshArgs) -> Result<ExitCode> {
    if args.check {
        return check(project);
    }
    let _lock = lock::acquire(&project.build)?;
    finish_interrupted(project)?;
    let repo = tree::repo(project)?;
    let dir = project.tree();
    let shown = project.show(&dir);
    let last = tree::last(&repo).filter(|_| repo.is_work_tree(&dir));
    let Some(last) = last else {
        bail!("there is no assembled tree in {shown}; `regress tree` makes it");
    };
    let changes = git::status(&dir)?;
    if !changes.is_empty() {
        bail!("{shown} has changes that are in no commit; commit or amend first:\n{changes}");
    }
    let stored = Stored::read(&project.root)?;
    if !last.is_made_of(&repo, &stored)? {
        bail!(
            "the project's patches, new files, series or Kconfig were changed since the tree was \
             assembled; writing the tree's state would lose that. Put those changes aside \
             (git stash) and refresh, or give up the tree's with `regress tree --force`"
        );
    }
    let head = git::line(&mut Repo::git_in(&dir, &["rev-parse", "HEAD"]))?;
    let reader = Reader {
        repo: &repo,
        last: &last,
        stored: &stored,
        args,
    };
    let new = reader.read(&head)?;
    let commits = prove(&repo, &last, &new, &head)?;
    let writes = Writes::between(&stored, &new);
    writes.stage(project)?;
    finish_interrupted(project)?;
    tree::adopt(project, &repo, &last, &new, commits)?;
    writes.print();
    Ok(ExitCode::SUCCESS)
}

/// `regress refresh --check`: is every stored file as it would be written?
fn check(project: &Project) -> Result<ExitCode> {
    let differing = unlike_written(project)?;
    for path in &differing {
        println!("{path}: `regress refresh --all` would change it");
    }
    if differing.is_empty() {
        println!("every patch is as `regress refresh --all` writes it");
    }
    Ok(ExitCode::from(u8::from(!differing.is_empty())))
}

/// Reads everything back from the assembled commits, and names the files that
/// do not come out byte by byte as they are stored.
pub fn unlike_written(project: &Project) -> Result<Vec<String>> {
    let last = tree::kernels(project)?;
    let repo = last.repo();
    let stored = Stored::read(&project.root)?;
    let args = RefreshArgs {
        series: None,
        to: None,
        base: false,
        all: true,
        check: true,
    };
    let reader = Reader {
        repo: &repo,
        last: &last,
        stored: &stored,
        args: &args,
    };
    let new = reader.read(&last.patched)?;
    prove(&repo, &last, &new, &last.patched)?;
    let writes = Writes::between(&stored, &new);
    let written = writes.write.into_keys();
    Ok(written.chain(writes.remove).collect())
}

/// Assembles what is to be written; it must give the tree at `head`.
fn prove(repo: &Repo, last: &Assembled, new: &Stored, head: &str) -> Result<Commits> {
    let commits = assemble::assemble(repo, &last.source, new).context(
        "what the tree holds cannot be stored, base patches first, then the fixes; \
         nothing was written",
    )?;
    if repo.tree(&commits.patched)? != repo.tree(head)? {
        let args = ["diff", "--stat", &commits.patched, head];
        bail!(
            "the stored form would give another tree than the one that is there; \
             nothing was written. They differ in:\n{}",
            process::output(&mut repo.git(&args))?
        );
    }
    Ok(commits)
}

/// One path that a commit changes.
struct Change {
    status: char,
    paths: Vec<String>,
}

struct Reader<'a> {
    repo: &'a Repo,
    last: &'a Assembled,
    stored: &'a Stored,
    args: &'a RefreshArgs,
}

impl Reader<'_> {
    /// The stored form of the commits up to `head`.
    fn read(&self, head: &str) -> Result<Stored> {
        let commits = self.commits(head)?;
        let hook = self.find_hook(&commits)?;
        let owners = self.owners(&commits, &hook)?;
        let mut lists: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut names = self.reserved_names();
        let last_base = commits.iter().rposition(|commit| {
            let owner = owners.get(commit).and_then(Option::as_ref);
            owner.is_some_and(|(_, entry)| entry.kind == Kind::Base)
        });
        let mut unknown = Vec::new();
        for (position, commit) in commits.iter().enumerate() {
            if *commit == hook {
                continue;
            }
            let entry = match &owners[commit] {
                Some((series, old)) => {
                    let entry = self.entry(commit, old.kind, Some(old), &mut taken, &mut names)?;
                    Some((series.name.clone(), entry))
                }
                None => {
                    let within_base = last_base.is_some_and(|last| position < last);
                    let kind = if self.args.base || within_base {
                        Kind::Base
                    } else {
                        Kind::Fix
                    };
                    let entry = self.entry(commit, kind, None, &mut taken, &mut names)?;
                    self.series_of_new().map(|name| (name, entry))
                }
            };
            match entry {
                Some((name, entry)) => lists.entry(name).or_default().push(entry),
                None => unknown.push(self.repo.line(&[
                    "log",
                    "-1",
                    "--no-show-signature",
                    "--format=%h %s",
                    commit,
                ])?),
            }
        }
        if !unknown.is_empty() {
            let names = self.stored.series.iter().map(|series| series.name.as_str());
            bail!(
                "these commits belong to no stored patch:\n{}\nif they are new, say \
                 --series NAME (and --base for tests and test support); the series are: {}",
                unknown.join("\n"),
                names.collect::<Vec<_>>().join(", ")
            );
        }
        self.compose(lists, &hook)
    }

    fn compose(&self, mut lists: BTreeMap<String, Vec<Entry>>, hook: &str) -> Result<Stored> {
        let mut series: Vec<Series> = Vec::new();
        for old in &self.stored.series {
            let entries = arrange(&old.entries, lists.remove(&old.name).unwrap_or_default());
            // A series without patches has nothing to mail.
            if !entries.is_empty() {
                series.push(old.with_entries(entries));
            }
        }
        for (name, entries) in lists {
            let Some(to) = self.args.to else {
                bail!("there is no series {name} yet; say --to net or --to net-next to begin it");
            };
            let entries = arrange(&[], entries);
            series.push(Series::new(&name, to.name(), entries));
        }
        series.sort_by(|a, b| a.name.cmp(&b.name));
        let kconfig = self
            .repo
            .file(hook, assemble::MENU)
            .with_context(|| format!("the hook commit has no {}", assemble::MENU))?;
        Ok(Stored { series, kconfig })
    }

    /// The commits on top of the source, oldest first.
    fn commits(&self, head: &str) -> Result<Vec<String>> {
        let range = format!("{}..{head}", self.last.source);
        let list = |args: &[&str]| -> Result<Vec<String>> {
            let text = process::output(&mut self.repo.git(args))?;
            Ok(text.lines().map(str::to_string).collect())
        };
        let ancestor = ["merge-base", "--is-ancestor", &self.last.source, head];
        if self.repo.line(&ancestor).is_err() {
            bail!("the tree is no longer on top of {}", self.last.source_name);
        }
        let merges = list(&["rev-list", "--merges", &range])?;
        if let Some(merge) = merges.first() {
            bail!("{merge} is a merge, which cannot be mailed; rebase it away");
        }
        list(&["rev-list", "--reverse", "--topo-order", &range])
    }

    fn find_hook(&self, commits: &[String]) -> Result<String> {
        for commit in commits {
            let note = tree::note(self.repo, tree::PATCH_NOTES, commit)?;
            let subject = self.message(commit)?;
            if note == "hook" || subject.trim() == assemble::HOOK_SUBJECT {
                return Ok(commit.clone());
            }
        }
        bail!(
            "the commit `{}` is gone; `git rebase` it back in (it is {})",
            assemble::HOOK_SUBJECT,
            self.last.hook
        )
    }

    /// The stored patch behind each commit: by the note that follows a commit
    /// through amend and rebase, or else by its subject.
    fn owners(
        &self,
        commits: &[String],
        hook: &str,
    ) -> Result<BTreeMap<String, Option<(&Series, &Entry)>>> {
        let all = self.stored.base_first();
        let mut free: BTreeMap<&str, (&Series, &Entry)> = all
            .iter()
            .map(|&(series, entry)| (entry.path.as_str(), (series, entry)))
            .collect();
        let mut owners = BTreeMap::new();
        for commit in commits.iter().filter(|commit| *commit != hook) {
            // A squashed commit has the notes of both; the first one stays.
            let note = tree::note(self.repo, tree::PATCH_NOTES, commit)?;
            let path = note.lines().next().and_then(|line| line.split_once(' '));
            let owner = path.and_then(|(_, path)| free.remove(path));
            owners.insert(commit.clone(), owner);
        }
        for (commit, owner) in owners.iter_mut().filter(|(_, owner)| owner.is_none()) {
            let message = self.message(commit)?;
            let subject = message.lines().next().unwrap_or_default();
            let found = free
                .values()
                .find(|(_, entry)| entry.patch.subject == subject);
            if let Some(&(series, entry)) = found {
                free.remove(entry.path.as_str());
                *owner = Some((series, entry));
            }
        }
        Ok(owners)
    }

    fn series_of_new(&self) -> Option<String> {
        match (&self.args.series, self.stored.series.as_slice()) {
            (Some(name), _) => Some(name.clone()),
            (None, [only]) => Some(only.name.clone()),
            _ => None,
        }
    }

    fn message(&self, commit: &str) -> Result<String> {
        let args = ["log", "-1", "--no-show-signature", "--format=%B", commit];
        let text = git::bytes(&mut self.repo.git(&args))?;
        String::from_utf8(text).with_context(|| format!("{commit}: its message is not UTF-8"))
    }

    /// Names of patches that a new one must not take.
    fn reserved_names(&self) -> BTreeSet<String> {
        let entries = self.stored.base_first();
        entries
            .iter()
            .map(|(_, entry)| entry.path.clone())
            .collect()
    }

    fn entry(
        &self,
        commit: &str,
        kind: Kind,
        old: Option<&Entry>,
        taken: &mut BTreeSet<String>,
        names: &mut BTreeSet<String>,
    ) -> Result<Entry> {
        let changes = self.changes(commit)?;
        let short = &commit[..12];
        let touched: Vec<&str> = changes
            .iter()
            .flat_map(|change| change.paths.iter().map(String::as_str))
            .collect();
        if touched
            .iter()
            .any(|path| [assemble::MENU, KCONFIG].contains(path))
        {
            bail!(
                "{short} changes {} or Kconfig; move that into the commit `{}`",
                assemble::MENU,
                assemble::HOOK_SUBJECT
            );
        }
        if touched.is_empty() {
            bail!("{short} changes nothing; drop it");
        }
        let mut files = Vec::new();
        for change in changes.iter().filter(|change| change.status == 'A') {
            let path = &change.paths[0];
            // A name of the project's own, or one that was there before, stays a diff.
            if series::is_reserved(path) || !taken.insert(path.clone()) {
                continue;
            }
            let content = assemble::content(self.repo, commit, path)?;
            let line = old.and_then(|old| old.files.iter().find(|file| file.path == *path));
            let mut file = NewFile::new(path, content);
            if let Some(line) = line {
                file.line = line.line.clone();
            }
            files.push(file);
        }
        if let Some(old) = old {
            // As the series file has them; new ones behind.
            let place = |path: &str| old.files.iter().position(|file| file.path == path);
            files.sort_by_key(|file| place(&file.path).unwrap_or(usize::MAX));
        }
        let patch = self.patch(commit, &files)?;
        let Some(old) = old else {
            let path = new_name(&patch.subject, &touched, names);
            return Ok(Entry::new(kind, &path, patch, files));
        };
        let known = self.last.patches.iter();
        let unchanged = known.into_iter().any(|(_, known)| known == commit);
        let keep = patch == old.patch || (unchanged && patch.notes == old.patch.notes);
        let mut entry = if keep && !self.args.all {
            old.clone()
        } else {
            Entry {
                line: old.line.clone(),
                ..Entry::new(kind, &old.path, patch, Vec::new())
            }
        };
        entry.files = files;
        Ok(entry)
    }

    fn changes(&self, commit: &str) -> Result<Vec<Change>> {
        let args = ["diff-tree", "-r", "-M", "--no-commit-id", "--raw", "-z"];
        let mut git = self.repo.git(&args);
        let raw = git::bytes(git.arg(commit))?;
        parse_raw(&raw).with_context(|| format!("{commit}: a file name is not UTF-8"))
    }

    fn patch(&self, commit: &str, files: &[NewFile]) -> Result<Patch> {
        let mut patch = Patch {
            notes: tree::note(self.repo, tree::MAIL_NOTES, commit)?,
            ..Patch::default()
        };
        patch
            .set_message(&self.message(commit)?)
            .map_err(|what| anyhow::anyhow!("{commit}: {what}"))?;
        let args = [
            "diff-tree",
            "--patch",
            "-M",
            "--binary",
            "--no-commit-id",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            commit,
            "--",
            ".",
        ];
        let mut git = self.repo.git(&args);
        for file in files {
            git.arg(format!(":(exclude,literal){}", file.path));
        }
        patch.diff = git::bytes(&mut git)?;
        Ok(patch)
    }
}

/// Reads the output of `git diff-tree --raw -z`.
fn parse_raw(raw: &[u8]) -> Result<Vec<Change>> {
    let text = std::str::from_utf8(raw)?;
    let mut fields = text.split('\0');
    let mut changes = Vec::new();
    while let Some(meta) = fields.next().filter(|meta| !meta.is_empty()) {
        let status = meta.rsplit(' ').next().unwrap_or_default();
        let status = status.chars().next().unwrap_or_default();
        let count = if matches!(status, 'R' | 'C') { 2 } else { 1 };
        let paths = fields.by_ref().take(count).map(str::to_string).collect();
        changes.push(Change { status, paths });
    }
    Ok(changes)
}

/// Puts patches into the mail order of a series: those that were there keep the
/// series' pattern of base and fix, a new one follows the one it follows in the
/// tree.
fn arrange(old: &[Entry], new: Vec<Entry>) -> Vec<Entry> {
    let was_there = |path: &str| old.iter().any(|entry| entry.path == path);
    let mut result: Vec<Entry> = Vec::new();
    let survivors = |kind| {
        new.iter()
            .filter(move |entry| entry.kind == kind && was_there(&entry.path))
    };
    let mut bases = survivors(Kind::Base);
    let mut fixes = survivors(Kind::Fix);
    for slot in old {
        if new.iter().any(|entry| entry.path == slot.path) {
            let next = match slot.kind {
                Kind::Base => bases.next(),
                Kind::Fix => fixes.next(),
            };
            result.extend(next.cloned());
        }
    }
    for kind in [Kind::Base, Kind::Fix] {
        let list: Vec<&Entry> = new.iter().filter(|entry| entry.kind == kind).collect();
        for (index, entry) in list.iter().enumerate() {
            if was_there(&entry.path) {
                continue;
            }
            let place = |path: &str| result.iter().position(|other| other.path == path);
            let after = index
                .checked_sub(1)
                .and_then(|index| place(&list[index].path));
            let before = list[index + 1..].iter().find_map(|next| place(&next.path));
            let at = after.map(|at| at + 1).or(before).unwrap_or(result.len());
            result.insert(at, (*entry).clone());
        }
    }
    result
}

/// A name for a new patch: the folder that it edits, and its subject's words.
fn new_name(subject: &str, touched: &[&str], names: &mut BTreeSet<String>) -> String {
    let about = subject.rsplit(": ").next().unwrap_or(subject);
    let mut slug = String::new();
    for word in about.split(|c: char| !c.is_ascii_alphanumeric()) {
        if !word.is_empty() && slug.len() + word.len() < 40 {
            let dash = if slug.is_empty() { "" } else { "-" };
            slug += &format!("{dash}{}", word.to_lowercase());
        }
    }
    if slug.is_empty() {
        slug.push_str("patch");
    }
    let folder = common_folder(touched);
    let name = (1..)
        .map(|number| match number {
            1 => folder.join(format!("{slug}.patch")),
            _ => folder.join(format!("{slug}-{number}.patch")),
        })
        .map(|path| path.to_string_lossy().into_owned())
        .find(|name| !names.contains(name) && !series::is_reserved(name))
        .expect("numbers do not end");
    names.insert(name.clone());
    name
}

fn common_folder(touched: &[&str]) -> PathBuf {
    let folder = |path: &&str| Path::new(path).parent().map(Path::to_path_buf);
    let folders: Vec<PathBuf> = touched
        .iter()
        .filter(|path| **path != "MAINTAINERS")
        .filter_map(folder)
        .collect();
    let first = folders.first().cloned().unwrap_or_default();
    let shared = first
        .ancestors()
        .find(|above| folders.iter().all(|folder| folder.starts_with(above)));
    match shared {
        Some(shared) if shared != Path::new("") => shared.to_path_buf(),
        _ => first,
    }
}

/// The files to write and to remove.
#[derive(Debug)]
struct Writes {
    write: BTreeMap<String, Content>,
    remove: Vec<String>,
    fresh: BTreeSet<String>,
}

/// How a staged write is finished.
#[derive(Serialize, Deserialize)]
struct Manifest {
    write: Vec<String>,
    remove: Vec<String>,
}

impl Writes {
    fn between(old: &Stored, new: &Stored) -> Self {
        let (old, new) = (old.files(), new.files());
        Writes {
            remove: old
                .keys()
                .filter(|path| !new.contains_key(*path))
                .cloned()
                .collect(),
            fresh: new
                .keys()
                .filter(|path| !old.contains_key(*path))
                .cloned()
                .collect(),
            write: new
                .into_iter()
                .filter(|(path, content)| old.get(path) != Some(content))
                .collect(),
        }
    }

    /// Puts all new content beside, then declares it complete by one rename.
    fn stage(&self, project: &Project) -> Result<()> {
        if self.write.is_empty() && self.remove.is_empty() {
            return Ok(());
        }
        for path in &self.fresh {
            if project.root.join(path).exists() {
                bail!("{path} is to be written, but a file of that name is there; move it away");
            }
        }
        let staged = project.build.join("refresh.new");
        git::remove_dir(&staged)?;
        let manifest = Manifest {
            write: self.write.keys().cloned().collect(),
            remove: self.remove.clone(),
        };
        for (path, content) in &self.write {
            content.write(&staged.join("files").join(path))?;
        }
        Content::plain(serde_json::to_vec_pretty(&manifest)?)
            .write(&staged.join("manifest.json"))?;
        let ready = ready(project);
        std::fs::rename(&staged, &ready)
            .with_context(|| format!("cannot write {}", ready.display()))
    }

    fn print(&self) {
        for path in self.write.keys() {
            let what = if self.fresh.contains(path) {
                "new"
            } else {
                "changed"
            };
            println!("{what:8} {path}");
        }
        for path in &self.remove {
            println!("removed  {path}");
        }
        if self.write.is_empty() && self.remove.is_empty() {
            println!("nothing has changed");
        }
    }
}

fn ready(project: &Project) -> PathBuf {
    project.build.join("refresh.ready")
}

/// Writes what is staged; what it replaces is kept below the build folder.
pub fn finish_interrupted(project: &Project) -> Result<()> {
    let ready = ready(project);
    let Ok(manifest) = std::fs::read(ready.join("manifest.json")) else {
        return Ok(());
    };
    let manifest: Manifest = serde_json::from_slice(&manifest)?;
    let kept = (1..)
        .map(|number| project.build.join(format!("refreshed/{number}")))
        .find(|dir| !dir.exists())
        .expect("numbers do not end");
    for path in manifest.write.iter().chain(&manifest.remove) {
        let now = project.root.join(path);
        if now.symlink_metadata().is_ok() {
            Content::read(&now)?.write(&kept.join(path))?;
        }
    }
    for path in &manifest.write {
        Content::read(&ready.join("files").join(path))?.write(&project.root.join(path))?;
    }
    for path in &manifest.remove {
        let _ = std::fs::remove_file(project.root.join(path));
        remove_empty_folders(&project.root, path);
    }
    git::remove_dir(&ready)?;
    if kept.exists() {
        ui::note(&format!(
            "the files as they were before are in {}",
            project.show(&kept)
        ));
    }
    Ok(())
}

fn remove_empty_folders(root: &Path, path: &str) {
    for folder in Path::new(path).ancestors().skip(1) {
        let own = folder == Path::new("") || series::is_reserved(&folder.to_string_lossy());
        if own || std::fs::remove_dir(root.join(folder)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, path: &str) -> Entry {
        Entry::new(kind, path, Patch::default(), Vec::new())
    }

    fn paths(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn a_series_keeps_its_pattern_of_base_and_fix() {
        use Kind::{Base, Fix};
        let old = [
            entry(Fix, "f1"),
            entry(Base, "b1"),
            entry(Fix, "f2"),
            entry(Base, "b2"),
        ];
        let tree = |list: &[(Kind, &str)]| -> Vec<Entry> {
            list.iter().map(|&(kind, path)| entry(kind, path)).collect()
        };
        let same = tree(&[(Base, "b1"), (Base, "b2"), (Fix, "f1"), (Fix, "f2")]);
        assert_eq!(paths(&arrange(&old, same)), ["f1", "b1", "f2", "b2"]);
        let swapped = tree(&[(Base, "b1"), (Base, "b2"), (Fix, "f2"), (Fix, "f1")]);
        assert_eq!(paths(&arrange(&old, swapped)), ["f2", "b1", "f1", "b2"]);
        let dropped = tree(&[(Base, "b2"), (Fix, "f1"), (Fix, "f2")]);
        assert_eq!(paths(&arrange(&old, dropped)), ["f1", "f2", "b2"]);
        let more = tree(&[
            (Base, "b1"),
            (Base, "b2"),
            (Fix, "n0"),
            (Fix, "f1"),
            (Fix, "n1"),
            (Fix, "f2"),
        ]);
        assert_eq!(
            paths(&arrange(&old, more)),
            ["n0", "f1", "n1", "b1", "f2", "b2"]
        );
        assert_eq!(
            paths(&arrange(&[], tree(&[(Base, "b"), (Fix, "f")]))),
            ["b", "f"]
        );
    }

    #[test]
    fn a_new_patch_is_named_by_folder_and_subject() {
        let mut names = BTreeSet::new();
        let name =
            |touched: &[&str], names: &mut _| new_name("net: ipv4: Let it Go!", touched, names);
        assert_eq!(
            name(&["net/ipv4/a.c", "MAINTAINERS"], &mut names),
            "net/ipv4/let-it-go.patch"
        );
        assert_eq!(
            name(&["net/ipv4/a.c", "net/ipv6/b.c"], &mut names),
            "net/let-it-go.patch"
        );
        assert_eq!(
            name(&["net/ipv4/a.c"], &mut names),
            "net/ipv4/let-it-go-2.patch"
        );
        assert_eq!(
            name(&["drivers/x.c", "net/y.c"], &mut names),
            "drivers/let-it-go.patch"
        );
    }

    #[test]
    fn renames_have_two_paths() {
        let raw = b":100644 100644 a b R090\0x\0y\0:000000 100755 0 c A\0z\0";
        let changes = parse_raw(raw).unwrap();
        assert_eq!(changes[0].paths, ["x", "y"]);
        assert_eq!((changes[1].status, changes[1].paths.len()), ('A', 1));
    }
}
