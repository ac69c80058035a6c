// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait of an operation's arguments, and arguments that are paths, numbers, modes or
//! times. Each is one word of the operation's line, and offers simpler values of itself.

use serde::{Deserialize, Serialize};

use super::text;

/// One argument of an operation.
pub trait Arg: Sized {
    /// Writes the argument as one word.
    fn put(&self, out: &mut String);
    /// Parses the word.
    ///
    /// # Errors
    /// A message about the fault.
    fn get(word: &str) -> Result<Self, String>;
    /// Simpler values to try when a failing case is shrunk, simplest first.
    fn simpler(&self) -> Vec<Self> {
        Vec::new()
    }
    /// The same argument with every descriptor number above `n` lowered by one, for use when the
    /// operation that made descriptor `n` is gone.
    #[must_use]
    fn lowered(&self, above: i32) -> Self
    where
        Self: Clone,
    {
        let _ = above;
        self.clone()
    }
}

/// A path, or any other byte string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Path(pub Vec<u8>);

impl From<&str> for Path {
    fn from(s: &str) -> Path {
        Path(s.as_bytes().to_vec())
    }
}

impl Arg for Path {
    fn put(&self, out: &mut String) {
        text::put(&self.0, out);
    }
    fn get(word: &str) -> Result<Self, String> {
        text::get(word).map(Path)
    }
    fn simpler(&self) -> Vec<Self> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        let parts: Vec<&[u8]> = self.0.split(|&b| b == b'/').collect();
        if parts.len() > 1 && parts.len() <= 64 {
            for skip in 0..parts.len() {
                let kept: Vec<&[u8]> = (0..parts.len())
                    .filter(|&i| i != skip)
                    .map(|i| parts[i])
                    .collect();
                all.push(kept.join(&b'/'));
            }
        }
        if self.0.len() > 24 {
            all.push(self.0[..self.0.len() / 2].to_vec());
            all.push(self.0[self.0.len() / 2..].to_vec());
        }
        all.retain(|p| !p.is_empty() && p.len() < self.0.len());
        all.into_iter().map(Path).collect()
    }
}

/// A decimal number.
impl Arg for i64 {
    fn put(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
    fn get(word: &str) -> Result<Self, String> {
        word.parse().map_err(|_| format!("not a number: {word}"))
    }
    fn simpler(&self) -> Vec<Self> {
        let mut all = vec![0, 1, self / 2];
        all.retain(|v| v.unsigned_abs() < self.unsigned_abs());
        all
    }
}

/// An octal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode(pub u64);

impl Arg for Mode {
    fn put(&self, out: &mut String) {
        out.push_str(&if self.0 == 0 {
            "0".to_owned()
        } else {
            format!("0{:o}", self.0)
        });
    }
    fn get(word: &str) -> Result<Self, String> {
        u64::from_str_radix(word, 8)
            .map(Mode)
            .map_err(|_| format!("not octal: {word}"))
    }
    fn simpler(&self) -> Vec<Self> {
        let kind = self.0 & 0o170000;
        let mut all = vec![Mode(kind), Mode(kind | 0o777), Mode(kind | 0o644)];
        all.retain(|m| m.0 != self.0 && (m.0 ^ kind).count_ones() < (self.0 ^ kind).count_ones());
        all
    }
}

/// A time of utimensat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Time {
    /// `UTIME_NOW`.
    Now,
    /// `UTIME_OMIT`.
    Omit,
    /// Seconds and nanoseconds, valid or not.
    At(i64, i64),
}

impl Arg for Time {
    fn put(&self, out: &mut String) {
        match self {
            Time::Now => out.push_str("now"),
            Time::Omit => out.push_str("omit"),
            Time::At(s, n) => out.push_str(&format!("{s}.{n}")),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        let bad = || format!("not a time: {word}");
        match word {
            "now" => Ok(Time::Now),
            "omit" => Ok(Time::Omit),
            _ => {
                let (s, n) = word.split_once('.').ok_or_else(bad)?;
                Ok(Time::At(
                    s.parse().map_err(|_| bad())?,
                    n.parse().map_err(|_| bad())?,
                ))
            }
        }
    }
    fn simpler(&self) -> Vec<Self> {
        if *self == Time::Omit {
            Vec::new()
        } else {
            vec![Time::Omit]
        }
    }
}
