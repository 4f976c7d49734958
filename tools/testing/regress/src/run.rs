// SPDX-License-Identifier: GPL-2.0
//! `regress run`: every case on base and patched, judged.

use crate::bench::Bench;
use crate::build::{self, Builder, Image, Target};
use crate::case::{self, Case, Lab, Run};
use crate::cli::RunArgs;
use crate::html;
use crate::judge::{judge, Side, Which};
use crate::lab::pool::{self, memory_mib};
use crate::lab::qemu::Accel;
use crate::lab::{Job, Ran};
use crate::project::Project;
use crate::results::{write_atomic, CaseResult, Host, Results, VERSION};
use crate::tree::{self, Kernel};
use crate::ui;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// `regress run`.
pub fn command(project: &Project, args: &RunArgs) -> Result<ExitCode> {
    let cases = case::read_all(&cases_dir(project), &args.cases)?;
    let mut times = Times::default();
    let results = run(project, &cases, args, &mut times)?;
    let json = write(project, args, &cases, &results)?;
    if args.ktap {
        print!("{}", results.ktap());
    } else {
        print!("{}", results.table());
        println!("{}", results.counts());
    }
    eprint!("{}", results.complaints());
    eprintln!("results: {}", project.show(&json));
    eprintln!("time: {}", times.line());
    Ok(if results.all_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes results.json, results.txt (the table), junit.xml and report.html to
/// the folder of results, or only the file that the user named.
fn write(project: &Project, args: &RunArgs, cases: &[Case], results: &Results) -> Result<PathBuf> {
    if let Some(json) = &args.json {
        write_atomic(json, &results.json())?;
        return Ok(json.clone());
    }
    let out = |name: &str| project.out.join(name);
    write_atomic(&out("results.txt"), &results.table())?;
    write_atomic(&out("junit.xml"), &results.junit())?;
    write_atomic(&out("report.html"), &html::page(results, cases))?;
    write_atomic(&out("results.json"), &results.json())?;
    Ok(out("{results.json,results.txt,junit.xml,report.html}"))
}

/// Runs cases and judges them; writes no results.
pub fn results(project: &Project, args: &RunArgs) -> Result<Results> {
    let cases = case::read_all(&cases_dir(project), &args.cases)?;
    run(project, &cases, args, &mut Times::default())
}

pub fn cases_dir(project: &Project) -> PathBuf {
    project.harness().join("cases")
}

/// Where the time went, in the order of the steps.
#[derive(Default)]
pub struct Times(Vec<(&'static str, Duration)>);

impl Times {
    fn measure<T>(&mut self, what: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work();
        self.0.push((what, start.elapsed()));
        result
    }

    fn line(&self) -> String {
        let parts = self
            .0
            .iter()
            .map(|(what, time)| format!("{what} {:.1} s", time.as_secs_f64()));
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        format!(
            "{} = {:.1} s",
            parts.collect::<Vec<_>>().join(" + "),
            total.as_secs_f64()
        )
    }
}

/// Runs `cases` and judges them; writes nothing but logs.
fn run(project: &Project, cases: &[Case], args: &RunArgs, times: &mut Times) -> Result<Results> {
    let chosen = |run: &&Run| {
        args.lab
            .is_none_or(|lab| Target::from(lab) == Target::from(run.lab))
    };
    let runs: Vec<(&Case, &Run)> = cases
        .iter()
        .flat_map(|case| case.runs.iter().filter(chosen).map(move |run| (case, run)))
        .collect();
    if runs.is_empty() {
        bail!("no case has a run in this lab");
    }
    for case in cases.iter().filter(|case| !has_run(case, &runs)) {
        ui::note(&format!("{} has no run in this lab", case.id));
    }
    let assembled = times.measure("tree", || tree::kernels(project))?;
    let bench = Bench::new(project, &assembled)?;
    for (case, run) in &runs {
        bench
            .check_selftest(run.selftest.get_ref())
            .with_context(|| format!("case {}", case.id))?;
    }
    let mut targets: Vec<Target> = runs.iter().map(|(_, run)| run.lab.into()).collect();
    targets.sort();
    targets.dedup();
    let builder = Builder::new(project, &assembled, args.debug);
    let images = times.measure("kernels", || builder.images(&args.kernel, &targets))?;
    let mut guests = Vec::new();
    for (case, run) in &runs {
        for image in images.iter().filter(|image| image.target == run.lab.into()) {
            guests.push(Guest {
                case,
                run,
                which: which(&image.kernel),
                job: run_job(&bench, case, run, image),
            });
        }
    }
    let _lock = bench.lock_runs()?;
    let accel = times.measure("KVM probe", || {
        bench.set_accel(guests.iter_mut().map(|guest| &mut guest.job))
    })?;
    let jobs: Vec<(String, &Job)> = guests
        .iter()
        .map(|guest| (guest.label(), &guest.job))
        .collect();
    let ran = times.measure("guests", || pool::run_all(&jobs, args.fresh))?;
    let sides = sides(&guests, &ran)?;
    let judged = cases.iter().filter(|case| has_run(case, &runs));
    let results = judged.map(|case| judge_case(case, &sides)).collect();
    Ok(Results {
        version: VERSION,
        base: bench.version().to_string(),
        host: host(project, accel)?,
        cases: results,
    })
}

/// A case may have nothing but KUnit suites, or its runs in another lab.
fn has_run(case: &Case, runs: &[(&Case, &Run)]) -> bool {
    runs.iter().any(|(of, _)| of.id == case.id)
}

/// A revision is judged as the patched kernel is.
fn which(kernel: &Kernel) -> Which {
    if kernel.name == "base" {
        Which::Base
    } else {
        Which::Patched
    }
}

/// One guest of one case.
struct Guest<'a> {
    case: &'a Case,
    run: &'a Run,
    which: Which,
    job: Job,
}

fn run_job(bench: &Bench, case: &Case, run: &Run, image: &Image) -> Job {
    let name = format!(
        "{}-{}-{}",
        run.lab,
        run.figure_name(),
        build::safe(&image.kernel.name)
    );
    let dir = Path::new(&case.id).join(name);
    let job = bench.selftest_job(run.lab, image, run.selftest.get_ref(), &run.args, &dir);
    Job {
        env: run.env.clone().into_iter().collect(),
        tools: run.tools.clone(),
        parameters: run.parameters(),
        timeout: run.timeout(),
        ..job
    }
}

impl Guest<'_> {
    fn label(&self) -> String {
        let name = self.run.figure_name();
        let name = name.trim_start_matches("selftest-");
        format!(
            "{}: {name} on {} in {}",
            self.case.id, self.which, self.run.lab
        )
    }
}

/// All that each kernel gave, by case and lab.
type Sides<'a> = BTreeMap<(&'a str, Lab, Which), Side>;

fn sides<'a>(guests: &[Guest<'a>], ran: &[Ran]) -> Result<Sides<'a>> {
    let mut sides = Sides::new();
    for (guest, ran) in guests.iter().zip(ran) {
        let console = std::fs::read(&ran.console)
            .with_context(|| format!("cannot read {}", ran.console.display()))?;
        let side = sides
            .entry((guest.case.id.as_str(), guest.run.lab, guest.which))
            .or_default();
        let console = String::from_utf8_lossy(&console);
        if !side.add(guest.run, guest.which, ran, &console) {
            eprintln!("{}: {}", guest.label(), ran.details());
        }
    }
    Ok(sides)
}

fn judge_case(case: &Case, sides: &Sides) -> CaseResult {
    let mut figures = Vec::new();
    for lab in [Lab::Uml, Lab::UmlRealtime, Lab::Qemu] {
        let side = |which| sides.get(&(case.id.as_str(), lab, which));
        let (base, patched) = (side(Which::Base), side(Which::Patched));
        if base.is_some() || patched.is_some() {
            figures.extend(judge(case, lab, base, patched));
        }
    }
    CaseResult::new(case, figures)
}

fn host(project: &Project, accel: Option<Accel>) -> Result<Host> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(Host {
        arch: std::env::consts::ARCH.to_string(),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get()),
        memory_mib: memory_mib("MemTotal"),
        kernel: kernel.trim().to_string(),
        compiler: build::compiler(project)?,
        qemu: accel.map(|accel| accel.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_adds_up() {
        let times = Times(vec![
            ("tree", Duration::from_millis(1500)),
            ("guests", Duration::from_secs(2)),
        ]);
        assert_eq!(times.line(), "tree 1.5 s + guests 2.0 s = 3.5 s");
    }
}
