// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every operation of a ring returns what the call of the task returns, whether it is
//! made inline or by a worker.

mod common;

use common::{World, all, fd, one, open, results};
use openpath_abi::fcntl::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use openpath_abi::fcntl::{F_GETFD, F_GETFL, FD_CLOEXEC, O_NONBLOCK};
use openpath_abi::mode::S_IFIFO;
use openpath_abi::resolve::{RESOLVE_CACHED, RESOLVE_NO_SYMLINKS};
use openpath_abi::statx::STATX_BASIC_STATS;
use openpath_abi::{AtFlags, Errno, OpenHow, RenameFlags, ResolveFlags};
use openpath_ring::{Bytes, Output, Ring, Sqe};

/// A ring with inline attempts, and one without.
fn both(test: impl Fn(&World, Ring, bool)) {
    for inline in [true, false] {
        let world = World::new();
        let ring = world.ring_with(|options| options.inline = inline);
        test(&world, ring, inline);
        world.assert_at_rest();
    }
}

#[test]
fn a_fifo_is_opened_inline_as_by_io_uring() {
    let world = World::new();
    let mut ring = world.ring_with(|_| {});
    let made = ring.task().mknod(b"/d/p", S_IFIFO | 0o600, 0);
    made.unwrap();
    let open = |flags| Sqe::openat(AT_FDCWD, "/d/p", flags, 0);
    assert_eq!(one(&mut ring, open(O_WRONLY)).result, Err(Errno::ENXIO));
    let reader = fd(&one(&mut ring, open(O_RDONLY)));
    let flags = ring.task().fcntl(reader, F_GETFL, 0).unwrap() as u32;
    assert_eq!(flags & O_NONBLOCK.bits(), 0);
    fd(&one(&mut ring, open(O_WRONLY)));
}

#[test]
fn opens_equal_those_of_the_task() {
    both(|_, mut ring, _| {
        let first = one(&mut ring, open("/d/f1"));
        assert_eq!(fd(&first), 0);
        assert_eq!(one(&mut ring, open("/d/none")).result, Err(Errno::ENOENT));
        assert_eq!(one(&mut ring, open("/d/f1/x")).result, Err(Errno::ENOTDIR));
        let made = Sqe::openat(
            AT_FDCWD,
            "/d/new",
            O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC,
            0o600,
        );
        let made = fd(&one(&mut ring, made));
        assert_eq!(
            (made, ring.task().fcntl(made, F_GETFD, 0)),
            (1, Ok(u64::from(FD_CLOEXEC)))
        );
        assert_eq!(
            ring.task().stat(b"/d/new").map(|s| s.mode & 0o7777),
            Ok(0o600)
        );
        let cut = Sqe::openat(AT_FDCWD, "/d/f1", O_TRUNC | O_WRONLY, 0);
        assert_eq!(fd(&one(&mut ring, cut)), 2);
        assert_eq!(ring.task().stat(b"/d/f1").map(|s| s.size), Ok(0));
        let dir = fd(&one(
            &mut ring,
            Sqe::openat(AT_FDCWD, "/d", O_RDONLY | O_DIRECTORY, 0),
        ));
        let relative = Sqe::openat(dir, "f2", O_RDONLY, 0);
        assert_eq!(fd(&one(&mut ring, relative)), 4);
        let closed = Sqe::openat(77, "f2", O_RDONLY, 0);
        assert_eq!(one(&mut ring, closed).result, Err(Errno::EBADF));
        for number in [0, 2] {
            assert_eq!(one(&mut ring, Sqe::close(number)).result, Ok(0));
        }
        assert_eq!(one(&mut ring, Sqe::close(2)).result, Err(Errno::EBADF));
        assert_eq!(fd(&one(&mut ring, open("/d/f3"))), 0, "the lowest");
    });
}

#[test]
fn resolve_cached_does_not_use_a_worker() {
    both(|world, mut ring, inline| {
        let how = |resolve| OpenHow {
            flags: u64::from(O_RDONLY),
            mode: 0,
            resolve,
        };
        let cached = || Sqe::openat2(AT_FDCWD, "/slow/x1", how(RESOLVE_CACHED));
        assert_eq!(one(&mut ring, cached()).result, Err(Errno::EAGAIN));
        assert!(
            !inline || world.pool.stats().started == 0,
            "no worker was asked"
        );
        let open = Sqe::openat2(AT_FDCWD, "/slow/x1", how(RESOLVE_NO_SYMLINKS));
        assert_eq!(fd(&one(&mut ring, open)), 0);
        assert_eq!(fd(&one(&mut ring, cached())), 1);
        let wrong = Sqe::openat2(
            AT_FDCWD,
            "/d/f1",
            how(ResolveFlags::from_bits_retain(1 << 40)),
        );
        assert_eq!(one(&mut ring, wrong).result, Err(Errno::EINVAL));
    });
}

