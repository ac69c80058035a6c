// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines [`How`], the third argument of openat2(2), and parses it from the words of a case.

/// `struct open_how`, as openat2(2) takes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct How {
    /// `O_*`.
    pub flags: u64,
    /// Permission bits of a new file.
    pub mode: u64,
    /// `RESOLVE_*`.
    pub resolve: u64,
}

/// `RESOLVE_CACHED`: answer from the cache, or `EAGAIN`.
pub const RESOLVE_CACHED: u64 = 0x20;

const FLAGS: &[(&str, u64)] = &[
    ("RDONLY", 0),
    ("WRONLY", 0o1),
    ("RDWR", 0o2),
    ("CREAT", 0o100),
    ("EXCL", 0o200),
    ("NOCTTY", 0o400),
    ("TRUNC", 0o1000),
    ("APPEND", 0o2000),
    ("NONBLOCK", 0o4000),
    ("DIRECTORY", 0o200_000),
    ("NOFOLLOW", 0o400_000),
    ("NOATIME", 0o1_000_000),
    ("CLOEXEC", 0o2_000_000),
    ("PATH", 0o10_000_000),
    ("TMPFILE", 0o20_200_000),
];

const RESOLVE: &[(&str, u64)] = &[
    ("NO_XDEV", 0x01),
    ("NO_MAGICLINKS", 0x02),
    ("NO_SYMLINKS", 0x04),
    ("BENEATH", 0x08),
    ("IN_ROOT", 0x10),
    ("CACHED", RESOLVE_CACHED),
];

impl How {
    /// Parses words with `|` between them: the names of flags without `O_` and `RESOLVE_`,
    /// `mode=OCTAL`, `flags=HEX` and `resolve=HEX` for bits without a name.
    #[must_use]
    pub fn parse(words: &str) -> Option<How> {
        let mut how = How::default();
        for word in words.split('|') {
            let named = |list: &[(&str, u64)]| {
                let found = list.iter().find(|(name, _)| *name == word);
                found.map(|(_, bits)| *bits)
            };
            if let Some(bits) = named(FLAGS) {
                how.flags |= bits;
            } else if let Some(bits) = named(RESOLVE) {
                how.resolve |= bits;
            } else {
                let (key, value) = word.split_once('=')?;
                match key {
                    "mode" => how.mode = u64::from_str_radix(value, 8).ok()?,
                    "flags" => how.flags |= u64::from_str_radix(value, 16).ok()?,
                    "resolve" => how.resolve |= u64::from_str_radix(value, 16).ok()?,
                    _ => return None,
                }
            }
        }
        Some(how)
    }

    /// Whether it makes or truncates, so that no cache can answer.
    #[must_use]
    pub fn makes(self) -> bool {
        const MAKES: u64 = 0o100 | 0o1000 | 0o20_000_000;
        self.flags & MAKES != 0
    }

    /// The same with `RESOLVE_CACHED`.
    #[must_use]
    pub fn cached(self) -> How {
        How {
            resolve: self.resolve | RESOLVE_CACHED,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::How;

    #[test]
    fn words_become_bits() {
        let how = How::parse("WRONLY|CREAT|mode=644|BENEATH|resolve=40").expect("known words");
        assert_eq!((how.flags, how.mode, how.resolve), (0o101, 0o644, 0x48));
        assert_eq!(how.cached().resolve, 0x68);
        for wrong in ["WRONG", "mode=9", "odd=1", ""] {
            assert_eq!(How::parse(wrong), None, "{wrong:?}");
        }
    }
}
