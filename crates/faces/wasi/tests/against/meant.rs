// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the deliberate differences of openpath's `wasi:filesystem` from wasmtime-wasi's: each with
//! its id in docs/WASI-COMPONENTS.md, the calls that show it, and both answers. Any other
//! difference is a failure.

use crate::op::{Op, Time};

/// A deliberate difference.
struct Meant {
    id: &'static str,
    /// Whether this call can show it.
    when: fn(&Op) -> bool,
    /// Our answer, and theirs; `*` is any answer that is not an error code.
    answers: &'static [(&'static str, &'static str)],
}

/// Whether a path ends in `.`, `..` or a slash.
fn no_name(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

/// Whether one of its paths does.
fn by_no_name(op: &Op) -> bool {
    op.paths().any(no_name)
}

/// Whether one of its paths or link targets has a NUL.
fn has_nul(op: &Op) -> bool {
    op.paths().any(|path| path.contains('\0'))
}

const MEANT: &[Meant] = &[
    Meant {
        id: "W22",
        when: |op| matches!(op, Op::SetTimes(..)),
        answers: &[("()", "bad-descriptor")],
    },
    Meant {
        id: "W23",
        when: |op| matches!(op, Op::Flags(_)),
        answers: &[("(READ|MUTATE_DIRECTORY)", "(READ)")],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Open { follow: false, how, .. } if how & 2 != 0),
        answers: &[("not-directory", "loop")],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::StatAt(_, false, path) if no_name(path)),
        answers: &[("loop", "*"), ("no-entry", "*"), ("not-directory", "*")],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::HashAt(_, false, path) if no_name(path)),
        answers: &[
            ("loop", "same false"),
            ("no-entry", "same false"),
            ("not-directory", "same false"),
        ],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Mkdir(_, path) if no_name(path)),
        answers: &[("exist", "not-permitted")],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Rmdir(_, path) if no_name(path)),
        answers: &[
            ("()", "invalid"),
            ("not-directory", "invalid"),
            ("not-directory", "loop"),
            ("not-directory", "no-entry"),
            ("not-directory", "not-permitted"),
            ("not-empty", "invalid"),
            ("not-empty", "not-permitted"),
        ],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Unlink(_, path) if no_name(path)),
        answers: &[
            ("is-directory", "not-permitted"),
            ("not-directory", "loop"),
            ("not-directory", "no-entry"),
            ("not-directory", "not-permitted"),
        ],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Symlink(..)) && by_no_name(op),
        answers: &[
            ("exist", "loop"),
            ("exist", "no-entry"),
            ("exist", "not-directory"),
            ("exist", "not-permitted"),
        ],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Link(..)) && by_no_name(op),
        answers: &[("exist", "not-directory"), ("exist", "not-permitted")],
    },
    Meant {
        id: "W26",
        when: |op| matches!(op, Op::Rename(..)) && by_no_name(op),
        answers: &[
            ("busy", "not-permitted"),
            ("no-entry", "not-permitted"),
            ("not-directory", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| matches!(op, Op::Mkdir(..)) && has_nul(op),
        answers: &[
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| matches!(op, Op::Rmdir(..)) && has_nul(op),
        answers: &[
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| {
            matches!(op, Op::Unlink(..) | Op::Readlink(..) | Op::SetTimesAt(..)) && has_nul(op)
        },
        answers: &[
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| matches!(op, Op::Link(..)) && has_nul(op),
        answers: &[
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| matches!(op, Op::Rename(..)) && has_nul(op),
        answers: &[
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W27",
        when: |op| matches!(op, Op::Symlink(..)) && has_nul(op),
        answers: &[
            ("invalid", "loop"),
            ("invalid", "no-entry"),
            ("invalid", "not-directory"),
            ("invalid", "not-permitted"),
        ],
    },
    Meant {
        id: "W28",
        when: |op| matches!(op, Op::StreamIn(_, _, 0)),
        answers: &[
            ("0 None, 0 None, 0 None", "Closed, Closed, Closed"),
            (
                "0 None, 0 None, 0 None",
                "failed Some(\"bad-descriptor\"), Closed, Closed",
            ),
            (
                "0 None, 0 None, 0 None",
                "failed Some(\"invalid\"), Closed, Closed",
            ),
        ],
    },
    Meant {
        id: "W29",
        when: |op| matches!(op, Op::SetTimesAt(_, _, _, Time::Keep, Time::Keep)),
        answers: &[("no-entry", "()")],
    },
    Meant {
        id: "W38",
        when: |op| matches!(op, Op::Link(..)),
        answers: &[
            ("no-entry", "loop"),
            ("no-entry", "not-directory"),
            ("no-entry", "not-permitted"),
        ],
    },
    Meant {
        id: "W38",
        when: |op| matches!(op, Op::Symlink(_, target, _) if target.is_empty()),
        answers: &[
            ("no-entry", "loop"),
            ("no-entry", "not-directory"),
            ("no-entry", "not-permitted"),
        ],
    },
];

/// How often each was met.
#[derive(Default)]
pub(crate) struct Seen(Vec<[usize; 2]>);

impl Seen {
    /// Whether a difference is deliberate; counts it.
    pub(crate) fn note(&mut self, op: &Op, here: &str, there: &str) -> bool {
        for (n, meant) in MEANT.iter().enumerate() {
            let same = |&(ours, theirs): &(&str, &str)| {
                let any = theirs == "*" && !is_code(there);
                ours == here && (theirs == there || any) && (meant.when)(op)
            };
            if let Some(m) = meant.answers.iter().position(same) {
                self.0.push([n, m]);
                return true;
            }
        }
        false
    }

    /// The differences that no call has met.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let all = MEANT.iter().enumerate();
        let all = all.flat_map(|(n, meant)| (0..meant.answers.len()).map(move |m| [n, m]));
        all.filter(|place| !self.0.contains(place))
            .map(|[n, m]| format!("{}, row {n}: {:?}", MEANT[n].id, MEANT[n].answers[m]))
            .collect()
    }
}

/// Whether an answer is an error code, so that the call changed nothing.
pub(crate) fn is_code(answer: &str) -> bool {
    let letters = |b: u8| b.is_ascii_lowercase() || b == b'-';
    !matches!(answer, "" | "opened") && answer.bytes().all(letters)
}

/// Whether the trees differ after only one side has carried out the call.
pub(crate) fn changes_names(op: &Op) -> bool {
    matches!(
        op,
        Op::Open { .. }
            | Op::Mkdir(..)
            | Op::Rmdir(..)
            | Op::Unlink(..)
            | Op::Rename(..)
            | Op::Link(..)
            | Op::Symlink(..)
    )
}
