// SPDX-License-Identifier: GPL-2.0
//! `regress setup`: installs what this machine lacks, in one go.

use crate::debian::has_program;
use crate::project::Project;
use crate::rust::{self, Part, Rust};
use crate::{process, ui};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::process::{Command, ExitCode, Stdio};

/// `packages.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packages {
    #[serde(rename = "package")]
    packages: Vec<Package>,
    rust: Vec<RustPackages>,
}

/// A Debian package that is needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    /// It is there if these are; else dpkg is asked.
    #[serde(default)]
    programs: Vec<String>,
    why: String,
}

/// Where a part of the Rust toolchain comes from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RustPackages {
    part: Part,
    /// Taken if the first is new enough.
    packages: Vec<String>,
    otherwise: Vec<String>,
}

/// `regress setup`.
pub fn command(project: &Project) -> Result<ExitCode> {
    let all = read(project)?;
    let missing = missing(&all.packages);
    let rust = Rust::look(project);
    let parts: Vec<&RustPackages> = all.rust.iter().filter(|of| !rust.has(of.part)).collect();
    if !missing.is_empty() || !parts.is_empty() {
        install_missing(project, &missing, &parts)?;
    }
    let there = all.packages.len() - missing.len();
    ui::reused(&format!("{there} packages that are installed"));
    if parts.is_empty() {
        ui::reused(&format!("Rust for the kernel: {}", rust.describe()));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(project: &Project) -> Result<Packages> {
    let path = project.harness().join("packages.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

fn install_missing(project: &Project, missing: &[&Package], parts: &[&RustPackages]) -> Result<()> {
    let rust = parts.iter().map(|of| format!("  {}", of.part.describe()));
    let needs = missing.iter().map(|package| package.describe());
    let needs: Vec<String> = needs.chain(rust).collect();
    if !has_program("apt-get") {
        bail!(
            "this is no Debian (there is no apt-get); install these by hand:\n{}",
            needs.join("\n")
        );
    }
    update(project, &needs)?;
    let mut names: Vec<String> = missing.iter().map(|package| package.name.clone()).collect();
    for of in parts {
        names.extend_from_slice(of.choose(candidate)?);
    }
    if !names.is_empty() {
        install(project, &names)?;
    }
    if !parts.is_empty() {
        complete_rust(project)?;
    }
    Ok(())
}

/// Builds bindgen if apt had none, and says what is missing even so.
fn complete_rust(project: &Project) -> Result<()> {
    if !Rust::look(project).has(Part::Bindgen) {
        let step = ui::Step::start("building bindgen");
        rust::install_bindgen(project).context("bindgen cannot be built")?;
        step.done("");
    }
    let rust = Rust::look(project);
    rust.check()?;
    ui::note(&format!("Rust for the kernel: {}", rust.describe()));
    Ok(())
}

impl RustPackages {
    /// The packages to take, `candidate` being what apt offers of one.
    fn choose(&self, candidate: impl Fn(&str) -> Result<String>) -> Result<&[String]> {
        let offered = candidate(&self.packages[0])?;
        Ok(if self.part.is_new_enough(&offered) {
            &self.packages
        } else {
            &self.otherwise
        })
    }
}

/// The version that apt would install; `(none)` or nothing if there is none.
fn candidate(package: &str) -> Result<String> {
    let mut policy = Command::new("apt-cache");
    let text = process::output(policy.env("LC_ALL", "C").args(["policy", package]))?;
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("Candidate: "));
    Ok(version.unwrap_or_default().to_string())
}

impl Package {
    fn describe(&self) -> String {
        match self.programs.as_slice() {
            [] => format!("  {} ({})", self.name, self.why),
            programs => format!("  {} ({})", programs.join(", "), self.why),
        }
    }
}

fn missing(all: &[Package]) -> Vec<&Package> {
    let lacks_program = |package: &&Package| {
        package.programs.is_empty() || !package.programs.iter().all(|name| has_program(name))
    };
    let candidates: Vec<&Package> = all.iter().filter(lacks_program).collect();
    let installed = installed(&candidates);
    candidates
        .into_iter()
        .filter(|package| !installed.contains(&package.name))
        .collect()
}

/// Those that dpkg knows as installed; without dpkg, none.
fn installed(packages: &[&Package]) -> Vec<String> {
    let mut query = Command::new("dpkg-query");
    query
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\n"])
        .args(packages.iter().map(|package| &package.name))
        .stdin(Stdio::null());
    // A package that is unknown makes it fail and still print the others.
    let Ok(output) = query.output() else {
        return Vec::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .map(str::to_string)
        .collect()
}

fn update(project: &Project, needs: &[String]) -> Result<()> {
    let step = ui::Step::start("reading apt's package lists");
    process::run_logged(apt_get(needs)?.arg("update"), &project.log("setup"))
        .context("the package lists cannot be fetched")?;
    step.done("");
    Ok(())
}

fn install(project: &Project, names: &[String]) -> Result<()> {
    let step = ui::Step::start(format!(
        "installing {} packages: {}",
        names.len(),
        names.join(" ")
    ));
    let mut install = apt_get(names)?;
    install
        .args(["install", "--yes", "--no-install-recommends"])
        .args(names);
    process::run_logged(&mut install, &project.log("setup"))
        .context("the packages cannot be installed")?;
    step.done("");
    Ok(())
}

/// `apt-get` as root, that asks nothing; `needs` is what it is needed for.
fn apt_get(needs: &[String]) -> Result<Command> {
    // SAFETY: geteuid(2) cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root && !has_program("sudo") {
        bail!(
            "this is neither root nor is there sudo, and these are missing:\n{}",
            needs.join("\n")
        );
    }
    let mut command = Command::new(if root { "env" } else { "sudo" });
    if !root {
        // A password must have been given before: output goes to a log.
        command.args(["--non-interactive", "env"]);
        validate_sudo()?;
    }
    command.args([
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        "DPkg::Lock::Timeout=120",
    ]);
    Ok(command)
}

/// Lets sudo ask for the password on the terminal.
fn validate_sudo() -> Result<()> {
    let status = Command::new("sudo").arg("--validate").status()?;
    if !status.success() {
        bail!("sudo was refused; `regress setup` needs it to install packages");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn packages() -> Packages {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages.toml");
        toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// What is chosen where apt offers rustc and bindgen in these versions.
    fn chosen(rustc: &str, bindgen: &str) -> String {
        let candidate = |package: &str| {
            let version = if package == "bindgen" { bindgen } else { rustc };
            Ok(version.to_string())
        };
        let all = packages().rust;
        let names = all.iter().flat_map(|of| of.choose(candidate).unwrap());
        names.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_debian_has_its_rust() {
        assert_eq!(
            chosen("1.63.0+dfsg1-2", "0.60.1-2+b2"),
            "rustc-web rust-web-src libclang1-19"
        );
        assert_eq!(
            chosen("1.85.1+dfsg1-1+deb13u1", "0.71.1-6"),
            "rustc rust-src bindgen libclang1-19"
        );
    }

    #[test]
    fn every_part_of_rust_has_its_packages() {
        let parts: Vec<Part> = packages().rust.iter().map(|of| of.part).collect();
        assert_eq!(parts, [Part::Rustc, Part::Bindgen, Part::Libclang]);
    }
}
