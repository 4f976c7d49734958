// SPDX-License-Identifier: GPL-2.0
//! Results: the stable `results.json` (described in README.md beside
//! Cargo.toml), and the same as a table, as JUnit and as KTAP.

use crate::case::{Case, Kind, Lab};
use crate::counts::Counts;
use crate::figure::Verdict;
use anyhow::{Context, Result};
use serde::{Serialize, Serializer};
use std::fmt::Write;
use std::path::Path;

/// Version of the JSON format; it changes when a reader would have to.
pub const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub struct Results {
    pub version: u32,
    /// Version of the base kernel, say `7.3.4`.
    pub base: String,
    pub host: Host,
    pub cases: Vec<CaseResult>,
}

/// Where it ran; nothing within `cases` depends on it in virtual time.
#[derive(Debug, Serialize)]
pub struct Host {
    pub arch: String,
    pub cpus: usize,
    pub memory_mib: u64,
    pub kernel: String,
    pub compiler: String,
    /// `KVM` or `TCG`; null when the qemu lab was not used.
    pub qemu: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct CaseResult {
    pub id: String,
    pub report: String,
    pub message_id: String,
    pub series: String,
    pub verdict: Verdict,
    pub figures: Vec<FigureResult>,
}

#[derive(Debug, Serialize)]
pub struct FigureResult {
    pub name: String,
    pub lab: Lab,
    pub kind: Kind,
    pub unit: String,
    pub base: Value,
    pub patched: Value,
    pub bar: String,
    pub verdict: Verdict,
    /// Why the bar is where it is; for an error, what went wrong.
    pub why: String,
    /// The curve behind the figure, if it is one.
    pub points: Option<Points>,
}

/// The points `[x, y]` of a curve on either kernel, by rising x.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Points {
    pub base: Vec<(f64, f64)>,
    pub patched: Vec<(f64, f64)>,
}

/// One number of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    None,
    Number(f64),
    /// The kernel panicked, as the case expects of base.
    Panic,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Value::None => serializer.serialize_none(),
            Value::Panic => serializer.serialize_str("panic"),
            Value::Number(number) if is_whole(number) => serializer.serialize_i64(number as i64),
            Value::Number(number) => serializer.serialize_f64(number),
        }
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 1e15
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(&match *self {
            Value::None => "-".to_string(),
            Value::Panic => "panic".to_string(),
            Value::Number(number) if is_whole(number) => format!("{number:.0}"),
            Value::Number(number) => format!("{number:.2}"),
        })
    }
}

impl CaseResult {
    /// The case's verdict is its worst figure's.
    pub fn new(case: &Case, figures: Vec<FigureResult>) -> Self {
        let worst = figures.iter().map(|figure| figure.verdict).max();
        CaseResult {
            id: case.id.clone(),
            report: case.title.clone(),
            message_id: case.message_id.clone(),
            series: case.series.clone(),
            // A case that measured nothing has proved nothing.
            verdict: worst.unwrap_or(Verdict::Error),
            figures,
        }
    }
}

impl CaseResult {
    /// One line a figure that is not good; one for all that lack for one reason.
    fn complain(&self, text: &mut String) {
        let mut told: Vec<&str> = Vec::new();
        for figure in self
            .figures
            .iter()
            .filter(|figure| !figure.verdict.is_good())
        {
            let (label, verdict, why) = (figure.label(), figure.verdict, figure.why.as_str());
            if verdict != Verdict::Error {
                let _ = writeln!(
                    text,
                    "{} {label}: {verdict}: base {}, patched {}, bar {}: {why}",
                    self.id, figure.base, figure.patched, figure.bar
                );
            } else if !told.contains(&why) {
                told.push(why);
                let same =
                    |other: &&FigureResult| other.verdict == Verdict::Error && other.why == why;
                let more = match self.figures.iter().filter(same).count() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let _ = writeln!(text, "{} {label}{more}: error: {why}", self.id);
            }
        }
    }
}

impl Results {
    pub fn all_good(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(|case| case.verdict.is_good())
    }

