// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the arguments that name descriptors, and the lengths and offsets of vectored and copying
//! calls.

use serde::{Deserialize, Serialize};

use super::args::{Arg, Path};
use openpath_abi::fcntl::AT_FDCWD;

/// A number that no case ever opens.
pub const NEVER: i32 = 9999;
/// The highest number that an operation can open without naming it.
const HIGH: i32 = 64;

fn number(word: &str) -> Result<i32, String> {
    word.parse()
        .map_err(|_| format!("not a descriptor: {word}"))
}

fn lower(n: i32, above: i32) -> i32 {
    if n > above && n <= HIGH { n - 1 } else { n }
}

/// A descriptor number, open or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fd(pub i32);

impl Arg for Fd {
    fn put(&self, out: &mut String) {
        out.push_str(&self.0.to_string());
    }
    fn get(word: &str) -> Result<Self, String> {
        number(word).map(Fd)
    }
    fn lowered(&self, above: i32) -> Self {
        Fd(lower(self.0, above))
    }
}

/// Where a relative path starts: a descriptor number, or `cwd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dir(pub i32);

/// The working directory.
pub const CWD: Dir = Dir(AT_FDCWD);

impl Arg for Dir {
    fn put(&self, out: &mut String) {
        if *self == CWD {
            out.push_str("cwd");
        } else {
            Fd(self.0).put(out);
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        if word == "cwd" {
            Ok(CWD)
        } else {
            number(word).map(Dir)
        }
    }
    fn simpler(&self) -> Vec<Self> {
        if *self == CWD { Vec::new() } else { vec![CWD] }
    }
    fn lowered(&self, above: i32) -> Self {
        Dir(lower(self.0, above))
    }
}

/// What happens to a new descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// `+`: it stays open, and the outcome is its number.
    Open,
    /// `-`: it is closed at once, and the outcome is its flags.
    Look,
    /// `=N`: it is moved to this number as a shell would, and the outcome is its flags.
    At(i32),
}

impl Arg for Keep {
    fn put(&self, out: &mut String) {
        match self {
            Keep::Open => out.push('+'),
            Keep::Look => out.push('-'),
            Keep::At(n) => out.push_str(&format!("={n}")),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        match word {
            "+" => Ok(Keep::Open),
            "-" => Ok(Keep::Look),
            _ => match word.strip_prefix('=') {
                Some(n) => number(n).map(Keep::At),
                None => Err(format!("not +, - or =N: {word}")),
            },
        }
    }
    fn simpler(&self) -> Vec<Self> {
        match self {
            Keep::Look => Vec::new(),
            Keep::Open => vec![Keep::Look],
            Keep::At(_) => vec![Keep::Look, Keep::Open],
        }
    }
    fn lowered(&self, above: i32) -> Self {
        match self {
            Keep::At(n) => Keep::At(lower(*n, above)),
            other => *other,
        }
    }
}

/// The object of an extended attribute call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obj {
    /// `p:PATH`, links followed.
    Path(Path),
    /// `l:PATH`, last link not followed.
    LPath(Path),
    /// A descriptor.
    Fd(Fd),
}

impl Arg for Obj {
    fn put(&self, out: &mut String) {
        match self {
            Obj::Path(p) => {
                out.push_str("p:");
                p.put(out);
            }
            Obj::LPath(p) => {
                out.push_str("l:");
                p.put(out);
            }
            Obj::Fd(fd) => fd.put(out),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        if let Some(p) = word.strip_prefix("p:") {
            return Path::get(p).map(Obj::Path);
        }
        match word.strip_prefix("l:") {
            Some(p) => Path::get(p).map(Obj::LPath),
            None => Fd::get(word).map(Obj::Fd),
        }
    }
    fn simpler(&self) -> Vec<Self> {
        match self {
            Obj::Path(p) => p.simpler().into_iter().map(Obj::Path).collect(),
            Obj::LPath(p) => p.simpler().into_iter().map(Obj::LPath).collect(),
            Obj::Fd(_) => Vec::new(),
        }
    }
    fn lowered(&self, above: i32) -> Self {
        match self {
            Obj::Fd(fd) => Obj::Fd(fd.lowered(above)),
            other => other.clone(),
        }
    }
}

/// The lengths of the buffers of a vectored call, joined by commas; `.` for no buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lens(pub Vec<i64>);

impl Lens {
    /// The sum of the lengths.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.0.iter().sum()
    }
}

impl Arg for Lens {
    fn put(&self, out: &mut String) {
        if self.0.is_empty() {
            out.push('.');
        }
        let words: Vec<String> = self.0.iter().map(i64::to_string).collect();
        out.push_str(&words.join(","));
    }
    fn get(word: &str) -> Result<Self, String> {
        if word == "." {
            return Ok(Lens(Vec::new()));
        }
        let all: Result<Vec<i64>, String> = word.split(',').map(i64::get).collect();
        all.map(Lens)
    }
    fn simpler(&self) -> Vec<Self> {
        let without = (0..self.0.len()).map(|i| {
            let mut fewer = self.0.clone();
            fewer.remove(i);
            Lens(fewer)
        });
        without.collect()
    }
}

/// An offset passed by pointer; `-` for a null pointer, which means the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Off(pub Option<i64>);

impl Arg for Off {
    fn put(&self, out: &mut String) {
        match self.0 {
            Some(n) => n.put(out),
            None => out.push('-'),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        match word {
            "-" => Ok(Off(None)),
            _ => i64::get(word).map(|n| Off(Some(n))),
        }
    }
    fn simpler(&self) -> Vec<Self> {
        match self.0 {
            Some(n) => n.simpler().into_iter().map(|n| Off(Some(n))).collect(),
            None => Vec::new(),
        }
    }
}
