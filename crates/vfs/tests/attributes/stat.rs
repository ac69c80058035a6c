// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that stat and statx report attributes, that access goes by the real ids, and that all
//! three check their arguments, as Linux 6.18 does on a tmpfs.

use crate::world::*;
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::caps::*;
use openpath_abi::fcntl::*;
use openpath_abi::statx::*;
use openpath_abi::{AtFlags, Errno, StatxMask, Timespec, mode, stat};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, MountFlags, Profile, flag};

#[test]
fn stat_reports_the_attributes_of_each_type() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o640, (7, 8));
    task.link_to("/l", "f");
    task.node("/null", mode::S_IFCHR | 0o666, stat::makedev(1, 3));
    let file = task.get("/f", "WR");
    assert_eq!(task.write(file, &[1; 5000]), Ok(5000));
    let s = task.stat(b"/l").expect("stat");
    assert_eq!((s.mode, s.nlink, s.uid, s.gid), (0o100640, 1, 7, 8));
    assert_eq!((s.size, s.blksize, s.blocks, s.rdev), (5000, 4096, 16, 0));
    assert!(s.dev != 0 && s.ino != 0 && s.mtime > s.atime && s.mtime == s.ctime);
    assert_eq!(task.fstat(file), Ok(s));
    assert_eq!(task.fstatat(file, b"", AT_EMPTY_PATH), Ok(s));
    assert_eq!(task.fstatat(AT_FDCWD, b"f", AtFlags::empty()), Ok(s));
    let l = task.lstat(b"/l").expect("lstat");
    assert_eq!((l.mode, l.size, l.dev), (0o120777, 1, s.dev));
    assert_eq!(task.fstatat(AT_FDCWD, b"/l", AT_SYMLINK_NOFOLLOW), Ok(l));
    let d = task.stat(b"/").expect("stat");
    assert_eq!((d.mode, d.nlink, d.size), (0o40755, 2, 100));
    assert_eq!(task.stat(b"/null").map(|s| s.rdev), Ok(stat::makedev(1, 3)));
    task.link(b"/f", b"/again").expect("link");
    assert_eq!(
        task.stat(b"/again").map(|s| (s.ino, s.nlink)),
        Ok((s.ino, 2))
    );
}

#[test]
fn stat_takes_empty_paths_and_checks_its_flags() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    let (here, bad, of) = (AT_FDCWD, BAD, task.get("/f", "RD"));
    let long = "a".repeat(5000);
    let e = AT_EMPTY_PATH;
    for (at, path, flags, answer) in [
        (of, "", e, "OK"),
        (of, "", e | AtFlags::from_bits_retain(0x8000_0000), "OK"),
        (here, "", e, "OK"),
        (
            here,
            "",
            e | AtFlags::from_bits_retain(0x8000_0000),
            "EINVAL",
        ),
        (bad, "", e, "EBADF"),
        (bad, "", e | AtFlags::from_bits_retain(0x8000_0000), "EBADF"),
        (-1, "", e, "EBADF"),
        (-1, "", e | AtFlags::from_bits_retain(0x8000_0000), "EINVAL"),
        (-1, "", e | AtFlags::from_bits_retain(0x400), "EINVAL"),
        (of, "", AtFlags::empty(), "ENOENT"),
        (bad, "", AtFlags::empty(), "ENOENT"),
        (of, "f", e, "ENOTDIR"),
        (
            of,
            "f",
            e | AtFlags::from_bits_retain(0x8000_0000),
            "EINVAL",
        ),
        (here, "f", AtFlags::from_bits_retain(0x6000), "OK"),
        (here, "f", AT_NO_AUTOMOUNT, "OK"),
        (here, "f", AtFlags::from_bits_retain(0x400), "EINVAL"),
        (here, "f", AtFlags::from_bits_retain(0x8000), "EINVAL"),
        (here, "", AtFlags::from_bits_retain(0x400), "EINVAL"),
        (here, &*long, AtFlags::from_bits_retain(0x400), "EINVAL"),
        (here, &*long, AtFlags::empty(), "ENAMETOOLONG"),
        (bad, "f", AtFlags::from_bits_retain(0x400), "EINVAL"),
        (bad, "f", AtFlags::empty(), "EBADF"),
        (bad, "/f", AtFlags::empty(), "OK"),
        (here, "f/", AtFlags::empty(), "ENOTDIR"),
    ] {
        let got = say(task.fstatat(at, path.as_bytes(), flags));
        let label: String = path.chars().take(9).collect();
        assert_eq!(got, answer, "{label:?} {flags:#x}");
    }
    assert_eq!(task.stat(b""), Err(Errno::ENOENT));
}

