// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats scripts of lock calls, their answers, and the difference between the kernel's answer and
//! openpath's, for the report of a failed comparison.

use super::{Answer, Op, Script, Told};
use openpath_abi::Flock;
use openpath_abi::lock as l;
use std::fmt;

fn kind(kind: i16) -> String {
    match kind {
        l::F_RDLCK => "r".to_owned(),
        l::F_WRLCK => "w".to_owned(),
        l::F_UNLCK => "u".to_owned(),
        other => other.to_string(),
    }
}

fn command(cmd: u32) -> String {
    match cmd {
        l::F_GETLK => "getlk".to_owned(),
        l::F_SETLK => "setlk".to_owned(),
        l::F_SETLKW => "setlkw".to_owned(),
        l::F_OFD_GETLK => "ofd_getlk".to_owned(),
        l::F_OFD_SETLK => "ofd_setlk".to_owned(),
        l::F_OFD_SETLKW => "ofd_setlkw".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Open(file, flags) => write!(f, "open file {file} {flags:#o}"),
            Op::Close(fd) => write!(f, "close {fd}"),
            Op::CloseRange(first, last) => write!(f, "close_range {first} {last}"),
            Op::Dup(fd) => write!(f, "dup {fd}"),
            Op::Dup2(fd, to) => write!(f, "dup2 {fd} {to}"),
            Op::Seek(fd, to) => write!(f, "seek {fd} {to}"),
            Op::Truncate(fd, to) => write!(f, "truncate {fd} {to}"),
            Op::Fcntl(fd, cmd, ask) => {
                let Flock {
                    whence,
                    start,
                    len,
                    pid,
                    ..
                } = ask;
                let (cmd, kind) = (command(*cmd), kind(ask.kind));
                write!(f, "{cmd} {fd} {kind} {whence} {start} {len}")?;
                if *pid == 0 {
                    Ok(())
                } else {
                    write!(f, " pid {pid}")
                }
            }
            Op::Flock(fd, op) => write!(f, "flock {fd} {op}"),
            Op::Look(look) => write!(f, "look {} {}", look.base, look.bytes),
        }
    }
}

/// An answer as text.
pub(super) fn said(answer: &Answer) -> String {
    match answer {
        Err(errno) => errno.to_string(),
        Ok(Told::Number(n)) => n.to_string(),
        Ok(Told::Lock {
            kind: k,
            whence,
            start,
            len,
            of_file,
        }) => {
            let whose = if *of_file { " -1" } else { "" };
            format!("{} {whence} {start} {len}{whose}", kind(*k))
        }
        Ok(Told::Seen(all)) => format!("{} answers", all.len()),
    }
}

/// The difference between two answers to a call.
pub(super) fn differ(op: &Op, kernel: &Answer, ours: &Answer) -> String {
    if let (Op::Look(look), Ok(Told::Seen(a)), Ok(Told::Seen(b))) = (op, kernel, ours) {
        let each = look.ops().zip(a.iter().zip(b)).filter(|(_, (a, b))| a != b);
        let lines = each.map(|(op, (a, b))| differ(&op, a, b));
        return lines.collect();
    }
    format!(
        "    {op}: kernel {}, openpath {}\n",
        said(kernel),
        said(ours)
    )
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, .. } = self;
        let with = if layout.common {
            "with open files in common"
        } else {
            "with empty tables"
        };
        writeln!(f, "threads {:?}, {with}", layout.threads)?;
        for step in self.setup.iter().chain(&self.steps) {
            writeln!(f, "{} {}", layout.name(step.thread), step.op)?;
        }
        Ok(())
    }
}
