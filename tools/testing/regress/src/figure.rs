// SPDX-License-Identifier: GPL-2.0
//! Figures: how they leave a selftest, the bars that judge them, the verdicts.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What one selftest measured under one name: a value, a curve, or both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    pub value: Option<f64>,
    /// Points of a curve, by rising x.
    pub points: Vec<(f64, f64)>,
    pub unit: String,
}

/// All that one guest measured, by the figure's name.
pub type Measurements = BTreeMap<String, Measured>;

/// Reads the lines `INFO: name: number unit` and `INFO: name@x: number unit`
/// out of a selftest's output. Other lines are prose. A name (or a point) that
/// appears twice is an error: nobody could say which one counts.
pub fn measurements(output: &str) -> Result<Measurements, String> {
    let mut all = Measurements::new();
    for line in output.lines() {
        let Some((name, x, value, unit)) = info_line(line) else {
            continue;
        };
        let measured = all.entry(name.to_string()).or_default();
        if !measured.unit.is_empty() && measured.unit != unit {
            return Err(format!(
                "figure {name} comes in {} and in {unit}",
                measured.unit
            ));
        }
        measured.unit = unit.to_string();
        let twice = match x {
            None => measured.value.replace(value).is_some(),
            Some(x) => {
                let twice = measured.points.iter().any(|point| point.0 == x);
                measured.points.push((x, value));
                twice
            }
        };
        if twice {
            return Err(format!(
                "the selftest printed figure {name} twice: {}",
                line.trim()
            ));
        }
    }
    for measured in all.values_mut() {
        measured.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(all)
}

/// `INFO: name[@x]: number [unit]` in parts.
fn info_line(line: &str) -> Option<(&str, Option<f64>, f64, &str)> {
    let (key, rest) = line.trim().strip_prefix("INFO: ")?.split_once(": ")?;
    let (name, x) = match key.split_once('@') {
        Some((name, x)) => (name, Some(x.parse().ok()?)),
        None => (key, None),
    };
    if !is_name(name) {
        return None;
    }
    let (number, unit) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let value = number
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())?;
    Some((name, x, value, unit.trim()))
}

/// A figure's name: small letters, digits and hyphens.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(allowed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    AtLeast,
    AtMost,
    Equal,
    Less,
    More,
}

impl Op {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Op::AtLeast => left >= right,
            Op::AtMost => left <= right,
            Op::Equal => left == right,
            Op::Less => left < right,
            Op::More => left > right,
        }
    }
}

/// What a bar compares with.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    Number(f64),
    /// `factor * figure`; the figure `base` is this figure on the base kernel.
    Figure {
        factor: f64,
        name: String,
    },
}

/// `OP NUMBER` or `OP [NUMBER *] FIGURE`, as written in a case file.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub op: Op,
    pub reference: Reference,
    text: String,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Bar {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let grammar = || {
            format!(
                "`{text}` is no bar: write `OP NUMBER` or `OP [NUMBER *] FIGURE`, \
                 OP one of >= <= == < >, FIGURE another figure's name or `base`"
            )
        };
        let ops = [
            (">=", Op::AtLeast),
            ("<=", Op::AtMost),
            ("==", Op::Equal),
            ("<", Op::Less),
            (">", Op::More),
        ];
        let trimmed = text.trim();
        let (op, rest) = ops
            .iter()
            .find_map(|(sign, op)| Some((*op, trimmed.strip_prefix(sign)?.trim())))
            .ok_or_else(grammar)?;
        let reference = match (rest.parse::<f64>(), rest.split_once('*')) {
            (Ok(number), _) if number.is_finite() => Reference::Number(number),
            (_, Some((factor, name))) => {
                let factor = factor.trim().parse().map_err(|_| grammar())?;
                Reference::Figure {
                    factor,
                    name: name.trim().to_string(),
                }
            }
            _ => Reference::Figure {
                factor: 1.0,
                name: rest.to_string(),
            },
        };
        match &reference {
            Reference::Figure { name, .. } if !is_name(name) => Err(grammar()),
            _ => Ok(Bar {
                op,
                reference,
                text: trimmed.to_string(),
            }),
        }
    }
}

impl Bar {
    /// The figure that the bar looks at beside its own, if any.
    pub fn refers_to(&self) -> Option<&str> {
        match &self.reference {
            Reference::Number(_) => None,
            Reference::Figure { name, .. } => Some(name),
        }
    }
}

