// SPDX-License-Identifier: GPL-2.0
//! From what the guests measured to a verdict per figure.

use crate::case::{Case, Figure, Kind, Lab, Only, Run};
use crate::figure::{headline, measurements, meets, Bar, Measured, Measurements, Verdict};
use crate::lab::{Ending, Ran};
use crate::results::{FigureResult, Points, Value};

/// What one kernel gave in one lab, all runs of the case together.
#[derive(Debug, Clone, Default)]
pub struct Side {
    measured: Measurements,
    /// Why figures lack, the first reason.
    failure: Option<String>,
    /// The kernel panicked as the case expects of base.
    panicked: bool,
}

/// Which kernel a guest ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    Base,
    Patched,
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Which::Base => "base",
            Which::Patched => "patched",
        })
    }
}

impl Side {
    /// Adds what one guest gave; false if that is not all that it should. A
    /// guest that did not end by itself with 0 or 1 gives no figure at all:
    /// what it printed before may be half the truth.
    pub fn add(&mut self, run: &Run, which: Which, ran: &Ran, console: &str) -> bool {
        let expected = run.base_panics.as_ref().filter(|_| which == Which::Base);
        if expected
            .is_some_and(|text| ran.ending.is_kernel_failure() && console.contains(text.as_str()))
        {
            self.panicked = true;
            return true;
        }
        let added = self.add_figures(run, ran);
        if let Err(message) = &added {
            let message = format!("{}: {message}", run.selftest.get_ref());
            self.failure.get_or_insert(message);
        }
        added.is_ok()
    }

    fn add_figures(&mut self, run: &Run, ran: &Ran) -> Result<(), String> {
        let status = match ran.ending {
            Ending::Exit(status @ (0 | 1)) => f64::from(status),
            Ending::Exit(_) => {
                let words = ran
                    .last_words()
                    .map_or(String::new(), |words| format!(": {words}"));
                return Err(format!("{}{words}", ran.ending.summary()));
            }
            _ => return Err(ran.ending.summary()),
        };
        let mut found = measurements(&ran.output)?;
        let exit = Measured {
            value: Some(status),
            points: Vec::new(),
            unit: "exit status".into(),
        };
        found.insert(run.figure_name(), exit);
        for (name, measured) in found {
            if self.measured.insert(name.clone(), measured).is_some() {
                self.measured.remove(&name);
                return Err(format!("figure {name} is printed by two runs"));
            }
        }
        Ok(())
    }

    fn value(&self, figure: &Figure, bar: &Bar) -> Value {
        let measured = self.measured.get(figure.name());
        match measured.and_then(|measured| headline(measured, figure.reduce, bar.op)) {
            Some(number) => Value::Number(number),
            None if self.panicked => Value::Panic,
            None => Value::None,
        }
    }

    fn points(&self, figure: &Figure) -> Vec<(f64, f64)> {
        self.measured
            .get(figure.name())
            .map_or(Vec::new(), |measured| measured.points.clone())
    }

    /// The reason for a missing figure: what happened to the guest, if anything.
    fn explain(&self, which: Which, message: String) -> String {
        format!("on {which}: {}", self.failure.as_ref().unwrap_or(&message))
    }

    fn check_unit(&self, figure: &Figure) -> Result<(), String> {
        match self.measured.get(figure.name()) {
            Some(measured) if measured.unit != figure.unit => Err(format!(
                "the selftest measures in `{}`, the case says `{}`",
                measured.unit, figure.unit
            )),
            _ => Ok(()),
        }
    }
}

/// Judges every figure of `case` in `lab`. A kernel that was not run is `None`.
pub fn judge(
    case: &Case,
    lab: Lab,
    base: Option<&Side>,
    patched: Option<&Side>,
) -> Vec<FigureResult> {
    let own = case
        .runs
        .iter()
        .filter(|run| run.lab == lab)
        .map(Run::as_figure);
    let figures = case
        .figures
        .iter()
        .filter(|figure| figure.lab == lab)
        .cloned();
    figures
        .chain(own)
        .map(|figure| judge_figure(&figure, base, patched))
        .collect()
}

fn judge_figure(figure: &Figure, base: Option<&Side>, patched: Option<&Side>) -> FigureResult {
    let bar = figure.bar();
    let patched = patched.filter(|_| figure.only != Some(Only::Base));
    let (verdict, why) = match verdict(figure, &bar, base, patched) {
        Ok(verdict) => (verdict, figure.why.clone()),
        Err(message) => (Verdict::Error, message),
    };
    let value = |side: Option<&Side>| side.map_or(Value::None, |side| side.value(figure, &bar));
    let points = |side: Option<&Side>| side.map_or(Vec::new(), |side| side.points(figure));
    let points = Points {
        base: points(base),
        patched: points(patched),
    };
    let is_curve = !points.base.is_empty() || !points.patched.is_empty();
    FigureResult {
        name: figure.name().to_string(),
        lab: figure.lab,
        kind: figure.kind,
        unit: figure.unit.clone(),
        base: value(base),
        patched: value(patched),
        bar: bar.to_string(),
        verdict,
        why,
        points: is_curve.then_some(points),
    }
}