    /// Each figure is a test.
    pub fn counts(&self) -> Counts {
        let figures = self.cases.iter().flat_map(|case| &case.figures);
        let (good, bad): (Vec<_>, Vec<_>) = figures.partition(|figure| figure.verdict.is_good());
        Counts {
            passed: good.len() as u32,
            failed: bad.len() as u32,
            skipped: Vec::new(),
        }
    }

    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("plain data");
        json + "\n"
    }

    /// One row a figure: report, figure, unit, base, patched, bar, verdict.
    pub fn table(&self) -> String {
        let head = [
            "report", "figure", "unit", "base", "patched", "bar", "verdict",
        ]
        .map(String::from);
        let mut rows = vec![head];
        for case in &self.cases {
            for figure in &case.figures {
                rows.push(figure.row(&case.id));
            }
        }
        format_table(&rows)
    }

    /// What went wrong, one line a figure that is not good.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            if case.figures.is_empty() {
                let _ = writeln!(
                    text,
                    "{}: error: the case has no figure in the labs that ran",
                    case.id
                );
            }
            case.complain(&mut text);
        }
        text
    }

    pub fn junit(&self) -> String {
        let count = |verdict: fn(Verdict) -> bool| {
            let figures = self.cases.iter().flat_map(|case| &case.figures);
            figures.filter(|figure| verdict(figure.verdict)).count()
        };
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            xml,
            "<testsuites name=\"regress\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
            count(|_| true),
            count(|verdict| !verdict.is_good() && verdict != Verdict::Error),
            count(|verdict| verdict == Verdict::Error),
        );
        for case in &self.cases {
            let _ = writeln!(
                xml,
                "  <testsuite name=\"{}\" tests=\"{}\">",
                escape(&case.id),
                case.figures.len()
            );
            for figure in &case.figures {
                figure.junit(&mut xml, &case.id);
            }
            xml.push_str("  </testsuite>\n");
        }
        xml + "</testsuites>\n"
    }

    pub fn ktap(&self) -> String {
        let mut text = format!("KTAP version 1\n1..{}\n", self.cases.len());
        for (index, case) in self.cases.iter().enumerate() {
            let _ = writeln!(
                text,
                "  KTAP version 1\n  # Subtest: {}\n  1..{}",
                case.id,
                case.figures.len()
            );
            for (index, figure) in case.figures.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "  # {}: base {} patched {} {} (bar {}): {}\n  {} {} {}",
                    figure.label(),
                    figure.base,
                    figure.patched,
                    figure.unit,
                    figure.bar,
                    figure.verdict,
                    ok(figure.verdict),
                    index + 1,
                    figure.label(),
                );
            }
            let _ = writeln!(text, "{} {} {}", ok(case.verdict), index + 1, case.id);
        }
        text
    }
}

fn ok(verdict: Verdict) -> &'static str {
    if verdict.is_good() {
        "ok"
    } else {
        "not ok"
    }
}

impl FigureResult {
    /// The name; with the lab where it is not the usual one.
    pub fn label(&self) -> String {
        match self.lab {
            Lab::Uml => self.name.clone(),
            lab => format!("{} [{lab}]", self.name),
        }
    }

    fn row(&self, id: &str) -> [String; 7] {
        [
            id.to_string(),
            self.label(),
            self.unit.clone(),
            self.base.to_string(),
            self.patched.to_string(),
            self.bar.clone(),
            self.verdict.to_string(),
        ]
    }

    fn junit(&self, xml: &mut String, id: &str) {
        let class = format!("{id}.{}", self.lab);
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\"",
            escape(&class),
            escape(&self.name)
        );
        if self.verdict.is_good() {
            xml.push_str("/>\n");
            return;
        }
        let tag = if self.verdict == Verdict::Error {
            "error"
        } else {
            "failure"
        };
        let message = format!(
            "{}: base {}, patched {} {}, bar {}: {}",
            self.verdict, self.base, self.patched, self.unit, self.bar, self.why
        );
        let _ = writeln!(
            xml,
            ">\n      <{tag} message=\"{}\"/>\n    </testcase>",
            escape(&message)
        );
    }
}

