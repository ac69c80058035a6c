// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the functions of the resource `descriptor` of `wasi:filesystem` by the system calls
//! in `calls`: reads, writes, attributes, and paths beneath a directory.

use super::FilesCtx;
use super::bindings::wasi::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, Filesize, HostDescriptor,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use super::convert;
use super::descriptor::{Access, Descriptor, Listing, Open, kind};
use super::error::Error;
use super::host::{Result, follows, open_flags, signed};
use super::input::{FileInput, MOST};
use super::output::{FileOutput, Position};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_REMOVEDIR, O_APPEND, O_CLOEXEC, O_DIRECTORY, O_RDONLY, O_WRONLY,
};
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{AtFlags, RenameFlags, Stat, falloc, mode};
use openpath_vfs::Fd;
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

/// Permission bits of new directories, before the umask.
const DIR_MODE: u32 = 0o777;

impl FilesCtx<'_> {
    async fn stat_of(&mut self, fd: &Resource<Descriptor>) -> Result<Stat> {
        let open = self.open(fd)?;
        Ok(self.files.fstatat(open.fd, b"", AT_EMPTY_PATH).await?)
    }

    async fn stat_beneath(
        &mut self,
        fd: &Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> Result<Stat> {
        let at = (self.dir(fd)?.fd, path);
        Ok(self.files.stat_beneath(at, follows(flags)).await?)
    }

    /// Makes a handle for a descriptor that was just opened, and closes it if the table has no
    /// room.
    fn new_handle<T: Send + 'static>(&mut self, fd: Fd, what: T) -> Result<Resource<T>> {
        self.table.push(what).map_err(|full| {
            let _closed = self.files.task.task().close(fd);
            full.into()
        })
    }

    /// The open file of a handle, for a stream to hold.
    fn shared_open(&self, fd: &Resource<Descriptor>) -> Result<Arc<Open>> {
        Ok(Arc::clone(&self.table.get(fd)?.0))
    }
}

