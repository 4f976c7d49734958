// SPDX-License-Identifier: GPL-2.0
//! `regress setup`: installs what this machine lacks, in one go.

use crate::debian::has_program;
use crate::project::Project;
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

/// `regress setup`.
pub fn command(project: &Project) -> Result<ExitCode> {
    let all = read(project)?;
    let missing = missing(&all);
    if missing.is_empty() {
        ui::reused(&format!("{} packages that are installed", all.len()));
        return Ok(ExitCode::SUCCESS);
    }
    if !has_program("apt-get") {
        let needs: Vec<String> = missing.iter().map(|package| package.describe()).collect();
        bail!(
            "this is no Debian (there is no apt-get); install these by hand:\n{}",
            needs.join("\n")
        );
    }
    install(project, &missing)?;
    Ok(ExitCode::SUCCESS)
}

fn read(project: &Project) -> Result<Vec<Package>> {
    let path = project.harness().join("packages.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let all: Packages = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(all.packages)
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

fn install(project: &Project, missing: &[&Package]) -> Result<()> {
    let names: Vec<&str> = missing
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let step = ui::Step::start(format!(
        "installing {} packages: {}",
        names.len(),
        names.join(" ")
    ));
    let log = project.log("setup");
    process::run_logged(apt_get(&names)?.arg("update"), &log)
        .context("the package lists cannot be fetched")?;
    let mut install = apt_get(&names)?;
    install
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&names);
    process::run_logged(&mut install, &log).context("the packages cannot be installed")?;
    step.done("");
    Ok(())
}

/// `apt-get` as root, that asks nothing.
fn apt_get(names: &[&str]) -> Result<Command> {
    // SAFETY: geteuid(2) cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root && !has_program("sudo") {
        bail!(
            "packages are missing, and this is neither root nor is there sudo; as root: \
             apt-get install {}",
            names.join(" ")
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