/// How a curve becomes one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduce {
    Min,
    Max,
    Mean,
}

impl Reduce {
    fn apply(self, points: &[(f64, f64)]) -> f64 {
        let values = points.iter().map(|point| point.1);
        match self {
            Reduce::Min => values.fold(f64::INFINITY, f64::min),
            Reduce::Max => values.fold(f64::NEG_INFINITY, f64::max),
            Reduce::Mean => values.sum::<f64>() / points.len() as f64,
        }
    }
}

/// The one number that stands for what was measured. A curve without `reduce`
/// shows its end that the bar's direction makes the worst.
pub fn headline(measured: &Measured, reduce: Option<Reduce>, op: Op) -> Option<f64> {
    if measured.points.is_empty() {
        return measured.value;
    }
    let worst = if matches!(op, Op::AtMost | Op::Less) {
        Reduce::Max
    } else {
        Reduce::Min
    };
    Some(reduce.unwrap_or(worst).apply(&measured.points))
}

/// Whether `figure` meets `bar`: point by point for a curve without `reduce`.
/// `this` is the kernel that is judged. An error says what was not measured.
pub fn meets(
    bar: &Bar,
    name: &str,
    reduce: Option<Reduce>,
    this: &Measurements,
    base: Option<&Measurements>,
) -> Result<bool, String> {
    let measured = this.get(name).ok_or_else(|| not_measured(name))?;
    let other = match &bar.reference {
        Reference::Number(_) => None,
        Reference::Figure { name: other, .. } if other == "base" => {
            let base = base.ok_or("the bar needs the base kernel, which was not run")?;
            Some(
                base.get(name)
                    .ok_or_else(|| format!("{} on base", not_measured(name)))?,
            )
        }
        Reference::Figure { name: other, .. } => {
            Some(this.get(other).ok_or_else(|| not_measured(other))?)
        }
    };
    let factor = match &bar.reference {
        Reference::Number(number) => *number,
        Reference::Figure { factor, .. } => *factor,
    };
    let limit = |of: Option<f64>| factor * of.unwrap_or(1.0);
    if measured.points.is_empty() || reduce.is_some() {
        let value = headline(measured, reduce, bar.op).ok_or_else(|| not_measured(name))?;
        let reference = other.map(|other| {
            headline(other, reduce, bar.op)
                .ok_or_else(|| "the bar's figure has no value".to_string())
        });
        return Ok(bar.op.holds(value, limit(reference.transpose()?)));
    }
    for &(x, y) in &measured.points {
        let reference = other
            .map(|other| at(other, x).ok_or_else(|| format!("{name}@{x} lacks its counterpart")));
        if !bar.op.holds(y, limit(reference.transpose()?)) {
            return Ok(false);
        }
    }
    if let Some(lost) = other.and_then(|other| missing_point(other, measured)) {
        return Err(format!("{name}@{lost} was not measured"));
    }
    Ok(true)
}

/// The value at `x`: the curve's point, or the same value everywhere.
fn at(measured: &Measured, x: f64) -> Option<f64> {
    if measured.points.is_empty() {
        return measured.value;
    }
    measured
        .points
        .iter()
        .find(|point| point.0 == x)
        .map(|point| point.1)
}

/// The first point of `reference` that `measured` lacks.
fn missing_point(reference: &Measured, measured: &Measured) -> Option<f64> {
    let has = |x| measured.points.iter().any(|point| point.0 == x);
    reference
        .points
        .iter()
        .map(|point| point.0)
        .find(|&x| !has(x))
}

fn not_measured(name: &str) -> String {
    format!(
        "figure {name} was not measured: the selftest printed no line `INFO: {name}: NUMBER UNIT`"
    )
}

/// What a row of the table says in the end, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// Guard: patched meets the bar.
    #[serde(rename = "held")]
    Held,
    /// Fault: base misses the bar as stated, patched meets it.
    #[serde(rename = "fixed")]
    Fixed,
    /// Only one kernel was run: base shows the fault.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// Only one kernel was run: it meets the bar.
    #[serde(rename = "met")]
    Met,
    /// Only one kernel was run, and the bar needs the other.
    #[serde(rename = "not judged")]
    NotJudged,
    /// Base does not show what the case says.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// Fault: patched misses the bar.
    #[serde(rename = "not fixed")]
    NotFixed,
    /// Guard: patched misses the bar.
    #[serde(rename = "broken")]
    Broken,
    /// It could not be measured.
    #[serde(rename = "error")]
    Error,
}

