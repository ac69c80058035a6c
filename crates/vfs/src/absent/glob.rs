// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matches one name against a glob pattern (`*`, `?`, `[..]`, and `\` before a literal character),
//! and provides the matching loop that patterns of whole paths use too.
//!
//! # Kernel analogue
//! `glob_match`, and fnmatch(3) without flags, apart from `FNM_PATHNAME`, which names have no need
//! of.
//!
//! # Guarantees
//! G1. Names are bytes. [`Glob::is_sound`] detects a `[` without its `]`, a `\` at the end, and
//!     braces that are not escaped, so that they can be refused. Taken all the same, these stand
//!     for themselves.
//! G2. Matching takes no memory and at most (length of the pattern) * (length of the name) steps:
//!     of several `*` only the last one met is ever tried again.

/// A parsed pattern; its memory is linear in its length, plus 32 bytes for each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Glob {
    /// One name and no other.
    Exact(Box<[u8]>),
    /// With something that stands for others.
    Wild(Box<[Token]>),
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// This byte.
    Byte(u8),
    /// Any byte (`?`).
    One,
    /// Any bytes, none included (`*`).
    Many,
    /// A byte of a set (`[..]`).
    Class(Box<Class>),
}

impl Token {
    fn meets(&self, byte: &u8) -> bool {
        match self {
            Self::Byte(b) => b == byte,
            Self::One => true,
            Self::Class(class) => class.has(*byte),
            Self::Many => false,
        }
    }
}

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class([u64; 4]);

impl Class {
    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Reads a class after its `[`; the text behind the `]`, or `None` if there is no such.
    fn read(mut text: &[u8]) -> Option<(Self, &[u8])> {
        let mut class = Self([0; 4]);
        let negated = matches!(text.first(), Some(b'!' | b'^'));
        text = &text[usize::from(negated)..];
        let mut first = true;
        loop {
            let (&byte, rest) = text.split_first()?;
            text = rest;
            if byte == b']' && !first {
                break;
            }
            first = false;
            let low = Self::literal(byte, &mut text)?;
            let mut high = low;
            if let [b'-', end, rest @ ..] = text
                && *end != b']'
            {
                text = rest;
                high = Self::literal(*end, &mut text)?;
            }
            (low..=high).for_each(|byte| class.add(byte));
        }
        if negated {
            class.0 = class.0.map(|word| !word);
        }
        Some((class, text))
    }

    /// The byte meant by `byte`, or after a `\` by the next one.
    fn literal(byte: u8, text: &mut &[u8]) -> Option<u8> {
        if byte != b'\\' {
            return Some(byte);
        }
        let (&byte, rest) = text.split_first()?;
        *text = rest;
        Some(byte)
    }
}

impl Glob {
    /// Parses a pattern.
    pub(super) fn new(mut text: &[u8]) -> Self {
        let mut tokens = Vec::new();
        while let Some((&byte, rest)) = text.split_first() {
            text = rest;
            let token = match byte {
                b'?' => Token::One,
                b'*' if tokens.last() == Some(&Token::Many) => continue,
                b'*' => Token::Many,
                b'[' => match Class::read(rest) {
                    Some((class, rest)) => {
                        text = rest;
                        Token::Class(Box::new(class))
                    }
                    None => Token::Byte(byte),
                },
                b'\\' => match rest.split_first() {
                    Some((&meant, rest)) => {
                        text = rest;
                        Token::Byte(meant)
                    }
                    None => Token::Byte(byte),
                },
                _ => Token::Byte(byte),
            };
            tokens.push(token);
        }
        let byte = |token: &Token| match token {
            Token::Byte(byte) => Some(*byte),
            _ => None,
        };
        match tokens.iter().map(byte).collect::<Option<Vec<u8>>>() {
            Some(exact) => Self::Exact(exact.into()),
            None => Self::Wild(tokens.into()),
        }
    }

    /// Whether each special character of `text` is used as one: braces, which other dialects
    /// have, are none here and must be escaped.
    pub(super) fn is_sound(mut text: &[u8]) -> bool {
        while let Some((&byte, rest)) = text.split_first() {
            text = match (byte, rest) {
                (b'{' | b'}', _) | (b'\\', []) => return false,
                (b'\\', [_, rest @ ..]) => rest,
                (b'[', rest) => match Class::read(rest) {
                    Some((_, rest)) => rest,
                    None => return false,
                },
                _ => rest,
            };
        }
        true
    }

    /// The pattern of one name.
    pub(super) fn exact(name: &[u8]) -> Self {
        Self::Exact(name.into())
    }

    /// Whether it matches `name`.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => **exact == *name,
            Self::Wild(tokens) => sweep(tokens, name, |t| *t == Token::Many, Token::meets),
        }
    }
}

