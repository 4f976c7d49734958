// SPDX-License-Identifier: GPL-2.0
//! Case files: a public report tied to its reproduction, figures and bars.
//! The format is described in README.md beside Cargo.toml.

use crate::figure::{is_name, Bar, Reduce};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Where a selftest runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Lab {
    /// User Mode Linux in virtual time: the same digits everywhere.
    #[default]
    Uml,
    /// User Mode Linux in real time.
    UmlRealtime,
    /// A virtual machine, in real time.
    Qemu,
}

impl std::fmt::Display for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Lab::Uml => "uml",
            Lab::UmlRealtime => "uml-realtime",
            Lab::Qemu => "qemu",
        })
    }
}

/// What a figure must be on the base kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Base misses the bar: this is what the report is about.
    #[default]
    Fault,
    /// Base meets the bar, and patched must stay so.
    Guard,
}

/// Judge the base kernel alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Only {
    Base,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub title: String,
    pub message_id: String,
    pub date: String,
    #[serde(default)]
    pub bisected: Option<String>,
    pub series: String,
    pub report: String,
    #[serde(default, rename = "run")]
    pub runs: Vec<Run>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    #[serde(default)]
    pub kunit: Vec<Kunit>,
    #[serde(default)]
    pub upstream: Vec<Upstream>,
}

/// One selftest in one lab, on every kernel that is judged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Names the run's own figure `selftest-NAME`; default: the script's stem.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pub lab: Lab,
    /// Path below tools/testing/selftests, say `net/foo.sh`.
    pub selftest: Spanned<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Seconds of wall time.
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// `fault`: the selftest fails on base; `guard`: it passes there too.
    #[serde(default)]
    pub kind: Kind,
    /// Programs that the guest must have.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Parameters for the kernel, beside the lab's own.
    #[serde(default)]
    parameters: Vec<Spanned<String>>,
    /// Text that base's console must show when its kernel dies: by a panic, an
    /// oops, or an exit before the verdict.
    #[serde(default)]
    pub base_panics: Option<String>,
}

fn default_timeout() -> u64 {
    300
}

impl Run {
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    pub fn parameters(&self) -> Vec<String> {
        let all = self.parameters.iter();
        all.map(|parameter| parameter.get_ref().clone()).collect()
    }

    /// Name of the figure that is the selftest's exit status.
    pub fn figure_name(&self) -> String {
        let stem = Path::new(self.selftest.get_ref())
            .file_stem()
            .unwrap_or_default();
        let stem = stem.to_string_lossy().to_lowercase().replace('_', "-");
        format!("selftest-{}", self.name.as_ref().unwrap_or(&stem))
    }

    /// The selftest's own verdict as a figure: status 0, and 1 on base if the
    /// selftest tests the fault.
    pub fn as_figure(&self) -> Figure {
        Figure {
            name: Spanned::new(0..0, self.figure_name()),
            lab: self.lab,
            kind: self.kind,
            unit: "exit status".into(),
            bar: Some(Spanned::new(0..0, "== 0".into())),
            base: (self.kind == Kind::Fault).then(|| Spanned::new(0..0, "== 1".into())),
            why: format!("{} passes", self.selftest.get_ref()),
            reduce: None,
            only: None,
        }
    }
}

/// A number with a unit and a bar.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub name: Spanned<String>,
    #[serde(default)]
    pub lab: Lab,
    pub kind: Kind,
    pub unit: String,
    bar: Option<Spanned<String>>,
    base: Option<Spanned<String>>,
    pub why: String,
    #[serde(default)]
    pub reduce: Option<Reduce>,
    #[serde(default)]
    pub only: Option<Only>,
}

impl Figure {
    pub fn name(&self) -> &str {
        self.name.get_ref()
    }

    /// What patched must meet; for a row about base alone, what base must show.
    pub fn bar(&self) -> Bar {
        let text = self
            .bar
            .as_ref()
            .or(self.base.as_ref())
            .expect("checked when read");
        text.get_ref().parse().expect("checked when read")
    }

    /// What base must show.
    pub fn base(&self) -> Option<Bar> {
        let text = self.base.as_ref()?;
        Some(text.get_ref().parse().expect("checked when read"))
    }
}

/// KUnit tests that must fail on base and pass on patched.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kunit {
    /// Folder with the `.kunitconfig`, say `net/ipv4`, or such a file.
    pub kunitconfig: String,
    /// `suite.test`, or `suite.test.parameter`, that must fail on base.
    #[serde(default)]
    pub fails_on_base: Vec<String>,
    /// They test code that the fixes add: base has neither.
    #[serde(default)]
    pub patched_only: bool,
}

