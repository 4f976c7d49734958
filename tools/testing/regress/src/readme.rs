// SPDX-License-Identifier: GPL-2.0
//! The commands that README.md shows: each is run by `regress test`.

use crate::counts::Counts;
use crate::process;
use crate::project::Project;
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::process::Command;

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
        let mut shell = Command::new("sh");
        shell
            .current_dir(&project.root)
            // The harness is where this build folder has it.
            .args(["-ec", &text.replace("build/regress", &us.to_string_lossy())])
            .env("O", &project.build);
        process::run_logged(&mut shell, &project.log("readme"))?;
        Ok(Counts {
            passed: 1,
            ..Counts::default()
        })
    }
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
}