#[test]
fn data_operations_equal_the_calls() {
    both(|_, mut ring, _| {
        let file = fd(&one(&mut ring, Sqe::openat(AT_FDCWD, "/d/f1", O_RDWR, 0)));
        let read = one(&mut ring, Sqe::read(file, vec![0; 4], 3));
        assert_eq!(read.result, Ok(4));
        assert!(matches!(read.output, Output::Buffer(buf) if buf == b"3456"));
        let read = one(&mut ring, Sqe::read(file, vec![0; 100], -1));
        assert!(matches!(read.output, Output::Buffer(buf) if buf == b"0123456789"));
        assert_eq!(
            one(&mut ring, Sqe::read(file, vec![0; 4], -1)).result,
            Ok(0)
        );
        let wrong = one(&mut ring, Sqe::read(file, vec![9; 4], -2));
        assert_eq!(wrong.result, Err(Errno::EINVAL));
        assert!(
            matches!(wrong.output, Output::Buffer(buf) if buf == [9; 4]),
            "it comes back"
        );
        assert_eq!(one(&mut ring, Sqe::write(file, b"abc", 8)).result, Ok(3));
        let pieces = vec![Bytes::from(b"x"), Bytes::from(b"yz")];
        assert_eq!(one(&mut ring, Sqe::writev(file, pieces, 0)).result, Ok(3));
        let readv = one(&mut ring, Sqe::readv(file, vec![vec![0; 5], vec![0; 9]], 0));
        assert_eq!(readv.result, Ok(11));
        let Output::Buffers(bufs) = readv.output else {
            panic!("no buffers");
        };
        assert_eq!(
            (&bufs[0][..], &bufs[1][..]),
            (&b"xyz34"[..], &b"567abc"[..])
        );
        for sqe in [
            Sqe::fsync(file),
            Sqe::fdatasync(file),
            Sqe::ftruncate(file, 2),
        ] {
            assert_eq!(one(&mut ring, sqe).result, Ok(0));
        }
        assert_eq!(one(&mut ring, Sqe::fallocate(file, 0, 0, 64)).result, Ok(0));
        assert_eq!(ring.task().fstat(file).map(|s| s.size), Ok(64));
        for sqe in [
            Sqe::read(99, vec![], 0),
            Sqe::write(99, b"", 0),
            Sqe::fsync(99),
            Sqe::ftruncate(99, 0),
            Sqe::fallocate(99, 0, 0, 1),
            Sqe::getdents64(99, 4096),
        ] {
            assert_eq!(one(&mut ring, sqe).result, Err(Errno::EBADF));
        }
    });
}

