// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the eviction of entries while other tasks walk, rename and unlink them: a name in use
//! stays valid, and the counts add up.

use crate::tasks::{root, tree, vfs};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDWR, O_TMPFILE};
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_vfs::{Task, TenantLimits, Vfs};
use std::sync::Barrier;

/// Rounds of each thread.
const ROUNDS: usize = if cfg!(debug_assertions) { 3000 } else { 20_000 };

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
    fn path(&mut self) -> String {
        // Short and long names, below directories that come and go.
        let names = ["a", "b", "a-name-of-more-than-sixteen-bytes", "c"];
        let dirs = ["/t", "/t/d0", "/t/d1", "/t/d0/d2"];
        format!("{}/{}", dirs[self.below(4)], names[self.below(4)])
    }
}

fn small(positive_max: u32, negative_max: u32) -> TenantLimits {
    TenantLimits::default()
        .positive_max(positive_max)
        .negative_max(negative_max)
}

/// One call of a guest; it may fail.
fn step(task: &Task, random: &mut Random) -> Result<(), Errno> {
    let (one, other) = (random.path(), random.path());
    let (one, other) = (one.as_bytes(), other.as_bytes());
    match random.below(10) {
        0 => task
            .open(one, O_CREAT | O_RDWR, 0o600)
            .and_then(|fd| task.close(fd)),
        1 => task.unlink(one),
        2 => task.rename(one, other),
        3 => task.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE),
        4 => task
            .open(b"/t", O_TMPFILE | O_RDWR, 0o600)
            .and_then(|fd| task.close(fd)),
        5 => task.mkdir(
            ["/t/d0", "/t/d1", "/t/d0/d2"][random.below(3)].as_bytes(),
            0o700,
        ),
        6 => task.rmdir(["/t/d0", "/t/d1", "/t/d0/d2"][random.below(3)].as_bytes()),
        7 => task.link(one, other),
        _ => task.stat(one).map(drop),
    }
}

/// Checks that the tenants' counts add up to that of the `Vfs`, except for the `roots` of trees.
fn adds_up(vfs: &Vfs, roots: u32) {
    let all = vfs.tenants();
    let entries: u32 = all
        .iter()
        .map(|t| t.stats().positive + t.stats().negative)
        .sum();
    assert_eq!(entries + roots, vfs.usage().dentries);
}

#[test]
fn entries_are_evicted_under_walks_renames_and_unlinks() {
    let vfs = vfs();
    let roots = vfs.usage().dentries;
    root(&vfs).mkdir(b"/t", 0o755).expect("a directory");
    let pins = vfs.usage().pins;
    let tenants = [vfs.tenant(small(16, 16)), vfs.tenant(small(20, 24))];
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for n in 0..4usize {
            let (task, tenants, vfs, begin) = (root(&vfs), &tenants, &vfs, &begin);
            scope.spawn(move || {
                task.set_tenant(&tenants[n % 2])
                    .expect("a tenant of this Vfs");
                let mut random = Random((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                begin.wait();
                for round in 0..ROUNDS {
                    let _answer = step(&task, &mut random);
                    match round % 512 {
                        100 => drop(vfs.shrink(7)),
                        200 => vfs.collect(),
                        300 => task
                            .set_tenant(&tenants[(n + round / 512) % 2])
                            .expect("a tenant of this Vfs"),
                        _ => {}
                    }
                    // A task in the middle of an insertion may exceed the bound by one.
                    for tenant in tenants {
                        let stats = tenant.stats();
                        assert!(stats.positive <= 20 + 4 + 8 && stats.negative <= 24 + 4);
                    }
                }
            });
        }
    });
    for _ in 0..8 {
        vfs.collect();
    }
    adds_up(&vfs, roots);
    assert_eq!((vfs.usage().pending_free, vfs.usage().pins), (0, pins));
    vfs.shrink(u32::MAX);
    adds_up(&vfs, roots);
    assert_eq!(vfs.usage().dentries, roots);
    let bytes: Vec<u64> = vfs
        .tenants()
        .iter()
        .map(|t| t.stats().cached_bytes)
        .collect();
    assert_eq!(bytes, [0, 0, 0]);
}

#[test]
fn a_full_instance_serves_all_tasks() {
    let limits = openpath_vfs::Limits::default()
        .dentries_max(128)
        .negatives_max(100);
    let vfs = Vfs::builder().limits(limits).build(tree()).expect("a Vfs");
    let roots = vfs.usage().dentries;
    let maker = root(&vfs);
    for i in 0..64 {
        let fd = maker.open(format!("/f{i}").as_bytes(), O_CREAT, 0o600);
        maker.close(fd.expect("a file")).expect("close");
    }
    let tenants: Vec<_> = (0..4)
        .map(|_| vfs.tenant(TenantLimits::default()))
        .collect();
    std::thread::scope(|scope| {
        for (n, tenant) in tenants.iter().enumerate() {
            let task = root(&vfs);
            scope.spawn(move || {
                task.set_tenant(tenant).expect("a tenant of this Vfs");
                for i in 0..ROUNDS {
                    let file = format!("/f{}", (i * 7 + n) % 64);
                    task.stat(file.as_bytes())
                        .expect("an existing file was not found");
                    let gone = task.stat(format!("/no{n}-{i}").as_bytes());
                    assert_eq!(gone.err(), Some(Errno::ENOENT));
                }
            });
        }
    });
    assert!(vfs.usage().dentries <= 128);
    adds_up(&vfs, roots);
}
