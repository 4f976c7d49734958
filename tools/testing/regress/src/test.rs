// SPDX-License-Identifier: GPL-2.0
//! `regress test`: every test of the project, one line an item, and the count.
//! A failure does not stop the others.

use crate::cli::TestArgs;
use crate::counts::Counts;
use crate::project::Project;
use crate::{mails, process, readme, refresh, tree};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The last line of the last run, for `.ci/run`.
const SUMMARY: &str = "test.summary";

type Work<'a> = Box<dyn FnOnce() -> Result<Counts> + 'a>;

/// Something to test.
struct Item<'a> {
    name: String,
    work: Work<'a>,
}

impl<'a> Item<'a> {
    fn new(name: impl Into<String>, work: impl FnOnce() -> Result<Counts> + 'a) -> Self {
        Item {
            name: name.into(),
            work: Box::new(work),
        }
    }

    /// An item that is one test.
    fn one(name: impl Into<String>, work: impl FnOnce() -> Result<()> + 'a) -> Self {
        Item::new(name, || work().map(|()| passed(1)))
    }
}

fn passed(count: u32) -> Counts {
    Counts {
        passed: count,
        ..Counts::default()
    }
}

/// `regress test`.
pub fn command(project: &Project, args: &TestArgs) -> Result<ExitCode> {
    let summary = project.out.join(SUMMARY);
    let _ = std::fs::remove_file(&summary);
    let chosen = |item: &Item| {
        args.items.is_empty() || args.items.iter().any(|part| item.name.contains(part))
    };
    let items: Vec<Item> = items(project).into_iter().filter(chosen).collect();
    if items.is_empty() {
        bail!("no item's name contains any of: {}", args.items.join(", "));
    }
    let mut total = Counts::default();
    for item in items {
        let counts = perform(item);
        if process::interrupted() {
            bail!("interrupted");
        }
        total.passed += counts.passed;
        total.failed += counts.failed;
        total.skipped.extend(counts.skipped);
    }
    for reason in &total.skipped {
        println!("skipped: {reason}");
    }
    let line = format!(
        "{} passed, {} failed, {} skipped",
        total.passed,
        total.failed,
        total.skipped.len()
    );
    crate::results::write_atomic(&summary, &format!("{line}\n"))?;
    println!("{line}");
    Ok(ExitCode::from(u8::from(!total.all_good())))
}

/// Runs one item and prints its line; an error is one failure.
fn perform(item: Item) -> Counts {
    println!("---       {}", item.name);
    let start = Instant::now();
    let result = (item.work)();
    let seconds = start.elapsed().as_secs_f64();
    let (verdict, counts) = match result {
        Ok(counts) if counts.failed > 0 => ("FAIL", counts),
        Ok(counts) if counts.passed == 0 => ("SKIP", counts),
        Ok(counts) => ("ok", counts),
        Err(error) => {
            println!("{}", indent(&format!("{error:#}")));
            let counts = Counts {
                failed: 1,
                ..Counts::default()
            };
            ("FAIL", counts)
        }
    };
    println!(
        "{verdict:4} {seconds:7.1} s  {}: {} passed, {} failed, {} skipped",
        item.name,
        counts.passed,
        counts.failed,
        counts.skipped.len()
    );
    counts
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Everything, what is quick first. KUnit, the cases and the selftests are
/// commands of the README.
fn items(project: &Project) -> Vec<Item<'_>> {
    let mut items = vec![
        Item::new("harness", || cargo_test(project, "harness", &[])),
        Item::new("shellcheck", || shellcheck(project)),
        Item::one("round trip of the series", || round_trip(project)),
        Item::one("mails: git am, checkpatch, Fixes", || check_mails(project)),
    ];
    match readme::commands(project) {
        Ok(commands) => items.extend(commands.into_iter().map(|command| {
            let name = format!("README: {}", command.text);
            Item::new(name, move || command.run(project))
        })),
        Err(error) => items.push(Item::one("README", || Err(error))),
    }
    items.push(Item::one("virtual time repeats to the digit", || {
        readme::repeats(project)
    }));
    items.push(Item::one("README: its table", || readme::table(project)));
    items.push(Item::new("harness with guests", || {
        cargo_test(project, "harness-guests", &["--ignored"])
    }));
    items
}

