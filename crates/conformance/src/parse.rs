// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the texts of cases: their steps, calls and right answers.
//!
//! A line is a step; words are separated by blanks, `#` begins a comment line. `case ID` begins a
//! case, the lines `says ...` after it are what the man page or the kernel specifies. The other
//! words are those that [`Step`] names.
//!
//! * A CALL is `[@NAME] PATH FLAGS`: `@NAME` is a held descriptor, `@bad` is none; PATH is `""` if
//!   it is empty and `NULL` if there is none; FLAGS are those of
//!   [`How::parse`](crate::how::How::parse).
//! * An ANSWER is `ok`, `ok=CONTENT`, the name of an error, `unknown` or `negative` ([`Answer`]),
//!   or several with `|` between them.
//! * In paths and contents `{here}` is the absolute path of the case's directory, `{NAME}` the
//!   number of a held descriptor, and `{TEXT*COUNT}` the text repeated this often.

use crate::case::{Answer, Call, Case, Expect, From, Line, Step};
use crate::errno::Errno;
use crate::how::How;
use std::fmt;

/// An invalid line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its number, from 1.
    pub line: usize,
    /// The line, or the fault in it.
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for Unreadable {}

/// The cases of a text.
///
/// # Errors
/// The first invalid line.
pub fn parse(text: &str) -> Result<Vec<Case>, Unreadable> {
    let mut cases: Vec<Case> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || Unreadable {
            line: at + 1,
            text: line.to_owned(),
        };
        if let Some(id) = line.strip_prefix("case ") {
            cases.push(Case {
                id: id.trim().to_owned(),
                says: String::new(),
                steps: Vec::new(),
            });
            continue;
        }
        let case = cases.last_mut().ok_or_else(wrong)?;
        if let Some(says) = line.strip_prefix("says ") {
            if !case.says.is_empty() {
                case.says.push(' ');
            }
            case.says.push_str(says.trim());
        } else {
            case.steps.push(Line {
                number: at + 1,
                text: line.to_owned(),
                step: step(line).ok_or_else(wrong)?,
            });
        }
    }
    Ok(cases)
}

fn step(line: &str) -> Option<Step> {
    let (what, answers) = line.split_once("=>").unwrap_or((line, ""));
    let words: Vec<&str> = what.split_whitespace().collect();
    let answers: Option<Vec<Expect>> = answers.split_whitespace().map(expect).collect();
    let answers = answers?;
    let (verb, rest) = words.split_first()?;
    match (*verb, rest) {
        ("hold", [name, call @ ..]) if answers.is_empty() => {
            Some(Step::Hold((*name).to_owned(), self::call(call)?))
        }
        ("tries", [count, words @ ..]) => Some(Step::Tries(
            count.parse().ok()?,
            call(words)?,
            one(answers)?,
        )),
        ("open", words) => Some(Step::Open(call(words)?, one(answers)?)),
        ("try", words) => Some(Step::Try(call(words)?, one(answers)?)),
        ("row", words) => Some(Step::Row(call(words)?, answers.try_into().ok()?)),
        ("stat", [path]) => Some(Step::Stat(text(path), one(answers)?)),
        ("umount", [path]) => Some(Step::Umount(text(path), one(answers)?)),
        _ if answers.is_empty() => prepare(verb, rest),
        _ => None,
    }
}

/// The steps without an answer.
fn prepare(verb: &str, rest: &[&str]) -> Option<Step> {
    let bits = |word: &str| u32::from_str_radix(word, 8).ok();
    Some(match (verb, rest) {
        ("dir", [path]) => Step::Dir(text(path), 0o755),
        ("dir", [path, mode]) => Step::Dir(text(path), bits(mode)?),
        ("file", [path]) => Step::File(text(path), 0o644),
        ("file", [path, mode]) => Step::File(text(path), bits(mode)?),
        ("link", [path, target]) => Step::Link(text(path), text(target)),
        ("fifo", [path]) => Step::Fifo(text(path), 0o644),
        ("remove", [path]) => Step::Remove(text(path)),
        ("rename", [old, new]) => Step::Rename(text(old), text(new)),
        ("swap", [one, other]) => Step::Swap(text(one), text(other)),
        ("chmod", [path, mode]) => Step::Chmod(text(path), bits(mode)?),
        ("age", [path]) => Step::Age(text(path)),
        ("mount", [path]) => Step::Mount(text(path)),
        ("bind", [source, target]) => Step::Bind(text(source), text(target)),
        ("user", [uid]) => Step::User(uid.parse().ok()?),
        ("cold", []) => Step::Cold,
        ("release", [name]) => Step::Release(text(name)),
        ("swapping", [one, other]) => Step::Swapping(text(one), text(other)),
        ("settled", []) => Step::Settled,
        ("nodes", ["keep"]) => Step::Nodes(false),
        ("nodes", ["same"]) => Step::Nodes(true),
        _ => return None,
    })
}

fn text(word: &str) -> String {
    if word == "\"\"" {
        String::new()
    } else {
        word.to_owned()
    }
}

fn call(words: &[&str]) -> Option<Call> {
    let (from, rest) = match words {
        ["@bad", rest @ ..] => (From::Bad, rest),
        [first, rest @ ..] if first.starts_with('@') => (From::Held(first[1..].to_owned()), rest),
        rest => (From::Cwd, rest),
    };
    let [path, flags] = rest else { return None };
    Some(Call {
        from,
        path: (*path != "NULL").then(|| text(path)),
        how: How::parse(flags)?,
    })
}

fn one(mut answers: Vec<Expect>) -> Option<Expect> {
    if answers.len() == 1 {
        answers.pop()
    } else {
        None
    }
}

fn expect(words: &str) -> Option<Expect> {
    let answer = |word: &str| match word {
        "ok" => Some(Answer::Ok),
        "unknown" => Some(Answer::Unknown),
        "negative" => Some(Answer::Negative),
        _ => match word.strip_prefix("ok=") {
            Some(content) => Some(Answer::Content(content.to_owned())),
            None => Errno::named(word).map(Answer::Error),
        },
    };
    words
        .split('|')
        .map(answer)
        .collect::<Option<_>>()
        .map(Expect)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn invalid_lines_are_named() {
        for wrong in [
            "try f RDONLY => ok",
            "case a\nfrobnicate",
            "case a\ntry f RDONLY",
            "case a\ntry f RDONLY => ok ok",
            "case a\nrow f RDONLY => ok ok",
            "case a\ntry f ODD => ok",
            "case a\ntry f RDONLY => EODD",
            "case a\ncold now",
            "case a\ndir d => ok",
        ] {
            let found = parse(wrong).expect_err(wrong);
            assert_eq!(found.line, wrong.lines().count(), "{wrong}");
        }
    }

    #[test]
    fn needs_of_a_case_are_found() {
        use crate::host::Need;
        let cases = parse("case a\nsays b\nsays c\nlink l f\ncold\ntry NULL CREAT => EAGAIN\n");
        let cases = cases.expect("readable");
        assert_eq!(cases[0].says, "b c");
        let needs = [Need::Cold, Need::Links, Need::NullPath];
        assert_eq!(cases[0].needs(), needs);
        assert!(!cases[0].has_rows());
    }
}
