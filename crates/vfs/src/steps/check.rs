// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the names of the rules by which a call can fail (`Check`), and finds the rule behind an
//! errno of a permission check, a lookup or a write.
//!
//! # Rules
//! R1. A check names the rule, not the errno: one errno has many causes, and a caller asks for the
//!     cause.

use crate::named::named;
use core::fmt;
use openpath_abi::Errno;

named! {
    /// A rule that a call can fail by.
    enum Check {
        Arguments, "arguments", "flags, mode or size of the call mean nothing together";
        EmptyPath, "empty-path", "the path is empty";
        PathLength, "path-length", "the path has 4096 bytes or more";
        Descriptors, "descriptors", "there is no free descriptor";
        Files, "files", "the limit of open files is reached";
        Descriptor, "descriptor", "the directory descriptor is not open";
        Cached, "cached", "the call allows cached answers alone";
        NotDirectory, "not-directory", "a name was looked up in a file that is no directory";
        Search, "search", "the directory may not be searched";
        NameLength, "name-length", "the name is too long for its tree";
        Removed, "removed", "the directory was removed";
        Absent, "absent", "there is no such name";
        AbsentRule, "absent-rule", "a rule of the mount says that there is no such name";
        Backend, "backend", "the backend says so";
        LinkCount, "link-count", "more than 40 links";
        LinksUnwanted, "links-unwanted", "the call forbids links";
        LinkMount, "link-mount", "the mount forbids links";
        LinkOwner, "link-owner", "another user's link in a sticky directory open to all writers";
        LinkEmpty, "link-body", "the link leads nowhere";
        MagicUnwanted, "magic-unwanted", "the call forbids magic links";
        Beneath, "beneath", "the walk may not leave its start";
        MountBoundary, "mount-boundary", "the walk may not leave its mount";
        Disconnected, "disconnected", "the directory was moved out of what its mount shows";
        Moved, "moved", "mounts or directories moved while a scoped walk went up";
        TrailingSlash, "trailing-slash", "a slash follows the name of a file";
        WantsDirectory, "wants-directory", "the call opens directories alone";
        WantsFile, "wants-file", "the call opens regular files alone";
        Exists, "exists", "the name exists, and the call must make it";
        IsDirectory, "is-directory", "a directory is not written to, and not made by open";
        IsLink, "is-link", "a link is not opened itself";
        Sticky, "sticky", "another user's file in a sticky directory";
        ReadOnlyMount, "read-only-mount", "nothing is written through the mount";
        ReadOnlyTree, "read-only-tree", "nothing is written to the tree";
        NoDevices, "no-devices", "the mount forbids devices";
        NoPrograms, "no-programs", "the mount forbids programs";
        Immutable, "immutable", "the file cannot be changed";
        AppendOnly, "append-only", "the file can only be appended to";
        NoAccessTime, "no-access-time", "only the owner may leave the access time alone";
        Permission, "permission", "mode, owner and capabilities do not allow it";
        WriteDenied, "write-denied", "the file is being executed";
        Leased, "leased", "another open file has a lease, and its break has begun";
        Special, "special", "the FIFO, socket or device refuses";
        Direct, "direct", "the file has no direct I/O";
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
    /// The check that failed before a walk began.
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

    /// The check behind a refusal by [`crate::perm::inode_permission`].
    pub(crate) const fn of_permission(errno: Errno) -> Self {
        match errno {
            Errno::EROFS => Self::ReadOnlyTree,
            Errno::EPERM => Self::Immutable,
            Errno::ENOENT => Self::Removed,
            _ => Self::Permission,
        }
    }

    /// The check behind a failed lookup.
    pub(crate) const fn of_lookup(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT => Self::Removed,
            Errno::ENAMETOOLONG => Self::NameLength,
            _ => Self::Backend,
        }
    }

    /// The check behind a refusal to write.
    pub(crate) const fn of_writing(errno: Errno) -> Self {
        match errno {
            Errno::EROFS => Self::ReadOnlyMount,
            Errno::ETXTBSY => Self::WriteDenied,
            _ => Self::Pins,
        }
    }
}
