// SPDX-License-Identifier: GPL-2.0
//! What the project stores of its kernel changes: series files, patches, new
//! files, covers and the menu.
//!
//! A series file lists its mails in order:
//!
//! ```text
//! # SPDX-License-Identifier: GPL-2.0
//! to net
//! fix  net/ipv4/foo.patch
//! base tools/testing/selftests/net/bar.patch
//! +    tools/testing/selftests/net/bar.sh
//! ```
//!
//! `to` is the list's tree, `fix` is in the patched kernel only, `base` in both,
//! and `+` joins a new file to the patch above.

use crate::patch::Patch;
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// Trees that mails may go to.
const TREES: [&str; 2] = ["net", "net-next"];

/// The project's own files: no kernel file may take these names.
const RESERVED: [&str; 12] = [
    ".ci",
    ".git",
    ".gitignore",
    "COPYING",
    "Kconfig",
    "Makefile",
    "README.md",
    "build",
    "out",
    "series",
    "target",
    "tools/testing/regress",
];

/// The menu's name in the project; see `tree` for its name in the kernel.
pub const KCONFIG: &str = "Kconfig";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In the base kernel and in the patched one: tests and what they need.
    Base,
    /// In the patched kernel only.
    Fix,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Base => "base",
            Kind::Fix => "fix",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Plain,
    Executable,
    Link,
}

impl Mode {
    /// As git writes it.
    pub fn git(self) -> &'static str {
        match self {
            Mode::Plain => "100644",
            Mode::Executable => "100755",
            Mode::Link => "120000",
        }
    }

    pub fn from_git(mode: &str) -> Result<Self> {
        Ok(match mode {
            "100644" => Mode::Plain,
            "100755" => Mode::Executable,
            "120000" => Mode::Link,
            other => bail!("git mode {other} is neither a file nor a symbolic link"),
        })
    }
}

/// A file as git sees it; a symbolic link's content is its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub mode: Mode,
    pub bytes: Vec<u8>,
}

impl Content {
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        Content {
            mode: Mode::Plain,
            bytes: bytes.into(),
        }
    }

    pub fn read(path: &Path) -> Result<Self> {
        let what = || format!("cannot read {}", path.display());
        let kind = std::fs::symlink_metadata(path).with_context(what)?;
        if kind.is_symlink() {
            let target = std::fs::read_link(path).with_context(what)?;
            return Ok(Content {
                mode: Mode::Link,
                bytes: target.as_os_str().as_bytes().to_vec(),
            });
        }
        let executable = kind.permissions().mode() & 0o100 != 0;
        Ok(Content {
            mode: if executable {
                Mode::Executable
            } else {
                Mode::Plain
            },
            bytes: std::fs::read(path).with_context(what)?,
        })
    }

    /// Writes the file: whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let what = || format!("cannot write {}", path.display());
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(what)?;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".regress-new");
        let fresh = Path::new(&name);
        let _ = std::fs::remove_file(fresh);
        if self.mode == Mode::Link {
            let target = std::ffi::OsStr::from_bytes(&self.bytes);
            std::os::unix::fs::symlink(target, fresh).with_context(what)?;
        } else {
            let mut file = std::fs::File::create(fresh).with_context(what)?;
            file.write_all(&self.bytes).with_context(what)?;
            if self.mode == Mode::Executable {
                let mut permissions = file.metadata()?.permissions();
                // Executable for whom it is readable, as git does.
                let readable = permissions.mode() & 0o444;
                permissions.set_mode(permissions.mode() | readable >> 2);
                file.set_permissions(permissions).with_context(what)?;
            }
        }
        std::fs::rename(fresh, path).with_context(what)
    }
}

/// A new kernel file that joins a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub path: String,
    pub content: Content,
    /// Its line in the series file, with the comments above it.
    pub line: String,
}

impl NewFile {
    pub fn new(path: &str, content: Content) -> Self {
        NewFile {
            path: path.into(),
            content,
            line: format!("+    {path}\n"),
        }
    }
}

/// One mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// Path of the patch in the project.
    pub path: String,
    pub patch: Patch,
    /// The patch file as it is; not always in the form that we write.
    pub raw: Vec<u8>,
    pub files: Vec<NewFile>,
    /// Its line in the series file, with the comments above it.
    pub line: String,
}

