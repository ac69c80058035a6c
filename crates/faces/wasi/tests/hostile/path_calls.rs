// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists, for attacks, the calls that take a path: each as a guest makes it and as an unconfined
//! task makes it.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_abi::{AtFlags, Errno, TimeSet, Timespec};
use openpath_vfs::Task;

use super::scripted_guest::{
    BUFFER, DIR, Got, OUT, PATH, PATH2, READ, ScriptedGuest, WRITE, oflags,
};
use super::setting::{content, fill};

/// What a call returned.
pub(super) enum Returned {
    Nothing,
    Bytes(Vec<u8>),
    Inode(u64),
}

/// One call, as a guest makes it and as a task makes it.
pub(super) struct PathCall {
    pub(super) name: &'static str,
    /// The path names a directory outside, to which the call adds a name.
    pub(super) plants: bool,
    pub(super) guest: fn(&mut ScriptedGuest, &[u8]) -> Returned,
    pub(super) task: fn(&Task, &[u8]) -> Result<Returned, Errno>,
}

pub(super) const ACTS: &[PathCall] = &[
    PathCall {
        name: "path_open for reading",
        plants: false,
        guest: |guest, path| {
            let Ok(fd) = guest.open(path, 0, READ) else {
                return Returned::Nothing;
            };
            let read = guest.transfer("fd_read", fd, 256);
            let bytes = read.map_or(Vec::new(), |n| guest.get(BUFFER, n).to_vec());
            guest.close(fd);
            Returned::Bytes(bytes)
        },
        task: |task, path| content(task, path).map(Returned::Bytes),
    },
    PathCall {
        name: "path_open for writing",
        plants: false,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(path, oflags::TRUNC, READ | WRITE) {
                guest.close(fd);
            }
            Returned::Nothing
        },
        task: |task, path| {
            task.close(task.open(path, O_WRONLY | O_TRUNC, 0)?)?;
            Ok(Returned::Nothing)
        },
    },
    PathCall {
        name: "path_open with creat",
        plants: true,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(path, oflags::CREAT, READ | WRITE) {
                guest.close(fd);
            }
            Returned::Nothing
        },
        task: |task, path| {
            task.close(task.open(path, O_WRONLY | O_CREAT, 0o666)?)?;
            Ok(Returned::Nothing)
        },
    },
    PathCall {
        name: "path_open of a directory",
        plants: false,
        guest: |guest, path| {
            let path = path.strip_suffix(b"secret").unwrap_or(path);
            let Ok(fd) = guest.open(path, oflags::DIRECTORY, READ) else {
                return Returned::Nothing;
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
            Ok(Returned::Inode(stat?.ino))
        },
    },
    PathCall {
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
        task: |task, path| Ok(Returned::Inode(task.stat(path)?.ino)),
    },
    PathCall {
        name: "path_filestat_set_times",
        plants: false,
        guest: |guest, path| {
            guest.put(PATH, path);
            let len = path.len() as u64;
            guest.call(
                "path_filestat_set_times",
                &[DIR.into(), 1, PATH.into(), len, 1, 1, 1 | 4],
            );
            Returned::Nothing
        },
        task: |task, path| {
            let time = Timespec { sec: 0, nsec: 1 };
            let times = [TimeSet::At(time); 2];
            task.utimensat(AT_FDCWD, Some(path), times, AtFlags::empty())?;
            Ok(Returned::Nothing)
        },
    },
    PathCall {
        name: "path_create_directory",
        plants: true,
        guest: |guest, path| {
            guest.path("path_create_directory", path);
            Returned::Nothing
        },
        task: |task, path| task.mkdir(path, 0o777).map(|()| Returned::Nothing),
    },
    PathCall {
        name: "path_remove_directory",
        plants: false,
        guest: |guest, path| {
            guest.path("path_remove_directory", &beside(path, b"empty"));
            Returned::Nothing
        },
        task: |task, path| {
            task.rmdir(&beside(path, b"empty"))?;
            Ok(Returned::Nothing)
        },
    },
    PathCall {
        name: "path_unlink_file",
        plants: false,
        guest: |guest, path| {
            guest.path("path_unlink_file", path);
            Returned::Nothing
        },
        task: |task, path| task.unlink(path).map(|()| Returned::Nothing),
    },
    PathCall {
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
            Returned::Nothing
        },
        task: |task, path| {
            let _ = task.unlink(b"got");
            task.link(path, b"got")?;
            Ok(Returned::Inode(task.lstat(b"got")?.ino))
        },
    },
    PathCall {
        name: "path_link to outside",
        plants: true,
        guest: |guest, path| {
            two(guest, "path_link", Some(0), b"mine", path);
            Returned::Nothing
        },
        task: |task, path| task.link(b"mine", path).map(|()| Returned::Nothing),
    },
    PathCall {
        name: "path_rename from outside",
        plants: false,
        guest: |guest, path| {
            two(guest, "path_rename", None, path, b"got");
            look(guest, b"got")
        },
        task: |task, path| {
            task.rename(path, b"got")?;
            Ok(Returned::Inode(task.lstat(b"got")?.ino))
        },
    },
    PathCall {
        name: "path_rename to outside",
        plants: true,
        guest: |guest, path| {
            if let Ok(fd) = guest.open(b"moved", oflags::CREAT, WRITE) {
                guest.close(fd);
            }
            two(guest, "path_rename", None, b"moved", path);
            Returned::Nothing
        },
        task: |task, path| {
            fill(task, b"moved", b"moved")?;
            task.rename(b"moved", path).map(|()| Returned::Nothing)
        },
    },
    PathCall {
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
            Returned::Nothing
        },
        task: |task, path| task.symlink(b"target", path).map(|()| Returned::Nothing),
    },
    PathCall {
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
    PathCall {
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
                true => Returned::Bytes(guest.get(BUFFER, guest.word(OUT).min(256)).to_vec()),
                false => Returned::Nothing,
            }
        },
        task: |task, path| task.readlink(&beside(path, b"note")).map(Returned::Bytes),
    },
];

/// A name in the same directory as `secret`.
fn beside(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.strip_suffix(b"secret") {
        Some(dir) => [dir, name].concat(),
        None => path.to_vec(),
    }
}

fn inode(guest: &ScriptedGuest, got: Got) -> Returned {
    match got.is_ok() {
        true => Returned::Inode(guest.long(OUT + 8)),
        false => Returned::Nothing,
    }
}

/// The inode of one of the guest's own names.
fn look(guest: &mut ScriptedGuest, path: &[u8]) -> Returned {
    guest.put(PATH, path);
    let len = path.len() as u64;
    let got = guest.call(
        "path_filestat_get",
        &[DIR.into(), 0, PATH.into(), len, OUT.into()],
    );
    inode(guest, got)
}

/// Makes a call with two paths, the first preceded by flags if the call has some.
fn two(guest: &mut ScriptedGuest, name: &str, flags: Option<u64>, old: &[u8], new: &[u8]) -> Got {
    guest.put(PATH, old);
    guest.put(PATH2, new);
    let (dir, from, to) = (u64::from(DIR), u64::from(PATH), u64::from(PATH2));
    let (old, new) = (old.len() as u64, new.len() as u64);
    match flags {
        Some(flags) => guest.call(name, &[dir, flags, from, old, dir, to, new]),
        None => guest.call(name, &[dir, from, old, dir, to, new]),
    }
}
