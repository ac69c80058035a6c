// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath run`, as root and as an ordinary user.

mod acl;
mod acl_commit;
mod bounds;
mod builds;
mod commit;
mod commit_dirs;
mod commit_ends;
mod config;
mod confine;
mod escape;
mod faults;
mod groups;
mod guide;
mod limits;
mod links;
mod live;
mod log;
mod memory;
mod mount_flags;
mod names;
mod nested;
mod place;
mod process;
mod programs;
mod reach;
mod reports;
mod rules;
mod scopes;
mod terminal;
mod times;
mod view;
mod views;
mod whiteouts;
mod written;
