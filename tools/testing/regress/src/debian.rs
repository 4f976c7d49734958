// SPDX-License-Identifier: GPL-2.0
//! Debian's kernel source, fetched with an apt of its own: its configuration,
//! lists and cache are below the build folder, its mirror is the one that this
//! machine uses, and Debian's archive keys vouch for what comes.

use crate::process;
use anyhow::{bail, Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages by preference, and what to say when the first is not there.
const PACKAGES: [(&str, Option<&str>); 2] = [
    ("linux-source-7.3", None),
    (
        "linux-source-6.12",
        Some("Debian has no linux-source-7.3 any more; linux-source-6.12 is taken"),
    ),
];

/// Suites that have them.
const SUITES: [&str; 2] = ["trixie-backports", "trixie"];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A package that apt offers.
#[derive(Debug)]
pub struct Candidate {
    pub package: &'static str,
    pub version: String,
    pub note: Option<&'static str>,
}

/// An apt that leaves the machine's own alone.
pub struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// Fetches the package lists into `dir`.
    pub fn update(dir: &Path, log: &Path) -> Result<Self> {
        if !has_program("apt-get") {
            bail!(
                "this is no Debian (there is no apt-get), so Debian's kernel source cannot be \
                 fetched; say KDIR=PATH with a kernel git tree or tarball of your own"
            );
        }
        if !Path::new(KEYRING).exists() {
            bail!("{KEYRING} is missing; install debian-archive-keyring, or say KDIR=PATH");
        }
        for folder in ["lists/partial", "cache/archives/partial", "download"] {
            let folder = dir.join(folder);
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let apt = Apt {
            dir: dir.to_path_buf(),
        };
        apt.configure()?;
        let mut failure = None;
        for mirror in mirrors()? {
            apt.write("sources.list", &sources(&mirror))?;
            let mut update = apt.get(&["update", "--error-on=any"]);
            match process::run_logged(&mut update, log) {
                Ok(()) if !apt.candidates()?.is_empty() => return Ok(apt),
                Ok(()) => {}
                Err(error) => failure = Some(error),
            }
            if process::interrupted() {
                bail!("interrupted");
            }
        }
        let names = PACKAGES.map(|(name, _)| name).join(" nor ");
        let advice = format!(
            "no mirror of this machine's apt offers {names}; \
             say KDIR=PATH with a kernel git tree or tarball of your own"
        );
        Err(match failure {
            Some(failure) => failure.context(advice),
            None => anyhow::anyhow!(advice),
        })
    }

    fn configure(&self) -> Result<()> {
        let dir = self.dir.display();
        // The machine's hooks clean its own cache and wake its desktop.
        self.write(
            "apt.conf",
            &format!(
                "Dir::Etc::sourcelist \"{dir}/sources.list\";\n\
                 Dir::Etc::sourceparts \"-\";\n\
                 Dir::Etc::preferences \"-\";\n\
                 Dir::Etc::preferencesparts \"-\";\n\
                 Dir::State::lists \"{dir}/lists\";\n\
                 Dir::Cache \"{dir}/cache\";\n\
                 APT::Sandbox::User \"root\";\n\
                 Acquire::Retries \"3\";\n\
                 Acquire::Languages \"none\";\n\
                 #clear APT::Update::Pre-Invoke;\n\
                 #clear APT::Update::Post-Invoke;\n\
                 #clear APT::Update::Post-Invoke-Success;\n"
            ),
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env("LC_ALL", "C")
            .arg("-c")
            .arg(self.dir.join("apt.conf"))
            .args(args);
        command
    }

    fn get(&self, args: &[&str]) -> Command {
        self.command("apt-get", args)
    }

    fn candidates(&self) -> Result<Vec<Candidate>> {
        let mut found = Vec::new();
        for (package, note) in PACKAGES {
            let text = process::output(&mut self.command("apt-cache", &["policy", package]))?;
            let version = text
                .lines()
                .find_map(|line| line.trim().strip_prefix("Candidate: "))
                .filter(|version| *version != "(none)");
            found.extend(version.map(|version| Candidate {
                package,
                version: version.into(),
                note,
            }));
        }
        Ok(found)
    }

    /// The package to take.
    pub fn candidate(&self) -> Result<Candidate> {
        let first = self.candidates()?.into_iter().next();
        first.context("apt forgot its package lists; try again")
    }

    /// Downloads a package; apt checks it against Debian's signed lists.
    pub fn download(&self, candidate: &Candidate, log: &Path) -> Result<PathBuf> {
        let folder = self.dir.join("download");
        crate::git::remove_dir(&folder)?;
        std::fs::create_dir_all(&folder)?;
        let wanted = format!("{}={}", candidate.package, candidate.version);
        let mut get = self.get(&["download", &wanted]);
        process::run_logged(get.current_dir(&folder), log)?;
        let file = std::fs::read_dir(&folder)?.next();
        Ok(file.context("apt-get downloaded nothing")??.path())
    }
}

/// The tarball in an unpacked linux-source package.
pub fn unpack(deb: &Path, package: &str, dir: &Path, log: &Path) -> Result<PathBuf> {
    crate::git::remove_dir(dir)?;
    process::run_logged(
        Command::new("dpkg-deb").arg("--extract").arg(deb).arg(dir),
        log,
    )?;
    let tarball = dir.join(format!("usr/src/{package}.tar.xz"));
    if !tarball.exists() {
        bail!("{} holds no {package}.tar.xz", deb.display());
    }
    Ok(tarball)
}

/// Where this machine's apt gets Debian from.
fn mirrors() -> Result<BTreeSet<String>> {
    let get =
        |args: &[&str]| process::output(Command::new("apt-get").env("LC_ALL", "C").args(args));
    let mut mirrors = known_mirrors(&get(&[
        "indextargets",
        "--format",
        "$(REPO_URI)|$(LABEL)",
        "Created-By: Packages",
    ])?);
    if mirrors.is_empty() {
        // Nobody has run `apt-get update` here yet.
        mirrors = listed_mirrors(&get(&["update", "--print-uris"])?);
    }
    if mirrors.is_empty() {
        bail!(
            "this machine's apt names no mirror; add Debian's to its sources, \
             or say KDIR=PATH with a kernel git tree or tarball of your own"
        );
    }
    Ok(mirrors)
}

/// Lines `URI|Label`.
fn known_mirrors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_suffix("|Debian"))
        .map(str::to_string)
        .collect()
}

/// Lines `'URI/dists/SUITE/InRelease' FILE SIZE`.
fn listed_mirrors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix('\'')?.split_once("dists/"))
        .map(|(uri, _)| uri.to_string())
        .collect()
}

fn sources(mirror: &str) -> String {
    SUITES
        .iter()
        .map(|suite| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n"))
        .collect()
}

pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Root's programs, too: a user's PATH often lacks them.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .any(|dir| dir.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_itself_is_a_mirror() {
        let text = "http://m/debian/|Debian\nhttp://m/debian-security/|Debian-Security\n\
                    http://m/debian/|Debian\nhttps://x/|Other\n";
        assert!(known_mirrors(text).into_iter().eq(["http://m/debian/"]));
    }

    #[test]
    fn mirrors_are_known_before_the_first_update() {
        let text = "'http://m/debian/dists/trixie/InRelease' m_debian_dists_trixie_InRelease 0 \n";
        assert!(listed_mirrors(text).into_iter().eq(["http://m/debian/"]));
    }
}
