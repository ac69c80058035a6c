// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest's calls have in common: its handles, what it may do with them, and its flags; and
//! the directories that it is given.
//!
//! # Rules
//! R1. What the interface asks of arguments alone is decided first, as wasmtime-wasi does: the type
//!     of the handle, what may be done beneath it, the flags.
//! R2. What a guest may do beneath a directory it was given holds for all that it opens there.

use super::FilesCtx;
use super::bindings::wasi::filesystem::preopens;
use super::bindings::wasi::filesystem::types::{
    DescriptorFlags, ErrorCode, Filesize, Host, OpenFlags, PathFlags,
};
use super::descriptor::{Access, Descriptor, Open};
use super::error::{Error, code};
use openpath_abi::fcntl::{
    O_CREAT, O_DIRECTORY, O_DSYNC, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_SYNC, O_TRUNC, O_WRONLY,
};
use openpath_abi::{Errno, OFlags};
use std::sync::Arc;
use wasmtime::component::Resource;

pub(super) type Result<T> = std::result::Result<T, Error>;

impl FilesCtx<'_> {
    /// What a handle stands for.
    ///
    /// # Errors
    /// A trap: the handle is none.
    pub(super) fn open(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        Ok(*self.table.get(fd)?.0)
    }

    /// A handle that is no directory.
    ///
    /// # Errors
    /// `bad-descriptor`.
    pub(super) fn file(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        let open = self.open(fd)?;
        if open.is_dir() {
            return Err(ErrorCode::BadDescriptor.into());
        }
        Ok(open)
    }

    /// A handle that is a directory.
    ///
    /// # Errors
    /// `not-directory`.
    pub(super) fn dir(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        let open = self.open(fd)?;
        if !open.is_dir() {
            return Err(ErrorCode::NotDirectory.into());
        }
        Ok(open)
    }

    /// A directory beneath which names may be changed.
    ///
    /// # Errors
    /// `not-directory`, `not-permitted`.
    pub(super) fn mutable_dir(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        self.dir(fd)?.to_change()
    }
}

impl Open {
    /// The same, to be changed.
    ///
    /// # Errors
    /// `not-permitted`.
    pub(super) fn to_change(self) -> Result<Self> {
        match self.access {
            Access::ReadOnly => Err(ErrorCode::NotPermitted.into()),
            Access::ReadWrite => Ok(self),
        }
    }
}

/// Whether the last link of a path is followed.
pub(super) fn follows(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

/// An offset or length as the calls take it.
///
/// # Errors
/// `EINVAL`: no file reaches so far.
pub(super) fn signed(offset: Filesize) -> std::result::Result<i64, Errno> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// What a guest asks of an open, as flags of openat2(2), and what its handle says of it.
///
/// # Errors
/// `invalid`: a directory that is to be made or cut.
pub(super) fn open_flags(
    path_flags: PathFlags,
    how: OpenFlags,
    asked: DescriptorFlags,
) -> Result<(OFlags, DescriptorFlags)> {
    let cuts = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    if how.contains(OpenFlags::DIRECTORY) && how.intersects(cuts) {
        return Err(ErrorCode::Invalid.into());
    }
    let creates = how.contains(OpenFlags::CREATE);
    let truncates = how.contains(OpenFlags::TRUNCATE);
    let writes = asked.contains(DescriptorFlags::WRITE);
    // Who does not say that it writes reads.
    let reads = asked.contains(DescriptorFlags::READ) || !writes;
    let changes = writes || creates || truncates;
    let mut flags = match (reads, changes) {
        (_, false) => O_RDONLY,
        (false, true) => O_WRONLY,
        (true, true) => O_RDWR,
    };
    let mut add = |on: bool, flag: OFlags| flags |= flag.only_if(on);
    add(creates, O_CREAT);
    add(creates && how.contains(OpenFlags::EXCLUSIVE), O_EXCL);
    add(truncates, O_TRUNC);
    add(how.contains(OpenFlags::DIRECTORY), O_DIRECTORY);
    add(!follows(path_flags), O_NOFOLLOW);
    let whole = DescriptorFlags::FILE_INTEGRITY_SYNC | DescriptorFlags::REQUESTED_WRITE_SYNC;
    add(asked.intersects(whole), O_SYNC);
    add(
        asked.contains(DescriptorFlags::DATA_INTEGRITY_SYNC),
        O_DSYNC,
    );
    let mut told = asked & !(DescriptorFlags::READ | DescriptorFlags::WRITE);
    if reads {
        told |= DescriptorFlags::READ;
    }
    if changes {
        told |= DescriptorFlags::WRITE;
    }
    Ok((flags, told))
}

impl preopens::Host for FilesCtx<'_> {
    async fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut given = Vec::with_capacity(self.files.preopens.len());
        for (name, open) in &self.files.preopens {
            let handle = self.table.push(Descriptor(Arc::clone(open)))?;
            given.push((handle, name.clone()));
        }
        Ok(given)
    }
}

impl Host for FilesCtx<'_> {
    async fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        let ours = error.downcast_ref::<Errno>().copied();
        let theirs = || {
            let error = error.downcast_ref::<std::io::Error>()?;
            Errno::checked(error.raw_os_error()?)
        };
        Ok(ours.or_else(theirs).map(code))
    }

    fn convert_error_code(&mut self, error: Error) -> wasmtime::Result<ErrorCode> {
        error.told()
    }
}