/// Whether `pattern` matches the whole of `items`: `many` says whether a piece stands for any
/// number of them, `meets` whether another one matches an item.
pub(super) fn sweep<P, T>(
    pattern: &[P],
    items: &[T],
    many: impl Fn(&P) -> bool,
    meets: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut i) = (0, 0);
    // Behind the last piece that stands for many, and the first item that it does not take.
    let mut again = None;
    while let Some(item) = items.get(i) {
        match pattern.get(p) {
            Some(piece) if many(piece) => {
                p += 1;
                again = Some((p, i));
            }
            Some(piece) if meets(piece, item) => {
                p += 1;
                i += 1;
            }
            _ => {
                let Some((behind, taken)) = again else {
                    return false;
                };
                // It takes one more.
                again = Some((behind, taken + 1));
                (p, i) = (behind, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matches of a pattern, written as plainly as possible, and exponentially slow.
    fn plainly(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((b'*', rest)), _) => {
                plainly(rest, name) || !name.is_empty() && plainly(pattern, &name[1..])
            }
            (Some(_), None) => false,
            (Some((b'?', rest)), Some((_, left))) => plainly(rest, left),
            (Some((b'[', rest)), Some((byte, left))) => match set(rest) {
                Some((bytes, rest)) => bytes.contains(byte) && plainly(rest, left),
                None => *byte == b'[' && plainly(rest, left),
            },
            (Some((b'\\', rest)), Some((byte, left))) => match rest.split_first() {
                Some((meant, rest)) => meant == byte && plainly(rest, left),
                None => *byte == b'\\' && left.is_empty(),
            },
            (Some((meant, rest)), Some((byte, left))) => meant == byte && plainly(rest, left),
        }
    }

    /// The bytes of a class, by trying each.
    fn set(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let negated = matches!(text.first(), Some(b'!' | b'^'));
        let mut at = usize::from(negated);
        let begin = at;
        let mut ranges = Vec::new();
        loop {
            let mut take = || {
                let mut byte = *text.get(at)?;
                if byte == b'\\' {
                    at += 1;
                    byte = *text.get(at)?;
                }
                at += 1;
                Some(byte)
            };
            let low = take()?;
            let dashed = text.get(at) == Some(&b'-') && text.get(at + 1)? != &b']';
            if dashed {
                at += 1;
                let mut byte = *text.get(at)?;
                if byte == b'\\' {
                    at += 1;
                    byte = *text.get(at)?;
                }
                at += 1;
                ranges.push((low, byte));
            } else {
                ranges.push((low, low));
            }
            if text.get(at) == Some(&b']') && at > begin {
                break;
            }
        }
        let within = |byte: &u8| ranges.iter().any(|(a, b)| (a..=b).contains(&byte));
        let bytes = (0..=255).filter(|byte| within(byte) != negated).collect();
        Some((bytes, &text[at + 1..]))
    }

    #[test]
    fn patterns_mean_what_fnmatch_says() {
        for (pattern, name, means) in [
            ("*.pem", "key.pem", true),
            ("*.pem", ".pem", true),
            ("*.pem", "key.pem.txt", false),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[!]]", "x", true),
            ("[a-]", "-", true),
            ("[]-a]", "^", true),
            ("[", "[", true),
            ("[abc", "[abc", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[\\]]", "]", true),
            ("a**b", "ab", true),
            ("**", "", true),
            ("\\", "\\", true),
            ("*a*b*c", "xxaybzzc", true),
            ("*a*b*c", "xxaybzz", false),
        ] {
            let said = Glob::new(pattern.as_bytes()).matches(name.as_bytes());
            assert_eq!(said, means, "{pattern} {name}");
        }
        assert!(Glob::new(b"\xff*\x80").matches(b"\xff\xfe\x80"));
    }

    #[test]
    fn random_patterns_mean_what_they_plainly_say() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % n
        };
        let alphabet = b"ab-\\[]!^*?*c";
        let mut met = 0;
        for _ in 0..200_000 {
            let mut draw = |long: usize, of: usize| -> Vec<u8> {
                let long = below(long);
                (0..long).map(|_| alphabet[below(of)]).collect()
            };
            let (pattern, name) = (draw(9, alphabet.len()), draw(9, 6));
            let said = Glob::new(&pattern).matches(&name);
            let (p, n) = (pattern.escape_ascii(), name.escape_ascii());
            assert_eq!(said, plainly(&pattern, &name), "{p} {n}");
            met += usize::from(said);
        }
        assert!(met > 5_000, "{met}");
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = Glob::new(&b"*a".repeat(1000));
        let name = vec![b'a'; 255];
        assert!(!pattern.matches(&name));
        let stars = Glob::new(b"*a*a*a*a*a*a*a*a*a*a*a*a*b");
        for _ in 0..10_000 {
            assert!(!stars.matches(&name));
        }
    }
}
