// SPDX-License-Identifier: GPL-2.0
//! `regress list`: what there is to prove.

use crate::case::{self, Case, Kind};
use crate::project::Project;
use crate::run::cases_dir;
use anyhow::Result;
use std::process::ExitCode;

/// `regress list`.
pub fn command(project: &Project) -> Result<ExitCode> {
    for case in case::read_all(&cases_dir(project), &[])? {
        print!("{}", describe(&case));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(case: &Case) -> String {
    let mut text = format!(
        "{}: {}\n  report   {}, {}\n",
        case.id, case.title, case.date, case.message_id
    );
    if let Some(commit) = &case.bisected {
        text += &format!("  bisected {commit}\n");
    }
    text += &format!("  series   {}\n", case.series);
    for run in &case.runs {
        text += &format!("  run      {} in {}\n", run.selftest.get_ref(), run.lab);
    }
    for entry in &case.kunit {
        text += &format!("  kunit    {}\n", entry.kunitconfig);
    }
    for entry in &case.upstream {
        text += &format!("  compared {} in {}\n", entry.selftest.get_ref(), entry.lab);
    }
    for figure in &case.figures {
        let kind = match figure.kind {
            Kind::Fault => "fault",
            Kind::Guard => "guard",
        };
        let base = figure
            .base()
            .map_or(String::new(), |bar| format!(" (base {bar})"));
        text += &format!(
            "  {kind}    {:24} {:12} {} {}{base}\n",
            figure.name(),
            figure.lab,
            figure.bar(),
            figure.unit,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_case_is_listed_with_its_figures() {
        let text = "id = \"x\"\ntitle = \"Slow\"\nmessage_id = \"m@z\"\ndate = \"2019-01-15\"\n\
                    series = \"s\"\nreport = \"r\"\n[[run]]\nselftest = \"net/a.sh\"\n\
                    [[figure]]\nname = \"f\"\nkind = \"fault\"\nunit = \"Mbit/s\"\nbar = \">= 2\"\n\
                    base = \"< 1\"\nwhy = \"w\"\n";
        let listed = describe(&Case::parse(text, Path::new("x.toml")).unwrap());
        assert!(
            listed.starts_with("x: Slow\n  report   2019-01-15, m@z\n"),
            "{listed}"
        );
        assert!(listed.contains("run      net/a.sh in uml\n"), "{listed}");
        assert!(listed.contains(">= 2 Mbit/s (base < 1)\n"), "{listed}");
    }
}
