// SPDX-License-Identifier: GPL-2.0
//! A stored patch: a mail without sender and date.
//!
//! ```text
//! Subject: ipv4: say what is done
//!
//! message, with its tags
//! ---
//! optional notes that are mailed and never committed
//!
//! diff --git ...
//! ```
//!
//! A patch of new files alone ends with its message.

use std::fmt;

/// The parts of a patch, in the one form in which they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    pub subject: String,
    /// Message below the subject; no blank line at either end, no final newline.
    pub body: String,
    /// Text below the cut.
    pub notes: String,
    /// From `diff --git` on; need not be UTF-8.
    pub diff: Vec<u8>,
}

/// What is wrong with a patch, and in which line (from 1).
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

const DIFF: &[u8] = b"diff --git ";

impl Patch {
    /// Reads a stored patch.
    pub fn parse(text: &[u8]) -> Result<Self, Mistake> {
        let at = start_of_diff(text);
        let diff = text[at..].to_vec();
        let text = std::str::from_utf8(&text[..at]).map_err(|error| {
            let line = 1 + count_lines(&text[..error.valid_up_to()]);
            mistake(line, "the message is not UTF-8")
        })?;
        let (subject, lines) = parse_header(text)?;
        let rest = text.splitn(lines + 1, '\n').last().unwrap_or_default();
        let (body, notes) = split_at_cut(rest);
        let notes = trim_blank_lines(notes);
        if let Some(line) = notes.lines().position(is_diffstat_summary) {
            let line = lines + count_lines(body.as_bytes()) + 2 + line;
            return Err(mistake(
                line,
                "the diffstat is made when mailing; remove it",
            ));
        }
        Ok(Patch {
            subject,
            body: trim_blank_lines(body),
            notes,
            diff,
        })
    }

    /// The stored form; parsing it gives the same patch.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("Subject: {}\n", self.subject);
        if !self.body.is_empty() {
            text += &format!("\n{}\n", self.body);
        }
        if !self.diff.is_empty() || !self.notes.is_empty() {
            let blank = if self.body.is_empty() { "\n" } else { "" };
            text += &format!("{blank}---\n");
        }
        if !self.notes.is_empty() {
            text += &format!("{}\n", self.notes);
            if !self.diff.is_empty() {
                text.push('\n');
            }
        }
        [text.as_bytes(), &self.diff].concat()
    }

    /// The commit message.
    pub fn message(&self) -> String {
        match self.body.as_str() {
            "" => format!("{}\n", self.subject),
            body => format!("{}\n\n{body}\n", self.subject),
        }
    }

    /// Takes subject and body from a commit message; the first paragraph is
    /// the subject, as for git.
    pub fn set_message(&mut self, message: &str) -> Result<(), String> {
        let message = trim_blank_lines(message);
        let (subject, body) = match message.split_once("\n\n") {
            Some((subject, body)) => (subject, body),
            None => (message.as_str(), ""),
        };
        if subject.trim().is_empty() {
            return Err("it has no message".into());
        }
        let cuts = |line: &str| is_cut(line) || line.starts_with("diff -");
        if let Some(line) = body.lines().find(|line| cuts(line)) {
            return Err(format!(
                "`git am` would take the line `{line}` of its message for the end of the message"
            ));
        }
        self.subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
        self.body = trim_blank_lines(body);
        Ok(())
    }
}

fn mistake(line: usize, what: impl Into<String>) -> Mistake {
    Mistake {
        line,
        what: what.into(),
    }
}

fn count_lines(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte == b'\n').count()
}

fn start_of_diff(text: &[u8]) -> usize {
    let mut at = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(DIFF) {
            return at;
        }
        at += line.len();
    }
    text.len()
}

/// The subject, and how many lines the header and the blank line take.
fn parse_header(text: &str) -> Result<(String, usize), Mistake> {
    let mut subject: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() {
            return match subject {
                Some(subject) => Ok((subject, number)),
                None => Err(mistake(number, "there is no `Subject:` above this line")),
            };
        }
        match (&mut subject, line.strip_prefix("Subject: ")) {
            (None, Some(text)) => subject = Some(text.trim().to_string()),
            (Some(subject), _) if line.starts_with([' ', '\t']) => {
                subject.push(' ');
                subject.push_str(line.trim());
            }
            _ => {
                return Err(mistake(
                    number,
                    format!(
                        "`{line}`: a stored patch has the one header `Subject:`; \
                         sender and date are added when it is mailed. For a whole mail: \
                         `git am` it in the assembled tree, then `regress refresh`"
                    ),
                ));
            }
        }
        let text = subject.as_deref().unwrap_or_default();
        if text.starts_with("[PATCH") {
            return Err(mistake(number, "the [PATCH] prefix is added when mailing"));
        }
        if text.is_empty() {
            return Err(mistake(number, "the subject is empty"));
        }
    }
    match subject {
        Some(subject) => Ok((subject, text.lines().count())),
        None => Err(mistake(1, "a patch starts with `Subject: `")),
    }
}

