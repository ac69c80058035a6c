// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps views on the disk, and commits their changes to the real tree.
//!
//! # Parts
//! | modules, the lowest first | what |
//! |---|---|
//! | `report` | what callers get to see: changes, refusals, progress, paths |
//! | `stored_bytes`, `attributes` | the metadata of one file, and byte strings in records |
//! | `host` | calls on files, directories and processes of the host |
//! | `copies` | files that a commit makes |
//! | `journal` | the plan on the disk, before its first step |
//! | `kept` | the directory of a view: its name, its lock, its rules, its end |
//! | `scan` | the upper tree of a view, entry by entry |
//! | `plan` | what a commit is going to do, and what is against it |
//! | `transaction` | steps that commits and rollbacks share |
//! | `rollback` | a commit rolled back, and what prevents it |
//! | `apply` | a commit applied |
//! | `commit` | the calls |
//!
//! The crate that builds views provides the two trees that a commit compares ([`ViewTrees`]).

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod apply;
mod attributes;
mod commit;
mod copies;
#[cfg(any(test, feature = "fault-injection"))]
pub mod fault_injection;
mod host;
mod journal;
mod kept;
mod plan;
mod report;
mod rollback;
mod scan;
mod stored_bytes;
mod transaction;

pub use commit::trees::{Side, ViewTrees};
pub use commit::{Commit, Resumed, Undone, abort, resume, undo};
pub use host::marks::{choose_marks, marks_of, set_trusted};
pub use host::names::is_below;
pub use host::process::{parent_of, stat_field};
pub use host::remove::remove_tree_in;
pub use host::view_dir::ViewDir;
pub use journal::committed::Committed;
pub use kept::{
    CopiedPlacesAt, KERNEL_WORK, KeptRules, KeptView, ListedView, SERVE, ViewInfo, ViewLock,
    WORK_VERB, check_not_discarded, command_line, discard, lend_part, lock_view, lock_view_dir,
    make_kernel_work, record_copied_places, remove_idle_kernel_work, rules_of, state_dir,
    take_part_back, try_kernel_work, update_rules, work_in_namespace,
};
pub use plan::conflicts::{Conflict, ConflictKind};
pub use plan::selection::resolve_parent_links;
pub use report::change::{AclChange, AttrDiff, Change, ChangeKind, FileType, Owner, SpecialFile};
pub use report::change_list::ChangeList;
pub use report::path_bytes::{PathBytes, path_of};
pub use report::phase::{CommitObserver, Phase};
pub use report::printable::{is_invisible, printable};
pub use report::refusal::{Refusal, RefusalKind};
pub use scan::places::{Places, forget_places};
pub use scan::taken_times::{
    check_kernel_part, check_kernel_upper, record_kernel_run, record_taken,
};
pub use transaction::not_undone::{NotUndone, NotUndoneReason};
