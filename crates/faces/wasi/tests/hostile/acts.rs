// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each call that takes a path, as a guest does it, and as a task does that nothing confines.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_abi::{AtFlags, Errno, TimeSet, Timespec};
use openpath_vfs::Task;

use super::field::{content, fill};
use super::puppet::{BUFFER, DIR, Got, OUT, PATH, PATH2, Puppet, READ, WRITE, oflags};

/// What a call brought in.
pub(super) enum Brought {
    Nothing,
    Bytes(Vec<u8>),
    Inode(u64),
}

/// One call, as a guest does it and as a task does.
pub(super) struct Act {
    pub(super) name: &'static str,
    /// It wants a directory outside, and adds a name to it.
    pub(super) plants: bool,
    pub(super) guest: fn(&mut Puppet, &[u8]) -> Brought,
    pub(super) task: fn(&Task, &[u8]) -> Result<Brought, Errno>,
}

pub(super) const ACTS: &[Act] = &[
    Act {
        name: "path_open for reading",
        plants: false,
        guest: |guest, path| {
            let Ok(fd) = guest.open(path, 0, READ) else {
                return Brought::Nothing;
            };
            let read = guest.carry("fd_read", fd, 256);
            let bytes = read.map_or(Vec::new(), |n| guest.get(BUFFER, n).to_vec());
            guest.close(fd);
            Brought::Bytes(bytes)
        },
        task: |task, path| content(task, path).map(Brought::Bytes),
    },
    Act {
        name: "path_open for writing",
        plants: false,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(path, oflags::TRUNC, READ | WRITE) {
                guest.close(fd);
            }
            Brought::Nothing
        },
        task: |task, path| {
            task.close(task.open(path, O_WRONLY | O_TRUNC, 0)?)?;
            Ok(Brought::Nothing)
        },
    },
    Act {
        name: "path_open that creates",
        plants: true,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(path, oflags::CREAT, READ | WRITE) {
                guest.close(fd);
            }
            Brought::Nothing
        },
        task: |task, path| {
            task.close(task.open(path, O_WRONLY | O_CREAT, 0o666)?)?;
            Ok(Brought::Nothing)
        },
    },
    Act {
        name: "path_open of a directory",
        plants: false,
        guest: |guest, path| {
            let path = path.strip_suffix(b"secret").unwrap_or(path);
            let Ok(fd) = guest.open(path, oflags::DIRECTORY, READ) else {
                return Brought::Nothing;
            };
            let got = guest.call("fd_filestat_get", &[fd.into(), OUT.into()]);
            guest.close(fd);
            inode(guest, got)
        },
        task: |task, path| {
            let path = path.strip_suffix(b"secret").unwrap_or(path);
            let fd = task.open(path, O_RDONLY, 0)?;
            let stat = task.fstat(fd);
            task.close(fd)?;
            Ok(Brought::Inode(stat?.ino))
        },
    },
    Act {
        name: "path_filestat_get",
        plants: false,
        guest: |guest, path| {
            guest.put(PATH, path);
            let len = path.len() as u64;
            let got = guest.call(
                "path_filestat_get",
                &[DIR.into(), 1, PATH.into(), len, OUT.into()],
            );
            inode(guest, got)
        },
        task: |task, path| Ok(Brought::Inode(task.stat(path)?.ino)),
    },
    Act {
        name: "path_filestat_set_times",
        plants: false,
        guest: |guest, path| {
            guest.put(PATH, path);
            let len = path.len() as u64;
            guest.call(
                "path_filestat_set_times",
                &[DIR.into(), 1, PATH.into(), len, 1, 1, 1 | 4],
            );
            Brought::Nothing
        },
        task: |task, path| {
            let time = Timespec { sec: 0, nsec: 1 };
            let times = [TimeSet::At(time); 2];
            task.utimensat(AT_FDCWD, Some(path), times, AtFlags::empty())?;
            Ok(Brought::Nothing)
        },
    },
    Act {
        name: "path_create_directory",
        plants: true,
        guest: |guest, path| {
            guest.path("path_create_directory", path);
            Brought::Nothing
        },
        task: |task, path| task.mkdir(path, 0o777).map(|()| Brought::Nothing),
    },
    Act {
        name: "path_remove_directory",
        plants: false,
        guest: |guest, path| {
            guest.path("path_remove_directory", &beside(path, b"empty"));
            Brought::Nothing
        },
        task: |task, path| {
            task.rmdir(&beside(path, b"empty"))?;
            Ok(Brought::Nothing)
        },
    },
    Act {
        name: "path_unlink_file",
        plants: false,
        guest: |guest, path| {
            guest.path("path_unlink_file", path);
            Brought::Nothing
        },
        task: |task, path| task.unlink(path).map(|()| Brought::Nothing),
    },
    Act {
        name: "path_link from outside",
        plants: false,
        guest: |guest, path| {
            for follow in [1, 0] {
                guest.path("path_unlink_file", b"got");
                let done = two(guest, "path_link", Some(follow), path, b"got");
                if done.is_ok() {
                    return look(guest, b"got");
                }
            }
            Brought::Nothing
        },
        task: |task, path| {
            let _ = task.unlink(b"got");
            task.link(path, b"got")?;
            Ok(Brought::Inode(task.lstat(b"got")?.ino))
        },
    },
    Act {
        name: "path_link to outside",
        plants: true,
        guest: |guest, path| {
            two(guest, "path_link", Some(0), b"mine", path);
            Brought::Nothing
        },
        task: |task, path| task.link(b"mine", path).map(|()| Brought::Nothing),
    },
    Act {
        name: "path_rename from outside",
        plants: false,
        guest: |guest, path| {
            two(guest, "path_rename", None, path, b"got");
            look(guest, b"got")
        },
        task: |task, path| {
            task.rename(path, b"got")?;
            Ok(Brought::Inode(task.lstat(b"got")?.ino))
        },
    },
    Act {
        name: "path_rename to outside",
        plants: true,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(b"moved", oflags::CREAT, WRITE) {
                guest.close(fd);
            }
            two(guest, "path_rename", None, b"moved", path);
            Brought::Nothing
        },
        task: |task, path| {
            fill(task, b"moved", b"moved")?;
            task.rename(b"moved", path).map(|()| Brought::Nothing)
        },
    },
    Act {
        name: "path_symlink",
        plants: true,
        guest: |guest, path| {
            guest.put(PATH, b"target");
            guest.put(PATH2, path);
            let len = path.len() as u64;
            guest.call(
                "path_symlink",
                &[PATH.into(), 6, DIR.into(), PATH2.into(), len],
            );
            Brought::Nothing
        },
        task: |task, path| task.symlink(b"target", path).map(|()| Brought::Nothing),
    },
    Act {
        name: "path_symlink and path_open",
        plants: false,
        guest: |guest, path| {
            guest.path("path_unlink_file", b"in/made");
            guest.put(PATH, b"../");
            guest.put(PATH + 3, path);
            guest.put(PATH2, b"in/made");
            let (from, skip) = match path.first() {
                Some(b'/') => (PATH + 3, 0),
                _ => (PATH, 3),
            };
            let len = (path.len() + skip) as u64;
            guest.call(
                "path_symlink",
                &[from.into(), len, DIR.into(), PATH2.into(), 7],
            );
            (ACTS[0].guest)(guest, b"in/made")
        },
        task: |task, path| {
            let _ = task.unlink(b"in/made");
            let target = match path.first() {
                Some(b'/') => path.to_vec(),
                _ => [b"../", path].concat(),
            };
            task.symlink(&target, b"in/made")?;
            (ACTS[0].task)(task, b"in/made")
        },
    },
    Act {
        name: "path_readlink",
        plants: false,
        guest: |guest, path| {
            let path = beside(path, b"note");
            guest.put(PATH, &path);
            let got = guest.call(
                "path_readlink",
                &[
                    DIR.into(),
                    PATH.into(),
                    path.len() as u64,
                    BUFFER.into(),
                    256,
                    OUT.into(),
                ],
            );
            match got.is_ok() {
                true => Brought::Bytes(guest.get(BUFFER, guest.word(OUT).min(256)).to_vec()),
                false => Brought::Nothing,
            }
        },
        task: |task, path| task.readlink(&beside(path, b"note")).map(Brought::Bytes),
    },
];