#[test]
fn statx_fills_the_requested_fields() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"abc");
    let path = |p: &str, flags, mask| {
        let (flags, mask) = (
            AtFlags::from_bits_retain(flags),
            StatxMask::from_bits_retain(mask),
        );
        task.statx(AT_FDCWD, p.as_bytes(), flags, mask)
    };
    for (mask, filled) in [
        (0, 0x173f),
        (0x7ff, 0x17ff),
        (0xfff, 0x1fff),
        (0x20, 0x173f),
        (0x40, 0x17ff),
        (0x80, 0x17ff),
        (0x800, 0x1f3f),
        (0x1000, 0x173f),
        (0x4000, 0x473f),
        (0x5000, 0x473f),
        (0x7fff_ffff, 0x4fff),
        (0x4000_0000, 0x173f),
    ] {
        let s = path("/f", 0, mask).expect("statx");
        let filled = StatxMask::from_bits_retain(filled);
        assert_eq!(s.mask, filled, "{mask:#x}");
        assert_eq!(
            (s.blksize, s.attributes, s.attributes_mask),
            (4096, 0, 0x20_3070)
        );
        assert_eq!((s.mode, s.nlink, s.size, s.blocks), (0o100644, 1, 3, 8));
        assert_eq!(s.btime != Timespec::EPOCH, filled.contains(STATX_BTIME));
        assert_eq!(s.mtime != Timespec::EPOCH, filled.contains(STATX_MTIME));
        assert_eq!(s.ctime != Timespec::EPOCH, filled.contains(STATX_CTIME));
    }
    let older = world_like(Profile::V6_12);
    let all = root(&older).statx(AT_FDCWD, b"/", AtFlags::empty(), StatxMask::empty());
    assert_eq!(
        all.map(|s| s.mask.bits()),
        Ok(0x17ff),
        "Linux 6.12 fills in all times"
    );
    for (flags, mask, answer) in [
        (0x2000, 0x7ff, "OK"),
        (0x4000, 0x7ff, "OK"),
        (0x6000, 0x7ff, "EINVAL"),
        (0x400, 0x7ff, "EINVAL"),
        (0x8000, 0x7ff, "EINVAL"),
        (0x800, 0x7ff, "OK"),
        (0x200, 0x7ff, "EINVAL"),
        (0, 0x8000_0000, "EINVAL"),
    ] {
        assert_eq!(say(path("/f", flags, mask)), answer, "{flags:#x} {mask:#x}");
    }
    let file = task.get("/f", "PATH");
    let empty = |at, flags, mask| {
        let flags = AT_EMPTY_PATH | AtFlags::from_bits_retain(flags);
        say(task.statx(at, b"", flags, StatxMask::from_bits_retain(mask)))
    };
    assert_eq!(empty(file, 0x400, 0x7ff), "OK");
    assert_eq!(empty(AT_FDCWD, 0x400, 0x7ff), "EINVAL");
    assert_eq!(empty(BAD, 0x400, 0), "EBADF");
    assert_eq!(empty(-1, 0x400, 0x7ff), "EINVAL");
    assert_eq!(empty(-1, 0, 0x7ff), "EBADF");
    assert_eq!(empty(BAD, 0x6000, 0), "EINVAL");
    assert_eq!(empty(BAD, 0, 0x8000_0000), "EINVAL");
}

