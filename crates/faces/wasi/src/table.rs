// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the descriptor table of a guest. It maps each number that the guest knows to its
//! rights and to a descriptor of the guest's task; the standard streams have no descriptor of the
//! task.
//!
//! # Rules
//! R1. A new descriptor gets the lowest free number, as in POSIX. 0, 1 and 2 are the streams until
//!     they are closed; preopened directories follow.
//! R2. Each file or directory uses one descriptor of the task, so that the task's limit bounds
//!     them.
//! R3. A missing right is [`Code::NotCapable`]; a read of a descriptor that was not opened for
//!     reading is [`Code::Badf`], as in POSIX, and so for writing.

use crate::errno::Code;
use crate::types::{Filetype, rights};
use openpath_vfs::Fd;

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    Stdin,
    Stdout,
    Stderr,
    Directory,
    File,
}

/// An open descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) object: Object,
    pub(crate) filetype: Filetype,
    /// The task's descriptor; -1 for a stream.
    pub(crate) fd: Fd,
    /// The rights of this descriptor.
    pub(crate) base: u64,
    /// The rights that descriptors opened from it can get.
    pub(crate) inheriting: u64,
    /// The synchronisation flags of its open (`fdflags`).
    pub(crate) sync: u16,
    /// Whether it was opened for reading, and for writing, as rights.
    pub(crate) opened: u64,
}

impl Entry {
    /// Checks that it has all of the `wanted` rights.
    ///
    /// # Errors
    /// R3.
    #[inline]
    pub(crate) fn need(&self, wanted: u64) -> Result<(), Code> {
        let missing = wanted & !self.base;
        if missing == 0 {
            return Ok(());
        }
        let access = missing & (rights::FD_READ | rights::FD_WRITE);
        if access != 0 && access & self.opened != access {
            return Err(Code::Badf);
        }
        Err(Code::NotCapable)
    }

    pub(crate) fn is_stream(&self) -> bool {
        !matches!(self.object, Object::Directory | Object::File)
    }
}

/// All of a guest's descriptors.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Entry>>,
    /// All numbers below are in use.
    lowest: usize,
    /// Names of the preopened directories.
    preopens: Vec<(u32, Box<[u8]>)>,
}

impl Table {
    /// The entry of `fd`.
    ///
    /// # Errors
    /// [`Code::Badf`].
    #[inline]
    pub(crate) fn get(&self, fd: u32) -> Result<&Entry, Code> {
        match self.slots.get(fd as usize) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(Code::Badf),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Entry, Code> {
        match self.slots.get_mut(fd as usize) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(Code::Badf),
        }
    }

    /// The entry of `fd`, if it is a file with these rights.
    ///
    /// # Errors
    /// [`Code::Badf`], [`Code::NotCapable`].
    #[inline]
    pub(crate) fn file(&self, fd: u32, wanted: u64) -> Result<Entry, Code> {
        let entry = self.get(fd)?;
        if entry.object != Object::File {
            return Err(Code::Badf);
        }
        entry.need(wanted)?;
        Ok(*entry)
    }

    /// The task's descriptor of `fd`, if it is a directory with these rights.
    ///
    /// # Errors
    /// [`Code::Badf`], [`Code::NotCapable`].
    #[inline]
    pub(crate) fn directory(&self, fd: u32, wanted: u64) -> Result<Fd, Code> {
        let entry = self.get(fd)?;
        if entry.object != Object::Directory {
            return Err(Code::Badf);
        }
        entry.need(wanted)?;
        Ok(entry.fd)
    }

    /// The entry of `fd`, if it is a file or a directory with these rights.
    ///
    /// # Errors
    /// [`Code::Badf`], [`Code::NotCapable`].
    #[inline]
    pub(crate) fn tree(&self, fd: u32, wanted: u64) -> Result<Entry, Code> {
        let entry = self.get(fd)?;
        if entry.is_stream() {
            return Err(Code::Badf);
        }
        entry.need(wanted)?;
        Ok(*entry)
    }

