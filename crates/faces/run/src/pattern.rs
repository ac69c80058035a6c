// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses patterns of absent names, and expands braces.
//!
//! # Dialect
//! | written | means |
//! |---|---|
//! | `*`, `?` | any bytes, one byte, within a name |
//! | `[abc]`, `[a-z]`, `[!a]`, `[^a]` | one byte of a set, or not of it |
//! | `**` between slashes | any number of directories; at the end, all that is below |
//! | `{a,b}` | each alternative, which may hold slashes and braces |
//! | `\` | the next character is itself |
//!
//! # Rules
//! R1. Any other text is refused, and never taken literally: a rule that means something else than
//!     its author thinks hides nothing.
//! R2. A pattern expands to [`ALL_MAX`] patterns at most.

use openpath_commit::Refusal;
use std::path::PathBuf;

/// How many patterns one with braces may expand to.
const ALL_MAX: usize = 1024;
/// How deep braces may be nested.
const DEPTH_MAX: usize = 8;

/// Expands `text` to patterns without braces.
///
/// # Errors
/// It is not in the dialect; the message says why, and how to write the character itself.
pub(crate) fn expand(text: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    let all = attempt(text.as_bytes());
    all.map_err(|why| Refusal::usage(format!("`{text}` is no pattern of absent names: {why}")))
}

fn attempt(text: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    match text {
        b"" => return Err("it is empty"),
        [b'!', ..] => return Err("`!` negates nothing here: write `\\!` for the character"),
        b"~" | [b'~', b'/', ..] => return Err("write the home directory in full"),
        _ => {}
    }
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let (all, _) = reader.alternatives()?;
    all.iter().try_for_each(|pattern| sound(pattern))?;
    Ok(all)
}

/// Checks a pattern as its author wrote it, which [`expand`] has accepted: it must be one pattern,
/// with nothing left for a shell to expand.
///
/// # Errors
/// A comma outside of braces and sets, or a `~` or `$` before a path, that is not escaped.
pub(crate) fn check_written(text: &str) -> Result<(), Refusal> {
    let no = |why: &str| {
        Err(Refusal::usage(format!(
            "`{text}` is no pattern of absent names: {why}"
        )))
    };
    if let Some(sign @ ('~' | '$')) = text.chars().next().filter(|_| text.contains('/')) {
        return no(&format!(
            "`{sign}` is not expanded here: write the path in full, or `\\{sign}` for the character"
        ));
    }
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        depth: 0,
    };
    while let Some(byte) = reader.next() {
        match byte {
            b'\\' => drop(reader.next()),
            // The pattern is valid.
            b'[' => reader.set().unwrap_or_default(),
            b'{' => reader.depth += 1,
            b'}' => reader.depth = reader.depth.saturating_sub(1),
            b',' if reader.depth == 0 => {
                let why = "commas do not separate patterns: repeat the option for each, or \
                    write `\\,` for the character";
                return no(why);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a pattern without braces can match.
fn sound(pattern: &[u8]) -> Result<(), &'static str> {
    let inner = pattern.strip_prefix(b"/").unwrap_or(pattern);
    for part in inner.split(|byte| *byte == b'/') {
        match part {
            b"" => return Err("a name in it is empty: no slash at the end, nor two in a row"),
            b"." | b".." => return Err("write it without `.` and `..`"),
            b"**" => {}
            part if part.windows(2).any(|two| two == b"**") && has_many(part) => {
                return Err("`**` stands alone between slashes");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a name contains `**` outside of sets and not escaped.
fn has_many(part: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = part.get(at) {
        match byte {
            b'\\' => at += 2,
            b'[' => {
                let mut reader = Reader {
                    text: part,
                    at: at + 1,
                    depth: 0,
                };
                if reader.set().is_err() {
                    return false;
                }
                at = reader.at;
            }
            b'*' if part.get(at + 1) == Some(&b'*') => return true,
            _ => at += 1,
        }
    }
    false
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The depth of open braces.
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Reads up to the end, or in braces up to their end; returns each expansion, and the number of
    /// alternatives.
    fn alternatives(&mut self) -> Result<(Vec<Vec<u8>>, usize), &'static str> {
        let (mut all, mut count) = (Vec::new(), 1);
        let mut now = vec![Vec::new()];
        loop {
            let from = self.at;
            let Some(byte) = self.next() else {
                if self.depth > 0 {
                    return Err("a `{` has no `}`: write `\\{` for the character");
                }
                return Ok((now, 1));
            };
            match byte {
                b'\\' => match self.next() {
                    None => return Err("a `\\` is at its end: write `\\\\` for the character"),
                    Some(b'/') => return Err("a slash cannot be escaped"),
                    Some(_) => {}
                },
                b'[' => self.set()?,
                b'}' if self.depth == 0 => {
                    return Err("a `}` has no `{`: write `\\}` for the character");
                }
                b'}' => {
                    all.append(&mut now);
                    return Ok((all, count));
                }
                b',' if self.depth > 0 => {
                    all.append(&mut now);
                    now.push(Vec::new());
                    count += 1;
                    continue;
                }
                b'{' => {
                    now = self.choices(&now, all.len())?;
                    continue;
                }
                _ => {}
            }
            for pattern in &mut now {
                pattern.extend_from_slice(&self.text[from..self.at]);
            }
        }
    }

    /// Appends each alternative of the braces that begin here to each of `before`.
    fn choices(&mut self, before: &[Vec<u8>], beside: usize) -> Result<Vec<Vec<u8>>, &'static str> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("braces are nested too deep in it");
        }
        let (inner, count) = self.alternatives()?;
        self.depth -= 1;
        if count < 2 {
            return Err("braces hold alternatives, `{a,b}`: write `\\{` for the character");
        }
        if before.len() * inner.len() + beside > ALL_MAX {
            return Err("its braces stand for too many patterns");
        }
        let with = |begin: &Vec<u8>| {
            let begin = begin.clone();
            inner.iter().map(move |end| [&begin[..], end].concat())
        };
        Ok(before.iter().flat_map(with).collect())
    }

    /// Reads a set to its end, after its `[`.
    fn set(&mut self) -> Result<(), &'static str> {
        const OPEN: &str = "a `[` has no `]`: write `\\[` for the character";
        if matches!(self.text.get(self.at), Some(b'!' | b'^')) {
            self.at += 1;
        }
        let begin = self.at;
        loop {
            let first = self.at == begin;
            let low = match self.next().ok_or(OPEN)? {
                b']' if !first => return Ok(()),
                b'[' if matches!(self.text.get(self.at), Some(b':' | b'.' | b'=')) => {
                    return Err("classes by name, `[:alpha:]`, are not known: write `[a-zA-Z]`");
                }
                byte => self.member(byte)?,
            };
            if let [b'-', end, ..] = self.text[self.at..]
                && end != b']'
            {
                self.at += 2;
                if self.member(end)? < low {
                    return Err("a range in `[..]` ends before it begins");
                }
            }
        }
    }

    /// The byte of a set that `byte` stands for.
    fn member(&mut self, byte: u8) -> Result<u8, &'static str> {
        let meant = match byte {
            b'\\' => self.next().ok_or("a `[` has no `]`: write `\\[`")?,
            byte => byte,
        };
        match meant {
            b'/' => Err("a slash in `[..]` is never met: names have none"),
            meant => Ok(meant),
        }
    }
}

/// The leading directories of a pattern that are plain names, and the rest.
pub(crate) fn plain(pattern: &str) -> Option<(PathBuf, &str)> {
    let mut end = None;
    let mut name = String::new();
    let mut letters = pattern.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '/' => end = Some((at, name.clone())),
            '*' | '?' | '[' | '{' => break,
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            letter => name.push(letter),
        }
        if letter == '/' {
            name.push('/');
        }
    }
    let (at, name) = end.filter(|(at, _)| *at > 0)?;
    Some((name.into(), &pattern[at + 1..]))
}

