// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a tree in memory charges data, names and attributes to the tenant that made the file,
//! refuses what exceeds the tree's limit or the tenant's, in this order, and gives every charge
//! back.

use openpath_abi::falloc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE};
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_RDWR, O_TMPFILE};
use openpath_abi::{AtFlags, Errno, RenameFlags, UmountFlags, XattrFlags, mode, rename as r};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, MountFlags, Task, Tenant, TenantLimits, Vfs};
use std::sync::Arc;

const P: u64 = 4096;

/// The name of the error, or `0` on success.
fn says<T>(result: Result<T, Errno>) -> String {
    match result {
        Ok(_) => "0".to_owned(),
        Err(errno) => errno.name().to_owned(),
    }
}

/// A guest with a tenant of its own limits, in a tree with its own.
struct Guest {
    vfs: Vfs,
    task: Task,
    tenant: Arc<Tenant>,
}

fn tree(blocks: u64, inodes: u64) -> MemOptions {
    MemOptions::default()
        .mode(0o777)
        .size(blocks * P)
        .inodes(inodes)
}

fn guest(tree: MemOptions, bytes_max: u64, inodes_max: u64) -> Guest {
    let vfs = Vfs::builder().build(MemFs::new(tree)).expect("a Vfs");
    let tenant = vfs.tenant(
        TenantLimits::default()
            .bytes_max(bytes_max)
            .inodes_max(inodes_max),
    );
    let task = vfs.task(Cred::root()).expect("a task");
    task.set_tenant(&tenant).expect("a tenant of this Vfs");
    Guest { vfs, task, tenant }
}

impl Guest {
    /// What its tenant is charged: bytes and inodes.
    fn charged(&self) -> (u64, u64) {
        self.vfs.collect();
        let stats = self.tenant.stats();
        (stats.bytes, stats.inodes)
    }

    /// Used blocks and inodes of the tree.
    fn used(&self) -> (u64, u64) {
        let f = self.task.statfs(b"/").expect("statfs");
        (f.blocks - f.bfree, f.files - f.ffree)
    }

    fn open(&self, path: &str) -> Fd {
        let opened = self.task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o666);
        opened.expect("a file")
    }

    fn make(&self, path: &str, kind: u32) -> Result<(), Errno> {
        self.task
            .mknodat(AT_FDCWD, path.as_bytes(), kind | 0o666, 0)
    }

    fn remove(&self, path: &str) {
        let gone = self
            .task
            .unlinkat(AT_FDCWD, path.as_bytes(), AtFlags::empty());
        gone.expect("unlink");
    }
}

#[test]
fn partly_fitting_write_is_short() {
    let g = guest(tree(100, 100), 5 * P + 100, 100);
    let fd = g.open("/f");
    let data = [1; 4 * P as usize];
    assert_eq!(g.task.pwrite(fd, &data, 0), Ok(4 * P as usize));
    assert_eq!(
        g.task.pwrite(fd, &data, 3 * P as i64 + 1),
        Ok(2 * P as usize - 1)
    );
    assert_eq!(g.task.pwrite(fd, &data, 5 * P as i64), Err(Errno::EDQUOT));
    assert_eq!(
        g.task.fstat(fd).map(|s| (s.size, s.blocks)),
        Ok((5 * P as i64, 40))
    );
    assert_eq!((g.charged(), g.used()), ((5 * P, 1), (5, 2)));
    g.task.ftruncate(fd, P as i64 + 1).expect("ftruncate");
    assert_eq!((g.charged(), g.used()), ((2 * P, 1), (2, 2)));
    let punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    g.task.fallocate(fd, punch, 0, P as i64).expect("fallocate");
    assert_eq!((g.charged(), g.used()), ((P, 1), (1, 2)));
    g.remove("/f");
    assert_eq!(g.charged(), (P, 1), "it is open");
    g.task.close(fd).expect("close");
    assert_eq!((g.charged(), g.used()), ((0, 0), (0, 1)));
}

