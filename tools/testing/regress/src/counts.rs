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