    /// Gives `entry` the lowest free number.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) -> u32 {
        let free = self
            .slots
            .iter()
            .skip(self.lowest)
            .position(Option::is_none);
        let number = match free {
            Some(after) => self.lowest + after,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[number] = Some(entry);
        self.lowest = number + 1;
        // R2: the task's limit is far below `u32::MAX`.
        number as u32
    }

    /// Removes `fd`.
    ///
    /// # Errors
    /// [`Code::Badf`].
    #[inline]
    pub(crate) fn remove(&mut self, fd: u32) -> Result<Entry, Code> {
        let slot = self.slots.get_mut(fd as usize).ok_or(Code::Badf)?;
        let entry = slot.take().ok_or(Code::Badf)?;
        self.lowest = self.lowest.min(fd as usize);
        if !self.preopens.is_empty() {
            self.preopens.retain(|(number, _)| *number != fd);
        }
        Ok(entry)
    }

    /// Moves `from` to the number `to`, and returns the entry that was there.
    ///
    /// # Errors
    /// [`Code::Badf`]: one of them is not open.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Entry>, Code> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let name = self.preopens.iter().position(|(number, _)| *number == from);
        let name = name.map(|at| self.preopens.swap_remove(at).1);
        let moved = self.remove(from)?;
        let gone = self.remove(to)?;
        self.slots[to as usize] = Some(moved);
        if let Some(name) = name {
            self.preopens.push((to, name));
        }
        Ok(Some(gone))
    }

    /// Adds a preopened directory.
    pub(crate) fn preopen(&mut self, entry: Entry, name: Box<[u8]>) {
        let number = self.push(entry);
        self.preopens.push((number, name));
    }

    /// The name of a preopened directory.
    pub(crate) fn preopen_name(&self, fd: u32) -> Option<&[u8]> {
        let mut named = self.preopens.iter();
        named
            .find(|(number, _)| *number == fd)
            .map(|(_, name)| &name[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fd: Fd) -> Entry {
        Entry {
            object: Object::File,
            filetype: Filetype::RegularFile,
            fd,
            base: rights::FD_TELL,
            inheriting: 0,
            sync: 0,
            opened: rights::FD_READ,
        }
    }

    #[test]
    fn the_lowest_free_number_is_given_out() {
        let mut table = Table::default();
        for n in 0..5 {
            assert_eq!(table.push(entry(n)), n.cast_unsigned());
        }
        assert!(table.remove(3).is_ok() && table.remove(1).is_ok());
        assert_eq!(table.remove(1).err(), Some(Code::Badf));
        assert_eq!([7, 8, 9].map(|n| table.push(entry(n))), [1, 3, 5]);
    }

    #[test]
    fn a_number_moves_with_its_name() {
        let mut table = Table::default();
        table.push(entry(0));
        table.preopen(entry(1), b"/data"[..].into());
        assert_eq!(table.renumber(1, 7).err(), Some(Code::Badf));
        assert!(table.renumber(1, 1).is_ok_and(|gone| gone.is_none()));
        let gone = table.renumber(1, 0);
        assert!(gone.is_ok_and(|gone| gone.is_some_and(|gone| gone.fd == 0)));
        assert_eq!(table.preopen_name(0), Some(&b"/data"[..]));
        assert_eq!(table.get(1).err(), Some(Code::Badf));
        assert_eq!(table.push(entry(2)), 1);
        assert_eq!(table.preopen_name(1), None);
    }

    #[test]
    fn a_missing_right_and_a_missing_access_differ() {
        let open = entry(0);
        assert_eq!(open.need(rights::FD_TELL), Ok(()));
        assert_eq!(open.need(rights::FD_SEEK), Err(Code::NotCapable));
        assert_eq!(open.need(rights::FD_READ), Err(Code::NotCapable));
        assert_eq!(open.need(rights::FD_WRITE), Err(Code::Badf));
    }
}
