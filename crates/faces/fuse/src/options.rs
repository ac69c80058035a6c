// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a mount is to be served.

use std::time::Duration;

/// As good as for ever: what the kernel was told holds until it is told otherwise.
pub const FOREVER: Duration = Duration::from_secs(1 << 40);

/// When the server is asked to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Opens {
    /// Never: the kernel opens by what it has cached, and the server opens a file for the length of
    /// a request.
    #[default]
    Never,
    /// At each open(2), and told at each close(2): for trees whose files keep something for each
    /// opening, or mind its flags (`O_DIRECT`).
    Each,
}

/// The only user and group of a user namespace in which a mount is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnlyUser {
    /// The user, whose files all are shown as; owners' bits are what he may do.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// His further groups.
    pub groups: Vec<u32>,
}

/// What a [`crate::Server`] is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts shows as the source.
    pub source: String,
    /// How long the kernel believes that a name means what it did.
    pub entry_timeout: Duration,
    /// How long it believes that a name does not exist; zero: it asks each time.
    pub negative_timeout: Duration,
    /// How long it believes attributes.
    pub attr_timeout: Duration,
    /// When the server is asked to open a file.
    pub opens: Opens,
    /// Writes stay in the kernel's page cache, and come when it writes them back: only for trees
    /// that nobody else writes to. Who writes little by little makes few requests then; but with
    /// each close(2) of any file the kernel forgets how many blocks it has, and asks for its
    /// attributes again with the next stat(2).
    pub writeback: bool,
    /// Locks of files (fcntl(2), flock(2)) are those of the tree's `Vfs`, seen by its tasks and
    /// its other mounts; the server is asked then at each open(2) and close(2), as with
    /// [`Opens::Each`]. Else the kernel keeps them, among the users of this mount.
    pub locks: bool,
    /// Requests for locks that may wait at once; one more is `ENOLCK`.
    pub lock_waits_max: usize,
    /// Threads that answer, at least 1. Where requests come by rings, 2 to 8 of each processor do
    /// so too.
    pub threads: usize,
    /// Requests come by rings, where the kernel has them ([`crate::Rings`]); but where locks are
    /// answered.
    pub rings: bool,
    /// Files, directories and links that the kernel may know at once. From three quarters on it is
    /// asked to give back what nobody uses; what is asked for beyond all is `ENFILE`.
    pub nodes_max: usize,
    /// Names that are kept in mind where trees are heard ([`crate::Server::hear`]); what goes
    /// beyond is asked for again.
    pub tracked_names_max: usize,
    /// Users other than who mounted may use it; permissions are checked in either case.
    pub allow_other: bool,
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// Set-id bits, file capabilities and device nodes mean something.
    pub trusted: bool,
    /// The mount is used in a user namespace that knows only this user; `None`: all are known.
    pub only_user: Option<OnlyUser>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            source: "openpath".to_owned(),
            entry_timeout: FOREVER,
            negative_timeout: FOREVER,
            attr_timeout: FOREVER,
            opens: Opens::Never,
            writeback: false,
            locks: false,
            lock_waits_max: 1 << 12,
            threads: cores.clamp(2, 16),
            rings: true,
            nodes_max: 1 << 19,
            tracked_names_max: 1 << 19,
            allow_other: false,
            read_only: false,
            trusted: false,
            only_user: None,
        }
    }
}