#[test]
fn every_inode_and_further_name_is_charged() {
    let g = guest(tree(100, 100), u64::MAX, 6);
    g.make("/f", mode::S_IFREG).expect("a file");
    g.make("/p", mode::S_IFIFO).expect("a FIFO");
    g.task.mkdirat(AT_FDCWD, b"/d", 0o777).expect("a directory");
    g.task.symlinkat(b"f", AT_FDCWD, b"/s").expect("a link");
    g.task
        .linkat(AT_FDCWD, b"/f", AT_FDCWD, b"/g", AtFlags::empty())
        .expect("a second name");
    let fd = g
        .task
        .open(b"/", O_TMPFILE | O_RDWR, 0o666)
        .expect("a file");
    assert_eq!((g.charged(), g.used().1), ((0, 6), 7));
    let white = g
        .task
        .renameat2(AT_FDCWD, b"/f", AT_FDCWD, b"/x", r::RENAME_WHITEOUT);
    let refused = [
        g.make("/x", mode::S_IFREG),
        g.task.mkdirat(AT_FDCWD, b"/x", 0o777),
        g.task.symlinkat(b"f", AT_FDCWD, b"/x"),
        g.task
            .linkat(AT_FDCWD, b"/f", AT_FDCWD, b"/x", AtFlags::empty()),
        g.task.open(b"/x", O_CREAT, 0o666).map(drop),
        g.task.open(b"/", O_TMPFILE | O_RDWR, 0).map(drop),
        white,
    ];
    assert_eq!(refused.map(says), ["EDQUOT"; 7]);
    let first = g.task.linkat(fd, b"", AT_FDCWD, b"/t", AT_EMPTY_PATH);
    first.expect("its first name is paid for");
    g.task
        .renameat2(AT_FDCWD, b"/f", AT_FDCWD, b"/g", r::RENAME_EXCHANGE)
        .expect("a rename takes nothing");
    assert_eq!(g.charged(), (0, 6));
    g.task.close(fd).expect("close");
    g.task
        .renameat(AT_FDCWD, b"/t", AT_FDCWD, b"/g")
        .expect("over the second name");
    assert_eq!((g.charged(), g.used().1), ((0, 5), 6));
    for path in ["/f", "/p", "/g", "/s"] {
        g.remove(path);
    }
    let gone = g.task.unlinkat(AT_FDCWD, b"/d", AT_REMOVEDIR);
    gone.expect("rmdir");
    assert_eq!((g.charged(), g.used()), ((0, 0), (0, 1)));
}

#[test]
fn long_links_and_attributes_take_bytes() {
    let g = guest(tree(100, 100), 2 * P, 100);
    let long = [b'x'; 200];
    g.task
        .symlinkat(&long[..127], AT_FDCWD, b"/short")
        .expect("a link");
    assert_eq!(g.charged(), (0, 1));
    g.task
        .symlinkat(&long[..128], AT_FDCWD, b"/long")
        .expect("a link");
    assert_eq!(g.charged(), (P, 2));
    // 40 bytes, the name and the value.
    let value = [7; P as usize - 40 - 6];
    g.task
        .setxattr(b"/short", b"user.a", b"", XattrFlags::empty())
        .expect_err("the link leads nowhere");
    g.make("/f", mode::S_IFREG).expect("a file");
    g.task
        .setxattr(b"/f", b"user.a", &value, XattrFlags::empty())
        .expect("an attribute");
    assert_eq!(g.charged(), (2 * P, 3));
    let refused = g.task.setxattr(b"/f", b"user.a", b"v", XattrFlags::empty());
    assert_eq!(
        refused,
        Err(Errno::EDQUOT),
        "a new value needs its own room first"
    );
    let refused = g.task.symlinkat(&long, AT_FDCWD, b"/more");
    assert_eq!((refused, g.charged()), (Err(Errno::EDQUOT), (2 * P, 3)));
    g.task.removexattr(b"/f", b"user.a").expect("removexattr");
    assert_eq!(g.charged(), (P, 3));
    g.task
        .setxattr(b"/f", b"user.b", b"value", XattrFlags::empty())
        .expect("an attribute");
    for path in ["/short", "/long", "/f"] {
        g.remove(path);
    }
    assert_eq!((g.charged(), g.used()), ((0, 0), (0, 1)));
}