/// `path` as a pattern that matches only itself.
pub(crate) fn escape(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for letter in path.chars() {
        if matches!(letter, '*' | '?' | '[' | '{' | '}' | ',' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::{escape, expand};

    fn all(text: &str) -> Vec<String> {
        let all = expand(text).unwrap_or_else(|why| panic!("{why}"));
        all.into_iter()
            .map(|pattern| String::from_utf8(pattern).unwrap())
            .collect()
    }

    #[test]
    fn braces_stand_for_their_alternatives() {
        assert_eq!(all("{k,z}.pem"), ["k.pem", "z.pem"]);
        assert_eq!(all("a{,.bak}"), ["a", "a.bak"]);
        assert_eq!(all("/{a/{b,c},d}/x"), ["/a/b/x", "/a/c/x", "/d/x"]);
        assert_eq!(all("{a,b}{1,2}"), ["a1", "a2", "b1", "b2"]);
        assert_eq!(all(r"\{k,z\}[{,}]"), [r"\{k,z\}[{,}]"]);
        assert_eq!(all("**/[a-c]*[!]x]/**"), ["**/[a-c]*[!]x]/**"]);
    }

    #[test]
    fn invalid_pattern_is_refused_with_its_reason() {
        let many = "{a,b}".repeat(11);
        let deep = format!("{}a,b{}", "{".repeat(9), "}".repeat(9));
        for (text, why) in [
            ("", "empty"),
            ("!x", "negates"),
            ("~/x", "home"),
            ("[ab", "no `]`"),
            ("{a,b", "no `}`"),
            ("a}", "no `{`"),
            ("{a}", "alternatives"),
            ("a{}", "alternatives"),
            ("{,}", "empty"),
            ("a\\", "at its end"),
            ("a\\/b", "escaped"),
            ("[[:alpha:]]", "by name"),
            ("[z-a]", "before it begins"),
            ("[a/]", "slash"),
            ("a**b", "alone"),
            ("a/**.pem", "alone"),
            ("a/", "slash at the end"),
            ("a//b", "two in a row"),
            ("a/../b", "`..`"),
            (&many, "too many"),
            (&deep, "too deep"),
        ] {
            let said = expand(text).map(drop).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
        assert!(expand(r"[*][*]\**").is_ok() && expand("[**]").is_ok());
    }

    #[test]
    fn escaped_path_matches_only_itself() {
        let path = r"/a*b/[c]/{d,e}/f\g?";
        let all = expand(&escape(path)).unwrap();
        let mut rules = openpath_vfs::AbsentRules::builder();
        for pattern in &all {
            rules = rules.glob(pattern);
        }
        let rules = rules.build().unwrap();
        assert!(all.len() == 1 && rules.means(path.as_bytes()));
        assert!(!rules.means(b"/axb/c/d/f"));
    }
}
