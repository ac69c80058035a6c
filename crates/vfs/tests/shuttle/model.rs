// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a sequential model of descriptor tables: each call as the steps that Linux takes under
//! the table's lock, with the possible results of each step.

use openpath_abi::Errno;
use std::collections::BTreeMap;

/// A claimed descriptor; file number 0 means reserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Slot {
    pub(crate) file: u8,
    pub(crate) cloexec: bool,
}

pub(crate) type Table = BTreeMap<i32, Slot>;

/// A call on descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call {
    Open {
        hooked: bool,
        file: u8,
        cloexec: bool,
    },
    /// An open of an absent name.
    OpenNothing,
    Close(i32),
    Dup(i32),
    /// `F_DUPFD_CLOEXEC`.
    DupFrom(i32, i32),
    /// dup3(2), with `O_CLOEXEC` or without.
    DupTo(i32, i32, bool),
    CloseRange(i32, i32),
    Read(i32),
    SetCloexec(i32, bool),
    List,
    /// A child is forked, checked and dropped.
    Fork,
    /// `CLONE_FILES`; the other task is dropped at once.
    Share,
    /// Afterwards the table belongs to this thread alone.
    Unshare,
    Exec,
}

/// The answer of a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Answer {
    Done,
    Fd(i32),
    File(u8),
    Fds(Vec<i32>),
    /// Installed descriptors with their files, and the descriptor that the next open gets.
    Files(Vec<(i32, u8)>, Result<i32, Errno>),
    Error(Errno),
}

/// The progress of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) step: u8,
    /// The file that it holds.
    file: u8,
    /// The descriptor that it has reserved, or where it continues.
    slot: i32,
}

/// The possible results of one step.
pub(crate) enum Next {
    More(Progress),
    Answer(Answer),
}

/// The tables of each thread: the shared one, until it has its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tables {
    pub(crate) shared: Table,
    pub(crate) own: Vec<Option<Table>>,
    pub(crate) limit: i32,
}

/// Installed descriptors with their files.
pub(crate) fn files(table: &Table) -> Vec<(i32, u8)> {
    let installed = table.iter().filter(|(_, slot)| slot.file != 0);
    installed.map(|(&fd, slot)| (fd, slot.file)).collect()
}

fn lowest(table: &Table, from: i32, limit: i32) -> Result<i32, Errno> {
    let mut free = (from..limit).filter(|fd| !table.contains_key(fd));
    free.next().ok_or(Errno::EMFILE)
}

/// The answer about a copied table, in which nothing is reserved.
fn copied(table: &Table, limit: i32) -> Answer {
    Answer::Files(files(table), lowest(table, 0, limit))
}

fn get(table: &Table, fd: i32) -> Result<u8, Errno> {
    let file = table.get(&fd).map_or(0, |slot| slot.file);
    if file == 0 {
        Err(Errno::EBADF)
    } else {
        Ok(file)
    }
}

fn answer<T>(result: Result<T, Errno>, then: impl FnOnce(T) -> Answer) -> Next {
    Next::Answer(result.map_or_else(Answer::Error, then))
}

impl Tables {
    fn of(&mut self, thread: usize) -> &mut Table {
        self.own[thread].as_mut().unwrap_or(&mut self.shared)
    }

    /// The possible outcomes of one step of `call`.
    pub(crate) fn step(&self, thread: usize, call: Call, at: Progress) -> Vec<(Self, Next)> {
        let mut after = self.clone();
        match (call, at.step) {
            (Call::OpenNothing, 1) => {
                // An open of a name cached as absent reserves nothing.
                let nothing = Next::Answer(Answer::Error(Errno::ENOENT));
                let reserved = after.step_once(thread, call, at);
                vec![(self.clone(), nothing), (after, reserved)]
            }
            (Call::Unshare | Call::Exec, 0) => {
                let mut table = self.clone().of(thread).clone();
                table.retain(|_, slot| slot.file != 0);
                if call == Call::Exec {
                    table.retain(|_, slot| !slot.cloexec);
                }
                let list = copied(&table, self.limit);
                after.own[thread] = Some(table);
                vec![(after, Next::Answer(list))]
            }
            _ => {
                let next = after.step_once(thread, call, at);
                vec![(after, next)]
            }
        }
    }