impl Verdict {
    /// True when nothing asks for attention.
    pub fn is_good(self) -> bool {
        self <= Verdict::NotJudged
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Verdict::Held => "held",
            Verdict::Fixed => "fixed",
            Verdict::Reproduced => "reproduced",
            Verdict::Met => "met",
            Verdict::NotJudged => "not judged",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotFixed => "not fixed",
            Verdict::Broken => "broken",
            Verdict::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> Measurements {
        measurements(lines).unwrap()
    }

    #[test]
    fn reads_values_curves_and_skips_prose() {
        let all = of(
            "INFO: mtu-68: 407.16 Mbit/s\nINFO: up@68: 1 Mbit/s\nINFO: up@9: 2 Mbit/s\n\
                      INFO: Some Prose: 3\nTEST: x [ OK ]\nINFO: drops: 0\nINFO: nan-x: NaN s\n",
        );
        assert_eq!(all["mtu-68"].value, Some(407.16));
        assert_eq!(all["mtu-68"].unit, "Mbit/s");
        assert_eq!(all["up"].points, [(9.0, 2.0), (68.0, 1.0)]);
        assert_eq!(all["drops"].value, Some(0.0));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_figure_printed_twice_is_an_error() {
        let twice = measurements("INFO: a: 1 s\nINFO: a: 2 s\n").unwrap_err();
        assert!(twice.contains("figure a twice"), "{twice}");
        assert!(measurements("INFO: a@1: 1 s\nINFO: a@1: 1 s\n").is_err());
        assert!(measurements("INFO: a@1: 1 s\nINFO: a@2: 1 ms\n").is_err());
    }

    #[test]
    fn bars_are_read_and_bad_ones_explained() {
        let bar: Bar = ">= 0.95 * mtu-68".parse().unwrap();
        assert_eq!(bar.refers_to(), Some("mtu-68"));
        assert_eq!(bar.to_string(), ">= 0.95 * mtu-68");
        let bar: Bar = "<250".parse().unwrap();
        assert_eq!(
            (bar.op, bar.reference),
            (Op::Less, Reference::Number(250.0))
        );
        for bad in [
            "",
            "405",
            ">= ",
            "=> 3",
            ">= two words",
            ">= x * y",
            ">= inf",
        ] {
            let read = bad.parse::<Bar>();
            assert!(bad == ">= inf" || read.is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_figures_are_judged() {
        let this = of("INFO: a: 95 x\nINFO: b: 100 x\n");
        let meets = |bar: &str| meets(&bar.parse().unwrap(), "a", None, &this, None);
        assert_eq!(meets(">= 95"), Ok(true));
        assert_eq!(meets("> 95"), Ok(false));
        assert_eq!(meets("== 95"), Ok(true));
        assert_eq!(meets(">= 0.95 * b"), Ok(true));
        assert_eq!(meets(">= 0.96 * b"), Ok(false));
        assert!(meets(">= c")
            .unwrap_err()
            .contains("figure c was not measured"));
        assert!(meets(">= base").unwrap_err().contains("base kernel"));
    }

    #[test]
    fn curves_are_judged_point_by_point() {
        let base = of("INFO: c@1: 10 x\nINFO: c@2: 20 x\n");
        let better = of("INFO: c@1: 10 x\nINFO: c@2: 19.9 x\n");
        let short = of("INFO: c@1: 10 x\n");
        let meets = |bar: &str, reduce, this: &Measurements| {
            meets(&bar.parse().unwrap(), "c", reduce, this, Some(&base))
        };
        assert_eq!(meets(">= 0.99 * base", None, &better), Ok(true));
        assert_eq!(meets(">= base", None, &better), Ok(false));
        assert_eq!(meets(">= base", Some(Reduce::Min), &better), Ok(true));
        assert_eq!(meets(">= 10", None, &better), Ok(true));
        assert_eq!(meets("<= 10", None, &better), Ok(false));
        assert!(meets(">= base", None, &short).unwrap_err().contains("c@2"));
    }

    #[test]
    fn a_curve_shows_its_worst_end() {
        let curve = &of("INFO: c@1: 10 x\nINFO: c@2: 20 x\n")["c"];
        assert_eq!(headline(curve, None, Op::AtLeast), Some(10.0));
        assert_eq!(headline(curve, None, Op::AtMost), Some(20.0));
        assert_eq!(headline(curve, Some(Reduce::Mean), Op::AtMost), Some(15.0));
    }
}
