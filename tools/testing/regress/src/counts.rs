// SPDX-License-Identifier: GPL-2.0
//! Passed, failed and skipped: what skips is never counted as passed.

/// The outcome of many tests.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    pub passed: u32,
    pub failed: u32,
    /// Why each that was skipped was.
    pub skipped: Vec<String>,
}

impl Counts {
    /// True if something ran and nothing failed.
    pub fn all_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// Reads back the last counts that a command printed, as below.
    pub fn parse(output: &str) -> Option<Counts> {
        let mut lines = output.lines().rev();
        let (passed, failed, skipped) = lines.by_ref().find_map(|line| {
            let (passed, rest) = line.split_once(" passed, ")?;
            let (failed, rest) = rest.split_once(" failed, ")?;
            let skipped = rest.strip_suffix(" skipped")?;
            Some((
                passed.parse().ok()?,
                failed.parse().ok()?,
                skipped.parse().ok()?,
            ))
        })?;
        let reasons = lines.map_while(|line| line.strip_prefix("skipped: "));
        let mut reasons: Vec<String> = reasons.take(skipped).map(str::to_string).collect();
        reasons.reverse();
        Some(Counts {
            passed,
            failed,
            skipped: reasons,
        })
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for reason in &self.skipped {
            writeln!(f, "skipped: {reason}")?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_back() {
        let counts = Counts {
            passed: 3,
            failed: 1,
            skipped: vec!["no fou".into(), "no ovs".into()],
        };
        let output = format!("skipped: not these\nlog\n{counts}\n");
        assert_eq!(Counts::parse(&output), Some(counts));
        assert_eq!(Counts::parse("3 passed, some failed, 0 skipped"), None);
    }
}
