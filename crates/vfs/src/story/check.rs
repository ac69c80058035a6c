// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks that can end a call, by name.
//!
//! # Rules
//! R1. A check names the rule, not the errno: one errno has many causes, and that is what is asked.

use crate::named::named;
use core::fmt;
use openpath_abi::Errno;

named! {
    /// A rule that a call can fail by.
    enum Check {
        Arguments, "arguments", "flags, mode or size of the call mean nothing together";
        EmptyPath, "empty-path", "the path is empty";
        PathLength, "path-length", "the path has 4096 bytes or more";
        Descriptors, "descriptors", "no descriptor is to be had";
        Files, "files", "no open file is to be had";
        Descriptor, "descriptor", "the directory descriptor is not open";
        Cached, "cached", "only the cache was to answer";
        NotDirectory, "not-directory", "what is to be searched is no directory";
        Search, "search", "the directory may not be searched";
        NameLength, "name-length", "the name is too long for its tree";
        Removed, "removed", "the directory was removed";
        Absent, "absent", "there is no such name";
        Hidden, "hidden", "a rule of the mount says that there is no such name";
        Backend, "backend", "the backend says so";
        LinkCount, "link-count", "more than 40 links";
        LinksUnwanted, "links-unwanted", "links were not to be followed";
        LinkMount, "link-mount", "the mount forbids to follow links";
        LinkOwner, "link-owner", "someone else's link in a sticky directory that all may write";
        LinkEmpty, "link-body", "the link leads nowhere";
        MagicUnwanted, "magic-unwanted", "magic links were not to be followed";
        Beneath, "beneath", "the walk was not to leave its start";
        MountBoundary, "mount-boundary", "the walk was not to leave its mount";
        Disconnected, "disconnected", "the directory was moved out of what its mount shows";
        Moved, "moved", "mounts or directories moved while a scoped walk went up";
        TrailingSlash, "trailing-slash", "a slash follows what is to be a file";
        WantsDirectory, "wants-directory", "only a directory was to be opened";
        WantsFile, "wants-file", "only a regular file was to be opened";
        Exists, "exists", "the name was to be made";
        IsDirectory, "is-directory", "a directory is not written to, and not made by open";
        IsLink, "is-link", "a link is not opened itself";
        Sticky, "sticky", "someone else's file in a sticky directory";
        ReadOnlyMount, "read-only-mount", "nothing is written through the mount";
        ReadOnlyTree, "read-only-tree", "nothing is written to the tree";
        NoDevices, "no-devices", "the mount forbids devices";
        NoPrograms, "no-programs", "the mount forbids to execute";
        Immutable, "immutable", "the file cannot be changed";
        AppendOnly, "append-only", "the file can only be appended to";
        NoAccessTime, "no-access-time", "only who owns a file leaves its access time alone";
        Permission, "permission", "mode, owner and capabilities say no";
        WriteDenied, "write-denied", "the file is being executed";
        Leased, "leased", "somebody has a lease, and was asked to let go of it";
        Special, "special", "the FIFO, socket or device refuses";
        Direct, "direct", "direct I/O is not to be had";
        Pins, "pins", "the pins of the `Vfs` are used up";
        Call, "call", "a rule of the call itself";
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Check {
    /// What failed before a walk began.
    pub(crate) const fn before_walk(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT => Self::EmptyPath,
            Errno::ENAMETOOLONG => Self::PathLength,
            Errno::EMFILE => Self::Descriptors,
            Errno::ENFILE => Self::Files,
            Errno::EBADF => Self::Descriptor,
            Errno::ENOMEM => Self::Pins,
            _ => Self::Arguments,
        }
    }

    /// What a refusal by [`crate::perm::inode_permission`] means.
    pub(crate) const fn of_permission(errno: Errno) -> Self {
        match errno {
            Errno::EROFS => Self::ReadOnlyTree,
            Errno::EPERM => Self::Immutable,
            Errno::ENOENT => Self::Removed,
            _ => Self::Permission,
        }
    }

    /// What it means that a name could not be looked up.
    pub(crate) const fn of_lookup(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT => Self::Removed,
            Errno::ENAMETOOLONG => Self::NameLength,
            _ => Self::Backend,
        }
    }

    /// What a refusal to write means.
    pub(crate) const fn of_writing(errno: Errno) -> Self {
        match errno {
            Errno::EROFS => Self::ReadOnlyMount,
            Errno::ETXTBSY => Self::WriteDenied,
            _ => Self::Pins,
        }
    }
}
