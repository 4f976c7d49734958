// SPDX-License-Identifier: GPL-2.0
//! `regress kunit`: KUnit suites in User Mode Linux, on base and on patched.
//!
//! The kernel's own kunit.py configures, builds and reads the results. Only the
//! kernel is started here: kunit.py would leave it behind when it is killed.

use crate::build::{self, Builder};
use crate::case::{self, Kunit};
use crate::cli::{KernelChoice, KunitArgs};
use crate::counts::Counts;
use crate::lab::{splats, uml};
use crate::lock;
use crate::process::{self, Group};
use crate::project::Project;
use crate::run::cases_dir;
use crate::rust::Rust;
use crate::tree::{self, Assembled, Kernel};
use crate::ui;
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Wall time that one kernel's suites may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// `regress kunit`.
pub fn command(project: &Project, args: &KunitArgs) -> Result<ExitCode> {
    let counts = run(project, &args.folders, &args.kernel)?;
    println!("{counts}");
    Ok(if counts.all_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(project: &Project, folders: &[String], choice: &KernelChoice) -> Result<Counts> {
    let cases = case::read_all(&cases_dir(project), &[])?;
    let all: Vec<Kunit> = cases.into_iter().flat_map(|case| case.kunit).collect();
    let assembled = tree::kernels(project)?;
    let mut counts = Counts::default();
    for kernel in assembled.choose(choice)? {
        let Some(wanted) = Wanted::new(&all, folders, &kernel.name)? else {
            continue;
        };
        let tests = Suites {
            project,
            assembled: &assembled,
            kernel: &kernel,
            wanted: &wanted,
        }
        .run()?;
        wanted.count(&kernel.name, &tests, &mut counts);
    }
    Ok(counts)
}

/// Suites that one kernel runs: to build one for each folder takes longer.
#[derive(Default)]
struct Wanted {
    /// With a .kunitconfig, say `net/ipv4`.
    folders: Vec<String>,
    fails_on_base: Vec<String>,
}

impl Wanted {
    /// What the cases ask for, or the folders that the user named; nothing if
    /// this kernel has none of it.
    fn new(of_cases: &[Kunit], folders: &[String], kernel: &str) -> Result<Option<Self>> {
        let mut wanted = Wanted::default();
        for folder in folders {
            wanted.add(folder.trim_end_matches('/'));
        }
        for kunit in of_cases {
            if folders.is_empty() {
                wanted.add(&kunit.kunitconfig);
            }
            if wanted.folders.contains(&kunit.kunitconfig) {
                wanted.fails_on_base.extend(kunit.fails_on_base.clone());
            }
        }
        if wanted.folders.is_empty() {
            bail!("no case names a KUnit suite; name a folder that has a .kunitconfig");
        }
        let is_missing = |folder: &String| {
            let mut named = of_cases.iter().filter(|kunit| kunit.kunitconfig == *folder);
            kernel == "base" && named.any(|kunit| kunit.patched_only)
        };
        wanted.folders.retain(|folder| !is_missing(folder));
        Ok(Some(wanted).filter(|wanted| !wanted.folders.is_empty()))
    }

    fn add(&mut self, folder: &str) {
        if !self.folders.iter().any(|known| known == folder) {
            self.folders.push(folder.to_string());
        }
    }

    fn label(&self) -> String {
        self.folders.join(" ")
    }

    /// Counts what is as it must be: on base the tests of the fault fail, and all
    /// others pass everywhere. Prints what is not.
    fn count(&self, kernel: &str, tests: &[Test], counts: &mut Counts) {
        let within =
            |name: &str, fault: &str| name == fault || name.starts_with(&format!("{fault}."));
        let must_fail = |name: &str| {
            kernel == "base" && self.fails_on_base.iter().any(|fault| within(name, fault))
        };
        let mut bad = Vec::new();
        if tests.is_empty() {
            bad.push(format!("{}: no test ran", self.label()));
        }
        // A fault with parameters is shown if one of them shows it.
        let mut shown: Vec<&String> = Vec::new();
        for test in tests {
            match (test.status, must_fail(&test.name)) {
                (Status::Skip, _) => counts
                    .skipped
                    .push(format!("{} on {kernel}: {}", test.name, test.reason)),
                (Status::Pass, false) => counts.passed += 1,
                (Status::Pass, true) => {}
                (Status::Fail, true) => {
                    let faults = self.fails_on_base.iter();
                    shown.extend(faults.filter(|fault| within(&test.name, fault)));
                }
                (Status::Fail, false) => bad.push(format!("{}: failed", test.name)),
                (Status::Error, _) => bad.push(format!("{}: crashed", test.name)),
            }
        }
        let faults = self.fails_on_base.iter().filter(|_| kernel == "base");
        for fault in faults {
            if shown.contains(&fault) {
                counts.passed += 1;
            } else {
                bad.push(format!("{fault}: must fail here, and does not"));
            }
        }
        for message in &bad {
            println!("not ok on {kernel}: {message}");
        }
        counts.failed += bad.len() as u32;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Pass,
    Skip,
    Fail,
    /// The test crashed the kernel.
    Error,
}

/// A test with its full name, `suite.test` or `suite.test.parameter`.
#[derive(Debug, PartialEq)]
struct Test {
    name: String,
    status: Status,
    /// Why it was skipped.
    reason: String,
}

/// The suites on one kernel.
struct Suites<'a> {
    project: &'a Project,
    assembled: &'a Assembled,
    kernel: &'a Kernel,
    wanted: &'a Wanted,
}

impl Suites<'_> {
    fn run(&self) -> Result<Vec<Test>> {
        let rust = Rust::look(self.project);
        let source = Builder::new(self.project, self.assembled, false).source();
        let label = format!("{} on {}", self.wanted.label(), self.kernel.name);
        let _lock = lock::acquire(&self.project.build)?;
        self.assembled.checkout(&self.kernel.commit, &source)?;
        let linux = self.build(&source, &rust)?;
        let step = ui::Step::start(format!("KUnit: {label}"));
        let console = self.log("run");
        self.boot(&linux, &console)?;
        let tests = self.parse(&source, &console)?;
        step.done(&format!("{} tests", tests.len()));
        Ok(tests)
    }

    fn log(&self, what: &str) -> PathBuf {
        let name = format!("kunit-{what}-{}-{}", self.wanted.label(), self.kernel.name);
        self.project.log(&build::safe(&name))
    }

    fn kunit_py(&self, source: &Path, command: &str) -> Command {
        let mut python = Command::new("python3");
        python
            .current_dir(source)
            .args(["tools/testing/kunit/kunit.py", command]);
        for variable in ["KDIR", "O", "ARCH", "LLVM", "V", "MAKEFLAGS", "MAKELEVEL"] {
            python.env_remove(variable);
        }
        python
    }

    /// The kernel with the suites built in; an unchanged one is not built again.
    fn build(&self, source: &Path, rust: &Rust) -> Result<PathBuf> {
        let folder = build::safe(&self.wanted.label());
        let store = build::store(
            self.project,
            &self.kernel.commit,
            &format!("kunit-{folder}"),
            &rust.describe(),
        )?;
        let linux = store.join("linux");
        let what = format!(
            "{} KUnit kernel for {}",
            self.kernel.name,
            self.wanted.label()
        );
        if linux.is_file() {
            ui::reused(&what);
            return Ok(linux);
        }
        let step = ui::Step::start(format!("building the {what}"));
        // Below the source, as in build.rs.
        let objects = source.join(format!("objects-kunit-{folder}"));
        let mut python = self.kunit_py(source, "build");
        python
            .args(
                self.wanted
                    .folders
                    .iter()
                    .map(|folder| format!("--kunitconfig={folder}")),
            )
            .arg(format!("--build_dir=objects-kunit-{folder}"))
            .args(
                build::make_options(self.project, rust)
                    .iter()
                    .map(|option| format!("--make_options={option}")),
            );
        rust.set_environment(&mut python);
        process::run_logged(&mut python, &self.log("build")).with_context(|| {
            let missing = rust.check().err().map(|error| format!(" ({error})"));
            format!("the {what} does not build{}", missing.unwrap_or_default())
        })?;
        build::keep(
            &[
                (objects.join("linux"), "linux"),
                (objects.join(".config"), "config"),
            ],
            &store,
        )?;
        step.done("");
        Ok(linux)
    }

    /// Boots the kernel with the parameters that kunit.py gives it.
    fn boot(&self, linux: &Path, console: &Path) -> Result<()> {
        let file =
            File::create(console).with_context(|| format!("cannot write {}", console.display()))?;
        let mut command = Command::new(linux);
        command
            .args([
                "kunit.enable=1",
                "mem=1G",
                "console=tty",
                "kunit_shutdown=halt",
            ])
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        uml::no_core(&mut command);
        let mut guest = Group::spawn(&mut command)?;
        if guest.wait(Some(TIMEOUT))?.is_none() {
            bail!(
                "KUnit: hang: the suites of {} did not end within {} s; the last lines:\n{}\nthe whole log: {}",
                self.wanted.label(),
                TIMEOUT.as_secs(),
                process::tail(console, 10),
                console.display()
            );
        }
        Ok(())
    }

    fn parse(&self, source: &Path, console: &Path) -> Result<Vec<Test>> {
        let json = console.with_extension("json");
        let _ = fs::remove_file(&json);
        let mut python = self.kunit_py(source, "parse");
        python
            .arg(format!("--json={}", json.display()))
            .arg(console);
        // Its exit status says whether all tests passed: that is judged here.
        process::status_logged(&mut python, &self.log("parse"))?;
        let text = fs::read_to_string(&json).unwrap_or_default();
        let output = String::from_utf8_lossy(&fs::read(console)?).into_owned();
        if let Some(line) = splats::panic(&output) {
            bail!("KUnit: {line}; the whole log: {}", console.display());
        }
        let group: Results = serde_json::from_str(&text).with_context(|| {
            format!(
                "kunit.py found no results in {}; see {}",
                console.display(),
                self.log("parse").display()
            )
        })?;
        let mut tests = Vec::new();
        group.flatten("", &mut tests);
        for test in tests.iter_mut().filter(|test| test.status == Status::Skip) {
            test.reason = skip_reason(&output, &test.name);
        }
        Ok(tests)
    }
}

/// kunit.py's JSON, as far as it is needed.
#[derive(Deserialize)]
struct Results {
    #[serde(default)]
    sub_groups: Vec<Results>,
    #[serde(default)]
    test_cases: Vec<TestCase>,
    name: String,
}

#[derive(Deserialize)]
struct TestCase {
    name: String,
    status: Status,
}

impl Results {
    /// The tests with their full names; the outermost group has no name that counts.
    fn flatten(&self, prefix: &str, tests: &mut Vec<Test>) {
        let full = |name: &str| {
            if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}.{name}")
            }
        };
        for case in &self.test_cases {
            tests.push(Test {
                name: full(&case.name),
                status: case.status,
                reason: String::new(),
            });
        }
        for group in &self.sub_groups {
            group.flatten(&full(&group.name), tests);
        }
    }
}

