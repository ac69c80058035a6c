// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views that are kept on the disk, and how their changes are brought to the real tree.
//!
//! # Parts
//! | modules | what |
//! |---|---|
//! | `kept`, `view_dir` | the directory of a view: its name, its lock, its rules, its end |
//! | `change`, `change_list` | what a view changed, as it is told |
//! | `scan` to `rights` | what a commit is going to do, and what keeps it from it |
//! | `journal`, `notes` | the same on the disk, before it is done |
//! | `carry` to `forth` | a commit carried out, or undone |
//! | `commit` | the calls |
//!
//! The crate that builds views gives the two trees that a commit compares ([`ViewTrees`]).

#![forbid(unsafe_code)]

mod away;
mod back;
mod carry;
mod change;
mod change_list;
mod choice;
mod commit;
mod committed;
mod conflicts;
mod copy;
mod cut;
mod disks;
mod draft;
mod facts;
#[cfg(any(test, feature = "fault-injection"))]
pub mod fault_injection;
mod forth;
mod held;
mod journal;
mod kept;
mod ladder;
mod lists;
mod messages;
mod names;
mod noted;
mod notes;
mod opened;
mod path_bytes;
mod phase;
mod process;
mod recheck;
mod refusal;
mod remove;
mod rename;
mod rights;
mod scan;
mod seen;
mod since;
mod stage;
mod stamp;
mod swap;
mod taken;
mod text;
mod touch;
mod tree;
mod trees;
mod view_dir;

pub use change::{Change, Differs, Kind, Lists, Owner, What};
pub use change_list::ChangeList;
pub use choice::without_links;
pub use commit::{Commit, Resumed, Undone, abort, resume, undo};
pub use committed::Committed;
pub use conflicts::{Conflict, Did};
pub use kept::{
    About, Found, Kept, KeptRules, SERVE, ViewLock, check_whole, command_line, discard, own_state,
    renew_rules, rules_of, take, take_held,
};
pub use names::is_below;
pub use path_bytes::{PathBytes, path_of};
pub use phase::{Phase, Watch};
pub use process::{parent_of, stat_number};
pub use refusal::Refusal;
pub use remove::remove_in;
pub use taken::note_taken;
pub use text::{is_format, text_of};
pub use trees::{Side, ViewTrees};
pub use view_dir::ViewDir;
