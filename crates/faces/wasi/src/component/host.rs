// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements what the functions of `wasi:filesystem` share (handles, access checks, flags), and
//! the list of preopened directories.
//!
//! # Rules
//! R1. Errors in the arguments come first, as in wasmtime-wasi: the type of the handle, the access
//!     beneath it, the flags.
//! R2. The access of a preopened directory applies to everything opened beneath it.

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
    /// The open file of a handle.
    ///
    /// # Errors
    /// A trap: the handle is invalid.
    pub(super) fn open(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        Ok(*self.table.get(fd)?.0)
    }

    /// The open file of a handle that is not a directory.
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

    /// The directory of a handle.
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

    /// The directory of a handle, if names beneath it may be changed.
    ///
    /// # Errors
    /// `not-directory`, `not-permitted`.
    pub(super) fn mutable_dir(&self, fd: &Resource<Descriptor>) -> Result<Open> {
        self.dir(fd)?.changeable()
    }
}

impl Open {
    /// The same file, if it may be changed.
    ///
    /// # Errors
    /// `not-permitted`.
    pub(super) fn changeable(self) -> Result<Self> {
        match self.access {
            Access::ReadOnly => Err(ErrorCode::NotPermitted.into()),
            Access::ReadWrite => Ok(self),
        }
    }
}

/// Whether a link at the end of a path is followed.
pub(super) fn follows(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

/// An offset or length as the calls take it.
///
/// # Errors
/// `EINVAL`: it is beyond any file.
pub(super) fn signed(offset: Filesize) -> std::result::Result<i64, Errno> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// The flags of openat2(2) and of the handle, from what a guest asks of an open.
///
/// # Errors
/// `invalid`: a directory that is to be created or truncated.
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
    // Without `write`, the open reads, whatever the flags say.
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
    let mut into_code = asked & !(DescriptorFlags::READ | DescriptorFlags::WRITE);
    if reads {
        into_code |= DescriptorFlags::READ;
    }
    if changes {
        into_code |= DescriptorFlags::WRITE;
    }
    Ok((flags, into_code))
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
        error.into_code()
    }
}
