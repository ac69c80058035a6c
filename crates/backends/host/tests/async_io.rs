// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a ring over a directory of the host gives the same answers and leaves the same files
//! with the kernel's `io_uring` as without it. With the feature `io-uring`, and where the kernel
//! gives a ring, reads and syncs need no worker.

mod common;

use common::{POLICIES, Scratch, policy, world};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_APPEND, O_CREAT, O_DSYNC, O_NOATIME, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_host::Policy;
use openpath_ring::{Cqe, Output, Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::Bytes;

/// Submits one entry, and waits for its completion.
fn one(ring: &mut Ring, sqe: Sqe) -> Cqe {
    ring.prepare(sqe).expect("room");
    ring.submit_and_wait(1).expect("submitted");
    ring.next_completion().expect("a completion")
}

/// A pseudo-random number below `below`.
fn below(seed: &mut u64, below: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*seed >> 33) % below
}

/// A tree by policy and number of entries of the kernel's ring.
fn rings(name: &str, policy_of: Policy, kernel_ring: u32) -> (Scratch, Pool, Ring) {
    let scratch = Scratch::new(&format!("async-io-{name}-{policy_of:?}-{kernel_ring}"));
    scratch.put("file", &"0123456789".repeat(1000));
    let options = policy(policy_of).kernel_ring(kernel_ring);
    let (_vfs, task) = world(&scratch, options);
    let pool = Pool::new(PoolOptions::default());
    let ring = Ring::new(task, &pool, RingOptions::default()).expect("a ring");
    (scratch, pool, ring)
}

/// One of many operations on one of the open files.
fn entry(seed: &mut u64, fds: u64) -> Sqe {
    let fd = below(seed, fds) as i32;
    let offset = below(seed, 12_000).cast_signed() - 20;
    let len = below(seed, 300) as usize;
    let letter = b'a' + below(seed, 26) as u8;
    match below(seed, 9) {
        0..4 => Sqe::read(fd, vec![b'_'; len], offset),
        4..7 => Sqe::write(fd, Bytes::Owned(vec![letter; len]), offset),
        7 if len < 150 => Sqe::fsync(fd),
        7 => Sqe::fdatasync(fd),
        _ => Sqe::ftruncate(fd, offset.max(0)),
    }
}

#[test]
fn answers_and_files_are_equal_with_and_without_the_kernel_ring() {
    for policy_of in POLICIES {
        let seen = [0, 16].map(|kernel_ring| {
            let (scratch, _pool, mut ring) = rings("same", policy_of, kernel_ring);
            for flags in [
                O_RDWR,
                O_RDONLY,
                O_WRONLY,
                O_RDWR | O_APPEND,
                O_RDWR | O_DSYNC,
                O_RDWR | O_CREAT,
            ] {
                let name: &[u8] = if !flags.contains(O_CREAT) {
                    b"/file"
                } else {
                    b"/new"
                };
                ring.task().open(name, flags, 0o644).expect("open");
            }
            let mut seed = 7;
            let mut answers = Vec::new();
            for _ in 0..600 {
                let cqe = one(&mut ring, entry(&mut seed, 7));
                let read = match cqe.output {
                    Output::Buffer(buf) => buf,
                    _ => Vec::new(),
                };
                // Without blocks: when the host writes pages back decides how many pieces a file
                // has.
                let size = ["/file", "/new"]
                    .map(|name| ring.task().stat(name.as_bytes()).map(|stat| stat.size));
                answers.push((cqe.result, read, size));
            }
            drop(ring);
            (answers, scratch.get("file"), scratch.get("new"))
        });
        assert_eq!(seen[0], seen[1], "{policy_of:?}");
        assert!(
            seen[0]
                .0
                .iter()
                .any(|(result, ..)| *result == Err(Errno::EBADF))
        );
    }
}