#[test]
fn name_operations_equal_the_calls() {
    both(|_, mut ring, _| {
        assert_eq!(
            one(&mut ring, Sqe::mkdirat(AT_FDCWD, "/n", 0o700)).result,
            Ok(0)
        );
        assert_eq!(
            one(&mut ring, Sqe::mkdirat(AT_FDCWD, "/n", 0o700)).result,
            Err(Errno::EEXIST)
        );
        assert_eq!(
            one(&mut ring, Sqe::symlinkat("../d/f1", AT_FDCWD, "/n/l")).result,
            Ok(0)
        );
        assert_eq!(ring.task().readlink(b"/n/l"), Ok(b"../d/f1".to_vec()));
        let link = Sqe::linkat(AT_FDCWD, "/d/f1", AT_FDCWD, "/n/h", AtFlags::empty());
        assert_eq!(one(&mut ring, link).result, Ok(0));
        let stat = one(&mut ring, Sqe::stat(AT_FDCWD, "/n/h", AtFlags::empty()));
        assert!(matches!(stat.output, Output::Stat(stat) if stat.nlink == 2));
        let statx = one(
            &mut ring,
            Sqe::statx(AT_FDCWD, "/n/l", AtFlags::empty(), STATX_BASIC_STATS),
        );
        assert!(matches!(statx.output, Output::Statx(statx) if statx.nlink == 2));
        let none = one(
            &mut ring,
            Sqe::statx(AT_FDCWD, "/n/none", AtFlags::empty(), STATX_BASIC_STATS),
        );
        assert_eq!(none.result, Err(Errno::ENOENT));
        let rename = Sqe::renameat2(AT_FDCWD, "/n/h", AT_FDCWD, "/n/g", RenameFlags::empty());
        assert_eq!(one(&mut ring, rename).result, Ok(0));
        let dir = fd(&one(
            &mut ring,
            Sqe::openat(AT_FDCWD, "/n", O_RDONLY | O_DIRECTORY, 0),
        ));
        let list = one(&mut ring, Sqe::getdents64(dir, 4096));
        assert_eq!(list.result, Ok(4));
        assert!(matches!(list.output, Output::Entries(entries) if entries.len() == 4));
        for name in ["g", "l"] {
            assert_eq!(
                one(&mut ring, Sqe::unlinkat(dir, name, AtFlags::empty())).result,
                Ok(0)
            );
        }
        assert_eq!(
            one(
                &mut ring,
                Sqe::unlinkat(AT_FDCWD, "/n", AtFlags::from_bits_retain(0x200))
            )
            .result,
            Ok(0)
        );
        assert_eq!(one(&mut ring, Sqe::nop()).result, Ok(0));
    });
}

#[test]
fn a_call_sees_the_task_as_it_was_when_it_was_submitted() {
    let world = World::new();
    let mut ring = world.ring();
    ring.task().chdir(b"/d").unwrap();
    ring.prepare(Sqe::openat(AT_FDCWD, "here", O_CREAT | O_WRONLY, 0o777))
        .unwrap();
    ring.task().umask(0o077);
    assert_eq!(ring.submit(), Ok(1));
    ring.task().umask(0);
    ring.task().chdir(b"/").unwrap();
    assert_eq!(results(common::rest(&mut ring)), [(0, Ok(0))]);
    assert_eq!(
        ring.task().stat(b"/d/here").map(|s| s.mode & 0o777),
        Ok(0o700)
    );
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn descriptors_are_the_lowest_when_they_are_installed_and_emfile_when_there_is_none() {
    let world = World::new();
    let mut ring = world.ring();
    ring.task().set_rlimit_nofile(3);
    let opens = (0..5).map(|n| open(&format!("/d/f{n}")).offload().user_data(n));
    let done = all(&mut ring, opens);
    let ok = done.iter().filter_map(|cqe| cqe.result.ok());
    let mut fds: Vec<_> = ok.collect();
    fds.sort_unstable();
    assert_eq!(fds, [0, 1, 2]);
    let none = done.iter().filter(|cqe| cqe.result == Err(Errno::EMFILE));
    assert_eq!(
        (none.count(), ring.task().descriptors()),
        (2, vec![0, 1, 2])
    );
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_failing_or_panicking_back_end_gives_an_errno() {
    both(|_, mut ring, _| {
        assert_eq!(one(&mut ring, open("/slow/e")).result, Err(Errno::EIO));
        assert_eq!(one(&mut ring, open("/slow/p")).result, Err(Errno::EIO));
        assert_eq!(one(&mut ring, open("/slow/a")).result, Err(Errno::ENOENT));
        assert_eq!(one(&mut ring, open("/slow/x")).result, Ok(0));
        let read = one(&mut ring, Sqe::read(0, vec![0; 100], 2));
        assert_eq!(read.result, Ok(6));
    });
}

#[test]
fn data_of_a_blocking_tree_is_left_to_workers() {
    let world = World::with(Default::default(), true);
    let mut ring = world.ring();
    let opened = ring.task().open(b"/slow/x", O_RDONLY, 0).unwrap();
    assert_eq!(world.pool.stats().started, 0);
    assert_eq!(
        one(&mut ring, Sqe::read(opened, vec![0; 100], 0)).result,
        Ok(8)
    );
    assert_eq!(world.pool.stats().started, 1);
    assert_eq!(one(&mut ring, Sqe::close(opened)).result, Ok(0));
    assert_eq!(one(&mut ring, Sqe::close(opened)).result, Err(Errno::EBADF));
    drop(ring);
    world.assert_at_rest();
}
