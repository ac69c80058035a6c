// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the resources behind a component guest's handles: open files, and listings of
//! directories.
//!
//! # States of an open file
//! Open, held by a descriptor and any number of streams -> the last of them is dropped -> closed.

use openpath_abi::mode;
use openpath_vfs::{DirEntry, Fd};
use std::sync::{Arc, Mutex};

use super::bindings::wasi::filesystem::types::{DescriptorFlags, DescriptorType};

/// What a guest may do beneath a preopened directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read data, attributes and listings.
    ReadOnly,
    /// Everything that the task may do.
    ReadWrite,
}

/// A file that a guest has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its descriptor in the guest's task.
    pub(super) fd: Fd,
    /// `S_IFMT` of its mode.
    pub(super) format: u32,
    /// The flags that the guest opened it with.
    pub(super) flags: DescriptorFlags,
    pub(super) access: Access,
}

impl Open {
    pub(super) fn is_dir(&self) -> bool {
        self.format == mode::S_IFDIR
    }
}

/// The resource `descriptor`.
#[derive(Debug)]
pub struct Descriptor(pub(super) Arc<Open>);

/// The resource `directory-entry-stream`: a directory read on demand, with one bounded batch of
/// entries in memory.
#[derive(Debug)]
pub struct Listing {
    pub(super) fd: Fd,
    pub(super) read_ahead: Arc<Mutex<ReadAhead>>,
    /// The next entry, until its type is known and it is returned.
    pub(super) next: Option<DirEntry>,
}

/// Entries that were read and not returned yet.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    pub(super) batch: std::vec::IntoIter<DirEntry>,
    pub(super) is_over: bool,
}

/// The guest's type of a file.
pub(super) fn kind(format: u32) -> DescriptorType {
    match format & mode::S_IFMT {
        mode::S_IFDIR => DescriptorType::Directory,
        mode::S_IFREG => DescriptorType::RegularFile,
        mode::S_IFLNK => DescriptorType::SymbolicLink,
        mode::S_IFCHR => DescriptorType::CharacterDevice,
        mode::S_IFBLK => DescriptorType::BlockDevice,
        mode::S_IFIFO => DescriptorType::Fifo,
        mode::S_IFSOCK => DescriptorType::Socket,
        _ => DescriptorType::Unknown,
    }
}
