// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the handles of a guest stand for.
//!
//! # States of an open file
//! Open, held by a descriptor and any number of streams -> the last of them is dropped -> closed.

use openpath_abi::mode;
use openpath_vfs::{DirEntry, Fd};
use std::sync::{Arc, Mutex};

use super::bindings::wasi::filesystem::types::{DescriptorFlags, DescriptorType};

/// What a guest may do beneath a directory that it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Look and read.
    ReadOnly,
    /// All that the task may.
    ReadWrite,
}

/// A file that a guest has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its descriptor in the guest's task.
    pub(super) fd: Fd,
    /// `S_IFMT` of its mode.
    pub(super) format: u32,
    /// What the guest asked for.
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

/// The resource `directory-entry-stream`: a listing that goes on where it is asked to, with a
/// bounded piece of it in memory.
#[derive(Debug)]
pub struct Listing {
    pub(super) fd: Fd,
    pub(super) shelf: Arc<Mutex<Shelf>>,
    /// What is told next, once its type is known.
    pub(super) next: Option<DirEntry>,
}

/// What was read of a listing and not asked for yet.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) batch: std::vec::IntoIter<DirEntry>,
    pub(super) is_over: bool,
}

/// What the guest calls a type of file.
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
