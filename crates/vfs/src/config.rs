// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the settings of a `Vfs`: the emulated kernel version, limits, system controls, and
//! switches of optimisations.

use openpath_abi::OFlags;
use openpath_abi::fcntl::{O_CREAT, O_EXCL};

/// The emulated kernel version: which flags exist and which quirks hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Linux 6.12.
    V6_12,
    /// Linux 6.18.
    #[default]
    V6_18,
    /// Linux 7.2: `O_EMPTYPATH`, `OPENAT2_REGULAR`, delegations.
    V7_2,
}

impl Profile {
    /// How many owners the search for a deadlock follows before a lock request waits all the same
    /// (`MAX_DEADLK_ITERATIONS`).
    #[must_use]
    pub fn deadlock_hops(self) -> u32 {
        10
    }
}

/// Limits of one `Vfs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Cached names, negative ones included.
    pub dentries_max: u32,
    /// Cached names that do not exist.
    pub negatives_max: u32,
    /// Mounts in all namespaces.
    pub mounts_max: u32,
    /// Mount namespaces (`user.max_mnt_namespaces`).
    pub namespaces_max: u32,
    /// Pins: two for each task and one for each open file.
    pub pins_max: u32,
    /// Entries that the whole-path cache may grow to, at 320 bytes each; 0 turns it off.
    pub path_cache_entries: u32,
    /// Open files in the whole `Vfs` (`fs.file-max`).
    pub files_max: u64,
    /// Descriptors of one table (`fs.nr_open`), whatever the task's limit.
    pub nr_open: u32,
    /// Notification instances of one user (`fs.inotify.max_user_instances`).
    pub max_user_instances: u32,
    /// Watches of one user (`fs.inotify.max_user_watches`).
    pub max_user_watches: u32,
    /// Events that one instance keeps for its reader (`fs.inotify.max_queued_events`).
    pub max_queued_events: u32,
    /// Bytes that a pipe holds at most, but for `CAP_SYS_RESOURCE` (`fs.pipe-max-size`).
    pub pipe_max_size: u32,
    /// Pages that the pipes of one user hold before new ones are small, 0 for any number
    /// (`fs.pipe-user-pages-soft`).
    pub pipe_user_pages_soft: u32,
    /// Pages that the pipes of one user hold at most, 0 for any number
    /// (`fs.pipe-user-pages-hard`).
    pub pipe_user_pages_hard: u32,
    /// Pages that all pipes hold at most, of all users together.
    pub pipe_pages_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

impl Limits {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            dentries_max: 1 << 22,
            negatives_max: 1 << 21,
            mounts_max: 1 << 20,
            namespaces_max: 1 << 17,
            pins_max: 1 << 24,
            path_cache_entries: 1 << 18,
            files_max: u64::MAX,
            nr_open: 1 << 20,
            max_user_instances: 128,
            max_user_watches: 1 << 20,
            max_queued_events: 16384,
            pipe_max_size: 1 << 20,
            pipe_user_pages_soft: 16384,
            pipe_user_pages_hard: 0,
            pipe_pages_max: 1 << 22,
        }
    }
}

crate::setters! {
    const Limits {
        dentries_max: u32,
        negatives_max: u32,
        mounts_max: u32,
        namespaces_max: u32,
        pins_max: u32,
        path_cache_entries: u32,
        files_max: u64,
        nr_open: u32,
        max_user_instances: u32,
        max_user_watches: u32,
        max_queued_events: u32,
        pipe_max_size: u32,
        pipe_user_pages_soft: u32,
        pipe_user_pages_hard: u32,
        pipe_pages_max: u64,
    }
}

/// System controls under `fs.`. Defaults as upstream Linux: no protection, 100,000 mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Sysctl {
    /// `protected_symlinks`: following in sticky, world-writable directories is restricted.
    pub protected_symlinks: bool,
    /// `protected_hardlinks`: only a user with write permission may link a file.
    pub protected_hardlinks: bool,
    /// `protected_fifos`, 0 to 2.
    pub protected_fifos: u8,
    /// `protected_regular`, 0 to 2.
    pub protected_regular: u8,
    /// `mount-max`: mounts in one namespace.
    pub mount_max: u32,
    /// `leases-enable`: leases can be taken.
    pub leases_enable: bool,
    /// `lease-break-time`: seconds until a lease in the way is taken away; 0: never.
    pub lease_break_time: u32,
}

