// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two texts line by line, and prints the difference in the unified form (`diff -u`).

use gix_imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};
use std::fmt::Write as _;
use std::ops::Range;

/// Lines that are shown before and after each change.
const CONTEXT: u32 = 3;

/// What must be done to the lines of one text to get those of another.
pub(crate) struct LineDiff<'text> {
    input: InternedInput<&'text str>,
    diff: Diff,
}

impl<'text> LineDiff<'text> {
    pub(crate) fn of(before: &'text str, now: &'text str) -> Self {
        let input = InternedInput::new(before, now);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        Self { input, diff }
    }

    /// The numbers of added and removed lines.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.diff.count_additions(), self.diff.count_removals())
    }

    /// The changes with three lines around each, below the names of both sides; nothing if the
    /// texts are equal.
    pub(crate) fn unified(&self, from: &str, to: &str) -> String {
        let mut text = String::new();
        let mut hunks = self.diff.hunks().peekable();
        if hunks.peek().is_some() {
            writeln!(text, "--- {from}\n+++ {to}").ok();
        }
        let mut near = Vec::new();
        while let Some(hunk) = hunks.next() {
            let end = hunk.before.end;
            near.push(hunk);
            let is_far = |next: &Hunk| next.before.start - end > 2 * CONTEXT;
            if hunks.peek().is_none_or(is_far) {
                self.section(&mut text, &near);
                near.clear();
            }
        }
        text
    }

    /// Changes that are so near that their lines around them meet.
    fn section(&self, text: &mut String, hunks: &[Hunk]) {
        let (Some(first), Some(last)) = (hunks.first(), hunks.last()) else {
            return;
        };
        let (before, after) = (&self.input.before, &self.input.after);
        let lead = first.before.start.min(CONTEXT);
        let trail = (before.len() as u32 - last.before.end).min(CONTEXT);
        let old = first.before.start - lead..last.before.end + trail;
        let new = first.after.start - lead..last.after.end + trail;
        writeln!(text, "@@ -{} +{} @@", numbers(&old), numbers(&new)).ok();
        let mut at = old.start;
        for hunk in hunks {
            self.lines(text, ' ', before, at..hunk.before.start);
            self.lines(text, '-', before, hunk.before.clone());
            self.lines(text, '+', after, hunk.after.clone());
            at = hunk.before.end;
        }
        self.lines(text, ' ', before, at..old.end);
    }

    fn lines(&self, text: &mut String, sign: char, side: &[Token], range: Range<u32>) {
        for &token in &side[range.start as usize..range.end as usize] {
            let line = self.input.interner[token];
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

/// Lines as the head of a section counts them: from 1, the number only if it is not 1, and the line
/// before if there are none.
fn numbers(lines: &Range<u32>) -> String {
    match lines.end - lines.start {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::LineDiff;

    #[test]
    fn equal_texts_have_no_lines() {
        assert_eq!(LineDiff::of("a\n", "a\n").unified("a", "b"), "");
        assert_eq!(LineDiff::of("", "").counts(), (0, 0));
    }

    #[test]
    fn near_changes_share_a_section_and_far_ones_do_not() {
        let lines = |changed: &[usize]| {
            let line = |at: usize| match changed.contains(&at) {
                true => format!("new {at}\n"),
                false => format!("line {at}\n"),
            };
            (1..=30).map(line).collect::<String>()
        };
        let sections = |changed: &[usize]| {
            let (before, now) = (lines(&[]), lines(changed));
            let text = LineDiff::of(&before, &now).unified("a", "b");
            text.lines()
                .filter(|line| line.starts_with("@@"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(sections(&[10, 17]), ["@@ -7,14 +7,14 @@"]);
        assert_eq!(
            sections(&[10, 18]),
            ["@@ -7,7 +7,7 @@", "@@ -15,7 +15,7 @@"]
        );
        assert_eq!(sections(&[1]), ["@@ -1,4 +1,4 @@"]);
        assert_eq!(sections(&[30]), ["@@ -27,4 +27,4 @@"]);
    }

    /// A comparison that looks at all lines for each one would not end while anyone waits.
    #[test]
    fn large_texts_of_few_lines_that_differ_are_compared() {
        let text = |step: usize| -> String {
            let line = |at: usize| match at % step {
                0 => "other\n",
                rest if rest % 3 == 0 => "one\n",
                _ => "two\n",
            };
            (0..600_000).map(line).collect()
        };
        let (before, now) = (text(17), text(23));
        let (added, removed) = LineDiff::of(&before, &now).counts();
        assert_eq!(added, removed);
        assert!(added > 20_000, "{added}");
    }

    #[test]
    fn missing_newline_at_the_end_is_said() {
        let text = LineDiff::of("a\nb", "a\nb\n").unified("a/x", "b/x");
        let wanted =
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn one_side_without_lines_is_counted_from_zero() {
        let text = LineDiff::of("", "one\n").unified("/dev/null", "b/x");
        assert_eq!(text, "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n");
        let text = LineDiff::of("one\ntwo\n", "").unified("a/x", "/dev/null");
        assert_eq!(
            text,
            "--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
        );
    }
}