fn verdict(
    figure: &Figure,
    bar: &Bar,
    base: Option<&Side>,
    patched: Option<&Side>,
) -> Result<Verdict, String> {
    let as_stated = base
        .map(|base| base_as_stated(figure, bar, base))
        .transpose()?;
    let met = patched
        .map(|patched| patched_meets(figure, bar, base, patched))
        .transpose()?;
    if figure.only == Some(Only::Base) {
        return Ok(match as_stated {
            Some(true) => Verdict::Held,
            Some(false) => Verdict::NotReproduced,
            None => Verdict::NotJudged,
        });
    }
    Ok(match (figure.kind, as_stated, met.flatten()) {
        (Kind::Guard, _, Some(false)) => Verdict::Broken,
        (_, Some(false), _) => Verdict::NotReproduced,
        (Kind::Fault, _, Some(false)) => Verdict::NotFixed,
        (Kind::Fault, Some(true), Some(true)) => Verdict::Fixed,
        (Kind::Guard, Some(true), Some(true)) => Verdict::Held,
        (_, None, Some(true)) => Verdict::Met,
        (Kind::Fault, Some(true), None) => Verdict::Reproduced,
        (Kind::Guard, Some(true), None) => Verdict::Met,
        (_, None, None) => Verdict::NotJudged,
    })
}

/// Whether base is what the case says: a fault misses the bar, for the stated
/// reason; a guard meets it.
fn base_as_stated(figure: &Figure, bar: &Bar, base: &Side) -> Result<bool, String> {
    let is_measured = base.measured.contains_key(figure.name());
    if base.panicked && !is_measured {
        return Ok(true);
    }
    base.check_unit(figure)?;
    let measured = &base.measured;
    let meets = |bar: &Bar| {
        meets(bar, figure.name(), figure.reduce, measured, Some(measured))
            .map_err(|message| base.explain(Which::Base, message))
    };
    let meets_bar = meets(bar)?;
    if figure.kind == Kind::Guard || figure.only == Some(Only::Base) {
        return Ok(meets_bar);
    }
    let shows = figure.base().map(|stated| meets(&stated)).transpose()?;
    Ok(!meets_bar && shows != Some(false))
}