/// A selftest of upstream that must give the same on patched as on base.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    pub selftest: Spanned<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default = "qemu")]
    pub lab: Lab,
    #[serde(default = "default_timeout")]
    pub timeout: u64,
}

fn qemu() -> Lab {
    Lab::Qemu
}

impl Case {
    /// Reads and checks one case file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, path)
    }

    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let case: Case = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            anyhow::anyhow!("{}:{line}: {}", path.display(), error.message())
        })?;
        if let Err((at, message)) = case.check(path) {
            bail!("{}:{}: {message}", path.display(), line_of(text, at));
        }
        Ok(case)
    }

    /// Finds what a reader of the results would stumble over: byte offset and message.
    fn check(&self, path: &Path) -> Result<(), (usize, String)> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if self.id != stem || !is_name(&self.id) {
            return Err((
                0,
                format!("the id `{}` must be the file's name, [a-z0-9-]+", self.id),
            ));
        }
        let mut names = BTreeSet::new();
        let mut labs = BTreeSet::new();
        for run in &self.runs {
            let selftest = &run.selftest;
            check_selftest(selftest)?;
            for parameter in &run.parameters {
                check_parameter(parameter.get_ref())
                    .map_err(|message| (parameter.span().start, message))?;
            }
            labs.insert(run.lab);
            if !names.insert((run.lab, run.figure_name())) {
                let message = format!(
                    "a second run called {}: give one a `name`",
                    run.figure_name()
                );
                return Err((selftest.span().start, message));
            }
        }
        for upstream in &self.upstream {
            check_selftest(&upstream.selftest)?;
        }
        for figure in &self.figures {
            let at = figure.name.span().start;
            if !is_name(figure.name()) {
                return Err((
                    at,
                    format!("the name `{}` must be [a-z0-9-]+", figure.name()),
                ));
            }
            if !labs.contains(&figure.lab) {
                return Err((
                    at,
                    format!("no [[run]] in the lab {} measures it", figure.lab),
                ));
            }
            if !names.insert((figure.lab, figure.name().to_string())) {
                return Err((
                    at,
                    format!(
                        "a second figure {} in the lab {}",
                        figure.name(),
                        figure.lab
                    ),
                ));
            }
        }
        for figure in &self.figures {
            figure.check(&names)?;
        }
        Ok(())
    }
}

/// One kernel parameter: a word, and none that the labs need for themselves.
pub fn check_parameter(parameter: &str) -> Result<(), String> {
    const OWN: [&str; 11] = [
        "console",
        "init",
        "job",
        "mem",
        "ro",
        "root",
        "rootflags",
        "rootfstype",
        "rw",
        "uml_dir",
        "umid",
    ];
    const OWN_PREFIXES: [&str; 3] = ["con", "time_travel", "rdinit"];
    let is_word = |letter: char| letter.is_ascii_graphic() && letter != '"';
    if !parameter.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        || !parameter.chars().all(is_word)
    {
        return Err(format!(
            "`{parameter}` is no kernel parameter: one word, NAME or NAME=VALUE, without quotes"
        ));
    }
    // The kernel takes both for the same.
    let name = parameter
        .split('=')
        .next()
        .unwrap_or_default()
        .replace('-', "_");
    if OWN.contains(&name.as_str()) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(format!("the parameter `{name}` is set by the lab"));
    }
    Ok(())
}

fn check_selftest(selftest: &Spanned<String>) -> Result<(), (usize, String)> {
    let path = Path::new(selftest.get_ref());
    let plain = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    if !plain || path.components().count() < 2 {
        let message = format!(
            "`{}` must be a path below tools/testing/selftests, such as net/foo.sh",
            selftest.get_ref()
        );
        return Err((selftest.span().start, message));
    }
    Ok(())
}

impl Figure {
    fn check(&self, names: &BTreeSet<(Lab, String)>) -> Result<(), (usize, String)> {
        let at = self.name.span().start;
        match (&self.bar, &self.base, self.only) {
            (None, None, _) => return Err((at, format!("figure {} needs a bar", self.name()))),
            (None, _, None) => {
                let message = format!("figure {} needs a bar, or only = \"base\"", self.name());
                return Err((at, message));
            }
            _ => {}
        }
        for text in [&self.bar, &self.base].into_iter().flatten() {
            let at = text.span().start;
            let bar: Bar = text.get_ref().parse().map_err(|message| (at, message))?;
            let Some(other) = bar.refers_to() else {
                continue;
            };
            if other != "base" && !names.contains(&(self.lab, other.to_string())) {
                return Err((
                    at,
                    format!(
                        "the bar refers to `{other}`, which is no figure of the lab {}",
                        self.lab
                    ),
                ));
            }
            if other == self.name() {
                return Err((
                    at,
                    "the bar compares the figure with itself; `base` is its value on base".into(),
                ));
            }
        }
        Ok(())
    }
}

