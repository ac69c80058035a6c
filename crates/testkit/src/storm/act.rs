// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes names, links, mounts and modes of the tree that other threads walk meanwhile. Each call
//! must succeed, or fail with an error that another thread's change explains.

use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, O_RDWR, O_TMPFILE};
use openpath_abi::{AtFlags, Errno, RenameFlags, UmountFlags, mount as m, rename as r};
use openpath_vfs::{Cred, MountFlags, Task};

use super::Place;
use super::world::{FAMILIES, Held, JAILS, content, make_file, tree};

/// Errors that a change may meet when another thread was first.
const EXPECTED: &[Errno] = &[
    Errno::ENOENT,
    Errno::EEXIST,
    Errno::ENOTEMPTY,
    Errno::ENOTDIR,
    Errno::EISDIR,
    Errno::EBUSY,
    Errno::EXDEV,
    Errno::EINVAL,
    Errno::EROFS,
    Errno::ELOOP,
    Errno::ENOSPC,
];

impl Place<'_> {
    /// A directory of a jail.
    pub(super) fn dir(&mut self, jail: usize) -> String {
        let (d, e) = (self.rng.below(3), self.rng.below(2));
        match self.rng.below(8) {
            0 => format!("/j{jail}"),
            1..4 => format!("/j{jail}/d{d}"),
            4..7 => format!("/j{jail}/d{d}/e{e}"),
            _ => format!("/j{jail}/mp"),
        }
    }

    fn file(&mut self, jail: usize, family: usize) -> String {
        let letter = if self.rng.below(2) == 0 { 'f' } else { 'g' };
        format!("{}/{letter}{family}", self.dir(jail))
    }

    /// Accepts success and the expected errors.
    pub(super) fn fine<T>(&self, what: &str, done: Result<T, Errno>) {
        if let Err(e) = done
            && !EXPECTED.contains(&e)
        {
            self.shared
                .wrong(format!("{}: {what}: {e}", self.progress.name));
        }
    }
}

/// Makes, removes, renames and links.
pub(super) fn write(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(Cred::root())?;
    p.join(&task);
    while !p.shared.over() {
        let what = p.rng.below(20) as u64;
        p.step(what);
        write_once(p, &task, what);
    }
    Ok(())
}

/// The calls of `write` in each kind of step.
pub(super) fn write_calls(doing: u64) -> &'static str {
    match doing {
        0..4 => "open with O_CREAT, pwrite",
        4..7 => "unlinkat",
        7..10 => "renameat2",
        10..13 => "renameat2 of a directory, mkdirat",
        13 | 14 => "renameat2 of a directory to another",
        15 => "linkat",
        16 => "open with O_TMPFILE, linkat",
        17 | 18 => "symlinkat, unlinkat",
        _ => "mkdirat, unlinkat with AT_REMOVEDIR",
    }
}

fn write_once(p: &mut Place<'_>, task: &Task, what: u64) {
    let (jail, family) = (p.rng.below(JAILS), p.rng.below(FAMILIES));
    let (one, two) = (p.file(jail, family), p.file(jail, family));
    let (one, two) = (one.as_bytes(), two.as_bytes());
    match what {
        0..4 => p.fine("make", make_file(task, one, &format!("j{jail}"), family)),
        4..7 => p.fine("unlink", task.unlinkat(AT_FDCWD, one, AtFlags::empty())),
        7..10 => {
            let flags = *p
                .rng
                .pick(&[0, 0, r::RENAME_NOREPLACE.bits(), r::RENAME_EXCHANGE.bits()]);
            p.fine(
                "rename",
                task.renameat2(
                    AT_FDCWD,
                    one,
                    AT_FDCWD,
                    two,
                    RenameFlags::from_bits_retain(flags),
                ),
            );
        }
        10..13 => rename_dir(p, task, jail),
        13 | 14 => move_chain(p, task, jail),
        15 => p.fine(
            "link",
            task.linkat(AT_FDCWD, one, AT_FDCWD, two, AtFlags::empty()),
        ),
        16 => link_tmpfile(p, task, jail, family, one),
        17 | 18 => links(p, task, jail),
        _ => {
            let path = format!("{}/t{family}", p.dir(jail));
            p.fine("mkdir", task.mkdirat(AT_FDCWD, path.as_bytes(), 0o755));
            p.fine(
                "rmdir",
                task.unlinkat(AT_FDCWD, path.as_bytes(), AT_REMOVEDIR),
            );
        }
    }
}

/// Moves a directory within its jail, among those of its depth.
fn rename_dir(p: &mut Place<'_>, task: &Task, jail: usize) {
    let shallow = p.rng.below(4) == 0;
    let path = |p: &mut Place<'_>| {
        let (d, e) = (p.rng.below(3), p.rng.below(2));
        if shallow {
            format!("/j{jail}/d{d}")
        } else {
            format!("/j{jail}/d{d}/e{e}")
        }
    };
    let (one, two) = (path(p), path(p));
    let flags = *p
        .rng
        .pick(&[0, r::RENAME_EXCHANGE.bits(), r::RENAME_EXCHANGE.bits()]);
    let done = task.renameat2(
        AT_FDCWD,
        one.as_bytes(),
        AT_FDCWD,
        two.as_bytes(),
        RenameFlags::from_bits_retain(flags),
    );
    p.fine("rename of a directory", done);
    // Makes the replaced object again; otherwise the tree would soon be empty.
    if p.rng.one_in(4) {
        p.fine("mkdir", task.mkdirat(AT_FDCWD, one.as_bytes(), 0o755));
    }
}

