// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a command on a view of the real tree.
//!
//! # Processes
//! | process | is | does |
//! |---|---|---|
//! | front | what was started, in the terminal's process group | starts the others, waits |
//! | server | its child, in a session of its own | holds the view, answers through FUSE |
//! | helper | its child, in the terminal's process group | makes namespaces and the mount |
//! | init | the helper's, then the front's child | first process of the pid namespace |
//! | stage | the helper's, then the front's child | becomes the command |
//!
//! Each is a fork of the process that starts it, which has one thread, or this program executed
//! anew by a verb of its own ([`serve`], [`enter`], [`init`], [`become_command`]). A fork takes a
//! quarter of the time. Executed anew are the init where names are hidden from the command, which
//! a root's command could read in its memory, the process of [`exec`], and all processes of a
//! caller that has several threads. The helper has one thread, as unshare(2) of a user namespace
//! demands.
//!
//! # States
//! Built -> Mounted -> Entered -> Ended -> Summed. The server builds the view. The helper mounts
//! it, and sends the descriptor of FUSE through the front to the server. The helper makes the view
//! its root and ends, and the command runs. The command ends, and all processes that it left are
//! ended. The server reports the changes.
//!
//! # Rules
//! R1. The server never uses the view itself: it stays in the namespaces that it was started in.
//! R2. No process outlives the run. If the front dies, the kernel kills the command
//!     (`PR_SET_PDEATHSIG`), and the init exits, which kills its pid namespace. The server sees the
//!     end of its socket, ends all processes in the view and releases it. If the server dies, its
//!     descriptor of FUSE closes, every call that waits for it fails, and the front ends the rest.
//!     Processes that the caller had started before go on.
//! R3. The terminal sends its signals to the command directly, which is in the same process group.
//!     The front forwards only signals that were sent to the front alone.
//! R4. If the command stops, the front stops; if the front continues, so does the command.
//! R5. A command that enters the view later ([`exec`]) belongs to it: it ends with the first
//!     command.
//!
//! # Without processes
//! A host of guests that are no processes needs neither: it builds the same view in its own
//! process, and the guests use it by calls of the engine ([`InProcessView`]).
//!
//! # Limits
//! * A run by root has no user namespace. It is a view, not a jail: root may mount, and may open
//!   devices.
//! * Files that the caller leaves open to the command are those of the real tree. Directories are
//!   closed.
//! * Rules apply to paths. A file with a second name elsewhere can be read and changed by that
//!   name.
//! * The terminal and, by default, the network are those of the caller. A server that changes files
//!   when it is asked by TCP changes the real tree.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod absent;
mod cgroup;
mod changes;
mod check;
mod child;
mod commit;
mod confine;
mod detached;
mod devices;
mod doctor;
mod engine;
mod front;
mod guard;
mod helper;
mod host_cgroups;
mod host_mounts;
mod in_process;
mod inherited;
mod init;
mod inspect;
mod join;
mod kernel_overlay;
mod kernel_part;
mod kernel_upper;
mod left_processes;
mod limit;
mod links;
pub mod live;
mod log;
mod mount_flags;
mod namespace_kind;
mod namespaces;
mod pattern;
mod pid_limit;
mod plan;
mod protection;
mod relay;
mod running_command;
mod server;
mod server_client;
mod session_waiter;
mod share;
mod signals;
mod size;
pub mod spec;
mod stage;
mod terminate;
mod verbs;
mod view;
mod view_members;
mod view_users;
mod wire;

pub use commit::Commit;
pub use doctor::{Check, Verdict, doctor};
pub use engine::Engine;
pub use front::{RunOutcome, run};
pub use helper::enter;
pub use in_process::InProcessView;
pub use init::init;
pub use inspect::Inspect;
pub use join::{exec, exec_relayed};
pub use kernel_overlay::parts::ServedByKernel;
pub use limit::{Limit, Limits};
pub use log::LogFile;
pub use openpath_commit::{
    AclChange, AttrDiff, Change, ChangeKind, ChangeList, CommitObserver, Committed, Conflict,
    ConflictKind, FileType, KeptRules, KeptView, ListedView, NotUndone, NotUndoneReason, Owner,
    PathBytes, Phase, Refusal, RefusalKind, Resumed, SERVE, Side, SpecialFile, Undone, ViewInfo,
    ViewLock, WORK_VERB, abort, command_line, discard, is_invisible, lock_view, printable,
    resolve_parent_links, resume, rules_of, undo, work_in_namespace,
};
pub use openpath_overlay::CopyUpObserver;
pub use plan::{EnforcedPlace, ExtraMount, Layer, Part, Plan, TreeSource, Upper};
pub use server::{CopyUpObserverOf, serve};
pub use server_client::Reporting;
pub use share::{Net, Share};
pub use signals::CommandExit;
pub use stage::become_command;
pub use verbs::{COMMAND, ENTER, INIT, JOIN};
pub use view::half_of_memory;
