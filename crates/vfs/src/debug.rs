// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `Debug` for the handles and objects of the core: the output identifies the object,
//! and never shows what it holds.
//!
//! # Rules
//! R1. No impl takes a lock, waits, calls a backend or walks a list.

use crate::file::{LastFile, OpenFile};
use crate::inode::Inode;
use crate::instance::Vfs;
use crate::io::PreparedIo;
use crate::lease::LeaseBreaks;
use crate::object::Dentry;
use crate::ops::{Beneath, RunningProgram};
use crate::path::VfsPath;
use crate::shrinker::Shrinker;
use crate::superblock::SuperBlock;
use crate::task::Task;
use std::fmt;

/// Implements `Debug` as the type's name alone.
macro_rules! opaque {
    ($($type:ty = $name:literal),* $(,)?) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    )*};
}

opaque! {
    Beneath<'_> = "Beneath",
    Dentry = "Dentry",
    LastFile = "LastFile",
    LeaseBreaks = "LeaseBreaks",
    PreparedIo = "PreparedIo",
    RunningProgram = "RunningProgram",
    Shrinker = "Shrinker",
    Task = "Task",
    Vfs = "Vfs",
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inode")
            .field("ino", &self.ino())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("flags", &self.flags())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SuperBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperBlock")
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for VfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VfsPath").field(&self.path_ids()).finish()
    }
}