#[test]
fn batches_move_the_reported_bytes() {
    for policy_of in POLICIES {
        for kernel_ring in [0, 4, 128] {
            let (scratch, _pool, mut ring) = rings("batch", policy_of, kernel_ring);
            let fd = ring.task().open(b"/file", O_RDWR, 0).expect("open");
            for round in 0..10 {
                for n in 0..32u8 {
                    let at = i64::from(n) * 100;
                    let data = Bytes::Owned(vec![b'A' + n; 50]);
                    let write = Sqe::write(fd, data, at).user_data(u64::from(n)).link();
                    let read = Sqe::read(fd, vec![0; 100], at).user_data(100 + u64::from(n));
                    ring.prepare(write).expect("room");
                    ring.prepare(read).expect("room");
                }
                ring.submit_and_wait(64).expect("submitted");
                let done: Vec<_> = std::iter::from_fn(|| ring.next_completion()).collect();
                assert_eq!(done.len(), 64, "round {round}");
                for cqe in done {
                    let Output::Buffer(read) = cqe.output else {
                        assert_eq!(cqe.result, Ok(50));
                        continue;
                    };
                    let letter = b'A' + (cqe.user_data - 100) as u8;
                    assert_eq!(cqe.result, Ok(100));
                    assert_eq!(&read[..50], [letter; 50]);
                    assert_eq!(&read[50..], b"0123456789".repeat(5));
                }
            }
            assert_eq!(scratch.get("file").len(), 10_000);
        }
    }
}

/// Whether this build and this kernel use the kernel's ring.
fn uses_kernel_ring() -> bool {
    cfg!(feature = "io-uring") && {
        let (_scratch, pool, mut ring) = rings("probe", Policy::Revalidate, 1);
        let fd = ring.task().open(b"/file", O_RDONLY, 0).expect("open");
        one(&mut ring, Sqe::read(fd, vec![0; 1], 0));
        let uses_kernel_ring = pool.stats().started == 0;
        if !uses_kernel_ring {
            eprintln!("skipped: no io_uring here");
        }
        uses_kernel_ring
    }
}

#[test]
fn reads_and_syncs_need_no_worker() {
    let by_kernel = uses_kernel_ring();
    for policy_of in POLICIES {
        let (_scratch, pool, mut ring) = rings("plain", policy_of, 8);
        let fd = ring
            .task()
            .open(b"/file", O_RDWR | O_NOATIME, 0)
            .expect("open");
        for _ in 0..10 {
            assert_eq!(one(&mut ring, Sqe::read(fd, vec![0; 64], 3)).result, Ok(64));
            assert_eq!(one(&mut ring, Sqe::fdatasync(fd)).result, Ok(0));
        }
        assert_eq!(pool.stats().started == 0, by_kernel, "{policy_of:?}");
    }
}

#[test]
fn access_times_move_as_without_the_kernel_ring() {
    let moved = [0, 8].map(|kernel_ring| {
        let (_scratch, _pool, mut ring) = rings("time", Policy::Exclusive, kernel_ring);
        let fd = ring.task().open(b"/file", O_RDWR, 0).expect("open");
        // The host's clock of files has ticks: the read is in a later one than the write was.
        std::thread::sleep(std::time::Duration::from_millis(20));
        [(); 3].map(|()| {
            let atime = |ring: &Ring| ring.task().stat(b"/file").map(|stat| stat.atime);
            let before = atime(&ring);
            assert_eq!(one(&mut ring, Sqe::read(fd, vec![0; 8], 0)).result, Ok(8));
            let after = atime(&ring);
            before != after
        })
    });
    assert_eq!(moved, [[true, false, false]; 2], "the first read moves it");
}

#[test]
fn dropped_tree_waits_for_its_ring() {
    for turn in 0..50 {
        let (scratch, pool, mut ring) = rings("goes", Policy::Exclusive, 8);
        let fd = ring.task().open(b"/file", O_RDWR, 0).expect("open");
        for n in 0..16 {
            let sqe = match n % 2 {
                0 => Sqe::write(fd, "yyyy", n * 4),
                _ => Sqe::read(fd, vec![0; 4000], n),
            };
            ring.prepare(sqe).expect("room");
        }
        ring.submit().expect("submitted");
        if turn % 2 == 0 {
            drop(pool);
            drop(ring);
        } else {
            drop(ring);
            drop(pool);
        }
        drop(scratch);
    }
}
