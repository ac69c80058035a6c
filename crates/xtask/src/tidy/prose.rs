// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `prose`: short sentences and table lines in pages and comments, and few forms of
//! "who".
//!
//! # Counting
//! A sentence ends at a full stop, a question mark or an exclamation mark before a blank, and at
//! the end of its paragraph, list item or table cell. Code spans and targets of links count as a
//! word each. Words are counted for all pages together, and for the comments of each crate.

use super::lexer::is_word;
use super::{Report, Source, Tree};
use std::collections::BTreeMap;

const RULE: &str = "prose";
/// The most words of a sentence.
const SENTENCE_MAX: usize = 40;
/// The most columns of a table line.
const ROW_MAX: usize = 200;
/// The most words for people in 1,000 words of prose.
const WHO_MAX: usize = 1;
/// Up to this many are allowed in a short text.
const WHO_FREE: usize = 2;
const WHO: &[&str] = &["who", "whom", "whose", "whoever", "whomever"];

/// The number of words in a text, and of words for people.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    words: usize,
    who: usize,
}

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for file in tree.pages() {
        for (at, row) in rows(&file.text) {
            let columns = row.chars().count();
            if columns > ROW_MAX {
                let text = format!("a line of a table has {columns} columns; {ROW_MAX} at most");
                report.fail(RULE, &file.path, at, text);
            }
        }
        let count = counts.entry("docs".to_owned()).or_default();
        measure(file, &page(&file.text), count, report);
    }
    for file in tree.rust() {
        let count = counts.entry(crate_of(&file.path)).or_default();
        measure(file, &comments(file), count, report);
    }
    for (place, count) in counts {
        if count.who * 1000 > count.words * WHO_MAX && count.who > WHO_FREE {
            let text = format!(
                "\"who\" and its forms stand {} times in {} words; {WHO_MAX} in 1,000 at most",
                count.who, count.words
            );
            report.fail(RULE, &place, 0, text);
        }
    }
}

/// Reports long sentences, and counts words.
fn measure(file: &Source, parts: &[(usize, String)], count: &mut Count, report: &mut Report) {
    for (at, part) in parts {
        for sentence in sentences(part) {
            let words: Vec<&str> = sentence.split_whitespace().collect();
            count.words += words.len();
            let bare = words
                .iter()
                .map(|word| word.trim_matches(|c| !is_word(c)).to_lowercase());
            count.who += bare.filter(|word| WHO.contains(&word.as_str())).count();
            if words.len() > SENTENCE_MAX {
                let text = format!(
                    "a sentence of {} words; {SENTENCE_MAX} at most",
                    words.len()
                );
                report.fail(RULE, &file.path, *at, text);
            }
        }
    }
}

/// The crate of a file.
fn crate_of(path: &str) -> String {
    let end = ["/src/", "/tests/", "/examples/", "/benches/"].iter();
    let end = end.filter_map(|part| path.find(part)).min();
    path[..end.unwrap_or(path.len())].to_owned()
}

/// The lines of tables outside code, from 1.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        code ^= line.trim_start().starts_with("```");
        (!code && line.starts_with('|')).then_some((at + 1, line))
    })
}

/// The paragraphs, list items and cells of a page, each with its first line.
fn page(text: &str) -> Vec<(usize, String)> {
    let mut code = false;
    let mut parts = Parts::default();
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        match code || fence {
            true => parts.end(),
            false => parts.line(at + 1, line),
        }
    }
    parts.done()
}

/// The paragraphs, list items and cells of a file's comments, each with its first line.
fn comments(file: &Source) -> Vec<(usize, String)> {
    let mut code = false;
    let mut parts = Parts::default();
    for (at, line) in file.numbered() {
        let text = line.comment.trim_start().trim_start_matches('/');
        let text = text.trim_start_matches('!').trim_start();
        let fence = text.starts_with("```");
        code ^= fence;
        let beside = !line.code.trim().is_empty();
        if code || fence || text.is_empty() {
            parts.end();
        } else {
            if beside {
                parts.end();
            }
            parts.line(at, text);
        }
    }
    parts.done()
}

/// Text that is joined from lines.
#[derive(Default)]
struct Parts {
    all: Vec<(usize, String)>,
    open: Option<(usize, String)>,
}

impl Parts {
    fn end(&mut self) {
        self.all.extend(self.open.take());
    }

    fn done(mut self) -> Vec<(usize, String)> {
        self.end();
        self.all
    }

