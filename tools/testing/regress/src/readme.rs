// SPDX-License-Identifier: GPL-2.0
//! The commands that README.md shows: each is run by `regress test`.

use crate::counts::Counts;
use crate::process;
use crate::project::Project;
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// `readme.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    #[serde(default, rename = "command")]
    commands: Vec<Exception>,
}

/// A command that is not run as it is shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    text: String,
    /// What to run in its place; nothing: something else runs it.
    #[serde(default)]
    run: Option<String>,
    reason: String,
}

/// A command of README.md.
pub struct Shown {
    pub text: String,
    exception: Option<Exception>,
}

/// Every command of README.md, once, in its order.
pub fn commands(project: &Project) -> Result<Vec<Shown>> {
    let path = project.root.join("README.md");
    let text = std::fs::read_to_string(&path).context("cannot read README.md")?;
    let path = project.harness().join("readme.toml");
    let data = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let exceptions: Exceptions =
        toml::from_str(&data).with_context(|| path.display().to_string())?;
    let shown = shell_lines(&text);
    for exception in &exceptions.commands {
        if !shown.contains(&exception.text) {
            bail!(
                "{}: README.md does not show `{}`",
                path.display(),
                exception.text
            );
        }
    }
    let find = |text: &str| exceptions.commands.iter().find(|known| known.text == text);
    Ok(shown
        .into_iter()
        .map(|text| Shown {
            exception: find(&text).cloned(),
            text,
        })
        .collect())
}

/// The lines of ```sh blocks, without comments, continued lines joined.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut inside = false;
    let mut open = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line.trim() == "```sh";
            continue;
        }
        let line = line.trim();
        let line = line.split(" # ").next().unwrap_or_default().trim_end();
        if !inside || line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            open += begun;
            continue;
        }
        let whole = std::mem::take(&mut open) + line;
        if !lines.contains(&whole) {
            lines.push(whole);
        }
    }
    lines
}

impl Shown {
    pub fn run(self, project: &Project) -> Result<Counts> {
        let text = match &self.exception {
            None => &self.text,
            Some(Exception {
                run: Some(text), ..
            }) => text,
            Some(Exception { reason, .. }) => {
                println!("    not run here: {reason}");
                return Ok(Counts {
                    skipped: vec![format!("README: {}: {reason}", self.text)],
                    ..Counts::default()
                });
            }
        };
        let us = std::env::current_exe().context("cannot tell our own path")?;
        let log = project.log("readme");
        let logs = log.parent().expect("a log stands in a folder");
        std::fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let mut shell = Command::new("bash");
        shell
            .current_dir(&project.root)
            .args(["-c", SHOW_AND_LOG, "bash"])
            // The harness is where this build folder has it.
            .arg(text.replace("build/regress", &us.to_string_lossy()))
            .arg(&log)
            .env("O", &project.build)
            .stdin(Stdio::null());
        let status = process::Group::spawn(&mut shell)?
            .wait(None)?
            .expect("without a timeout the child has ended");
        Ok(counts(status.success(), &std::fs::read_to_string(&log)?))
    }
}

/// Runs `$1` and shows its output while `$2` keeps it.
const SHOW_AND_LOG: &str = "set -o pipefail; sh -ec \"$1\" 2>&1 | tee -- \"$2\"";

/// What a command counted itself; else it is one test.
fn counts(success: bool, output: &str) -> Counts {
    let mut counts = Counts::parse(output).unwrap_or(Counts {
        passed: u32::from(success),
        ..Counts::default()
    });
    if !success {
        counts.failed = counts.failed.max(1);
    }
    counts
}

/// Checks that the second run of the README's case gave, in virtual time, the
/// same bytes as the first.
pub fn repeats(project: &Project) -> Result<()> {
    let first = figures_in_virtual_time(&project.out.join("results.json"))?;
    let again = figures_in_virtual_time(&project.out.join("again.json"))?;
    if again.is_empty() {
        bail!("out/again.json has no figure of the uml lab");
    }
    for (name, figure) in &again {
        if first.get(name) != Some(figure) {
            bail!("{name} differs: {:?}, then {figure}", first.get(name));
        }
    }
    Ok(())
}

fn figures_in_virtual_time(json: &Path) -> Result<BTreeMap<String, serde_json::Value>> {
    let text = std::fs::read_to_string(json)
        .with_context(|| format!("cannot read {}; `regress run` writes it", json.display()))?;
    let results: serde_json::Value = serde_json::from_str(&text)?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut figures = BTreeMap::new();
    for case in list(&results["cases"]) {
        for figure in list(&case["figures"]) {
            if figure["lab"] == "uml" {
                figures.insert(format!("{} {}", case["id"], figure["name"]), figure);
            }
        }
    }
    Ok(figures)
}

/// Checks that the README shows every row of the table that the last run
/// printed, with its bar and verdict. Numbers are not compared: they are those of
/// one machine.
pub fn table(project: &Project) -> Result<()> {
    let path = project.root.join("README.md");
    let shown = std::fs::read_to_string(&path).context("cannot read README.md")?;
    let path = project.out.join("results.txt");
    let printed = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}; `regress run` writes it", path.display()))?;
    for row in printed.lines() {
        if !shown.lines().any(|line| same_row(line, row)) {
            bail!("README.md does not show this row of `make repro`'s table:\n{row}");
        }
    }
    Ok(())
}

fn same_row(shown: &str, printed: &str) -> bool {
    let words = |row: &str| -> Vec<String> {
        let words = row.split_whitespace();
        words
            .filter(|word| word.parse::<f64>().is_err())
            .map(str::to_string)
            .collect()
    };
    words(shown) == words(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_lines_of_shell_blocks() {
        let text = "text\n```sh\nmake repro   # all\n# comment\n\na \\\n  b\nmake repro\n```\n\
                    ```\noutput\n```\n    indented\n```sh\nc\n```\n";
        assert_eq!(shell_lines(text), ["make repro", "a b", "c"]);
    }

    #[test]
    fn a_command_that_fails_is_a_failure_whatever_it_counted() {
        let failed = counts(false, "2 passed, 0 failed, 0 skipped\n");
        assert_eq!((failed.passed, failed.failed), (2, 1));
        let failed = counts(false, "");
        assert_eq!((failed.passed, failed.failed), (0, 1));
        let passed = counts(true, "no count\n");
        assert_eq!((passed.passed, passed.failed), (1, 0));
    }

    #[test]
    fn rows_are_the_same_but_for_numbers() {
        assert!(same_row(
            "pmtu  mtu-68  193.04  >= 405",
            "pmtu mtu-68 193.05 >= 405"
        ));
        assert!(!same_row("pmtu mtu-68 193.04", "pmtu mtu-69 193.04"));
        assert!(!same_row(
            "p mtu-68 [qemu] 4.1 fixed",
            "p mtu-68 [qemu] 4.1 error"
        ));
    }
}
