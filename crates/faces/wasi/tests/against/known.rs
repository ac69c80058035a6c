// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the deliberate differences of openpath's preview1 from wasmtime-wasi's: each with its id
//! in docs/WASI.md, the calls that show it, and the error codes of both. Any other difference is a
//! failure, and so is a listed one that no sequence meets.

use super::Op;
use openpath_wasi::Code::{
    self, Badf, Busy, Exist, Inval, Isdir, Loop, Noent, NotCapable, Notdir, Notempty, Perm, Success,
};

/// A number of sequences that meets each of them.
pub(crate) const ENOUGH: u64 = 12_000;

/// A deliberate difference.
struct Known {
    id: &'static str,
    /// Whether this call can show it, with the rights of the slots.
    when: fn(&Op, &[u64]) -> bool,
    /// Our code, and theirs.
    codes: &'static [(Code, Code)],
}

/// Whether a path ends in `.`, `..` or a slash.
fn no_name(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

const KNOWN: &[Known] = &[
    Known {
        id: "W1",
        // The guest opened it for reading only.
        when: |op, rights| matches!(op, Op::Write(slot, ..) if rights[*slot] & 1 << 6 == 0),
        codes: &[(NotCapable, Success)],
    },
    Known {
        id: "W2",
        when: |op, _| matches!(op, Op::Open(_, 0, _, 2, ..)),
        codes: &[(Notdir, Loop)],
    },
    Known {
        id: "W2",
        when: |op, _| matches!(op, Op::Link(_, old, _, new) if !no_name(old) && !no_name(new)),
        codes: &[(Noent, Loop), (Noent, Notdir), (Noent, Perm)],
    },
    Known {
        id: "W2",
        when: |op, _| matches!(op, Op::Symlink("", ..)),
        codes: &[(Noent, Loop), (Noent, Notdir), (Noent, Perm)],
    },
    Known {
        id: "W6",
        when: |op, _| matches!(op, Op::Sync(..)),
        codes: &[(Success, Badf)],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Mkdir(_, path) if no_name(path)),
        codes: &[(Exist, Perm)],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Rmdir(_, path) if no_name(path)),
        codes: &[
            (Success, Inval),
            (Notdir, Noent),
            (Notdir, Perm),
            (Notempty, Inval),
            (Notempty, Perm),
        ],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Unlink(_, path) if no_name(path)),
        codes: &[
            (Isdir, Perm),
            (Notdir, Loop),
            (Notdir, Noent),
            (Notdir, Perm),
        ],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Stat(_, 0, path) if no_name(path)),
        codes: &[
            (Loop, Success),
            (Noent, Success),
            (Notdir, Success),
            (Perm, Success),
        ],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Symlink(_, _, path) if no_name(path)),
        codes: &[
            (Exist, Loop),
            (Exist, Noent),
            (Exist, Notdir),
            (Exist, Perm),
        ],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Link(_, old, _, new) if no_name(old) || no_name(new)),
        codes: &[
            (Exist, Noent),
            (Exist, Notdir),
            (Exist, Perm),
            (Noent, Notdir),
            (Noent, Perm),
        ],
    },
    Known {
        id: "W17",
        when: |op, _| matches!(op, Op::Rename(_, old, _, new) if no_name(old) || no_name(new)),
        codes: &[(Busy, Perm), (Loop, Perm), (Noent, Perm), (Notdir, Perm)],
    },
    Known {
        id: "W19",
        when: |op, _| matches!(op, Op::SetTimes(..)),
        codes: &[(Success, Badf)],
    },
];

/// How often each was met.
#[derive(Default)]
pub(crate) struct Seen(Vec<[usize; 2]>);

impl Seen {
    /// Whether a difference is deliberate; counts it.
    pub(crate) fn note(&mut self, op: &Op, rights: &[u64], codes: [Option<u16>; 2]) -> bool {
        for (n, known) in KNOWN.iter().enumerate() {
            let same = |(ours, theirs): &(Code, Code)| {
                codes == [Some(ours.raw()), Some(theirs.raw())] && (known.when)(op, rights)
            };
            if let Some(m) = known.codes.iter().position(same) {
                self.0.push([n, m]);
                return true;
            }
        }
        false
    }

    /// The differences that no call has met.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let all = KNOWN.iter().enumerate();
        let all = all.flat_map(|(n, known)| (0..known.codes.len()).map(move |m| [n, m]));
        all.filter(|place| !self.0.contains(place))
            .map(|[n, m]| format!("{}, row {n}: {:?}", KNOWN[n].id, KNOWN[n].codes[m]))
            .collect()
    }
}
