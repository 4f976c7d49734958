// SPDX-License-Identifier: GPL-2.0
//! One page for people: the verdicts, and each curve with base and patched in
//! one picture. No script, nothing loaded from elsewhere.

use crate::case::Case;
use crate::figure::Verdict;
use crate::results::{escape, CaseResult, FigureResult, Points, Results};
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#1b1f24}\
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em}\
table{border-collapse:collapse;width:100%}\
th,td{padding:.3em .6em;text-align:left;border-bottom:1px solid #d5dae0}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.good{color:#10703a;font-weight:600}.bad{color:#b3261e;font-weight:600}\
.why{color:#57606a;font-size:.9em}figure{margin:1.5em 0}svg{max-width:100%;height:auto}\
svg text{font:12px system-ui,sans-serif;fill:#1b1f24}";

/// Size of a plot and its margins, in SVG units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

const BASE: &str = "#b3261e";
const PATCHED: &str = "#0b57d0";

/// The whole page; `cases` give the prose.
pub fn page(results: &Results, cases: &[Case]) -> String {
    let mut body = String::new();
    for result in &results.cases {
        let case = cases.iter().find(|case| case.id == result.id);
        section(&mut body, result, case);
    }
    let host = &results.host;
    format!(
        "<!DOCTYPE html>\n<!-- SPDX-License-Identifier: GPL-2.0 -->\n<html lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>net-regress: results</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>net-regress: base and patched on Linux {}</h1>\n\
         <p class=\"why\">{} CPUs {}, {} MiB, host kernel {}, {}{}</p>\n{body}</body>\n</html>\n",
        escape(&results.base),
        host.cpus,
        escape(&host.arch),
        host.memory_mib,
        escape(&host.kernel),
        escape(&host.compiler),
        host.qemu.as_ref().map_or(String::new(), |qemu| format!(
            ", QEMU with {}",
            escape(qemu)
        )),
    )
}

fn section(body: &mut String, result: &CaseResult, case: Option<&Case>) {
    let _ = writeln!(
        body,
        "<h2 id=\"{id}\">{} <span class=\"{}\">{}</span></h2>",
        escape(&result.report),
        class(result.verdict),
        result.verdict,
        id = escape(&result.id),
    );
    if let Some(case) = case {
        let bisected = case
            .bisected
            .as_deref()
            .map_or(String::new(), |commit| format!(", bisected to {commit}"));
        let _ = writeln!(
            body,
            "<p>{}</p>\n<p class=\"why\">{}, Message-ID {}{}; series {}</p>",
            escape(case.report.trim()),
            escape(&case.date),
            escape(&case.message_id),
            escape(&bisected),
            escape(&case.series),
        );
    }
    body.push_str(
        "<table>\n<tr><th>figure</th><th>lab</th><th>kind</th><th>base</th><th>patched</th>\
         <th>unit</th><th>bar</th><th>verdict</th></tr>\n",
    );
    for figure in &result.figures {
        row(body, figure);
    }
    body.push_str("</table>\n");
    for figure in &result.figures {
        if let Some(points) = &figure.points {
            plot(body, figure, points);
        }
    }
}

fn row(body: &mut String, figure: &FigureResult) {
    let kind = format!("{:?}", figure.kind).to_lowercase();
    let _ = writeln!(
        body,
        "<tr><td>{}<br><span class=\"why\">{}</span></td><td>{}</td><td>{kind}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>\
         <td class=\"{}\">{}</td></tr>",
        escape(&figure.name),
        escape(&figure.why),
        figure.lab,
        figure.base,
        figure.patched,
        escape(&figure.unit),
        escape(&figure.bar),
        class(figure.verdict),
        figure.verdict,
    );
}

fn class(verdict: Verdict) -> &'static str {
    if verdict.is_good() {
        "good"
    } else {
        "bad"
    }
}

/// Maps values to SVG units; x is logarithmic where it spans much.
struct Axes {
    x: (f64, f64),
    top: f64,
    log: bool,
}

impl Axes {
    fn of(points: &Points) -> Self {
        let all = || points.base.iter().chain(&points.patched);
        let low = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = all().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let top = all().map(|point| point.1).fold(0.0, f64::max);
        Axes {
            x: (low, if high > low { high } else { low + 1.0 }),
            top: if top > 0.0 { top * 1.05 } else { 1.0 },
            log: low > 0.0 && high / low > 40.0,
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let scale = |value: f64| if self.log { value.ln() } else { value };
        let (low, high) = (scale(self.x.0), scale(self.x.1));
        let right = (scale(x) - low) / (high - low);
        (
            LEFT + right * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y.max(0.0) / self.top) * (HEIGHT - TOP - BOTTOM),
        )
    }

    /// Round numbers along x.
    fn x_ticks(&self) -> Vec<f64> {
        if !self.log {
            return ticks(self.x.0, self.x.1);
        }
        let decades = (self.x.0.log10().floor() as i32)..=(self.x.1.log10().ceil() as i32);
        decades
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(decade)))
            .filter(|tick| (self.x.0..=self.x.1).contains(tick))
            .collect()
    }
}

