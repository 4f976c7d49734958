// SPDX-License-Identifier: GPL-2.0
//! `regress bisect`: `git bisect` over the user's history, a case the judge.
//!
//! It works in a shared clone below the build folder; KDIR is only read.

use crate::case;
use crate::cli::{BisectArgs, KernelChoice, LabChoice, RunArgs};
use crate::figure::Verdict;
use crate::process::{self, Group};
use crate::project::Project;
use crate::results::CaseResult;
use crate::run::{self, cases_dir};
use crate::ui;
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What `git bisect run` understands.
const GOOD: u8 = 0;
const BAD: u8 = 1;
const CANNOT_TELL: u8 = 125;

/// `regress bisect`.
pub fn command(project: &Project, args: &BisectArgs) -> Result<ExitCode> {
    case::read_all(&cases_dir(project), std::slice::from_ref(&args.case))?;
    let kdir = project
        .kdir
        .as_ref()
        .context("say with KDIR= which git tree to search")?;
    match (&args.good, &args.bad) {
        (Some(good), Some(bad)) => search(project, kdir, &args.case, good, bad),
        _ => Ok(ExitCode::from(judge(project, &args.case))),
    }
}

/// Runs the case on the base kernel made of KDIR's HEAD.
fn judge(project: &Project, case: &str) -> u8 {
    let args = RunArgs {
        cases: vec![case.to_string()],
        lab: Some(LabChoice::Uml),
        kernel: KernelChoice::Base,
        debug: false,
        fresh: false,
        json: None,
        ktap: false,
    };
    match run::results(project, &args) {
        Ok(results) => results.cases.first().map_or(CANNOT_TELL, word),
        Err(error) => {
            ui::error(&error);
            CANNOT_TELL
        }
    }
}

/// Bad if every fault shows, good if one does not.
fn word(case: &CaseResult) -> u8 {
    let has = |verdict| case.figures.iter().any(|figure| figure.verdict == verdict);
    if has(Verdict::Error) {
        CANNOT_TELL
    } else if has(Verdict::NotReproduced) {
        GOOD
    } else if has(Verdict::Reproduced) {
        BAD
    } else {
        CANNOT_TELL
    }
}

fn search(project: &Project, kdir: &Path, case: &str, good: &str, bad: &str) -> Result<ExitCode> {
    let clone = clone(project, kdir)?;
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&clone).args(args);
        git
    };
    let commit = |revision: &str| -> Result<String> {
        let mut parse = Command::new("git");
        parse
            .arg("-C")
            .arg(kdir)
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("{revision}^{{commit}}"));
        let commit = process::output(&mut parse)
            .with_context(|| format!("{} has no revision {revision}", kdir.display()))?;
        Ok(commit.trim().to_string())
    };
    let (good, bad) = (commit(good)?, commit(bad)?);
    process::output(&mut git(&["bisect", "reset"]))?;
    process::output(&mut git(&["bisect", "start", &bad, &good]))?;
    let regress = std::env::current_exe().context("cannot tell where regress is")?;
    let mut run = git(&["bisect", "run"]);
    run.args(["env", "-C"])
        .arg(&project.root)
        .arg(regress)
        .args(["bisect", case])
        .arg("--kdir")
        .arg(&clone)
        .arg("--build-dir")
        .arg(project.build.join("bisect"));
    let status = Group::spawn(&mut run)?.wait(None)?;
    if !status.is_some_and(|status| status.success()) {
        bail!(
            "git bisect found no single commit; its log: git -C {} bisect log",
            clone.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A clone that shares KDIR's objects; made once.
fn clone(project: &Project, kdir: &Path) -> Result<PathBuf> {
    let clone = project.build.join("bisect-source");
    if clone.is_dir() {
        let mut fetch = Command::new("git");
        fetch
            .arg("-C")
            .arg(&clone)
            .args(["fetch", "--quiet"])
            .arg(kdir);
        process::output(&mut fetch)?;
        return Ok(clone);
    }
    let mut command = Command::new("git");
    command
        .args(["clone", "--quiet", "--shared", "--no-checkout"])
        .arg(kdir)
        .arg(&clone);
    process::output(&mut command)
        .with_context(|| format!("KDIR={} must be a git tree", kdir.display()))?;
    Ok(clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;

    #[test]
    fn the_case_speaks_as_git_bisect_wants() {
        let mut case = example().cases.remove(0);
        let mut say = |first, second| {
            case.figures[0].verdict = first;
            case.figures[1].verdict = second;
            word(&case)
        };
        assert_eq!(say(Verdict::Reproduced, Verdict::Met), BAD);
        assert_eq!(say(Verdict::Reproduced, Verdict::NotReproduced), GOOD);
        assert_eq!(say(Verdict::Reproduced, Verdict::Error), CANNOT_TELL);
        assert_eq!(say(Verdict::Met, Verdict::NotJudged), CANNOT_TELL);
    }
}