/// A line at which `git am` ends the message.
fn is_cut(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.trim().is_empty())
}

fn split_at_cut(text: &str) -> (&str, &str) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_cut(line) {
            return (&text[..at], &text[at + line.len()..]);
        }
        at += line.len();
    }
    (text, "")
}

fn is_diffstat_summary(line: &str) -> bool {
    line.starts_with(' ') && (line.contains(" file changed") || line.contains(" files changed"))
}

/// Drops blank lines at both ends and the final newline, nothing else.
fn trim_blank_lines(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_filled = |line: &&str| !line.trim().is_empty();
    let Some(first) = lines.iter().position(is_filled) else {
        return String::new();
    };
    let last = lines.iter().rposition(is_filled).unwrap_or(first);
    lines[first..=last].join("\n")
}

/// The hunk of a diff that `git apply` names by file and line: its number
/// (from 1) and its text.
pub fn hunk(diff: &[u8], file: &str, line: &str) -> Option<(usize, String)> {
    let text = String::from_utf8_lossy(diff);
    let start = format!("@@ -{line}");
    let mut number = 0;
    let mut in_file = false;
    let mut found: Option<String> = None;
    for row in text.lines() {
        if let Some(hunk) = &mut found {
            if row.starts_with("@@ ") || row.starts_with("diff --git ") {
                break;
            }
            hunk.push('\n');
            hunk.push_str(row);
        } else if row.starts_with("diff --git ") {
            in_file = row.contains(&format!(" a/{file} ")) || row.ends_with(&format!(" b/{file}"));
            number = 0;
        } else if in_file && row.starts_with("@@ ") {
            number += 1;
            let rest = row.strip_prefix(&start);
            if rest.is_some_and(|rest| rest.starts_with([',', ' '])) {
                found = Some(row.to_string());
            }
        }
    }
    found.map(|hunk| (number, hunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> Patch {
        let patch = Patch::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(patch.to_bytes()).unwrap(), text);
        patch
    }

    #[test]
    fn every_form_survives_the_round_trip() {
        round_trip("Subject: a: b\n");
        round_trip("Subject: a: b\n\nbody\n");
        round_trip("Subject: a: b\n\n---\ndiff --git a/x b/x\n");
        let patch = round_trip(
            "Subject: ü: b\n\n  indented \n\n\nbody\n\nFixes: 1234 (\"x\")\n---\nnote\n\n\
             more\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n",
        );
        assert_eq!(patch.body, "  indented \n\n\nbody\n\nFixes: 1234 (\"x\")");
        assert_eq!(patch.notes, "note\n\nmore");
        assert!(patch.diff.starts_with(DIFF));
    }

    #[test]
    fn the_message_survives_git() {
        let mut patch = round_trip("Subject: a: b\n\n\tx  \n\n\ny\n");
        let message = patch.message();
        patch.set_message(&message).unwrap();
        assert_eq!(patch.message(), message);
        patch.set_message("long\nsubject\n\n\n  body\n\n").unwrap();
        assert_eq!(
            (patch.subject.as_str(), patch.body.as_str()),
            ("long subject", "  body")
        );
        assert!(patch.set_message("a\n\nb\n---\nc\n").is_err());
        assert!(patch.set_message("\n").is_err());
    }

    #[test]
    fn long_subjects_may_be_folded() {
        let patch = Patch::parse(b"Subject: a: long\n subject\n\nbody\n").unwrap();
        assert_eq!(patch.subject, "a: long subject");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let line = |text: &[u8]| Patch::parse(text).unwrap_err().line;
        assert_eq!(line(b""), 1);
        assert_eq!(line(b"\nSubject: x\n"), 1);
        assert_eq!(line(b"Subject: x\nFrom: me\n"), 2);
        assert_eq!(line(b"Subject: [PATCH net] x\n"), 1);
        assert_eq!(line(b"Subject: x\n\na\n\xff\n"), 4);
        assert_eq!(
            line(b"Subject: x\n\na\n---\n x | 2 +-\n 1 file changed, 1 insertion(+)\n\n"),
            6
        );
    }

    #[test]
    fn hunks_are_found_by_file_and_line() {
        let diff = b"diff --git a/x b/x\n@@ -1,2 +1,2 @@\n-a\ndiff --git a/y b/y\n\
                     @@ -1 +1 @@ f\n-b\n+c\n@@ -10,2 +10,2 @@ g\n-d\n+e\n";
        assert_eq!(
            hunk(diff, "y", "10"),
            Some((2, "@@ -10,2 +10,2 @@ g\n-d\n+e".into()))
        );
        assert_eq!(hunk(diff, "y", "1").unwrap().0, 1);
        assert_eq!(hunk(diff, "x", "10"), None);
    }
}