    fn step_once(&mut self, thread: usize, call: Call, at: Progress) -> Next {
        let limit = self.limit;
        let table = self.of(thread);
        match call {
            Call::Open { file, cloexec, .. } => open(table, limit, at, Some((file, cloexec))),
            Call::OpenNothing => open(table, limit, at, None),
            Call::Close(fd) => answer(take(table, fd), |()| Answer::Done),
            Call::CloseRange(first, last) => {
                let from = if at.step == 0 { first } else { at.slot };
                let next = table
                    .range(from..=last.max(from))
                    .find(|(_, s)| s.file != 0);
                match next.map(|(&fd, _)| fd).filter(|&fd| fd <= last) {
                    None => Next::Answer(Answer::Done),
                    Some(fd) => {
                        table.remove(&fd);
                        Next::More(Progress {
                            step: 1,
                            slot: fd + 1,
                            ..at
                        })
                    }
                }
            }
            Call::Read(fd) => answer(get(table, fd), Answer::File),
            Call::List => Next::Answer(Answer::Fds(files(table).iter().map(|f| f.0).collect())),
            Call::Fork => {
                let mut copy = table.clone();
                copy.retain(|_, slot| slot.file != 0);
                Next::Answer(copied(&copy, limit))
            }
            Call::Share => Next::Answer(Answer::Done),
            _ => with_file(table, limit, call, at),
        }
    }
}

fn take(table: &mut Table, fd: i32) -> Result<(), Errno> {
    get(table, fd)?;
    table.remove(&fd);
    Ok(())
}

/// An open: find a free descriptor -> reserve it -> install the file, or release the descriptor.
fn open(table: &mut Table, limit: i32, at: Progress, made: Option<(u8, bool)>) -> Next {
    match at.step {
        0 => match lowest(table, 0, limit) {
            Ok(_) => Next::More(Progress { step: 1, ..at }),
            Err(errno) => Next::Answer(Answer::Error(errno)),
        },
        1 => match lowest(table, 0, limit) {
            Ok(slot) => {
                let cloexec = made.is_some_and(|(_, cloexec)| cloexec);
                table.insert(slot, Slot { file: 0, cloexec });
                Next::More(Progress {
                    step: 2,
                    slot,
                    ..at
                })
            }
            Err(errno) => Next::Answer(Answer::Error(errno)),
        },
        _ => match made {
            Some((file, _)) => {
                if let Some(slot) = table.get_mut(&at.slot) {
                    slot.file = file;
                }
                Next::Answer(Answer::Fd(at.slot))
            }
            None => {
                table.remove(&at.slot);
                Next::Answer(Answer::Error(Errno::ENOENT))
            }
        },
    }
}

/// Calls that look up a file first and then change the table.
fn with_file(table: &mut Table, limit: i32, call: Call, at: Progress) -> Next {
    let (Call::Dup(old) | Call::DupFrom(old, _) | Call::DupTo(old, ..) | Call::SetCloexec(old, _)) =
        call
    else {
        return Next::Answer(Answer::Done);
    };
    if at.step == 0 {
        match call {
            Call::DupTo(_, new, _) if new == old => {
                return Next::Answer(Answer::Error(Errno::EINVAL));
            }
            Call::DupTo(_, new, _) if new >= limit => {
                return Next::Answer(Answer::Error(Errno::EBADF));
            }
            _ => {}
        }
        return match get(table, old) {
            Ok(file) => Next::More(Progress {
                step: 1,
                file,
                ..at
            }),
            Err(errno) => Next::Answer(Answer::Error(errno)),
        };
    }
    let mut add = |from: i32, cloexec: bool| {
        let file = at.file;
        let slot = lowest(table, from, limit)?;
        table.insert(slot, Slot { file, cloexec });
        Ok(slot)
    };
    match call {
        Call::Dup(_) => answer(add(0, false), Answer::Fd),
        Call::DupFrom(_, from) if from >= limit => Next::Answer(Answer::Error(Errno::EINVAL)),
        Call::DupFrom(_, from) => answer(add(from, true), Answer::Fd),
        Call::DupTo(_, new, cloexec) => {
            if table.get(&new).is_some_and(|slot| slot.file == 0) {
                return Next::Answer(Answer::Error(Errno::EBUSY));
            }
            let file = at.file;
            table.insert(new, Slot { file, cloexec });
            Next::Answer(Answer::Fd(new))
        }
        Call::SetCloexec(fd, on) => {
            if let Some(slot) = table.get_mut(&fd) {
                slot.cloexec = on;
            }
            Next::Answer(Answer::Done)
        }
        _ => Next::Answer(Answer::Done),
    }
}