/// All cases, by file name; `wanted` picks some by id.
pub fn read_all(dir: &Path, wanted: &[String]) -> Result<Vec<Case>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .with_context(|| format!("cannot read the cases in {}", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    let known: Vec<String> = files
        .iter()
        .map(|file| {
            file.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    if let Some(unknown) = wanted.iter().find(|id| !known.contains(id)) {
        bail!(
            "there is no case `{unknown}`; the cases are: {}",
            known.join(", ")
        );
    }
    files
        .iter()
        .zip(&known)
        .filter(|(_, id)| wanted.is_empty() || wanted.contains(id))
        .map(|(file, _)| Case::read(file))
        .collect()
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|&byte| byte == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id = \"x\"\ntitle = \"t\"\nmessage_id = \"m@z\"\ndate = \"2019-01-15\"\n\
                        series = \"s\"\nreport = \"r\"\n[[run]]\nselftest = \"net/a_b.sh\"\n";

    fn read(tail: &str) -> Result<Case> {
        Case::parse(&format!("{HEAD}{tail}"), Path::new("cases/x.toml"))
    }

    fn fails(tail: &str) -> String {
        format!("{:#}", read(tail).unwrap_err())
    }

    #[test]
    fn reads_a_case() {
        let case = read(
            "[[figure]]\nname = \"f\"\nkind = \"fault\"\nunit = \"s\"\nbar = \">= 2\"\n\
             base = \"< 1\"\nwhy = \"w\"\n",
        )
        .unwrap();
        assert_eq!(case.runs[0].figure_name(), "selftest-a-b");
        assert_eq!(case.runs[0].timeout(), Duration::from_secs(300));
        assert_eq!(case.figures[0].bar().to_string(), ">= 2");
        assert_eq!(case.figures[0].lab, Lab::Uml);
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        let figure = |rest: &str| {
            fails(&format!(
                "[[figure]]\nname = \"f\"\nkind = \"fault\"\nunit = \"s\"\nwhy = \"w\"\n{rest}"
            ))
        };
        assert!(figure("bar = \"2\"\n").starts_with("cases/x.toml:14: `2` is no bar"));
        assert!(figure("bar = \">= g\"\n").contains("x.toml:14: the bar refers to `g`"));
        assert!(figure("bar = \">= f\"\n").contains("compares the figure with itself"));
        assert!(figure("").contains("x.toml:10: figure f needs a bar"));
        assert!(figure("bar = \">= 1\"\nlab = \"qemu\"\n").contains("no [[run]] in the lab qemu"));
        assert!(figure("bar = \">= 1\"\nfoo = 1\n").contains("x.toml:15: unknown field `foo`"));
        assert!(fails("[[run]]\nselftest = \"net/a_b.sh\"\n").contains("x.toml:10: a second run"));
        assert!(
            fails("[[run]]\nselftest = \"../a_b.sh\"\n").contains("x.toml:10: `../a_b.sh` must be")
        );
        assert!(fails("lab = \"vax\"\n").contains("x.toml:9: unknown variant `vax`"));
    }

    #[test]
    fn parameters_are_words_that_the_labs_leave_free() {
        let case = read("parameters = [\"a.b=1\", \"quiet\"]\n").unwrap();
        assert_eq!(case.runs[0].parameters(), ["a.b=1", "quiet"]);
        for parameter in ["", "a b", "--", "a=\\\"b\\\"", "=1", "a=\\n"] {
            let error = fails(&format!("parameters = [\"x\",\n\"{parameter}\"]\n"));
            assert!(error.contains("x.toml:10: "), "{parameter}: {error}");
            assert!(
                error.contains("is no kernel parameter"),
                "{parameter}: {error}"
            );
        }
        for parameter in [
            "init=/bin/sh",
            "con1=fd:1",
            "time-travel",
            "uml-dir=/",
            "root=/dev/x",
        ] {
            let error = check_parameter(parameter).unwrap_err();
            assert!(error.contains("is set by the lab"), "{parameter}: {error}");
        }
        assert_eq!(check_parameter("mvpp2.queue_mode=1"), Ok(()));
    }

    #[test]
    fn the_id_is_the_file_name() {
        let error = Case::parse(HEAD, Path::new("cases/y.toml")).unwrap_err();
        assert!(format!("{error:#}").contains("cases/y.toml:1: the id `x`"));
    }
}