#[test]
fn tree_refuses_before_tenant() {
    // Both are full: the tree refuses, like a tmpfs with a quota.
    let g = guest(tree(3, 4), 3 * P, 3);
    let fd = g.open("/f");
    assert_eq!(
        g.task.pwrite(fd, &[1; 4 * P as usize], 0),
        Ok(3 * P as usize)
    );
    assert_eq!(g.task.pwrite(fd, b"x", 3 * P as i64), Err(Errno::ENOSPC));
    g.make("/a", mode::S_IFREG).expect("a file");
    g.make("/b", mode::S_IFREG).expect("a file");
    assert_eq!(g.make("/c", mode::S_IFREG), Err(Errno::ENOSPC));
    assert_eq!((g.charged(), g.used()), ((3 * P, 3), (3, 4)));
    g.remove("/f");
    g.task.close(fd).expect("close");
    // Preallocation is charged page by page.
    for (blocks, bytes, errno) in [
        (8, 5 * P, Errno::EDQUOT),
        (5, 8 * P, Errno::ENOSPC),
        (5, 5 * P, Errno::ENOSPC),
        (5, 6 * P - 1, Errno::ENOSPC),
    ] {
        let g = guest(tree(blocks, 10), bytes, 10);
        let fd = g.open("/f");
        let more = (blocks as i64).min(10) * P as i64;
        assert_eq!(g.task.pwrite(fd, b"x", 0), Ok(1));
        assert_eq!(
            g.task.fallocate(fd, 0, P as i64, more),
            Err(errno),
            "{blocks} {bytes}"
        );
        assert_eq!((g.charged(), g.used()), ((P, 1), (1, 2)), "nothing is kept");
    }
}

#[test]
fn charges_stay_with_maker_of_file() {
    let g = guest(tree(100, 100), 3 * P, 3);
    let other = guest_of(&g.vfs);
    let (theirs, writer) = &other;
    let fd = g.open("/f");
    let shared = writer.open(b"/f", O_RDWR, 0).expect("the same file");
    assert_eq!(
        writer.pwrite(shared, &[1; 5 * P as usize], 0),
        Ok(3 * P as usize)
    );
    assert_eq!(
        writer.pwrite(shared, b"x", 3 * P as i64),
        Err(Errno::EDQUOT)
    );
    writer
        .linkat(AT_FDCWD, b"/f", AT_FDCWD, b"/g", AtFlags::empty())
        .expect("a link");
    writer
        .fchownat(AT_FDCWD, b"/f", 5, 5, AtFlags::empty())
        .expect("another owner");
    writer
        .fsetxattr(shared, b"user.a", b"", XattrFlags::empty())
        .expect_err("no room");
    assert_eq!((g.charged(), theirs.stats().inodes), ((3 * P, 2), 0));
    // A file that replaces it is charged to its own maker.
    writer
        .mknodat(AT_FDCWD, b"/h", mode::S_IFREG | 0o666, 0)
        .expect("a file");
    writer
        .renameat(AT_FDCWD, b"/h", AT_FDCWD, b"/f")
        .expect("a rename");
    assert_eq!((g.charged(), theirs.stats().inodes), ((3 * P, 1), 1));
    g.task.close(fd).expect("close");
    writer.close(shared).expect("close");
    g.remove("/g");
    g.remove("/f");
    assert_eq!((g.charged(), theirs.stats().inodes), ((0, 0), 0));
}

fn guest_of(vfs: &Vfs) -> (Arc<Tenant>, Task) {
    let tenant = vfs.tenant(TenantLimits::default());
    let task = vfs.task(Cred::root()).expect("a task");
    task.set_tenant(&tenant).expect("a tenant of this Vfs");
    (tenant, task)
}

#[test]
fn copies_are_charged_to_target() {
    let g = guest(tree(100, 100), 5 * P, 100);
    let (from, to) = (g.open("/from"), g.open("/to"));
    g.task
        .pwrite(from, &[1; 3 * P as usize], 0)
        .expect("pwrite");
    let copied = g
        .task
        .copy_file_range(from, Some(&mut 0), to, Some(&mut 0), 3 * P as usize, 0);
    assert_eq!(copied, Ok(2 * P as usize));
    let copied = g
        .task
        .copy_file_range(from, Some(&mut 0), to, Some(&mut (2 * P as i64)), 9, 0);
    assert_eq!((copied, g.charged()), (Err(Errno::EDQUOT), (5 * P, 2)));
}

#[test]
fn dropped_tree_gives_back_charges() {
    let g = guest(tree(100, 100), u64::MAX, u64::MAX);
    g.task.mkdirat(AT_FDCWD, b"/m", 0o777).expect("mkdir");
    let other = MemFs::new(tree(100, 100));
    g.task
        .mount(other, b"/m", MountFlags::default())
        .expect("mount");
    let fd = g.open("/m/f");
    g.task.pwrite(fd, &[1; 3 * P as usize], 0).expect("pwrite");
    g.task
        .linkat(AT_FDCWD, b"/m/f", AT_FDCWD, b"/m/g", AtFlags::empty())
        .expect("link");
    g.task
        .setxattr(b"/m/f", b"user.a", b"value", XattrFlags::empty())
        .expect("setxattr");
    g.task.close(fd).expect("close");
    assert_eq!(g.charged(), (3 * P + 51, 3));
    g.task.umount(b"/m", UmountFlags::empty()).expect("umount");
    g.task
        .unlinkat(AT_FDCWD, b"/m", AT_REMOVEDIR)
        .expect("rmdir");
    g.vfs.shrink(u32::MAX);
    assert_eq!(g.charged(), (0, 0));
}