impl HostDescriptor for FilesCtx<'_> {
    async fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> Result<Resource<DynInputStream>> {
        let open = self.shared_open(&fd)?;
        if open.is_dir() {
            return Err(ErrorCode::IsDirectory.into());
        }
        let ring = self.files.stream_ring()?;
        let stream: DynInputStream = Box::new(FileInput::new(ring, open, offset));
        Ok(self.table.push(stream)?)
    }

    async fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> Result<Resource<DynOutputStream>> {
        self.file(&fd)?.changeable()?;
        let (open, ring) = (self.shared_open(&fd)?, self.files.stream_ring()?);
        let position = Position::At(offset);
        let stream: DynOutputStream = Box::new(FileOutput::new(ring, open, position));
        Ok(self.table.push(stream)?)
    }

    async fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> Result<Resource<DynOutputStream>> {
        let open = self.file(&fd)?.changeable()?;
        let ring = self.files.stream_ring()?;
        // A read-only descriptor fails at its own write, without a wait.
        let may_write = open.flags.contains(DescriptorFlags::WRITE);
        let (open, position) = if ring.never_waits(open.fd) || !may_write {
            (self.shared_open(&fd)?, Position::EndInMemory)
        } else {
            // A worker appends by a descriptor with `O_APPEND`.
            let flags = O_WRONLY | O_APPEND | O_CLOEXEC;
            let fd = self.files.task.task().reopen(open.fd, flags)?;
            (Arc::new(Open { fd, ..open }), Position::End)
        };
        let stream: DynOutputStream = Box::new(FileOutput::new(ring, open, position));
        Ok(self.table.push(stream)?)
    }

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> Result<()> {
        let open = self.file(&fd)?;
        let advice = match advice {
            Advice::Normal => falloc::POSIX_FADV_NORMAL,
            Advice::Sequential => falloc::POSIX_FADV_SEQUENTIAL,
            Advice::Random => falloc::POSIX_FADV_RANDOM,
            Advice::WillNeed => falloc::POSIX_FADV_WILLNEED,
            Advice::DontNeed => falloc::POSIX_FADV_DONTNEED,
            Advice::NoReuse => falloc::POSIX_FADV_NOREUSE,
        };
        let (offset, length) = (offset.cast_signed(), length.cast_signed());
        let task = self.files.task.task();
        Ok(task.posix_fadvise(open.fd, offset, length, advice)?)
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> Result<()> {
        let open = self.open(&fd)?;
        Ok(self.files.fdatasync(open.fd).await?)
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> Result<DescriptorFlags> {
        Ok(self.open(&fd)?.flags)
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> Result<DescriptorType> {
        Ok(kind(self.open(&fd)?.format))
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> Result<()> {
        let open = self.file(&fd)?.changeable()?;
        Ok(self.files.ftruncate(open.fd, signed(size)?).await?)
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        atime: NewTimestamp,
        mtime: NewTimestamp,
    ) -> Result<()> {
        let open = self.open(&fd)?;
        let times = [convert::time_set(atime)?, convert::time_set(mtime)?];
        let open = open.changeable()?;
        Ok(self.files.set_times(open.fd, times).await?)
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> Result<(Vec<u8>, bool)> {
        let open = self.file(&fd)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(MOST);
        let mut data = vec![0; length];
        let offset = signed(offset)?;
        let done = self.files.read_at(open.fd, &mut data, offset).await?;
        data.truncate(done);
        Ok((data, done == 0))
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        data: Vec<u8>,
        offset: Filesize,
    ) -> Result<Filesize> {
        let open = self.file(&fd)?.changeable()?;
        let offset = signed(offset)?;
        Ok(self.files.write_at(open.fd, &data, offset).await? as Filesize)
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> Result<Resource<Listing>> {
        let here = (self.dir(&fd)?.fd, ".".to_owned());
        let flags = O_RDONLY | O_DIRECTORY;
        let fd = self.files.open_beneath(here, flags).await?;
        self.new_handle(fd, Listing::new(fd))
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> Result<()> {
        let open = self.open(&fd)?;
        Ok(self.files.fsync(open.fd).await?)
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> Result<()> {
        let at = (self.mutable_dir(&fd)?.fd, path);
        let made = self.files.walk(at, |beneath, dir, path| {
            beneath.mkdirat(dir, path, DIR_MODE)
        });
        Ok(made.await?)
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> Result<DescriptorStat> {
        Ok(convert::stat(&self.stat_of(&fd).await?))
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> Result<DescriptorStat> {
        Ok(convert::stat(&self.stat_beneath(&fd, flags, path).await?))
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        atime: NewTimestamp,
        mtime: NewTimestamp,
    ) -> Result<()> {
        let base = self.dir(&fd)?;
        let times = [convert::time_set(atime)?, convert::time_set(mtime)?];
        let at = (base.changeable()?.fd, path);
        let set = self.files.set_times_beneath(at, follows(flags), times);
        Ok(set.await?)
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_flags: PathFlags,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> Result<()> {
        let (from, to) = (self.dir(&fd)?, self.dir(&new_fd)?);
        let (from, to) = (from.changeable()?, to.changeable()?);
        if follows(old_flags) {
            return Err(ErrorCode::Invalid.into());
        }
        let (old, new) = ((from.fd, old_path), (to.fd, new_path));
        let made = self.files.walk_two(old, new, |beneath, [old, new]| {
            beneath.linkat(old.0, old.1, new.0, new.1, AtFlags::empty())
        });
        Ok(made.await?)
    }

    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        how: OpenFlags,
        asked: DescriptorFlags,
    ) -> Result<Resource<Descriptor>> {
        let base = self.dir(&fd)?;
        let (flags, mut check) = open_flags(path_flags, how, asked)?;
        if check.contains(DescriptorFlags::WRITE) {
            base.changeable()?;
        }
        let opened = self.files.open_beneath((base.fd, path), flags);
        let fd = opened.await?;
        let format = self.files.task.task().kind_of(fd)?;
        if format == mode::S_IFDIR && base.access == Access::ReadWrite {
            check |= DescriptorFlags::MUTATE_DIRECTORY;
        } else {
            check &= !DescriptorFlags::MUTATE_DIRECTORY;
        }
        let open = Open {
            fd,
            format,
            flags: check,
            access: base.access,
        };
        self.new_handle(fd, Descriptor(Arc::new(open)))
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> Result<String> {
        let at = (self.dir(&fd)?.fd, path);
        let body = self.files.read_link_beneath(at).await?;
        if body.starts_with(b"/") {
            // The link leads out, and a guest must not learn where to.
            return Err(ErrorCode::NotPermitted.into());
        }
        String::from_utf8(body).map_err(|_| Error::Code(ErrorCode::IllegalByteSequence))
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> Result<()> {
        let at = (self.mutable_dir(&fd)?.fd, path);
        let removed = self.files.walk(at, |beneath, dir, path| {
            beneath.unlinkat(dir, path, AT_REMOVEDIR)
        });
        Ok(removed.await?)
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> Result<()> {
        let (from, to) = (self.dir(&fd)?, self.dir(&new_fd)?);
        let (from, to) = (from.changeable()?, to.changeable()?);
        let (old, new) = ((from.fd, old_path), (to.fd, new_path));
        let moved = self.files.walk_two(old, new, |beneath, [old, new]| {
            beneath.renameat2(old.0, old.1, new.0, new.1, RenameFlags::empty())
        });
        Ok(moved.await?)
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> Result<()> {
        let base = self.mutable_dir(&fd)?;
        if target.starts_with('/') {
            return Err(ErrorCode::NotPermitted.into());
        }
        if target.len() >= PATH_MAX {
            return Err(ErrorCode::NameTooLong.into());
        }
        if target.contains('\0') {
            return Err(ErrorCode::Invalid.into());
        }
        let made = self.files.walk((base.fd, path), move |beneath, dir, path| {
            beneath.symlinkat(target.as_bytes(), dir, path)
        });
        Ok(made.await?)
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> Result<()> {
        let at = (self.mutable_dir(&fd)?.fd, path);
        let removed = self.files.walk(at, |beneath, dir, path| {
            beneath.unlinkat(dir, path, AtFlags::empty())
        });
        Ok(removed.await?)
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let (one, other) = (self.table.get(&one)?.0.fd, self.table.get(&other)?.0.fd);
        let one = self.files.fstatat(one, b"", AT_EMPTY_PATH).await;
        let other = self.files.fstatat(other, b"", AT_EMPTY_PATH).await;
        let (Ok(one), Ok(other)) = (one, other) else {
            return Ok(false);
        };
        Ok((one.dev, one.ino) == (other.dev, other.ino))
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> Result<MetadataHashValue> {
        Ok(convert::hash(&self.stat_of(&fd).await?))
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> Result<MetadataHashValue> {
        Ok(convert::hash(&self.stat_beneath(&fd, flags, path).await?))
    }

    async fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        let dropped = self.table.delete(fd)?;
        if let Some(open) = Arc::into_inner(dropped.0) {
            self.files.close_unheld(open.fd).await;
        }
        Ok(())
    }
}