/// The crate's own tests.
fn cargo_test(project: &Project, name: &str, options: &[&str]) -> Result<Counts> {
    let log = project.log(name);
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&project.root)
        .args(["test", "--release", "--locked", "--no-fail-fast"])
        .arg("--manifest-path")
        .arg(project.harness().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(project.build.join("target"))
        .arg("--")
        .args(options)
        .env("O", &project.build);
    let status = process::status_logged(&mut cargo, &log)?;
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let counts = count_cargo(&text);
    for line in text.lines().filter(|line| line.ends_with(" ... FAILED")) {
        println!("    {line}");
    }
    let broken = !status.success() && counts.failed == 0;
    if broken || counts.passed + counts.failed == 0 {
        bail!(
            "`{}` failed ({status}):\n{}\nthe whole log: {}",
            process::describe(&cargo),
            process::tail(&log, 15),
            log.display()
        );
    }
    if counts.failed > 0 {
        println!("    the whole log: {}", log.display());
    }
    Ok(counts)
}

/// Adds up the lines `test result: ok. 3 passed; 1 failed; ...`.
fn count_cargo(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines().filter(|line| line.starts_with("test result:")) {
        let number = |what: &str| -> u32 {
            let before = line.split(what).next().unwrap_or_default();
            let word = before.split_whitespace().last().unwrap_or_default();
            word.parse().unwrap_or_default()
        };
        counts.passed += number(" passed");
        counts.failed += number(" failed");
    }
    counts
}

/// Every shell script of the project, as git lists them.
fn shellcheck(project: &Project) -> Result<Counts> {
    let mut counts = Counts::default();
    for script in scripts(&project.root)? {
        let mut check = Command::new("shellcheck");
        check
            .current_dir(&project.root)
            .args(["--external-sources", "--format=gcc"])
            .arg(&script);
        match process::output(&mut check) {
            Ok(_) => counts.passed += 1,
            Err(_) => {
                // The findings are on its standard output.
                let output = check.output().context("cannot start shellcheck")?;
                println!("{}", indent(&String::from_utf8_lossy(&output.stdout)));
                counts.failed += 1;
            }
        }
    }
    if counts.passed + counts.failed == 0 {
        bail!("there is no script to check");
    }
    Ok(counts)
}

fn scripts(root: &Path) -> Result<Vec<PathBuf>> {
    let mut list = Command::new("git");
    list.current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let text = process::output(&mut list).context("the project is no git clone")?;
    let is_script = |path: &&str| {
        let content = std::fs::read(root.join(path)).unwrap_or_default();
        let first = content.split(|&byte| byte == b'\n').next();
        let first = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
        first.starts_with("#!") && (first.ends_with("sh"))
    };
    Ok(text.lines().filter(is_script).map(PathBuf::from).collect())
}

/// The stored files make the tree, and the tree makes the stored files.
fn round_trip(project: &Project) -> Result<()> {
    let differing = refresh::unlike_written(project)?;
    if !differing.is_empty() {
        bail!(
            "read back from the assembled tree, these differ from what is stored \
             (`regress refresh --all` writes them):\n{}",
            differing.join("\n")
        );
    }
    let stray = tree::strays(project)?;
    if !stray.is_empty() {
        bail!("these are in no series:\n{}", stray.join("\n"));
    }
    Ok(())
}

fn check_mails(project: &Project) -> Result<()> {
    let findings = mails::check_all(project)?;
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_results_add_up() {
        let text = "test a ... ok\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                    test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured\n";
        let counts = count_cargo(text);
        assert_eq!((counts.passed, counts.failed), (15, 2));
    }

    #[test]
    fn an_item_that_fails_counts_once_and_one_that_ran_nothing_is_no_pass() {
        let failed = perform(Item::one("x", || bail!("broken")));
        assert_eq!((failed.passed, failed.failed), (0, 1));
        let skipped = perform(Item::new("y", || {
            Ok(Counts {
                skipped: vec!["why".into()],
                ..Counts::default()
            })
        }));
        assert!(!skipped.all_good());
    }
}