impl Default for Sysctl {
    fn default() -> Self {
        Self::new()
    }
}

impl Sysctl {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            protected_symlinks: false,
            protected_hardlinks: false,
            protected_fifos: 0,
            protected_regular: 0,
            mount_max: 100_000,
            leases_enable: true,
            lease_break_time: 45,
        }
    }
}

crate::setters! {
    const Sysctl {
        protected_symlinks: bool,
        protected_hardlinks: bool,
        protected_fifos: u8,
        protected_regular: u8,
        mount_max: u32,
        leases_enable: bool,
        lease_break_time: u32,
    }
}

/// Switches that bring back the kernel's behaviour before a change. Flipping one never changes a
/// result.
///
/// Each is read in one place, its gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// Walk without references while names are cached; `RESOLVE_CACHED` always does. Gate:
    /// `task::Core`, which keeps it.
    pub lock_free_walk: bool,
    /// Answer whole paths from the path cache. Gate: `path_cache::PathCache::new`.
    pub path_cache: bool,
    /// Forget the root before leaving lock-free mode on `O_CREAT`, instead of counting a reference
    /// on it. Gate: `walk::Walk::unlazy_to_create`.
    pub root_reset_before_unlazy: bool,
    /// Hand the walk's pin to the opened file, instead of taking a second one. Gate:
    /// `task::Core::make_file`.
    pub reference_hand_over: bool,
    /// Look up the last component of an `O_CREAT` open without the directory's lock first. Gate:
    /// `Tuning::locked_look`.
    pub create_looks_first: bool,
    /// Find the lock context by a flag in the inode's read-mostly word. Gate:
    /// `file_locks`, `Shared::has_locks`.
    pub lock_context_flag: bool,
    /// Make no file before the open has succeeded, so that a failing open leaves nothing to be
    /// freed later. Gate: `open::do_open`.
    pub failed_open_frees_inline: bool,
    /// Look for a free descriptor in the word that should have one before asking the summaries.
    /// Gate: `fd_table::FdMap::new`.
    pub fd_word_peek: bool,
    /// Write a summary of the descriptor bitmap only when it changes. Gate: `fd_table::FdMap::new`.
    pub fd_conditional_summary: bool,
    /// Answer absent names by knowing all names of a directory, where its backend promises that,
    /// instead of an entry for each (an answer of `RESOLVE_CACHED` may be `EAGAIN` without). Gate:
    /// `dcache::Dcache::names_in`.
    pub complete_directories: bool,
}

impl Tuning {
    /// An open with all of these flags looks for its file with the directory locked, even if it is
    /// cached.
    pub(crate) fn locked_look(&self) -> OFlags {
        if self.create_looks_first {
            O_CREAT | O_EXCL
        } else {
            O_CREAT
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self::new()
    }
}

impl Tuning {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lock_free_walk: true,
            path_cache: true,
            root_reset_before_unlazy: true,
            reference_hand_over: true,
            create_looks_first: true,
            lock_context_flag: true,
            failed_open_frees_inline: true,
            fd_word_peek: true,
            fd_conditional_summary: true,
            complete_directories: true,
        }
    }
}

crate::setters! {
    const Tuning {
        lock_free_walk: bool,
        path_cache: bool,
        root_reset_before_unlazy: bool,
        reference_hand_over: bool,
        create_looks_first: bool,
        lock_context_flag: bool,
        failed_open_frees_inline: bool,
        fd_word_peek: bool,
        fd_conditional_summary: bool,
        complete_directories: bool,
    }
}

/// The settings of a `Vfs`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub(crate) profile: Profile,
    pub(crate) limits: Limits,
    pub(crate) sysctl: Sysctl,
    pub(crate) tuning: Tuning,
}
