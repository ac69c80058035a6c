// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of a FUSE mount: how long the kernel's caches are valid, how many threads,
//! nodes and waiting locks there may be, and which users it serves.

use std::sync::OnceLock;
use std::time::Duration;

/// As good as for ever: the kernel's cache is valid until it is invalidated.
pub const FOREVER: Duration = Duration::from_secs(1 << 40);

/// The CPUs that this process may use; none if the system does not tell. The standard library reads
/// control groups for it, so it is asked once.
pub(crate) fn available_cores() -> Option<usize> {
    static CORES: OnceLock<Option<usize>> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().ok().map(usize::from))
}

/// When the kernel asks the server to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Opens {
    /// Never: the kernel opens from its caches, and the server opens a file for the duration of a
    /// request.
    #[default]
    Never,
    /// At each open(2), with a request at each close(2): for trees with state
    /// for each opening, or with files that depend on its flags (`O_DIRECT`).
    Each,
}

/// The only user and group of the user namespace in which a mount is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnlyUser {
    /// The user that owns all files; the owner's mode bits say what the user may do.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// The user's supplementary groups.
    pub groups: Vec<u32>,
}

/// The options of a [`crate::Server`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The source in the table of mounts.
    pub source: String,
    /// How long the kernel caches that a name leads to a file.
    pub entry_timeout: Duration,
    /// How long it caches that a name does not exist; zero: it asks each time.
    pub negative_timeout: Duration,
    /// How long it caches attributes.
    pub attr_timeout: Duration,
    /// When the kernel asks the server to open a file.
    pub opens: Opens,
    /// The writeback cache of the kernel: for trees that nobody else writes to. Many small writes
    /// make few requests then. But with each close(2) of any file the kernel forgets the number of
    /// its blocks, and requests its attributes with the next stat(2).
    pub writeback: bool,
    /// The tree's `Vfs` keeps locks of files (fcntl(2), flock(2)), shared with its tasks and its
    /// other mounts; the server is asked at each open(2) and close(2) then, as with
    /// [`Opens::Each`]. Else the kernel keeps them, among the users of this mount.
    pub locks: bool,
    /// The most requests for locks that wait at a time; one more is `ENOLCK`.
    pub lock_waits_max: usize,
    /// Threads that serve, at least 1. Where requests come by rings, 2 to 8 for each CPU serve too.
    pub threads: usize,
    /// Requests come by rings, if the kernel has them ([`crate::Rings`]) and [`Options::locks`] is
    /// off.
    pub rings: bool,
    /// Files, directories and links that the kernel may know at a time. From three quarters on it
    /// is asked to give back those that are not in use; beyond the bound a lookup is `ENFILE`.
    pub nodes_max: usize,
    /// Names that are tracked in trees that report changes ([`crate::Server::subscribe`]); a name
    /// beyond the bound is expired in the kernel.
    pub tracked_names_max: usize,
    /// Other users than the one that mounted may use it; permissions are checked in either case.
    pub allow_other: bool,
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// Set-id bits, file capabilities and device nodes are effective.
    pub trusted: bool,
    /// Permission bits that the kernel assumes for the root directory until it has applied an
    /// answer about it. It drops an answer that an event of that directory overtakes, and without
    /// bits refuses the directory to everybody then.
    pub root_mode: u16,
    /// The mount is used in a user namespace with this user only; `None`: in one with all users.
    pub only_user: Option<OnlyUser>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = available_cores().unwrap_or(1);
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
            root_mode: 0,
            only_user: None,
        }
    }
}

openpath_vfs::setters! {
    Options {
        source: String,
        entry_timeout: Duration,
        negative_timeout: Duration,
        attr_timeout: Duration,
        opens: Opens,
        writeback: bool,
        locks: bool,
        lock_waits_max: usize,
        threads: usize,
        rings: bool,
        nodes_max: usize,
        tracked_names_max: usize,
        allow_other: bool,
        read_only: bool,
        trusted: bool,
        root_mode: u16,
        only_user: Option<OnlyUser>,
    }
}