/// Moves the chain of empty directories out of its jail, or back.
fn move_chain(p: &mut Place<'_>, task: &Task, jail: usize) {
    let inside = format!("{}/ferry", p.dir(jail));
    let outside = format!("/out/ferry{jail}");
    let (from, to) = if p.rng.below(2) == 0 {
        (&inside, &outside)
    } else {
        (&outside, &inside)
    };
    let done = task.renameat2(
        AT_FDCWD,
        from.as_bytes(),
        AT_FDCWD,
        to.as_bytes(),
        r::RENAME_NOREPLACE,
    );
    p.fine("ferry", done);
}

/// Links an unnamed file.
fn link_tmpfile(p: &mut Place<'_>, task: &Task, jail: usize, family: usize, to: &[u8]) {
    let dir = p.dir(jail);
    let made = task
        .open(dir.as_bytes(), O_TMPFILE | O_RDWR, 0o644)
        .and_then(|fd| {
            let file = Held(task, fd);
            let inode = task.fstat(file.1)?.ino;
            let text = content(&format!("j{jail}"), family, inode);
            task.pwrite(file.1, &text, 0)?;
            task.linkat(file.1, b"", AT_FDCWD, to, AT_EMPTY_PATH)
        });
    p.fine("link of a temporary file", made);
}

/// Makes or removes a symbolic link; most links point outside the jail.
fn links(p: &mut Place<'_>, task: &Task, jail: usize) {
    const BODIES: &[&str] = &[
        "../../out/f0",
        "/out/f1",
        "../../../../f2",
        "d0/e0/f3",
        "e0",
        "..",
        "/",
        "../l1",
        ".",
    ];
    let body = *p.rng.pick(BODIES);
    let at = format!("{}/l{}", p.dir(jail), p.rng.below(3));
    if p.rng.below(2) == 0 {
        p.fine(
            "symlink",
            task.symlinkat(body.as_bytes(), AT_FDCWD, at.as_bytes()),
        );
    } else {
        p.fine(
            "unlink of a link",
            task.unlinkat(AT_FDCWD, at.as_bytes(), AtFlags::empty()),
        );
    }
}

/// Mounts trees and binds, changes their flags, and unmounts them.
pub(super) fn mount(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(Cred::root())?;
    p.join(&task);
    while !p.shared.over() {
        let (what, jail) = (p.rng.below(10) as u64, p.rng.below(JAILS));
        p.step(what);
        let (mp, mq) = (format!("/j{jail}/mp"), format!("/j{jail}/mq"));
        let (mp, mq) = (mp.as_bytes(), mq.as_bytes());
        match what {
            0 | 1 => {
                p.fine("mount", task.mount(tree(), mp, MountFlags::default()));
                for family in 0..FAMILIES {
                    let path = format!("/j{jail}/mp/f{family}");
                    p.fine(
                        "make",
                        make_file(&task, path.as_bytes(), &format!("j{jail}"), family),
                    );
                }
            }
            2 | 3 => {
                let from = p.dir(jail);
                p.fine("bind", task.bind(from.as_bytes(), mq));
            }
            4 => p.fine("remount", task.remount_bind(mq, MountFlags::READ_ONLY)),
            5 => p.fine("remount", task.remount_bind(mq, MountFlags::default())),
            6 => p.fine("umount", task.umount(mp, UmountFlags::empty())),
            7 => p.fine("umount", task.umount(mq, UmountFlags::empty())),
            _ => {
                let at = if what == 8 { mp } else { mq };
                p.fine("umount", task.umount(at, m::MNT_DETACH));
            }
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// The calls of `mount` in each kind of step.
pub(super) fn mount_calls(doing: u64) -> &'static str {
    match doing {
        0 | 1 => "mount",
        2 | 3 => "bind",
        4 | 5 => "remount_bind",
        _ => "umount",
    }
}

/// Takes permissions away and gives them back.
pub(super) fn mode(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(Cred::root())?;
    while !p.shared.over() {
        let (jail, family) = (p.rng.below(JAILS), p.rng.below(FAMILIES));
        let what = p.rng.below(3) as u64;
        p.step(what);
        let path = if what == 0 {
            p.file(jail, family)
        } else {
            p.dir(jail)
        };
        let mode = *p.rng.pick(&[0o755, 0o755, 0o700, 0o711]);
        p.fine(
            "chmod",
            task.fchmodat2(AT_FDCWD, path.as_bytes(), mode, AtFlags::empty()),
        );
        std::thread::yield_now();
    }
    Ok(())
}