#[test]
fn statx_reports_mounts_and_attributes() {
    let vfs = world();
    let tree = MemFs::new(MemOptions::default());
    let inner = tree.root().clone();
    let task = root(&vfs);
    task.dir("/m", 0o755, (0, 0));
    task.mount(tree, b"/m", MountFlags::default())
        .expect("mount");
    let statx = |p: &str, mask| {
        task.statx(AT_FDCWD, p.as_bytes(), AtFlags::empty(), mask)
            .expect(p)
    };
    let all = STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE;
    let (top, under) = (statx("/", all), statx("/m", all));
    assert_eq!(top.attributes, STATX_ATTR_MOUNT_ROOT);
    assert_eq!(under.attributes, STATX_ATTR_MOUNT_ROOT);
    assert!(top.mnt_id != under.mnt_id && top.dev_minor != under.dev_minor);
    assert_ne!(
        statx("/", StatxMask::empty()).mnt_id,
        statx("/m", StatxMask::empty()).mnt_id
    );
    task.dir("/m/d", 0o755, (0, 0));
    assert_eq!(statx("/m/d", all).attributes, 0);
    assert_eq!(statx("/m/d", all).mnt_id, under.mnt_id);
    let s = task.stat(b"/m/d").expect("stat");
    assert_eq!(stat::minor(s.dev), under.dev_minor);
    inner.set_flags(flag::IMMUTABLE | flag::APPEND_ONLY);
    let both = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_MOUNT_ROOT;
    assert_eq!(statx("/m", all).attributes, both);
}

#[test]
fn access_checks_its_arguments_first() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o600, (0, 0));
    task.link_to("/ls", "f");
    let file = task.get("/f", "PATH");
    let e = AT_EMPTY_PATH.bits();
    for (at, path, want, flags, answer) in [
        (AT_FDCWD, "f", 8, 0, "EINVAL"),
        (AT_FDCWD, "f", u32::MAX, 0, "EINVAL"),
        (AT_FDCWD, "f", R_OK, 1, "EINVAL"),
        (AT_FDCWD, "f", R_OK, AT_NO_AUTOMOUNT.bits(), "EINVAL"),
        (AT_FDCWD, "nope", 8, 0, "EINVAL"),
        (AT_FDCWD, "nope", 0, 0, "ENOENT"),
        (AT_FDCWD, "f", R_OK, AT_EACCESS.bits(), "OK"),
        (BAD, "", R_OK, e, "EBADF"),
        (BAD, "", R_OK, 0, "ENOENT"),
        (AT_FDCWD, "", R_OK, e, "OK"),
        (file, "", R_OK | W_OK, e, "OK"),
        (AT_FDCWD, "f", X_OK, 0, "EACCES"),
        (AT_FDCWD, "ls", X_OK, AT_SYMLINK_NOFOLLOW.bits(), "OK"),
        (AT_FDCWD, "/", X_OK | W_OK, 0, "OK"),
    ] {
        let got = say(task.faccessat2(at, path.as_bytes(), want, AtFlags::from_bits_retain(flags)));
        assert_eq!(got, answer, "{path} {want} {flags:#x}");
    }
}

#[test]
fn access_checks_the_real_ids() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o600, (1000, 1000));
    task.dir("/nox", 0o600, (0, 0));
    task.dir("/nox/in", 0o755, (0, 0));
    let with = |real: u32, effective: u32| {
        let one = |id: u32| {
            if id == 0 {
                Cred::root()
            } else {
                Cred::user(id, id, &[])
            }
        };
        let (r, e) = (one(real), one(effective));
        let cred = Cred {
            uid: r.uid,
            gid: r.gid,
            ..e
        };
        task.set_cred(cred);
        let try_one =
            |path: &str, want, flags| say(task.faccessat2(AT_FDCWD, path.as_bytes(), want, flags));
        let rw = R_OK | W_OK;
        [
            try_one("/f", rw, AtFlags::empty()),
            try_one("/f", rw, AT_EACCESS),
            try_one("/nox/in", 0, AtFlags::empty()),
            try_one("/nox/in", 0, AT_EACCESS),
        ]
    };
    let (ok, no) = ("OK", "EACCES");
    assert_eq!(with(0, 1000), [ok, ok, ok, no]);
    assert_eq!(with(1000, 0), [ok, ok, no, ok]);
    assert_eq!(with(1000, 1001), [ok, no, no, no]);
    assert_eq!(with(1001, 1000), [no, ok, no, no]);
    assert_eq!(with(0, 1001), [ok, no, ok, no]);
    let cred = Cred {
        caps: 1 << CAP_DAC_OVERRIDE,
        ..Cred::user(1001, 1001, &[])
    };
    task.set_cred(cred.clone());
    assert_eq!(say(task.access(b"/f", R_OK)), no);
    assert_eq!(say(task.faccessat2(AT_FDCWD, b"/f", R_OK, AT_EACCESS)), ok);
    assert_eq!(*task.cred(), cred, "the task has its own credentials again");
}