    fn line(&mut self, at: usize, line: &str) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            return self.end();
        }
        if text.starts_with('|') {
            self.end();
            let cells = text.split('|').map(|cell| (at, cell.to_owned()));
            return self.all.extend(cells);
        }
        let text = item(text).map_or(text, |rest| {
            self.end();
            rest
        });
        let (_, open) = self.open.get_or_insert_with(|| (at, String::new()));
        open.push(' ');
        open.push_str(text);
    }
}

/// The text of a line that begins a list item: after `* `, `- `, `1. `, or a rule's name as `R1. `.
fn item(text: &str) -> Option<&str> {
    let (mark, rest) = text.split_once(' ')?;
    let named = mark.strip_suffix('.').is_some_and(|name| {
        let name = name.trim_start_matches(|c: char| c.is_ascii_uppercase());
        !name.is_empty() && name.chars().all(|c| c.is_ascii_digit())
    });
    (named || ["*", "-"].contains(&mark)).then_some(rest)
}

/// The sentences of a part; a code span and the target of a link are a word each.
fn sentences(part: &str) -> Vec<String> {
    let mut plain = String::new();
    for (at, piece) in part.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { piece } else { "x" });
    }
    let mut all = vec![String::new()];
    for word in plain.split_whitespace() {
        let word = link_text(word);
        if let Some(last) = all.last_mut() {
            last.push(' ');
            last.push_str(&word);
        }
        if word.ends_with(['.', '?', '!']) {
            all.push(String::new());
        }
    }
    all
}

/// A word without the target of a link in it.
fn link_text(word: &str) -> String {
    match word.split_once("](") {
        Some((text, rest)) => {
            let after = rest.split_once(')').map_or("", |(_, after)| after);
            format!("{text}{after}")
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{check, page, sentences};

    const PAGE: &str = "a.md";
    const CODE: &str = "crates/a/src/x.rs";

    fn words(count: usize) -> String {
        "word ".repeat(count).trim_end().to_owned()
    }

    #[test]
    fn long_sentence_is_reported_in_pages_and_comments() {
        let long = format!("Fine.\n\n{}\n{}.\n", words(20), words(21));
        assert_eq!(planted(check, &[(PAGE, &long)])[0].0, 3);
        let comment = format!("//! Fine.\n//!\n//! {}\n//! {}.\n", words(20), words(21));
        assert_eq!(planted(check, &[(CODE, &comment)])[0].0, 3);
        let fine = format!(
            "{}.\n{}? {}\n\n* {}\n* {}\n",
            words(40),
            words(40),
            words(39),
            words(40),
            words(40)
        );
        assert_eq!(planted(check, &[(PAGE, &fine)]), []);
        assert_eq!(
            planted(check, &[(PAGE, &format!("```\n{}\n```\n", words(90)))]),
            []
        );
    }

    #[test]
    fn wide_table_line_is_reported() {
        let table = |cell: usize| format!("| a |\n|---|\n| {} |\n", "x".repeat(cell));
        assert_eq!(planted(check, &[(PAGE, &table(197))])[0].0, 3);
        assert_eq!(planted(check, &[(PAGE, &table(196))]), []);
    }

    #[test]
    fn forms_of_who_are_counted_for_pages_and_each_crate() {
        let text = |who: usize| {
            format!(
                "{}.\n",
                "A line of ten words has Whom in its midst. ".repeat(who)
            )
        };
        for (path, text) in [(PAGE, text(3)), (CODE, format!("// {}", text(3)))] {
            assert_eq!(planted(check, &[(path, &text)]).len(), 1, "{path}");
        }
        assert_eq!(planted(check, &[(PAGE, &text(2))]), []);
        let split = [(PAGE, text(2)), ("b.md", text(1))];
        let split: Vec<(&str, &str)> = split
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        assert_eq!(planted(check, &split).len(), 1);
    }

    #[test]
    fn spans_links_cells_and_items_are_split() {
        assert_eq!(
            sentences("`a b c` is [it](http://x/y). So"),
            [" x is [it.", " So"]
        );
        let parts = page("| a | b |\n\nc\nd\n* e\nR1. f\n12. g\n");
        let text: Vec<&str> = parts.iter().map(|(_, text)| text.trim()).collect();
        assert_eq!(text, ["", "a", "b", "", "c d", "e", "f", "g"]);
    }
}
