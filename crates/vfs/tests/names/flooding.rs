// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that colliding names in the dentry table stay bounded, though an attacker that knows the
//! hash key chooses them.

use crate::world::*;
use openpath_abi::Errno;
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::{CHAIN_CAP, HashKey};
use openpath_vfs::{Cred, Limits, Task, Vfs};

const SECRET: [u64; 2] = [0x1234_5678, 0x9abc_def0];

fn instance() -> (Vfs, Task) {
    let limits = Limits::default().dentries_max(1 << 16);
    let vfs = Vfs::builder().secret(SECRET).limits(limits);
    let vfs = vfs
        .build(MemFs::new(MemOptions::default()))
        .expect("a world");
    let task = vfs.task(Cred::root()).expect("a task");
    (vfs, task)
}

/// The key of the table after this many changes.
fn key(changes: u64) -> HashKey {
    if changes == 0 {
        return HashKey::new(SECRET);
    }
    // The series of secrets that follows from the first; two went to other tables.
    let (series, at) = (HashKey::new(SECRET), changes + 1);
    HashKey::new([series.hash(at, 1, 0), series.hash(at, 2, 0)])
}

/// Names in the root, which is the second dentry, that share a bucket of 4096 under `key`.
fn colliding(key: HashKey, from: u64) -> impl Iterator<Item = String> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let names = (from..).map(|i| format!("name{i:08}"));
    names.filter(move |name| {
        let (lo, hi) = name.as_bytes().split_at(8);
        key.hash(word(lo), word(hi), 2) & 0xfff == 0xabc
    })
}

#[test]
fn colliding_names_scatter_under_a_new_key() {
    let (vfs, task) = instance();
    let before = vfs.usage().dentries;
    let names: Vec<String> = colliding(key(0), 0).take(300).collect();
    for (made, name) in names.iter().enumerate() {
        task.data(name, b"x");
        assert!(vfs.census().longest < CHAIN_CAP);
        assert!(
            names[..made]
                .iter()
                .all(|name| task.stat(name.as_bytes()).is_ok())
        );
    }
    let census = vfs.census();
    // The few that were inserted during the change of the key were counted too.
    assert!(census.rekeys == 1 && census.crowded <= 8, "{census:?}");
    assert_eq!(vfs.usage().dentries, before + 300);
}

#[test]
fn an_attacker_that_learns_each_key_gets_short_chains_and_few_changes() {
    let (vfs, task) = instance();
    let mut from = 0;
    for _ in 0..64 {
        let names: Vec<String> = colliding(key(vfs.census().rekeys), from).take(60).collect();
        from += 1 << 20;
        for name in &names {
            task.data(name, b"x");
            assert!(vfs.census().longest < CHAIN_CAP);
        }
        for name in &names {
            assert_eq!(say(task.stat(name.as_bytes())), "OK");
            assert_eq!(
                task.stat(format!("{name}-").as_bytes()).err(),
                Some(Errno::ENOENT)
            );
        }
    }
    let census = vfs.census();
    assert!(
        census.rekeys > 2 && census.crowded > 256 * (census.rekeys - 1),
        "{census:?}"
    );
}

#[test]
fn colliding_absent_names_are_bounded() {
    let (vfs, task) = instance();
    task.data("evicted", b"x");
    vfs.shrink(1);
    for name in colliding(key(0), 0).take(300) {
        assert_eq!(task.stat(name.as_bytes()).err(), Some(Errno::ENOENT));
        assert!(vfs.census().longest < CHAIN_CAP);
    }
    assert_eq!(vfs.census().rekeys, 1);
    assert_eq!(say(task.stat(b"evicted")), "OK");
}

#[test]
fn colliding_files_in_use_are_all_found() {
    let (vfs, task) = instance();
    let before = vfs.usage().dentries;
    let mut open = Vec::new();
    for round in 0..3u64 {
        for name in colliding(key(vfs.census().rekeys), round << 20).take(80) {
            let fd = task.creat(name.as_bytes(), 0o600).expect("create");
            open.push((name, fd));
        }
        for (name, fd) in &open {
            let stat = task.stat(name.as_bytes()).expect("stat");
            assert_eq!(task.fstat(*fd).expect("fstat").ino, stat.ino);
        }
    }
    for (name, fd) in open {
        task.close(fd).expect("close");
        task.unlink(name.as_bytes()).expect("unlink");
    }
    vfs.collect();
    let census = vfs.census();
    assert!(
        census.longest < CHAIN_CAP && vfs.usage().dentries == before,
        "{census:?}"
    );
}
