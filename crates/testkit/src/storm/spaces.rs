// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has threads of the storm change mounts and the root in private mount namespaces, and another
//! thread evict and return memory.

use std::time::Duration;

use openpath_abi::fcntl::{AT_FDCWD, AT_RECURSIVE};
use openpath_abi::{AtFlags, Errno, UmountFlags, mount as m};
use openpath_vfs::{Cred, MountFlags, Task};

use super::Place;
use super::walk::look_from_root;
use super::world::{FAMILIES, Held, JAILS, make_file, tree};

/// Changes and inspections of one namespace.
const ROUND: usize = 48;

/// Copies the first namespace, mounts and moves in the copy, and leaves it.
pub(super) fn apart(p: &mut Place<'_>) -> Result<(), Errno> {
    let host = p.shared.vfs.task(Cred::root())?;
    while !p.shared.over() {
        p.step(0);
        let task = host.fork()?;
        p.join(&task);
        if let Err(e) = task.unshare_mounts() {
            p.fine::<()>("unshare", Err(e));
            continue;
        }
        for _ in 0..ROUND {
            if p.shared.over() {
                break;
            }
            change(p, &task);
        }
        if p.rng.below(2) == 0 {
            p.step(9);
            pivot(p, &task)?;
        }
    }
    Ok(())
}

/// The calls of `apart` in each kind of step.
pub(super) fn apart_calls(doing: u64) -> &'static str {
    const CALLS: [&str; 10] = [
        "unshare",
        "mount",
        "bind",
        "set_propagation",
        "move_mount_to",
        "open_tree and move_mount",
        "umount",
        "umount, detached",
        "open",
        "pivot_root",
    ];
    CALLS[(doing as usize).min(9)]
}

fn change(p: &mut Place<'_>, task: &Task) {
    let (what, jail) = (p.rng.below(8) as u64 + 1, p.rng.below(JAILS));
    p.step(what);
    let points = [format!("/j{jail}/mp"), format!("/j{jail}/mq")];
    let [mp, mq] = [0, 1].map(|n: usize| points[n].as_bytes());
    let (one, two) = if p.rng.below(2) == 0 {
        (mp, mq)
    } else {
        (mq, mp)
    };
    match what {
        1 => {
            p.fine("mount", task.mount(tree(), one, MountFlags::default()));
            for family in 0..FAMILIES {
                let path = [one, format!("/f{family}").as_bytes()].concat();
                p.fine("make", make_file(task, &path, &format!("j{jail}"), family));
            }
        }
        2 => {
            let from = p.dir(jail);
            p.fine("bind", task.bind_tree(from.as_bytes(), one));
        }
        3 => {
            let kinds = [
                m::MS_SHARED,
                m::MS_SHARED,
                m::MS_SLAVE,
                m::MS_PRIVATE,
                m::MS_UNBINDABLE,
            ];
            let how = *p.rng.pick(&kinds) | *p.rng.pick(&[0, m::MS_REC]);
            p.fine("set_propagation", task.set_propagation(one, how));
        }
        4 => p.fine("move_mount_to", task.move_mount_to(one, two)),
        5 => {
            let flags = m::OPEN_TREE_CLONE.bits() | *p.rng.pick(&[0, AT_RECURSIVE.bits()]);
            let from = p.dir(jail);
            let moved = task
                .open_tree(AT_FDCWD, from.as_bytes(), AtFlags::from_bits_retain(flags))
                .and_then(|fd| {
                    let copy = Held(task, fd);
                    let to = m::MOVE_MOUNT_F_EMPTY_PATH;
                    task.move_mount(copy.1, b"", AT_FDCWD, two, to)
                });
            p.fine("move_mount", moved);
        }
        6 => p.fine("umount", task.umount(one, UmountFlags::empty())),
        7 => p.fine("umount", task.umount(one, m::MNT_DETACH)),
        _ => {
            let path = format!("/j{jail}/d0/f0");
            let opened = task.open(path.as_bytes(), openpath_abi::fcntl::O_RDONLY, 0);
            p.fine("open", opened.map(|fd| drop(Held(task, fd))));
        }
    }
}

/// Makes a jail the root of the namespace, unmounts all else, and inspects the tree.
fn pivot(p: &mut Place<'_>, task: &Task) -> Result<(), Errno> {
    let jail = format!("j{}", p.rng.below(JAILS));
    let root = format!("/{jail}");
    let (root, old) = (root.as_bytes(), format!("/{jail}/mp"));
    let turned = task
        .set_propagation(b"/", m::MS_PRIVATE | m::MS_REC)
        .and_then(|()| task.bind(root, root))
        .and_then(|()| task.pivot_root(root, old.as_bytes()))
        .and_then(|()| task.umount(b"/mp", m::MNT_DETACH))
        .and_then(|()| task.chdir(b"/"));
    if let Err(e) = turned {
        p.fine::<()>("pivot_root", Err(e));
        return Ok(());
    }
    for _ in 0..ROUND {
        if p.shared.over() {
            break;
        }
        look_from_root(p, task, &jail, 9)?;
    }
    Ok(())
}

/// Evicts, collects and returns memory, a little at a time and all at once.
pub(super) fn press(p: &mut Place<'_>) -> Result<(), Errno> {
    let vfs = p.shared.vfs.clone();
    while !p.shared.over() {
        let what = p.rng.below(8) as u64;
        p.step(what);
        match what {
            0..5 => {
                vfs.shrink(p.rng.below(200) as u32);
            }
            5 => vfs.collect(),
            6 => {
                vfs.trim(Duration::from_millis(10));
            }
            _ => {
                vfs.shrink(u32::MAX);
            }
        }
        std::thread::sleep(Duration::from_micros(p.rng.below(2000) as u64));
    }
    Ok(())
}

/// The calls of `press` in each kind of step.
pub(super) fn press_calls(doing: u64) -> &'static str {
    match doing {
        0..5 | 7 => "shrink",
        5 => "collect",
        _ => "trim",
    }
}