/// Whether patched meets the bar; `None` if that takes a base that was not run.
fn patched_meets(
    figure: &Figure,
    bar: &Bar,
    base: Option<&Side>,
    patched: &Side,
) -> Result<Option<bool>, String> {
    if base.is_none() && bar.refers_to() == Some("base") {
        return Ok(None);
    }
    patched.check_unit(figure)?;
    let base = base.map(|base| &base.measured);
    meets(bar, figure.name(), figure.reduce, &patched.measured, base)
        .map(Some)
        .map_err(|message| patched.explain(Which::Patched, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    fn case(run: &str, figure: &str) -> Case {
        let text = format!(
            "id = \"x\"\ntitle = \"t\"\nmessage_id = \"m\"\ndate = \"d\"\nseries = \"s\"\nreport = \"r\"\n\
             [[run]]\nselftest = \"net/a.sh\"\n{run}\n\
             [[figure]]\nname = \"f\"\nunit = \"s\"\nwhy = \"w\"\n{figure}\n"
        );
        Case::parse(&text, Path::new("x.toml")).unwrap()
    }

    fn side(case: &Case, which: Which, ending: Ending, output: &str) -> Side {
        let ran = Ran {
            ending,
            output: output.into(),
            console: PathBuf::new(),
            wall: Duration::ZERO,
        };
        let mut side = Side::default();
        side.add(&case.runs[0], which, &ran, "BUG: in foo_bar+0x1\n");
        side
    }

    fn verdicts(case: &Case, base: (Ending, &str), patched: (Ending, &str)) -> String {
        let base = side(case, Which::Base, base.0, base.1);
        let patched = side(case, Which::Patched, patched.0, patched.1);
        show(judge(case, Lab::Uml, Some(&base), Some(&patched)))
    }

    fn show(figures: Vec<FigureResult>) -> String {
        let all: Vec<String> = figures
            .iter()
            .map(|figure| figure.verdict.to_string())
            .collect();
        all.join(", ")
    }

    const FAULT: &str = "kind = \"fault\"\nbar = \">= 10\"\nbase = \"< 5\"";
    const GUARD: &str = "kind = \"guard\"\nbar = \">= 0.99 * base\"";

    #[test]
    fn a_fault_is_fixed_only_if_base_shows_it() {
        let case = case("", FAULT);
        let run =
            |base, patched| verdicts(&case, (Ending::Exit(1), base), (Ending::Exit(0), patched));
        assert_eq!(run("INFO: f: 4 s", "INFO: f: 10 s"), "fixed, fixed");
        assert_eq!(run("INFO: f: 4 s", "INFO: f: 9 s"), "not fixed, fixed");
        assert_eq!(
            run("INFO: f: 12 s", "INFO: f: 12 s"),
            "not reproduced, fixed"
        );
        assert_eq!(
            run("INFO: f: 7 s", "INFO: f: 12 s"),
            "not reproduced, fixed"
        );
        assert_eq!(run("INFO: f: 4 ms", "INFO: f: 12 s"), "error, fixed");
        assert_eq!(run("INFO: f: 4 s", ""), "error, fixed");
    }

    #[test]
    fn a_guard_must_hold() {
        let case = case("kind = \"guard\"", GUARD);
        let run =
            |base, patched| verdicts(&case, (Ending::Exit(0), base), (Ending::Exit(0), patched));
        assert_eq!(run("INFO: f: 100 s", "INFO: f: 99 s"), "held, held");
        assert_eq!(run("INFO: f: 100 s", "INFO: f: 98 s"), "broken, held");
    }

    #[test]
    fn the_selftest_itself_is_a_figure() {
        let case = case("", FAULT);
        let run = |base, patched| {
            verdicts(
                &case,
                (Ending::Exit(base), "INFO: f: 1 s"),
                (Ending::Exit(patched), "INFO: f: 10 s"),
            )
        };
        assert_eq!(run(0, 0), "fixed, not reproduced");
        assert_eq!(run(1, 1), "fixed, not fixed");
        assert_eq!(run(1, 4), "error, error");
    }

    #[test]
    fn a_guest_that_fails_gives_no_figure_and_the_reason() {
        let case = case("", FAULT);
        let base = side(&case, Which::Base, Ending::Exit(1), "INFO: f: 1 s");
        let failed = side(
            &case,
            Which::Patched,
            Ending::Hang(Duration::from_secs(9)),
            "INFO: f: 10 s",
        );
        let figures = judge(&case, Lab::Uml, Some(&base), Some(&failed));
        assert_eq!(figures[0].verdict, Verdict::Error);
        assert_eq!(
            figures[0].why,
            "on patched: net/a.sh: hang: no verdict within 9 s"
        );
        let skipped = side(&case, Which::Patched, Ending::Exit(4), "SKIP: no foo\n");
        let figures = judge(&case, Lab::Uml, Some(&base), Some(&skipped));
        assert_eq!(
            figures[0].why,
            "on patched: net/a.sh: exit status 4 (skipped): SKIP: no foo"
        );
    }

    #[test]
    fn an_expected_panic_is_a_result_on_base_only() {
        let case = case("base_panics = \"foo_bar\"", FAULT);
        let panic = || Ending::Panic("Kernel panic".into());
        assert_eq!(
            verdicts(&case, (panic(), ""), (Ending::Exit(0), "INFO: f: 10 s")),
            "fixed, fixed"
        );
        assert_eq!(
            verdicts(&case, (panic(), ""), (panic(), "")),
            "error, error"
        );
        let other = case_with_other_panic();
        assert_eq!(
            verdicts(&other, (panic(), ""), (Ending::Exit(0), "INFO: f: 10 s")),
            "error, error"
        );
    }

    #[test]
    fn a_kernel_that_is_gone_without_a_panic_may_be_expected() {
        let died = || Ending::EarlyExit("signal: 11 (SIGSEGV)".into());
        let run = |case: &Case| {
            let patched = (Ending::Exit(0), "INFO: f: 10 s");
            verdicts(case, (died(), ""), patched)
        };
        let expected = case("base_panics = \"foo_bar\"", FAULT);
        assert_eq!(run(&expected), "fixed, fixed");
        assert_eq!(
            verdicts(&expected, (died(), ""), (died(), "")),
            "error, error"
        );
        assert_eq!(run(&case_with_other_panic()), "error, error");
        assert_eq!(run(&case("", FAULT)), "error, error");
        let hang = (Ending::Hang(Duration::ZERO), "");
        assert_eq!(
            verdicts(&expected, hang, (Ending::Exit(0), "INFO: f: 10 s")),
            "error, error"
        );
    }

    fn case_with_other_panic() -> Case {
        case("base_panics = \"somewhere_else\"", FAULT)
    }

    #[test]
    fn one_kernel_alone_is_judged_as_far_as_it_goes() {
        let fault = case("", FAULT);
        let base = side(&fault, Which::Base, Ending::Exit(1), "INFO: f: 1 s");
        assert_eq!(
            show(judge(&fault, Lab::Uml, Some(&base), None)),
            "reproduced, reproduced"
        );
        let patched = side(&fault, Which::Patched, Ending::Exit(0), "INFO: f: 10 s");
        assert_eq!(
            show(judge(&fault, Lab::Uml, None, Some(&patched))),
            "met, met"
        );
        let guard = case("kind = \"guard\"", GUARD);
        assert_eq!(
            show(judge(&guard, Lab::Uml, None, Some(&patched))),
            "not judged, met"
        );
        assert!(judge(&fault, Lab::Qemu, Some(&base), None).is_empty());
    }

    #[test]
    fn a_row_may_be_about_base_alone() {
        let case = case("", "kind = \"fault\"\nbase = \"< 5\"\nonly = \"base\"");
        let run = |base| verdicts(&case, (Ending::Exit(1), base), (Ending::Exit(0), ""));
        assert_eq!(run("INFO: f: 4 s"), "held, fixed");
        assert_eq!(run("INFO: f: 6 s"), "not reproduced, fixed");
    }
}
