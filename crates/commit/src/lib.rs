// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views that are kept on the disk, and commits of their changes to the real tree.
//!
//! # Parts
//! | modules | what |
//! |---|---|
//! | `kept`, `view_dir` | the directory of a view: its name, its lock, its rules, its end |
//! | `change`, `change_list` | the changes of a view |
//! | `scan` to `preflight` | the plan of a commit, and what would make it fail |
//! | `journal`, `records` | the plan on the disk, before its first step |
//! | `transaction` to `apply` | a commit applied, or rolled back |
//! | `commit` | the calls |
//!
//! The crate that builds views provides the two trees that a commit compares ([`ViewTrees`]).

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod acl;
mod apply;
mod attrs;
mod backups;
mod baseline;
mod change;
mod change_list;
mod commit;
mod committed;
mod conflicts;
mod copy;
mod dir_stack;
#[cfg(any(test, feature = "fault-injection"))]
pub mod fault_injection;
mod file_stat;
mod filesystems;
mod give_privileges;
mod held_file;
mod interruption;
mod journal;
mod journal_builder;
mod kept;
mod linked_path;
mod marks;
mod messages;
mod move_index;
mod name_pair;
mod names;
mod not_undone;
mod origin;
mod out_of_reach;
mod path_bytes;
mod phase;
mod places;
mod preflight;
mod printable;
mod privileges;
mod process;
mod recheck;
mod records;
mod refusal;
mod remove;
mod rename;
mod rollback;
mod scan;
mod selection;
mod snapshot;
mod staging;
mod stamp;
mod stored_bytes;
mod taken_times;
mod transaction;
mod tree;
mod trees;
mod upper_file;
mod view_dir;
mod writable_dirs;
mod xattrs;

pub use change::{AclChange, AttrDiff, Change, ChangeKind, FileType, Owner};
pub use change_list::ChangeList;
pub use commit::{Commit, Resumed, Undone, abort, resume, undo};
pub use committed::Committed;
pub use conflicts::{Conflict, ConflictKind};
pub use kept::{
    KeptRules, KeptView, ListedView, SERVE, ViewInfo, ViewLock, check_not_discarded, command_line,
    discard, lock_view, lock_view_dir, rules_of, state_dir, update_rules,
};
pub use marks::{choose_marks, marks_of, set_trusted};
pub use names::is_below;
pub use not_undone::{NotUndone, NotUndoneReason};
pub use path_bytes::{PathBytes, path_of};
pub use phase::{CommitObserver, Phase};
pub use places::{Places, forget_places};
pub use printable::{is_invisible, printable};
pub use process::{parent_of, stat_field};
pub use refusal::{Refusal, RefusalKind};
pub use remove::remove_tree_in;
pub use selection::resolve_parent_links;
pub use taken_times::{check_kernel_upper, record_kernel_run, record_taken};
pub use trees::{Side, ViewTrees};
pub use view_dir::ViewDir;
