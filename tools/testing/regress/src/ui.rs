// SPDX-License-Identifier: GPL-2.0
//! What the user sees while waiting: one line a step, with its time, and what
//! was reused.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A step that takes a while. On a terminal it spins; in a log it prints a
/// line when it starts and one when it ends.
pub struct Step {
    what: String,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Step {
    pub fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}")
                .expect("the template is constant");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            eprintln!("... {what}");
        }
        Step {
            what,
            start: Instant::now(),
            bar,
        }
    }

    /// Shows the latest line of what goes on (terminal only).
    pub fn tick(&self, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_string());
        }
    }

    /// Prints a line that stays, while the step goes on.
    pub fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// Ends the step and says how long it took.
    pub fn done(self, note: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.start.elapsed().as_secs_f64();
        let note = if note.is_empty() {
            String::new()
        } else {
            format!(": {note}")
        };
        eprintln!("{:6.1} s  {}{note}", seconds, self.what);
    }
}

/// Says that an earlier run's work serves again.
pub fn reused(what: &str) {
    eprintln!("reused    {what}");
}

pub fn note(message: &str) {
    eprintln!("note: {message}");
}

/// Prints an error with its causes, the outermost first.
pub fn error(error: &anyhow::Error) {
    eprintln!("regress: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
}
