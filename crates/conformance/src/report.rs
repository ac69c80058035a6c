// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the verdicts on the cases of a run (passed, skipped, failed), and formats them as text and
//! as JSON.

use std::fmt::Write as _;

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every answer was right.
    Passed,
    /// Not run, and the reason.
    Skipped(String),
    /// The faults, a line for each.
    Failed(Vec<String>),
}

/// A case, or one of its two halves if it has rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The case, with `/cold` or `/warm` if it has rows.
    pub id: String,
    /// What the man page or the kernel specifies.
    pub says: String,
    /// The result.
    pub verdict: Verdict,
}

/// The results of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The host.
    pub host: String,
    /// In the order of the suite.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// How many passed, were skipped, and failed.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for outcome in &self.outcomes {
            counts[outcome.verdict.rank()] += 1;
        }
        counts
    }

    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts()[2] == 0
    }

    /// Lines for a reader: the failures, the skips with their reasons, and the counts.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            match &outcome.verdict {
                Verdict::Passed => {}
                Verdict::Skipped(why) => {
                    let _ = writeln!(text, "skipped {}: {why}", outcome.id);
                }
                Verdict::Failed(what) => {
                    let _ = writeln!(text, "FAILED  {}: {}", outcome.id, outcome.says);
                    for line in what {
                        let _ = writeln!(text, "        {line}");
                    }
                }
            }
        }
        let [passed, skipped, failed] = self.counts();
        let host = &self.host;
        let _ = writeln!(
            text,
            "{host}: {passed} passed, {skipped} skipped, {failed} failed"
        );
        text
    }

    /// The same as one JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let [passed, skipped, failed] = self.counts();
        let host = quoted(&self.host);
        let counts = format!("\"passed\":{passed},\"skipped\":{skipped},\"failed\":{failed}");
        let mut text = format!("{{\"host\":{host},{counts},\"cases\":[");
        for (at, outcome) in self.outcomes.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let (id, says) = (quoted(&outcome.id), quoted(&outcome.says));
            let _ = write!(text, "{comma}{{\"id\":{id},\"says\":{says},\"verdict\":");
            match &outcome.verdict {
                Verdict::Passed => text.push_str("\"passed\""),
                Verdict::Skipped(why) => {
                    let _ = write!(text, "\"skipped\",\"reason\":{}", quoted(why));
                }
                Verdict::Failed(what) => {
                    let lines: Vec<String> = what.iter().map(|line| quoted(line)).collect();
                    let _ = write!(text, "\"failed\",\"wrong\":[{}]", lines.join(","));
                }
            }
            text.push('}');
        }
        text.push_str("]}");
        text
    }
}

impl Verdict {
    fn rank(&self) -> usize {
        match self {
            Verdict::Passed => 0,
            Verdict::Skipped(_) => 1,
            Verdict::Failed(_) => 2,
        }
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut all = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => all.push_str("\\\""),
            '\\' => all.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(all, "\\u{:04x}", u32::from(c));
            }
            c => all.push(c),
        }
    }
    all.push('"');
    all
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Report, Verdict};

    fn report() -> Report {
        let outcome = |id: &str, verdict| Outcome {
            id: id.to_owned(),
            says: "a \"b\"\\".to_owned(),
            verdict,
        };
        Report {
            host: "h".to_owned(),
            outcomes: vec![
                outcome("x", Verdict::Passed),
                outcome("y", Verdict::Skipped("no\tz".to_owned())),
                outcome("z", Verdict::Failed(vec!["w".to_owned()])),
            ],
        }
    }

    #[test]
    fn each_verdict_is_reported() {
        assert_eq!(
            report().text(),
            "skipped y: no\tz\nFAILED  z: a \"b\"\\\n        w\n\
             h: 1 passed, 1 skipped, 1 failed\n"
        );
        assert!(!report().is_clean());
    }

    #[test]
    fn strings_are_quoted() {
        let json = report().json();
        assert!(json.starts_with("{\"host\":\"h\",\"passed\":1,\"skipped\":1,\"failed\":1,"));
        assert!(
            json.contains(r#"{"id":"x","says":"a \"b\"\\","verdict":"passed"}"#),
            "{json}"
        );
        assert!(
            json.contains(r#""verdict":"skipped","reason":"no\u0009z"}"#),
            "{json}"
        );
        assert!(
            json.ends_with(r#""verdict":"failed","wrong":["w"]}]}"#),
            "{json}"
        );
    }
}