impl Entry {
    pub fn new(kind: Kind, path: &str, patch: Patch, files: Vec<NewFile>) -> Self {
        Entry {
            kind,
            path: path.into(),
            raw: patch.to_bytes(),
            patch,
            files,
            line: format!("{:4} {path}\n", kind.word()),
        }
    }
}

/// The cover letter: first line subject, blank line, text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    pub subject: String,
    pub body: String,
    raw: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub name: String,
    /// `net` or `net-next`.
    pub to: String,
    pub cover: Option<Cover>,
    pub entries: Vec<Entry>,
    /// The series file up to its `to` line.
    head: String,
    /// The comments below the last entry.
    tail: String,
}

/// Everything that makes the kernels, in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// By name: the order in which they are applied.
    pub series: Vec<Series>,
    pub kconfig: Vec<u8>,
}

impl Stored {
    /// Reads and checks what is below the project's root.
    pub fn read(root: &Path) -> Result<Self> {
        let dir = root.join("series");
        let mut names = Vec::new();
        let listing =
            std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in listing {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.contains('.') && !name.ends_with('~') {
                names.push(name);
            }
        }
        names.sort();
        let mut seen = BTreeMap::new();
        let series = names
            .iter()
            .map(|name| read_series(root, name, &mut seen))
            .collect::<Result<_>>()?;
        let kconfig = std::fs::read(root.join(KCONFIG))
            .context("cannot read Kconfig, the project's own menu")?;
        Ok(Stored { series, kconfig })
    }

    /// Base patches first, then the fixes, each in the series' order.
    pub fn base_first(&self) -> Vec<(&Series, &Entry)> {
        let of = |kind| {
            self.series.iter().flat_map(move |series| {
                let entries = series.entries.iter();
                let chosen = entries.filter(move |entry| entry.kind == kind);
                chosen.map(move |entry| (series, entry))
            })
        };
        of(Kind::Base).chain(of(Kind::Fix)).collect()
    }

    /// Every file by its path in the project, as it is to be stored.
    pub fn files(&self) -> BTreeMap<String, Content> {
        let mut files = BTreeMap::new();
        files.insert(KCONFIG.into(), Content::plain(self.kconfig.clone()));
        for series in &self.series {
            files.insert(
                format!("series/{}", series.name),
                Content::plain(series.text()),
            );
            if let Some(cover) = &series.cover {
                let path = format!("series/{}.cover", series.name);
                files.insert(path, Content::plain(cover.raw.clone()));
            }
            for entry in &series.entries {
                files.insert(entry.path.clone(), Content::plain(entry.raw.clone()));
                for file in &entry.files {
                    files.insert(file.path.clone(), file.content.clone());
                }
            }
        }
        files
    }
}

impl Series {
    /// A series that begins.
    pub fn new(name: &str, to: &str, entries: Vec<Entry>) -> Self {
        Series {
            name: name.into(),
            to: to.into(),
            cover: None,
            entries,
            head: format!("# SPDX-License-Identifier: GPL-2.0\nto {to}\n"),
            tail: String::new(),
        }
    }

    /// The same series with other patches.
    pub fn with_entries(&self, entries: Vec<Entry>) -> Self {
        Series {
            entries,
            ..self.clone()
        }
    }

    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        for entry in &self.entries {
            text += &entry.line;
            text.extend(entry.files.iter().map(|file| file.line.as_str()));
        }
        text + &self.tail
    }
}