/// Four to ten round numbers within `low..=high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|&step| step >= rough);
    let step = step.unwrap_or(decade);
    let first = (low / step).ceil() as i64;
    (first..)
        .map(|index| index as f64 * step)
        .take_while(|&tick| tick <= high)
        .collect()
}

fn plot(body: &mut String, figure: &FigureResult, points: &Points) {
    let axes = Axes::of(points);
    let title = format!("{} [{}]: {}", figure.name, figure.lab, figure.unit);
    let _ = writeln!(
        body,
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" role=\"img\">\n<title>{}</title>",
        escape(&title)
    );
    for tick in ticks(0.0, axes.top) {
        let (_, y) = axes.place((axes.x.0, tick));
        let _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#e3e7eb\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
    }
    for tick in axes.x_ticks() {
        let (x, y) = axes.place((tick, 0.0));
        let _ = writeln!(
            body,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#57606a\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            y + 4.0,
            y + 18.0
        );
    }
    curve(body, &axes, &points.base, BASE);
    curve(body, &axes, &points.patched, PATCHED);
    let _ = writeln!(
        body,
        "<text x=\"{LEFT}\" y=\"16\">{}</text>\
         <text x=\"{}\" y=\"16\" text-anchor=\"end\" style=\"fill:{BASE}\">base</text>\
         <text x=\"{}\" y=\"16\" text-anchor=\"end\" style=\"fill:{PATCHED}\">patched</text>\n</svg></figure>",
        escape(&title),
        WIDTH - RIGHT - 70.0,
        WIDTH - RIGHT,
    );
}

fn curve(body: &mut String, axes: &Axes, points: &[(f64, f64)], colour: &str) {
    let places: Vec<String> = points
        .iter()
        .map(|&point| axes.place(point))
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        places.join(" ")
    );
    for &(x, y) in points {
        let (left, top) = axes.place((x, y));
        let _ = writeln!(
            body,
            "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"2.5\" fill=\"{colour}\"><title>{x}: {y}</title></circle>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;

    #[test]
    fn the_page_shows_verdicts_and_both_curves() {
        let page = page(&example(), &[]);
        assert!(page.contains("class=\"bad\">not fixed</span>"));
        assert!(page.contains("a &lt; b &amp; c"));
        assert_eq!(page.matches("<polyline").count(), 2);
        assert_eq!(page.matches("<circle").count(), 3);
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            ticks(0.0, 1000.0),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
        );
        assert_eq!(ticks(68.0, 90.0), [70.0, 75.0, 80.0, 85.0, 90.0]);
        for top in [0.3, 1.0, 7.0, 1e6] {
            assert!((3..=11).contains(&ticks(0.0, top).len()), "{top}");
        }
    }

    #[test]
    fn points_stay_inside_the_picture() {
        let axes = Axes::of(&Points {
            base: vec![(5.0, 0.0)],
            patched: vec![],
        });
        let (x, y) = axes.place((5.0, 0.0));
        assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y));
    }
}
