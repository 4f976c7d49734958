// SPDX-License-Identifier: GPL-2.0
//! `regress selftest`: kernel selftests on the patched kernel, and upstream's
//! own selftests compared between base and patched.

use crate::bench::Bench;
use crate::build::{safe, Builder, Image, Target};
use crate::case::{self, Case, Lab, Upstream};
use crate::cli::{KernelChoice, LabChoice, SelftestArgs};
use crate::counts::Counts;
use crate::lab::pool;
use crate::lab::{Ending, Job, Ran};
use crate::project::Project;
use crate::run::cases_dir;
use crate::tree;
use anyhow::{bail, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// `regress selftest`.
pub fn command(project: &Project, args: &SelftestArgs) -> Result<ExitCode> {
    let counts = run(project, args)?;
    println!("{counts}");
    Ok(if counts.all_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A selftest with what it takes.
#[derive(Clone)]
struct Script {
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    tools: Vec<String>,
    parameters: Vec<String>,
    timeout: Duration,
    lab: Lab,
    /// Base is to be run, too, and to give the same.
    compared: bool,
}

impl Script {
    fn named(name: &str, lab: Lab) -> Self {
        Script {
            name: name.to_string(),
            args: Vec::new(),
            env: Vec::new(),
            tools: Vec::new(),
            parameters: Vec::new(),
            timeout: Duration::from_secs(1800),
            lab,
            compared: false,
        }
    }

    fn of_upstream(upstream: &Upstream) -> Self {
        Script {
            args: upstream.args.clone(),
            env: upstream.env.clone().into_iter().collect(),
            timeout: Duration::from_secs(upstream.timeout),
            compared: true,
            ..Script::named(upstream.selftest.get_ref(), upstream.lab)
        }
    }

    fn label(&self) -> String {
        let words: Vec<&str> = std::iter::once(&self.name)
            .chain(&self.args)
            .map(String::as_str)
            .collect();
        format!("{} [{}]", words.join(" "), self.lab)
    }

    fn job(&self, bench: &Bench, image: &Image) -> Job {
        let dir = format!(
            "selftest/{}-{}",
            safe(&self.label()),
            safe(&image.kernel.name)
        );
        let job = bench.selftest_job(self.lab, image, &self.name, &self.args, Path::new(&dir));
        Job {
            env: self.env.clone(),
            tools: self.tools.clone(),
            parameters: self.parameters.clone(),
            timeout: self.timeout,
            ..job
        }
    }
}

/// The named selftests; without names those of the cases that run in this lab,
/// and all comparisons.
fn scripts(cases: &[Case], args: &SelftestArgs) -> Vec<Script> {
    let lab = match args.lab {
        LabChoice::Uml => Lab::UmlRealtime,
        LabChoice::Qemu => Lab::Qemu,
    };
    if !args.selftests.is_empty() {
        return args
            .selftests
            .iter()
            .map(|name| Script::named(name, lab))
            .collect();
    }
    let runs = cases
        .iter()
        .flat_map(|case| &case.runs)
        .filter(|run| Target::from(run.lab) == args.lab.into());
    let own = runs.map(|run| Script {
        args: run.args.clone(),
        env: run.env.clone().into_iter().collect(),
        tools: run.tools.clone(),
        parameters: run.parameters(),
        timeout: run.timeout(),
        ..Script::named(run.selftest.get_ref(), run.lab)
    });
    own.chain(
        cases
            .iter()
            .flat_map(|case| &case.upstream)
            .map(Script::of_upstream),
    )
    .collect()
}

fn run(project: &Project, args: &SelftestArgs) -> Result<Counts> {
    let cases = case::read_all(&cases_dir(project), &[])?;
    let scripts = scripts(&cases, args);
    if scripts.is_empty() {
        bail!("no case has a selftest in this lab; name one, such as net/pmtu.sh");
    }
    let assembled = tree::kernels(project)?;
    let bench = Bench::new(project, &assembled)?;
    for script in &scripts {
        bench.check_selftest(&script.name)?;
    }
    let builder = Builder::new(project, &assembled, args.debug);
    let mut guests: Vec<(&Script, String, Job)> = Vec::new();
    for target in [Target::Uml, Target::Qemu] {
        let wanted: Vec<&Script> = scripts
            .iter()
            .filter(|script| Target::from(script.lab) == target)
            .collect();
        let plain = wanted.iter().any(|script| !script.compared);
        let compared = wanted.iter().any(|script| script.compared);
        let chosen = if plain {
            builder.images(&args.kernel, &[target])?
        } else {
            Vec::new()
        };
        let both = if compared {
            builder.images(&KernelChoice::Both, &[target])?
        } else {
            Vec::new()
        };
        for script in wanted {
            for image in if script.compared { &both } else { &chosen } {
                guests.push((script, image.kernel.name.clone(), script.job(&bench, image)));
            }
        }
    }
    let _lock = bench.lock_runs()?;
    bench.set_accel(guests.iter_mut().map(|(_, _, job)| job))?;
    let jobs: Vec<(String, &Job)> = guests
        .iter()
        .map(|(script, kernel, job)| (format!("{} on {kernel}", script.label()), job))
        .collect();
    let ran = pool::run_all(&jobs, true)?;
    let mut counts = Counts::default();
    let mut on_base: Option<&Ran> = None;
    for ((script, kernel, _), ran) in guests.iter().zip(&ran) {
        match (script.compared, kernel.as_str()) {
            (false, _) => count(script, kernel, ran, &mut counts),
            // Base stands before patched.
            (true, "base") => on_base = Some(ran),
            (true, _) => compare(script, on_base.take(), ran, &mut counts),
        }
    }
    Ok(counts)
}

/// Every subtest of a selftest counts, and its exit status.
fn count(script: &Script, kernel: &str, ran: &Ran, counts: &mut Counts) {
    let label = format!("{} on {kernel}", script.label());
    let mut bad = |message: String| {
        println!("not ok: {label}: {message}");
        counts.failed += 1;
    };
    match ran.ending {
        Ending::Exit(0) => {}
        Ending::Exit(1)
            if subtests(&ran.output)
                .values()
                .any(|result| *result == Outcome::Failed) => {}
        Ending::Exit(4) => {
            counts.skipped.push(format!(
                "{label}: {}",
                ran.last_words().unwrap_or("no reason given")
            ));
            return;
        }
        _ => return bad(ran.details()),
    }
    for (name, outcome) in subtests(&ran.output) {
        match outcome {
            Outcome::Failed => bad(name),
            Outcome::Skipped(reason) => counts.skipped.push(format!("{label}: {name}: {reason}")),
            Outcome::Passed => counts.passed += 1,
        }
    }
    // A selftest without subtests is one itself.
    if subtests(&ran.output).is_empty() {
        counts.passed += 1;
    }
}

/// Each subtest must give on patched what it gives on base.
fn compare(script: &Script, base: Option<&Ran>, patched: &Ran, counts: &mut Counts) {
    let label = script.label();
    let mut bad = |message: &str| {
        println!("not ok: {label}: {message}");
        counts.failed += 1;
    };
    let Some(base) = base else {
        return bad("base was not run");
    };
    for (which, ran) in [("base", base), ("patched", patched)] {
        if !matches!(ran.ending, Ending::Exit(_)) {
            return bad(&format!("on {which}: {}", ran.details()));
        }
    }
    let (on_base, on_patched) = (subtests(&base.output), subtests(&patched.output));
    if base.ending != patched.ending {
        bad(&format!(
            "base: {}; patched: {}",
            base.ending.summary(),
            patched.ending.summary()
        ));
    }
    for (name, outcome) in &on_base {
        match on_patched.get(name) {
            Some(other) if other.is_like(outcome) => match outcome {
                Outcome::Skipped(reason) => {
                    counts.skipped.push(format!("{label}: {name}: {reason}"))
                }
                _ => counts.passed += 1,
            },
            Some(other) => bad(&format!(
                "{name}: {} on base, {} on patched",
                outcome.word(),
                other.word()
            )),
            None => bad(&format!(
                "{name}: {} on base, not run on patched",
                outcome.word()
            )),
        }
    }
    for name in on_patched
        .keys()
        .filter(|name| !on_base.contains_key(*name))
    {
        bad(&format!("{name}: run on patched only"));
    }
    if on_base.is_empty() && base.ending == patched.ending {
        match base.ending {
            Ending::Exit(4) => {
                let reason = base.last_words().unwrap_or("no reason given");
                counts.skipped.push(format!("{label}: {reason}"));
            }
            _ => counts.passed += 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// With the reason.
    Skipped(String),
}

impl Outcome {
    fn is_like(&self, other: &Outcome) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn word(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Skipped(_) => "skipped",
        }
    }
}

/// The subtests that a selftest printed: `TEST: name  [ OK ]` of lib.sh, or
/// TAP. A name that comes again gets a number.
fn subtests(output: &str) -> BTreeMap<String, Outcome> {
    let mut all = BTreeMap::new();
    let lines: Vec<&str> = output.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((name, mut outcome)) = lib_sh(line).or_else(|| tap(line)) else {
            continue;
        };
        if let Outcome::Skipped(reason) = &mut outcome {
            // Upstream's scripts give the reason in the lines around it.
            let near = [
                lines.get(index + 1),
                index.checked_sub(1).and_then(|above| lines.get(above)),
            ];
            let near = near.into_iter().flatten().map(|line| line.trim());
            let told = near.filter(|line| {
                !line.is_empty() && lib_sh(line).is_none() && !line.starts_with('#')
            });
            if reason.is_empty() {
                *reason = told
                    .map(str::to_string)
                    .next()
                    .unwrap_or_else(|| "no reason given".into());
            }
        }
        let mut unique = name.clone();
        for number in 2.. {
            if !all.contains_key(&unique) {
                break;
            }
            unique = format!("{name} ({number})");
        }
        all.insert(unique, outcome);
    }
    all
}

fn lib_sh(line: &str) -> Option<(String, Outcome)> {
    let (name, result) = line.trim().strip_prefix("TEST: ")?.rsplit_once('[')?;
    let outcome = match result.trim_end_matches(']').trim() {
        "OK" | "PASS" | "XFAIL" => Outcome::Passed,
        "FAIL" | "XPASS" => Outcome::Failed,
        "SKIP" => Outcome::Skipped(String::new()),
        _ => return None,
    };
    Some((
        name.split_whitespace().collect::<Vec<_>>().join(" "),
        outcome,
    ))
}

/// `ok 3 - name # SKIP reason`.
fn tap(line: &str) -> Option<(String, Outcome)> {
    let line = line.trim();
    let line = line.strip_prefix("# ").unwrap_or(line);
    let (ok, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return None,
    };
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let (name, directive) = name.split_once('#').unwrap_or((name, ""));
    let directive = directive.trim();
    let outcome = match directive.strip_prefix("SKIP") {
        Some(reason) => Outcome::Skipped(reason.trim().to_string()),
        None if ok || directive.starts_with("XFAIL") => Outcome::Passed,
        None => Outcome::Failed,
    };
    Some((name.trim().trim_start_matches("- ").to_string(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn ran(status: i32, output: &str) -> Ran {
        Ran {
            ending: Ending::Exit(status),
            output: output.into(),
            console: PathBuf::new(),
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn reads_both_dialects() {
        let all = subtests(
            "TEST: ipv4: PMTU  exceptions      [ OK ]\nTEST: ipv6      [FAIL]\n\
             TEST: vxlan   [SKIP]\n  vxlan not supported\nTEST: ipv6   [ OK ]\nok 1 csum\n\
             not ok 2 - tls # SKIP no tls\n# not ok 3 gro\nok then\n",
        );
        assert_eq!(all["ipv4: PMTU exceptions"], Outcome::Passed);
        assert_eq!(all["ipv6"], Outcome::Failed);
        assert_eq!(all["ipv6 (2)"], Outcome::Passed);
        assert_eq!(all["vxlan"], Outcome::Skipped("vxlan not supported".into()));
        assert_eq!(all["csum"], Outcome::Passed);
        assert_eq!(all["tls"], Outcome::Skipped("no tls".into()));
        assert_eq!(all["gro"], Outcome::Failed);
        assert_eq!(all.len(), 7);
    }

    fn counted(ran: &Ran) -> (u32, u32, usize) {
        let mut counts = Counts::default();
        count(
            &Script::named("net/a.sh", Lab::Qemu),
            "patched",
            ran,
            &mut counts,
        );
        (counts.passed, counts.failed, counts.skipped.len())
    }

    #[test]
    fn a_skip_is_no_pass_and_silence_no_success() {
        assert_eq!(
            counted(&ran(0, "TEST: a [ OK ]\nTEST: b [SKIP]\n")),
            (1, 0, 1)
        );
        assert_eq!(
            counted(&ran(1, "TEST: a [ OK ]\nTEST: b [FAIL]\n")),
            (1, 1, 0)
        );
        assert_eq!(counted(&ran(1, "TEST: a [ OK ]\n")), (0, 1, 0));
        assert_eq!(counted(&ran(4, "SKIP: no tool\n")), (0, 0, 1));
        assert_eq!(counted(&ran(0, "")), (1, 0, 0));
        assert_eq!(counted(&ran(127, "")), (0, 1, 0));
    }

    fn compared(base: &Ran, patched: &Ran) -> (u32, u32, usize) {
        let mut counts = Counts::default();
        compare(
            &Script::named("net/a.sh", Lab::Qemu),
            Some(base),
            patched,
            &mut counts,
        );
        (counts.passed, counts.failed, counts.skipped.len())
    }

    #[test]
    fn base_and_patched_must_give_the_same() {
        let base = ran(1, "TEST: a [ OK ]\nTEST: b [FAIL]\nTEST: c [SKIP]\n");
        assert_eq!(compared(&base, &base), (2, 0, 1));
        let better = ran(0, "TEST: a [ OK ]\nTEST: b [ OK ]\nTEST: c [SKIP]\n");
        assert_eq!(compared(&base, &better), (1, 2, 1));
        let shorter = ran(1, "TEST: a [ OK ]\nTEST: b [FAIL]\n");
        assert_eq!(compared(&base, &shorter), (2, 1, 0));
        assert_eq!(compared(&ran(4, "SKIP\n"), &ran(4, "SKIP\n")), (0, 0, 1));
    }
}
