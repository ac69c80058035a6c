// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints an explanation of a call as text, with one line for each step and one for the lane that
//! answers the path.

use super::{Explanation, FastPath, Lane};
use crate::steps::{Field, Permission, Step, Value, WalkPosition, kind_name};
use core::fmt::{self, Display, Formatter};

/// Bytes for a person: all but ASCII is escaped.
struct Escaped<'a>(&'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Display for WalkPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = kind_name(self.kind);
        let (mount, ino) = (self.mount, self.ino);
        write!(
            f,
            "{} (mount {mount}, inode {ino}, {kind})",
            Escaped(&self.path)
        )
    }
}

impl Display for Permission {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let answer = if self.granted { "granted" } else { "refused" };
        write!(
            f,
            "to {}: {answer} by {} (mode {:04o}, owner {}:{})",
            self.access_name(),
            self.by.name(),
            self.mode & 0o7777,
            self.uid,
            self.gid,
        )
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}", self.verb())?;
        match self {
            Self::At(place) | Self::Mount(place) | Self::Up(place) | Self::End(place) => {
                place.fmt(f)
            }
            Self::Top => f.write_str("stays: this is the root"),
            Self::Asked(permission) => permission.fmt(f),
            Self::Name { name, cached, kind } => {
                let kind = kind.map_or("not there", kind_name);
                write!(f, "{}: {}, {kind}", Escaped(name), cached.name())
            }
            Self::Link {
                body,
                number,
                magic,
            } => {
                if *magic {
                    write!(f, "number {number}, a magic one")
                } else {
                    write!(f, "number {number}, to {}", Escaped(body))
                }
            }
            Self::Again(why) => write!(f, "{why}: {}", why.meaning()),
            Self::Skipped(would) => f.write_str(would.name()),
            Self::Refused { check, errno } => {
                write!(f, "{} by {check}: {}", errno.name(), check.meaning())
            }
        }
    }
}

impl Display for FastPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}answered by the {}", "fast", self.lane.name())?;
        if let Some(why) = self.left {
            write!(f, ": the lock-free walk was left for {why}")?;
        }
        if let Some(place) = self.at.as_ref().filter(|_| self.left.is_some()) {
            write!(f, " at {}", Escaped(&place.path))?;
        }
        Ok(())
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8}{}", self.call, Escaped(&self.path))?;
        if let Some(fast) = &self.fast {
            writeln!(f, "{fast}")?;
        }
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        match self.result {
            Ok(()) => writeln!(f, "{:<8}ok", "answer"),
            Err(errno) => writeln!(f, "{:<8}{}: {}", "answer", errno.name(), errno.text()),
        }
    }
}

impl FastPath {
    /// Its facts, as those of a step.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![("lane", Value::Word(self.lane.name()))];
        if let Some(why) = self.left {
            fields.push(("reason", Value::Word(why.name())));
        }
        if let Some(place) = &self.at {
            fields.push(("path", Value::Bytes(place.path.clone())));
        }
        fields
    }

    /// Whether nothing was pinned on the way.
    #[must_use]
    pub fn is_lock_free(&self) -> bool {
        self.lane != Lane::References
    }
}