/// `ok 3 name # SKIP reason` of the test's last name.
fn skip_reason(output: &str, name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    let line = output
        .lines()
        .find(|line| line.contains(last) && line.contains("# SKIP"));
    let reason = line
        .and_then(|line| line.split_once("# SKIP"))
        .map_or("", |(_, reason)| reason.trim());
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"name":"main","test_cases":[],"sub_groups":[{"name":"gso","sub_groups":[
        {"name":"mtu","sub_groups":[],"test_cases":[{"name":"68","status":"FAIL"},{"name":"552","status":"PASS"}]}],
        "test_cases":[{"name":"total","status":"PASS"},{"name":"big","status":"SKIP"}]}]}"#;

    fn tests() -> Vec<Test> {
        let mut tests = Vec::new();
        serde_json::from_str::<Results>(JSON)
            .unwrap()
            .flatten("", &mut tests);
        tests
    }

    fn counted(kernel: &str, fails_on_base: &[&str]) -> (u32, u32, usize) {
        let wanted = Wanted {
            folders: vec!["net/ipv4".into()],
            fails_on_base: fails_on_base.iter().map(|name| name.to_string()).collect(),
        };
        let mut counts = Counts::default();
        wanted.count(kernel, &tests(), &mut counts);
        (counts.passed, counts.failed, counts.skipped.len())
    }

    #[test]
    fn tests_have_full_names() {
        let names: Vec<String> = tests().into_iter().map(|test| test.name).collect();
        assert_eq!(names, ["gso.total", "gso.big", "gso.mtu.68", "gso.mtu.552"]);
    }

    #[test]
    fn a_fault_must_fail_on_base_and_nowhere_else() {
        assert_eq!(counted("base", &["gso.mtu"]), (2, 0, 1));
        assert_eq!(counted("base", &[]), (2, 1, 1));
        assert_eq!(counted("base", &["gso.mtu", "gso.total"]), (1, 1, 1));
        assert_eq!(counted("base", &["gso.mtu", "gso.gone"]), (2, 1, 1));
        assert_eq!(counted("patched", &["gso.mtu"]), (2, 1, 1));
    }

    #[test]
    fn one_kernel_has_the_suites_of_all_cases() {
        let kunit = |folder: &str, fault: &str| Kunit {
            kunitconfig: folder.into(),
            fails_on_base: vec![fault.into()],
            patched_only: false,
        };
        let of_cases =
            [("a", "x"), ("b", "y"), ("a", "z")].map(|(folder, fault)| kunit(folder, fault));
        let all = Wanted::new(&of_cases, &[], "base").unwrap().unwrap();
        assert_eq!(all.label(), "a b");
        assert_eq!(all.fails_on_base, ["x", "y", "z"]);
        let one = Wanted::new(&of_cases, &["a/".to_string()], "base")
            .unwrap()
            .unwrap();
        assert_eq!(one.label(), "a");
        assert_eq!(one.fails_on_base, ["x", "z"]);
        assert!(Wanted::new(&[], &[], "base").is_err());
    }

    #[test]
    fn base_has_no_suites_of_new_code() {
        let kunit = |folder: &str, patched_only: bool| Kunit {
            kunitconfig: folder.into(),
            fails_on_base: Vec::new(),
            patched_only,
        };
        let of_cases = [kunit("a", false), kunit("b", true)];
        let label = |folders: &[String], kernel: &str| {
            let wanted = Wanted::new(&of_cases, folders, kernel).unwrap();
            wanted.map(|wanted| wanted.label())
        };
        assert_eq!(label(&[], "base").as_deref(), Some("a"));
        assert_eq!(label(&[], "patched").as_deref(), Some("a b"));
        assert_eq!(label(&["b".to_string()], "base"), None);
    }

    #[test]
    fn a_skip_has_its_reason() {
        let output = "    ok 2 big # SKIP no memory\n";
        assert_eq!(skip_reason(output, "gso.big"), "no memory");
    }
}
