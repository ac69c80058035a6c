// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits a Rust file into code and comments, and marks tests.
//!
//! It is no parser. It knows enough of the grammar to tell code from comments and from the contents
//! of literals, so that no rule mistakes a word in a string for code.

/// One line, split. Columns are kept: the other kind's characters are spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, without comments and without the contents of strings and characters.
    pub code: String,
    /// The comments, with their markers.
    pub comment: String,
    /// Whether it is part of an item under `#[cfg(test)]`.
    pub test: bool,
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

/// Splits a file into its lines.
pub(super) fn scan(text: &str) -> Vec<Line> {
    let mut scanner = Scanner {
        chars: text.chars().collect(),
        at: 0,
        lines: vec![Line::default()],
        state: State::Code,
    };
    while scanner.at < scanner.chars.len() {
        scanner.step();
    }
    let mut lines = scanner.lines;
    if text.ends_with('\n') || text.is_empty() {
        lines.pop();
    }
    mark_tests(&mut lines);
    lines
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
    state: State,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Takes `count` characters as code, as comment, or as neither.
    fn take(&mut self, count: usize, code: bool, comment: bool) {
        for _ in 0..count {
            let Some(&c) = self.chars.get(self.at) else {
                return;
            };
            self.at += 1;
            if c == '\n' {
                self.lines.push(Line::default());
            } else if let Some(line) = self.lines.last_mut() {
                line.code.push(if code { c } else { ' ' });
                line.comment.push(if comment { c } else { ' ' });
            }
        }
    }

    fn step(&mut self) {
        let (c, next) = (self.peek(0), self.peek(1));
        match self.state {
            State::Code => self.step_code(c, next),
            State::LineComment => {
                if c == '\n' {
                    self.state = State::Code;
                }
                self.take(1, false, true);
            }
            State::BlockComment(depth) => match (c, next) {
                ('/', '*') => self.comment_mark(depth + 1),
                ('*', '/') => self.comment_mark(depth - 1),
                _ => self.take(1, false, true),
            },
            State::Text => match c {
                '\\' => self.take(2, false, false),
                '"' => self.end_text(0),
                _ => self.take(1, false, false),
            },
            State::RawText(hashes) => {
                if c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                    self.end_text(hashes);
                } else {
                    self.take(1, false, false);
                }
            }
        }
    }

    fn comment_mark(&mut self, depth: usize) {
        self.take(2, false, true);
        self.state = if depth == 0 {
            State::Code
        } else {
            State::BlockComment(depth)
        };
    }

    fn end_text(&mut self, hashes: usize) {
        self.take(1 + hashes, true, false);
        self.state = State::Code;
    }

    fn step_code(&mut self, c: char, next: char) {
        match (c, next) {
            ('/', '/') => self.state = State::LineComment,
            ('/', '*') => self.comment_mark(1),
            ('"', _) => {
                self.take(1, true, false);
                self.state = State::Text;
            }
            ('\'', '\\') => {
                // The quote, the backslash and the escaped character; then up to the closing quote.
                self.take(1, true, false);
                self.take(2, false, false);
                while !matches!(self.peek(0), '\'' | '\n' | '\0') {
                    self.take(1, false, false);
                }
                self.take(1, true, false);
            }
            ('\'', _) if self.peek(2) == '\'' => {
                self.take(1, true, false);
                self.take(1, false, false);
                self.take(1, true, false);
            }
            _ => match self.raw_start() {
                Some((length, hashes)) => {
                    self.take(length, true, false);
                    self.state = State::RawText(hashes);
                }
                None => self.take(1, true, false),
            },
        }
    }

    /// Length and hashes of the opening of a raw string that starts here.
    fn raw_start(&self) -> Option<(usize, usize)> {
        let before = self.at.checked_sub(1).and_then(|at| self.chars.get(at));
        if before.is_some_and(|c| is_word(*c)) {
            return None;
        }
        let prefix = usize::from(matches!(self.peek(0), 'b' | 'c'));
        if self.peek(prefix) != 'r' {
            return None;
        }
        let hashes = (prefix + 1..)
            .take_while(|ahead| self.peek(*ahead) == '#')
            .count();
        let length = prefix + 1 + hashes + 1;
        (self.peek(length - 1) == '"').then_some((length, hashes))
    }
}

/// Marks the lines of every item under `#[cfg(test)]`.
fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let code = &lines[at].code;
        let start = code
            .find("#[cfg(test)]")
            .or_else(|| code.find("#[cfg(all(test"));
        let Some(column) = start else {
            at += 1;
            continue;
        };
        let end = item_end(lines, at, column);
        for line in &mut lines[at..=end] {
            line.test = true;
        }
        at = end + 1;
    }
}

/// The last line of the item with its first attribute at this line and column.
fn item_end(lines: &[Line], start: usize, column: usize) -> usize {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, line) in lines.iter().enumerate().skip(start) {
        let skipped = if at == start { column } else { 0 };
        for c in line.code.chars().skip(skipped) {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' if braces <= 1 => return at,
                '}' => braces -= 1,
                ';' if braces == 0 && brackets == 0 => return at,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

/// Whether this character can be part of a name.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `text` has `word` as a whole word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::{has_word, scan};

    fn code(text: &str) -> Vec<String> {
        scan(text)
            .into_iter()
            .map(|line| line.code.trim_end().to_owned())
            .collect()
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // b\nc /* d /* e */\nf */ g"), ["a", "c", "     g"]);
        assert_eq!(scan("a // b")[0].comment, "  // b");
        assert_eq!(code("/// x \"\nlet a = 1;"), ["", "let a = 1;"]);
    }

    #[test]
    fn bodies_of_literals_are_not_code() {
        assert_eq!(
            code(r#"f("a // \" b") + 'x' + '"' + '\'' + b"q""#),
            [r#"f("         ") + ' ' + ' ' + '  ' + b" ""#]
        );
        assert_eq!(
            code("r#\"a \" b\"# + br\"c\" + r\"\\\" + x"),
            ["r#\"     \"# + br\" \" + r\" \" + x"]
        );
        assert_eq!(code("\"a\nb\" c"), ["\"", " \" c"]);
        assert_eq!(code(r"'\u{1F600}' + z"), [r"'         ' + z"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(
            code("fn f<'a>(x: &'a str, r#type: u8) {}"),
            ["fn f<'a>(x: &'a str, r#type: u8) {}"]
        );
        assert_eq!(
            code("for r in 0..2 { bar\"x\" }"),
            ["for r in 0..2 { bar\" \" }"]
        );
    }

    #[test]
    fn items_under_test_are_marked_to_their_end() {
        let text = "a\n#[cfg(test)]\nmod t {\n  fn f() { \"}\" }\n}\nb\n#[cfg(test)]\nuse x;\nc\n\
                    #[cfg(test)]\nfn g(_: [u8; 2]) {\n}\nd\n";
        let marks: String = scan(text)
            .iter()
            .map(|line| if line.test { 't' } else { '.' })
            .collect();
        assert_eq!(marks, ".tttt.tt.ttt.");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("pub unsafe fn", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(has_word("unsafe_code; unsafe{", "unsafe"));
    }

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        assert_eq!(scan("").len(), 0);
        assert_eq!(scan("a").len(), 1);
        assert_eq!(scan("a\n\nb\n").len(), 3);
    }
}
