// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a tree in memory keeps its limits on blocks, inodes and bytes, gives back what
//! removed files took, and reports its counters as statfs(2) of tmpfs does.

mod common;

use common::*;
use openpath_abi::{Errno, XattrFlags, mode};
use openpath_mem::{Charging, MemOptions};

const FILE: u32 = mode::S_IFREG;

#[test]
fn figures_follow_the_options() {
    for (size, inodes, blocks, files) in [
        (65536, 10, 16, 10),
        (5000, 0, 2, 0),
        (0, 7, 0, 7),
        (u64::MAX, u64::MAX, 1 << 52, 1 << 54),
    ] {
        let f = with(MemOptions::default().size(size).inodes(inodes)).figures();
        let files: u64 = if inodes == u64::MAX { files - 1 } else { files };
        assert_eq!(
            (f.kind, f.bsize, f.frsize, f.namelen),
            (0x0102_1994, 4096, 4096, 255)
        );
        assert_eq!((f.blocks, f.bfree, f.bavail), (blocks, blocks, blocks));
        assert_eq!((f.files, f.ffree), (files, files.saturating_sub(1)));
    }
}

#[test]
fn every_inode_and_further_name_takes_room() {
    let fs = with(MemOptions::default().inodes(6));
    let root = fs.root();
    let free = || fs.figures().ffree;
    let f = root.file("f", 2);
    root.dir("d", 2);
    root.link("g", &f, 2).expect("link");
    let t = root.ops().tmpfile(root, &new(FILE, 2)).expect("tmpfile");
    assert_eq!(free(), 1);
    root.link("t", &t, 2).expect("the first name is free");
    root.symlink("s", b"x", 2).expect("symlink");
    assert_eq!(free(), 0);
    assert_eq!(root.make("x", FILE, 3).err(), Some(Errno::ENOSPC));
    assert_eq!(root.link("x", &f, 3), Err(Errno::ENOSPC));
    assert_eq!(
        root.ops().tmpfile(root, &new(FILE, 3)).err(),
        Some(Errno::ENOSPC)
    );
    let white = |r: &mut openpath_vfs::Rename<'_>| r.whiteout = Some(new(mode::S_IFCHR, 3));
    assert_eq!(
        rename((root, "f"), (root, "x"), 3, white),
        Err(Errno::ENOSPC)
    );
    assert_eq!(times(&root.attr(), 3), NONE);
    assert_eq!(root.list(), ["s", "t", "g", "d", "f"]);
    rename((root, "f"), (root, "x"), 4, |_| ()).expect("a rename takes nothing");
    root.remove("x", 5).expect("unlink");
    assert_eq!(free(), 1);
    root.remove("g", 5).expect("unlink");
    assert_eq!(free(), 1);
    drop(f);
    assert_eq!(free(), 2);
    assert!(root.file("y", 6).ino() == 6, "refusals use no numbers up");
}

#[test]
fn replaced_files_give_room_back() {
    let fs = with(MemOptions::default().size(1 << 20).inodes(10));
    let root = fs.root();
    let f = root.file("f", 2);
    root.link("g", &f, 2).expect("link");
    write(&f, &[1; 8192], 0, 2).expect("write");
    root.file("a", 2);
    root.file("b", 2);
    assert_eq!(fs.free(), (254, 5));
    rename((root, "a"), (root, "f"), 3, |_| ()).expect("over one of two names");
    assert_eq!(fs.free(), (254, 6));
    rename((root, "b"), (root, "g"), 3, |_| ()).expect("over the last name");
    assert_eq!(fs.free(), (254, 6));
    drop(f);
    assert_eq!(fs.free(), (256, 7));
    root.symlink("l", &[b'x'; 200], 4).expect("symlink");
    assert_eq!(fs.free(), (255, 6));
    root.remove("l", 5).expect("unlink");
    assert_eq!(fs.free(), (256, 7));
}

#[test]
fn refused_symlink_gives_inode_back() {
    let fs = with(MemOptions::default().size(4096).inodes(10));
    let f = fs.root().file("f", 2);
    write(&f, b"x", 0, 2).expect("write");
    assert_eq!(fs.free(), (0, 8));
    assert_eq!(
        fs.root().symlink("l", &[b'x'; 200], 3).err(),
        Some(Errno::ENOSPC)
    );
    assert_eq!((fs.free(), fs.root().list().len()), ((0, 8), 1));
}