/// True if a kernel file of this name cannot be stored at its own path.
pub fn is_reserved(path: &str) -> bool {
    RESERVED.iter().any(|&own| {
        path.strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Reads `series/NAME`; `seen` is where each path was named so far.
fn read_series(root: &Path, name: &str, seen: &mut BTreeMap<String, String>) -> Result<Series> {
    let file = format!("series/{name}");
    let text =
        std::fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
    let mut series = Series {
        name: name.into(),
        to: String::new(),
        cover: read_cover(root, name)?,
        entries: Vec::new(),
        head: String::new(),
        tail: String::new(),
    };
    let mut lead = String::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let at = format!("{file}:{}", index + 1);
        lead += line;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            ["to", tree] => {
                if !series.to.is_empty() {
                    bail!("{at}: a second `to`");
                }
                if !TREES.contains(&tree) {
                    bail!(
                        "{at}: `{tree}` is no tree; it is one of: {}",
                        TREES.join(", ")
                    );
                }
                series.to = tree.into();
                series.head = std::mem::take(&mut lead);
            }
            [kind @ ("fix" | "base"), path] => {
                if series.to.is_empty() {
                    bail!("{at}: say `to net` or `to net-next` first");
                }
                let kind = if kind == "fix" { Kind::Fix } else { Kind::Base };
                check_path(path, &at, seen)?;
                let mut entry = read_entry(root, kind, path, &at)?;
                entry.line = std::mem::take(&mut lead);
                series.entries.push(entry);
            }
            ["+", path] => {
                let Some(entry) = series.entries.last_mut() else {
                    bail!("{at}: there is no patch above for {path} to join");
                };
                check_path(path, &at, seen)?;
                entry.files.push(read_new_file(root, path, &at, &mut lead)?);
            }
            _ => bail!(
                "{at}: `{}` is none of: to TREE, fix PATCH, base PATCH, + NEW-FILE",
                line.trim()
            ),
        }
    }
    if series.to.is_empty() {
        bail!("{file}:1: say `to net` or `to net-next`");
    }
    if series.entries.is_empty() {
        bail!("{file}:1: it lists no patch");
    }
    series.tail = lead;
    for entry in &series.entries {
        if entry.patch.diff.is_empty() && entry.files.is_empty() {
            bail!(
                "{file}: {} changes nothing: it has no diff and no new file joins it",
                entry.path
            );
        }
    }
    Ok(series)
}

fn check_path(path: &str, at: &str, seen: &mut BTreeMap<String, String>) -> Result<()> {
    let plain = |part| matches!(part, Component::Normal(_));
    if !Path::new(path).components().all(plain) {
        bail!("{at}: `{path}` must be a path below the project's root");
    }
    if is_reserved(path) {
        bail!("{at}: `{path}` is the project's own, not the kernel's");
    }
    if let Some(other) = seen.insert(path.into(), at.into()) {
        bail!("{at}: `{path}` is listed in {other} already");
    }
    Ok(())
}

fn read_entry(root: &Path, kind: Kind, path: &str, at: &str) -> Result<Entry> {
    if !path.ends_with(".patch") {
        bail!("{at}: `{path}` must end in .patch; a new file joins a patch with `+`");
    }
    let raw =
        std::fs::read(root.join(path)).with_context(|| format!("{at}: cannot read {path}"))?;
    let patch = match Patch::parse(&raw) {
        Ok(patch) => patch,
        Err(mistake) => bail!("{path}:{mistake}"),
    };
    Ok(Entry {
        raw,
        ..Entry::new(kind, path, patch, Vec::new())
    })
}

fn read_new_file(root: &Path, path: &str, at: &str, lead: &mut String) -> Result<NewFile> {
    let content = Content::read(&root.join(path)).with_context(|| at.to_string())?;
    Ok(NewFile {
        line: std::mem::take(lead),
        ..NewFile::new(path, content)
    })
}

fn read_cover(root: &Path, name: &str) -> Result<Option<Cover>> {
    let path = format!("series/{name}.cover");
    let raw = match std::fs::read(root.join(&path)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {path}"))?,
    };
    let text = std::str::from_utf8(&raw).with_context(|| format!("{path} is not UTF-8"))?;
    // A cover is a stored file like the others: its licence line is no text.
    let text: String = text
        .split_inclusive('\n')
        .skip_while(|line| line.starts_with("# SPDX-License-Identifier:"))
        .collect();
    let (subject, body) = text.split_once('\n').unwrap_or((&text, ""));
    if subject.trim().is_empty() || subject.starts_with("[PATCH") {
        bail!("{path}:1: the first line is the cover letter's subject, without [PATCH]");
    }
    if !body.is_empty() && !body.starts_with('\n') {
        bail!("{path}:2: a blank line parts subject and text");
    }
    Ok(Some(Cover {
        subject: subject.trim().into(),
        body: body.trim().into(),
        raw,
    }))
}

/// Kernel-side files in the project that no series names: forgotten, most likely.
pub fn strays(root: &Path, stored: &Stored) -> Result<Vec<String>> {
    let known: BTreeSet<String> = stored.files().into_keys().collect();
    let mut strays = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            };
            if is_reserved(&path) || known.contains(&path) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                strays.push(path);
            }
        }
    }
    strays.sort();
    Ok(strays)
}