/// Columns as wide as their widest cell; numbers to the right.
fn format_table(rows: &[[String; 7]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = match column {
                3 | 4 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Text for XML and HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if (control as u32) < 0x20 && !matches!(control, '\t' | '\n') => {
                escaped.push('\u{fffd}')
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Writes a file whole or not at all.
pub fn write_atomic(path: &Path, text: &str) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = dir {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let mut name = path
        .file_name()
        .context("a file to write needs a name")?
        .to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write {}; is the disk full?", path.display()))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn example() -> Results {
        let figure = FigureResult {
            name: "mtu-68".into(),
            lab: Lab::Uml,
            kind: Kind::Fault,
            unit: "Mbit/s".into(),
            base: Value::Number(193.04),
            patched: Value::Number(407.16),
            bar: ">= 405".into(),
            verdict: Verdict::Fixed,
            why: "a < b & c".into(),
            points: None,
        };
        let drops = FigureResult {
            name: "drops".into(),
            lab: Lab::Qemu,
            unit: "packets".into(),
            base: Value::Panic,
            patched: Value::Number(3.0),
            bar: "== 0".into(),
            verdict: Verdict::NotFixed,
            points: Some(Points {
                base: vec![(68.0, 1.0), (1500.0, 9.5)],
                patched: vec![(68.0, 3.0)],
            }),
            ..FigureResult {
                name: String::new(),
                unit: String::new(),
                bar: String::new(),
                why: "x".into(),
                ..figure_clone(&figure)
            }
        };
        Results {
            version: VERSION,
            base: "7.3.4".into(),
            host: Host {
                arch: "x86_64".into(),
                cpus: 2,
                memory_mib: 1,
                kernel: "6".into(),
                compiler: "gcc".into(),
                qemu: None,
            },
            cases: vec![CaseResult {
                id: "pmtu".into(),
                report: "Problem".into(),
                message_id: "m@z".into(),
                series: "pmtu".into(),
                verdict: Verdict::NotFixed,
                figures: vec![figure, drops],
            }],
        }
    }

    fn figure_clone(figure: &FigureResult) -> FigureResult {
        FigureResult {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            bar: figure.bar.clone(),
            why: figure.why.clone(),
            points: figure.points.clone(),
            ..*figure
        }
    }

    #[test]
    fn json_has_the_promised_fields_and_no_others() {
        let json: serde_json::Value = serde_json::from_str(&example().json()).unwrap();
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys.join(" ")
        };
        assert_eq!(keys(&json), "base cases host version");
        let case = &json["cases"][0];
        assert_eq!(keys(case), "figures id message_id report series verdict");
        let figure = &case["figures"][0];
        assert_eq!(
            keys(figure),
            "bar base kind lab name patched points unit verdict why"
        );
        assert_eq!(figure["base"], 193.04);
        assert_eq!(case["figures"][1]["base"], "panic");
        assert_eq!(case["figures"][1]["patched"].to_string(), "3");
        assert_eq!(case["figures"][1]["points"]["base"][1][0], 1500.0);
        assert_eq!(case["figures"][1]["verdict"], "not fixed");
    }

    #[test]
    fn the_table_lines_up() {
        let table = example().table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("report  figure"));
        assert!(
            lines[1].contains("193.04   407.16  >= 405  fixed"),
            "{table}"
        );
        assert!(
            lines[2].contains("drops [qemu]") && lines[2].ends_with("not fixed"),
            "{table}"
        );
    }

    #[test]
    fn junit_counts_and_escapes() {
        let xml = example().junit();
        assert!(
            xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""),
            "{xml}"
        );
        assert!(xml.contains(
            "<failure message=\"not fixed: base panic, patched 3 packets, bar == 0: x\"/>"
        ));
        assert_eq!(
            escape("a<\"b\">&\u{1}"),
            "a&lt;&quot;b&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn ktap_says_not_ok() {
        let ktap = example().ktap();
        assert!(ktap.starts_with("KTAP version 1\n1..1\n"));
        assert!(
            ktap.contains("\n  not ok 2 drops [qemu]\nnot ok 1 pmtu\n"),
            "{ktap}"
        );
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut results = example();
        for figure in &mut results.cases[0].figures {
            figure.verdict = Verdict::Error;
            figure.why = "on base: hang".into();
        }
        assert_eq!(
            results.complaints(),
            "pmtu mtu-68 and 1 more: error: on base: hang\n"
        );
        results.cases[0].figures[1].verdict = Verdict::NotFixed;
        assert!(results
            .complaints()
            .contains("pmtu mtu-68: error: on base: hang\n"));
        assert!(results
            .complaints()
            .contains("drops [qemu]: not fixed: base panic, patched 3, bar == 0"));
    }

    #[test]
    fn a_case_without_figures_proves_nothing() {
        let mut results = example();
        results.cases.clear();
        assert!(!results.all_good());
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = std::env::temp_dir().join(format!("regress-atomic-{}", std::process::id()));
        let file = dir.join("results.json");
        write_atomic(&file, "one").unwrap();
        write_atomic(&file, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        assert!(write_atomic(Path::new("/proc/none/results.json"), "x").is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