/// A file without a name and without a descriptor is gone.
#[test]
fn unlinked_files_free_their_charge() {
    for (blocks, bytes) in [(5, 100 * P), (100, 5 * P)] {
        let g = guest(tree(blocks, 100), bytes, 100);
        let data = [1; 5 * P as usize];
        let fill = |path: &str| {
            let fd = g.open(path);
            let done = g.task.pwrite(fd, &data, 0);
            (g.task.close(fd), done).1
        };
        assert_eq!(fill("/write"), Ok(data.len()));
        g.remove("/write");
        assert_eq!(fill("/write"), Ok(data.len()));
        g.remove("/write");
        let fd = g.open("/part");
        assert_eq!(g.task.pwrite(fd, b"x", 0), Ok(1));
        assert_eq!(g.task.pwrite(fd, &data, 0), Ok(data.len()));
        g.task.close(fd).expect("close");
        g.remove("/part");
        let fd = g.open("/aside");
        assert_eq!(g.task.fallocate(fd, 0, 0, 5 * P as i64), Ok(()));
        g.task.close(fd).expect("close");
        g.remove("/aside");
        g.task
            .symlinkat(&[b'x'; 200], AT_FDCWD, b"/link")
            .expect("a link");
    }
}

/// Makes random calls in a small tree and compares the charges with the visible use after each.
#[test]
fn charges_match_visible_use() {
    let g = guest(tree(40, 20), 30 * P, 15);
    let mut random = 7_u64;
    let mut below = |n: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut refused = 0;
    for step in 0..20_000 {
        let path = format!("/{}", below(12));
        let path = path.as_bytes();
        let other = format!("/{}", below(12));
        let (offset, len) = (below(9 * P), below(9 * P));
        let file = |work: &dyn Fn(Fd) -> Result<(), Errno>| {
            let fd = g.task.open(path, O_RDWR, 0)?;
            let done = work(fd);
            g.task.close(fd)?;
            done
        };
        let (at, size) = (offset as i64, len as i64);
        let done = match below(12) {
            0 | 1 => g.make(&other, mode::S_IFREG),
            2 | 3 => g.task.unlinkat(AT_FDCWD, path, AtFlags::empty()),
            4 => g
                .task
                .linkat(AT_FDCWD, path, AT_FDCWD, other.as_bytes(), AtFlags::empty()),
            5 => {
                let body = vec![b'x'; 100 + below(60) as usize];
                g.task.symlinkat(&body, AT_FDCWD, other.as_bytes())
            }
            6 => {
                let flags = [RenameFlags::empty(), r::RENAME_WHITEOUT, r::RENAME_EXCHANGE]
                    [below(3) as usize];
                g.task
                    .renameat2(AT_FDCWD, path, AT_FDCWD, other.as_bytes(), flags)
            }
            7 | 8 => {
                let data = vec![1; len as usize];
                file(&|fd| g.task.pwrite(fd, &data, at).map(drop))
            }
            9 => file(&|fd| g.task.ftruncate(fd, size)),
            10 => file(&|fd| g.task.fallocate(fd, 0, at, size + 1)),
            _ => {
                let punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                file(&|fd| g.task.fallocate(fd, punch, at, size + 1))
            }
        };
        refused += u32::from(done == Err(Errno::EDQUOT));
        let (mut blocks, mut names) = (0, 0);
        let mut seen = std::collections::HashSet::new();
        for name in 0..12 {
            let path = format!("/{name}");
            let stat = g.task.fstatat(
                AT_FDCWD,
                path.as_bytes(),
                openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW,
            );
            if let Ok(stat) = stat {
                names += 1;
                if seen.insert(stat.ino) {
                    blocks += stat.blocks as u64 / 8;
                }
            }
        }
        assert_eq!(g.charged(), (blocks * P, names), "{step}");
        assert_eq!(g.used(), (blocks, names + 1), "{step}");
    }
    assert!(refused > 100, "{refused}");
}