/// Another name in the directory that a path to `secret` leads to.
fn beside(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.strip_suffix(b"secret") {
        Some(dir) => [dir, name].concat(),
        None => path.to_vec(),
    }
}

fn inode(guest: &Puppet, got: Got) -> Brought {
    match got.is_ok() {
        true => Brought::Inode(guest.long(OUT + 8)),
        false => Brought::Nothing,
    }
}

/// The inode of one of its own names.
fn look(guest: &mut Puppet, path: &[u8]) -> Brought {
    guest.put(PATH, path);
    let len = path.len() as u64;
    let got = guest.call(
        "path_filestat_get",
        &[DIR.into(), 0, PATH.into(), len, OUT.into()],
    );
    inode(guest, got)
}

/// A call of two paths, the first with flags before it if it has some.
fn two(guest: &mut Puppet, name: &str, flags: Option<u64>, old: &[u8], new: &[u8]) -> Got {
    guest.put(PATH, old);
    guest.put(PATH2, new);
    let (dir, from, to) = (u64::from(DIR), u64::from(PATH), u64::from(PATH2));
    let (old, new) = (old.len() as u64, new.len() as u64);
    match flags {
        Some(flags) => guest.call(name, &[dir, flags, from, old, dir, to, new]),
        None => guest.call(name, &[dir, from, old, dir, to, new]),
    }
}