#[test]
fn concurrent_creates_respect_inode_limit() {
    let fs = with(MemOptions::default().size(64 * 4096).inodes(101));
    let made: usize = std::thread::scope(|s| {
        let work = |t: usize| {
            let root = fs.root();
            let mut made = 0;
            for i in 0..100 {
                let Ok(f) = root.make(&format!("{t}.{i}"), FILE, 2) else {
                    continue;
                };
                let _ = write(&f, b"x", 0, 3);
                made += 1;
            }
            made
        };
        let threads: Vec<_> = (0..4).map(|t| s.spawn(move || work(t))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a thread"))
            .sum()
    });
    assert_eq!((made, fs.free()), (100, (0, 0)));
    for name in fs.root().list() {
        fs.root().remove(&name, 4).expect("unlink");
    }
    assert_eq!(fs.free(), (64, 100));
}

/// A tree in which everything counts against these bytes.
fn counted(size: u64, spare_inodes: u32) -> Fs {
    with(
        MemOptions::default()
            .size(size)
            .inodes(0)
            .charging(Charging::Memory { spare_inodes }),
    )
}

#[test]
fn everything_made_is_charged_and_given_back() {
    const SIZE: u64 = 1 << 20;
    let fs = counted(SIZE, 0);
    let root = fs.root();
    let figures = || (fs.figures().blocks, fs.figures().files, fs.free());
    let empty = (256, 341, (256, 341));
    assert_eq!(figures(), empty, "the root is not counted");
    let f = root.file("f", 2);
    let set = |name: &[u8], len: usize| {
        f.ops()
            .setxattr(&f, name, &vec![1; len], XattrFlags::empty(), at(3))
    };
    let mut made = [0; 6];
    let mut fill = |which: usize, make: &mut dyn FnMut(usize) -> Result<(), Errno>| {
        let why = loop {
            if let Err(why) = make(made[which]) {
                break why;
            }
            made[which] += 1;
        };
        assert_eq!(why, Errno::ENOSPC);
        assert!(fs.free().0 <= 2, "{which}: {:?}", fs.free());
    };
    let name = |i: usize| format!("{i}");
    let clear = || {
        let names = root.list();
        let gone = names.iter().filter(|name| *name != "f");
        gone.for_each(|name| root.remove(name, 4).expect("removed"));
    };
    fill(0, &mut |i| root.make(&name(i), FILE, 3).map(drop));
    clear();
    fill(1, &mut |i| root.make(&name(i), mode::S_IFDIR, 3).map(drop));
    clear();
    fill(2, &mut |i| root.link(&name(i), &f, 3));
    clear();
    fill(3, &mut |i| {
        root.symlink(&name(i), &[b'x'; 200], 3).map(drop)
    });
    clear();
    fill(4, &mut |i| {
        let file = root.make(&name(i), FILE, 3)?;
        write(&file, b"x", 0, 3).map(drop)
    });
    clear();
    fill(5, &mut |i| set(format!("user.{i}").as_bytes(), 1000));
    assert_eq!(made, [340, 340, 816, 145, 145, 920]);
    drop(f);
    root.remove("f", 5).expect("removed");
    assert_eq!(figures(), empty);
}

#[test]
fn zero_bytes_admit_only_spare_inodes() {
    for spare in [0, 2] {
        let fs = counted(0, spare);
        let root = fs.root();
        for i in 0..spare {
            root.dir(&format!("{i}"), 2);
        }
        assert_eq!(root.make("x", FILE, 3).err(), Some(Errno::ENOSPC));
        let set = root
            .ops()
            .setxattr(root, b"user.a", b"x", XattrFlags::empty(), at(3));
        assert_eq!(set, Err(Errno::ENOSPC));
        assert_eq!((fs.figures().blocks, fs.free()), (0, (0, 0)));
    }
}

#[test]
fn inode_limit_holds_with_memory_budget() {
    let fs = with(
        MemOptions::default()
            .size(1 << 20)
            .inodes(3)
            .charging(Charging::Memory { spare_inodes: 0 }),
    );
    assert_eq!((fs.figures().files, fs.free()), (3, (256, 2)));
    fs.root().file("a", 2);
    fs.root().file("b", 2);
    assert_eq!(fs.root().make("c", FILE, 3).err(), Some(Errno::ENOSPC));
    assert_eq!(fs.free().1, 0);
}
