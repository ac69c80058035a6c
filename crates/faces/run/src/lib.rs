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
//! Each is this program executed anew, by a verb of its own ([`serve`], [`enter`], [`init`],
//! [`become_command`]). Nothing is forked, so nothing here is `unsafe`, and the helper has one
//! thread, as unshare(2) of a user namespace demands.
//!
//! # States
//! Built (the server has the view), Mounted (the helper has sent the descriptor of FUSE through the
//! front to the server), Entered (the helper stands in the view and executes the command), Ended
//! (the command is gone, and whatever it left behind), Summed (the server has told what changed).
//!
//! # Rules
//! R1. The server never looks through the view: it stays in the namespaces it was started in.
//! R2. Who is left alone ends. When the front is gone the command is killed (`PR_SET_PDEATHSIG`),
//!     the init exits, which kills all in its pid namespace, and the server's socket ends: it ends
//!     all who are in the view, and lets go of it. When the
//!     server is gone its descriptor of FUSE closes, every call that waits for it ends with an
//!     error, and the front ends the rest. What the caller had started before goes on.
//! R3. Signals of the terminal reach the command by themselves, since it is in the same process
//!     group; the front passes on those that were sent to it alone.
//! R4. When the command stops, the front stops; when the front goes on, the command does.
//! R5. Who enters a view later ([`exec`]) belongs to it: the first command's end is the end of all.
//!
//! # Without processes
//! What is no program of the kernel's needs neither: a host of guests builds the same view in its
//! own process and asks it by the engine's calls ([`Here`]).
//!
//! # Limits
//! * A run by root has no user namespace: it is a view, not a jail, for root may mount, and may
//!   open devices.
//! * Files that the caller leaves open to the command are the real tree's; directories are closed.
//! * Rules are of paths: a file that has a second name elsewhere is seen and changed by that.
//! * The terminal and, by default, the network are the caller's: a server that changes files on a
//!   request by TCP changes the real tree.

#![forbid(unsafe_code)]

mod absent;
mod cgroup;
mod changes;
mod check;
mod child;
mod commit;
mod confine;
mod cover;
mod devices;
mod doctor;
mod ending;
mod front;
mod groups;
mod guard;
mod guests;
mod helper;
mod here;
mod inherited;
mod init;
mod inside;
mod inspect;
mod join;
mod leaving;
mod left;
mod limit;
mod links;
pub mod live;
mod log;
mod mount_flags;
mod namespaces;
mod numbers;
mod pattern;
mod plan;
mod relay;
mod server;
mod server_client;
mod share;
mod signals;
mod size;
mod space;
pub mod spec;
mod stage;
mod verbs;
mod view;
mod wire;

pub use commit::Commit;
pub use doctor::{Check, Verdict, doctor};
pub use front::{Ended, run};
pub use helper::enter;
pub use here::Here;
pub use init::init;
pub use inspect::Inspect;
pub use join::{exec, exec_relayed};
pub use limit::{Limit, Limits};
pub use log::LogFile;
pub use openpath_commit::{
    About, Change, ChangeList, Committed, Conflict, Did, Differs, Found, Kept, KeptRules, Kind,
    Lists, Owner, PathBytes, Phase, Refusal, Resumed, SERVE, Side, Undone, ViewLock, Watch, What,
    abort, command_line, discard, is_format, resume, rules_of, take, text_of, undo, without_links,
};
pub use openpath_overlay::CopyUpObserver;
pub use plan::{Extra, HeldPlace, Plan, Source, Upper};
pub use server::serve;
pub use server_client::Told;
pub use share::{Net, Share};
pub use signals::End;
pub use stage::become_command;
pub use verbs::{COMMAND, ENTER, INIT, JOIN};
pub use view::half_of_memory;
