// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that chains, drains, cancels, time-outs, slots and multishot reads of a ring give the
//! results of a 6.18 kernel's `io_uring` for the same entries.

mod common;

use common::{World, all, fd, one, open, rest, results};
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY, O_RDWR};
use openpath_abi::{AtFlags, Errno, OFlags, RenameFlags};
use openpath_ring::{Cancel, Cqe, Destination, File, Ring, Sqe};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(600);

fn nop(mark: u64) -> Sqe {
    Sqe::nop().user_data(mark)
}

/// Fails.
fn bad(mark: u64) -> Sqe {
    Sqe::close(999).user_data(mark)
}

/// Both ends of the FIFO, at one descriptor.
fn fifo(ring: &Ring) -> i32 {
    ring.task().open(b"/fifo", O_RDWR, 0).expect("both ends")
}

fn read(fifo: i32, mark: u64) -> Sqe {
    Sqe::read(fifo, vec![0; 10], -1).user_data(mark)
}

const OK: Result<u64, Errno> = Ok(0);
const CANCELED: Result<u64, Errno> = Err(Errno::ECANCELED);
const ETIME: Result<u64, Errno> = Err(Errno::ETIME);

/// A world and its ring, for as long as `test` takes.
fn with_ring(test: impl FnOnce(&World, &mut Ring)) {
    let world = World::new();
    let mut ring = world.ring();
    test(&world, &mut ring);
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_failed_member_cancels_the_rest_of_its_chain_only() {
    with_ring(|_, ring| {
        let done = all(ring, [bad(1).link(), nop(2).link(), nop(3), nop(4)]);
        let expected = [
            (1, Err(Errno::EBADF)),
            (2, CANCELED),
            (3, CANCELED),
            (4, OK),
        ];
        assert_eq!(results(done), expected);
        let done = all(ring, [bad(1).hardlink(), nop(2).link(), nop(3)]);
        assert_eq!(results(done), [(1, Err(Errno::EBADF)), (2, OK), (3, OK)]);
        let done = all(
            ring,
            [nop(1).skip_success().link(), nop(2), bad(3).skip_success()],
        );
        assert_eq!(results(done), [(2, OK), (3, Err(Errno::EBADF))]);
    });
}

#[test]
fn a_short_read_breaks_a_chain() {
    with_ring(|_, ring| {
        let file = fd(&one(ring, open("/d/f1")));
        let read = |len| Sqe::read(file, vec![0; len], 0).user_data(1);
        assert_eq!(
            results(all(ring, [read(20).link(), nop(2)])),
            [(1, Ok(10)), (2, CANCELED)]
        );
        assert_eq!(
            results(all(ring, [read(20).hardlink(), nop(2)])),
            [(1, Ok(10)), (2, OK)]
        );
        assert_eq!(
            results(all(ring, [read(10).link(), nop(2)])),
            [(1, Ok(10)), (2, OK)]
        );
        assert_eq!(
            results(all(ring, [read(0).link(), nop(2)])),
            [(1, OK), (2, OK)]
        );
    });
}

#[test]
fn a_chain_is_in_order_across_workers() {
    with_ring(|_, ring| {
        let made = Sqe::mkdirat(AT_FDCWD, "/chain", 0o755).user_data(1).link();
        let link = Sqe::symlinkat("a", AT_FDCWD, "/chain/b")
            .user_data(2)
            .link();
        let rename = Sqe::renameat2(
            AT_FDCWD,
            "/chain/b",
            AT_FDCWD,
            "/chain/c",
            RenameFlags::empty(),
        );
        let gone = Sqe::unlinkat(AT_FDCWD, "/chain/c", AtFlags::empty())
            .user_data(4)
            .link();
        let sqes = [made, link, rename.user_data(3).link(), gone, nop(5)];
        let done = all(ring, sqes);
        assert!(
            done.iter()
                .zip(1..)
                .all(|(cqe, mark)| cqe.user_data == mark && cqe.result == OK)
        );
    });
}

#[test]
fn a_drained_entry_waits_and_delays_later_ones() {
    with_ring(|_, ring| {
        let fifo = fifo(ring);
        for sqe in [read(fifo, 1), read(fifo, 2).drain(), nop(3)] {
            ring.prepare(sqe).unwrap();
        }
        assert_eq!(
            (ring.submit(), ring.next_completion().is_none()),
            (Ok(3), true)
        );
        ring.task().write(fifo, b"x").unwrap();
        assert_eq!(ring.wait(1, None), Ok(1));
        assert_eq!(ring.next_completion().map(|cqe| cqe.user_data), Some(1));
        assert_eq!(
            ring.wait(1, Some(5 * MS)),
            Err(Errno::ETIME),
            "2 began, 3 waits for it"
        );
        ring.task().write(fifo, b"y").unwrap();
        let done: Vec<u64> = rest(ring).iter().map(|cqe| cqe.user_data).collect();
        assert_eq!(done, [2, 3]);
        let done = all(ring, [Sqe::timeout(5 * MS).user_data(1), nop(2).drain()]);
        let order: Vec<_> = done.iter().map(|cqe| (cqe.user_data, cqe.result)).collect();
        assert_eq!(order, [(1, ETIME), (2, OK)]);
        let done = all(
            ring,
            [nop(1).drain().link(), nop(2), nop(3).drain(), nop(4)],
        );
        assert_eq!(results(done), [(1, OK), (2, OK), (3, OK), (4, OK)]);
    });
}

#[test]
fn waiting_operations_are_cancelled_and_running_ones_interrupted() {
    with_ring(|world, ring| {
        let fifo = fifo(ring);
        ring.prepare(read(fifo, 1)).unwrap();
        ring.submit().unwrap();
        let done = all(ring, [Sqe::cancel(Cancel::UserData(1)).user_data(2)]);
        // It depends on whether a worker has begun.
        let answers = results(done);
        assert_eq!(answers[0], (1, CANCELED));
        assert!(
            matches!(answers[1], (2, Ok(0) | Err(Errno::EALREADY))),
            "{answers:?}"
        );
        let time = Sqe::timeout(LONG).user_data(1);
        let done = all(ring, [time, Sqe::cancel(Cancel::Any).user_data(2)]);
        assert_eq!(results(done), [(1, CANCELED), (2, Ok(1))]);
        let none = [
            Sqe::cancel(Cancel::UserData(77)).user_data(1),
            Sqe::cancel_all(Cancel::Any).user_data(2),
        ];
        assert_eq!(results(all(ring, none)), [(1, Err(Errno::ENOENT)), (2, OK)]);
        let three = [
            read(fifo, 1),
            Sqe::timeout(LONG).user_data(2),
            read(fifo, 3),
        ];
        let cancel = Sqe::cancel_all(Cancel::Any).user_data(4);
        let done = all(ring, three.into_iter().chain([cancel]));
        assert_eq!(
            results(done),
            [(1, CANCELED), (2, CANCELED), (3, CANCELED), (4, Ok(3))]
        );
        let two = [read(fifo, 1), open("/slow/w").user_data(2)];
        two.into_iter().for_each(|sqe| ring.prepare(sqe).unwrap());
        ring.submit().unwrap();
        world.gate.await_waiting(1);
        let by_file = Sqe::cancel_all(Cancel::File(File::Fd(fifo))).user_data(3);
        let lookup = Sqe::cancel(Cancel::UserData(2)).user_data(4);
        [by_file, lookup]
            .into_iter()
            .for_each(|sqe| ring.prepare(sqe).unwrap());
        ring.submit().unwrap();
        world.gate.open();
        let end = results(rest(ring));
        let open = (2, Ok(fifo as u64 + 1));
        assert_eq!(
            end,
            [(1, CANCELED), open, (3, Ok(1)), (4, Err(Errno::EALREADY))]
        );
    });
}

#[test]
fn a_cancel_does_not_find_what_has_not_begun() {
    with_ring(|_, ring| {
        let fifo = fifo(ring);
        let held = [read(fifo, 1).link(), nop(2)];
        held.into_iter().for_each(|sqe| ring.prepare(sqe).unwrap());
        ring.submit().unwrap();
        ring.prepare(Sqe::cancel(Cancel::UserData(2)).user_data(3))
            .unwrap();
        ring.submit().unwrap();
        ring.task().write(fifo, b"0123456789").unwrap();
        assert_eq!(
            results(rest(ring)),
            [(1, Ok(10)), (2, OK), (3, Err(Errno::ENOENT))]
        );
    });
}

#[test]
fn time_outs_expire_and_are_removed_updated_and_counted() {
    with_ring(|_, ring| {
        let time = |ms| Sqe::timeout(ms * MS).user_data(1);
        assert_eq!(one(ring, time(0)).result, ETIME);
        let remove = |mark| Sqe::timeout_remove(1).user_data(mark);
        let done = all(ring, [time(60_000), remove(2), remove(3)]);
        assert_eq!(
            results(done),
            [(1, CANCELED), (2, OK), (3, Err(Errno::ENOENT))]
        );
        let update = Sqe::timeout_update(1, 5 * MS).user_data(2);
        let began = Instant::now();
        assert_eq!(
            results(all(ring, [time(60_000), update])),
            [(1, ETIME), (2, OK)]
        );
        assert!(began.elapsed() >= 5 * MS);
        let count = |n| Sqe::timeout_or(LONG, n).user_data(1);
        assert_eq!(
            results(all(ring, [count(2), nop(2), nop(3)])),
            [(1, OK), (2, OK), (3, OK)]
        );
        for sqe in [count(3), nop(2), nop(3)] {
            ring.prepare(sqe).unwrap();
        }
        ring.submit().unwrap();
        assert_eq!((ring.ready(), ring.in_flight()), (2, 1));
        let end = results(all(ring, [nop(4)]));
        assert_eq!(end, [(1, OK), (2, OK), (3, OK), (4, OK)]);
        let three = all(ring, [Sqe::timeout_multishot(MS, 3)]);
        let more: Vec<_> = three
            .iter()
            .map(|cqe: &Cqe| (cqe.result, cqe.more))
            .collect();
        assert_eq!(more, [(ETIME, true), (ETIME, true), (ETIME, false)]);
        let done = all(ring, [time(1).link(), nop(2)]);
        assert_eq!(results(done), [(1, ETIME), (2, CANCELED)]);
        let done = all(ring, [time(1).etime_is_success().link(), nop(2)]);
        assert_eq!(results(done), [(1, ETIME), (2, OK)]);
    });
}

#[test]
fn a_linked_time_out_cancels_its_operation_or_is_cancelled() {
    with_ring(|_, ring| {
        let fifo = fifo(ring);
        let guard = |ms| Sqe::link_timeout(ms * MS).user_data(2);
        let done = all(ring, [read(fifo, 1).link(), guard(5).link(), nop(3)]);
        assert_eq!(results(done), [(1, CANCELED), (2, ETIME), (3, CANCELED)]);
        let done = all(ring, [read(fifo, 1).hardlink(), guard(5).link(), nop(3)]);
        assert_eq!(results(done), [(1, CANCELED), (2, ETIME), (3, OK)]);
        let done = all(ring, [nop(1).link(), guard(60_000).link(), nop(3)]);
        assert_eq!(results(done), [(1, OK), (2, CANCELED), (3, OK)]);
        assert_eq!(one(ring, guard(1)).result, Err(Errno::EINVAL));
        let done = all(
            ring,
            [nop(1).link(), guard(1).link(), guard(1).user_data(3)],
        );
        assert_eq!(
            results(done),
            [(1, CANCELED), (2, CANCELED), (3, Err(Errno::EINVAL))]
        );
        let open = open("/fifo").offload().user_data(1).link();
        assert_eq!(
            results(all(ring, [open, guard(60_000)])),
            [(1, Ok(1)), (2, CANCELED)]
        );
    });
}

#[test]
fn slots_are_files_of_the_ring() {
    let world = World::new();
    let mut ring = world.ring_with(|options| options.slots = 4);
    let any = |mark| {
        open("/d/f1")
            .into_slot(Destination::AnySlot)
            .user_data(mark)
    };
    let done = all(&mut ring, (0..5).map(any));
    let expected = [
        (0, Ok(0)),
        (1, Ok(1)),
        (2, Ok(2)),
        (3, Ok(3)),
        (4, Err(Errno::ENFILE)),
    ];
    assert_eq!(results(done), expected);
    assert_eq!(
        (ring.slots(), ring.task().descriptors()),
        (vec![0, 1, 2, 3], vec![])
    );
    let to = |slot| open("/d/f2").into_slot(Destination::Slot(slot));
    assert_eq!(one(&mut ring, to(2)).result, OK);
    assert_eq!(one(&mut ring, to(2).offload()).result, OK);
    assert_eq!(one(&mut ring, to(9)).result, Err(Errno::EINVAL));
    let cloexec = Sqe::openat(AT_FDCWD, "/d/f2", OFlags::from_bits_retain(0o2000000), 0);
    assert_eq!(
        one(&mut ring, cloexec.into_slot(Destination::AnySlot)).result,
        Err(Errno::EINVAL)
    );
    for offload in [false, true] {
        let read = Sqe::read(File::Slot(0), vec![0; 5], 0);
        let read = if offload { read.offload() } else { read };
        assert_eq!(one(&mut ring, read).result, Ok(5));
    }
    assert_eq!(
        one(&mut ring, Sqe::read(File::Slot(9), vec![0; 5], 0)).result,
        Err(Errno::EBADF)
    );
    let close = |slot| Sqe::close(File::Slot(slot));
    assert_eq!(one(&mut ring, close(0)).result, OK);
    assert_eq!(one(&mut ring, close(0)).result, Err(Errno::EBADF));
    assert_eq!(one(&mut ring, Sqe::install(1, false)).result, Ok(0));
    assert_eq!(
        one(&mut ring, Sqe::install(0, false)).result,
        Err(Errno::EBADF)
    );
    assert_eq!(
        one(&mut ring, Sqe::files_update(0, Destination::AnySlot)).result,
        Ok(0)
    );
    assert_eq!(
        one(&mut ring, Sqe::files_update(0, Destination::Slot(3))).result,
        OK
    );
    let dir = ring.task().open(b"/d", O_RDONLY, 0).expect("a directory");
    let relative = Sqe::openat(dir, "f3", O_RDONLY, 0).into_slot(Destination::Slot(1));
    assert_eq!(one(&mut ring, relative).result, OK);
    assert_eq!(ring.task().descriptors(), [0, dir]);
    drop(ring);
    let mut without = world.ring();
    assert_eq!(one(&mut without, any(0)).result, Err(Errno::ENFILE));
    assert_eq!(one(&mut without, to(1)).result, Err(Errno::ENXIO));
    drop(without);
    world.assert_at_rest();
}

#[test]
fn a_multishot_read_completes_repeatedly() {
    for inline in [true, false] {
        let world = World::new();
        let mut ring = world.ring_with(|options| {
            options.inline = inline;
            options.entries = 4;
            options.completions = 4;
        });
        let fifo = fifo(&ring);
        ring.prepare(Sqe::read_multishot(fifo, 2).user_data(1))
            .unwrap();
        ring.submit().unwrap();
        ring.task().write(fifo, b"aabbc").unwrap();
        ring.wait(3, None).unwrap();
        let got: Vec<_> = (0..3).filter_map(|_| ring.next_completion()).collect();
        assert!(
            got.iter().all(|cqe| cqe.more && cqe.user_data == 1),
            "{got:?}"
        );
        assert_eq!(
            got.iter().map(|cqe| cqe.result).collect::<Vec<_>>(),
            [Ok(2), Ok(2), Ok(1)]
        );
        let cancel = Sqe::cancel(Cancel::UserData(1)).user_data(2);
        let end = all(&mut ring, [cancel]);
        assert_eq!(results(end)[0], (1, CANCELED));
        ring.task().write(fifo, &[b'x'; 40]).unwrap();
        ring.prepare(Sqe::read_multishot(fifo, 1).user_data(1))
            .unwrap();
        assert_eq!((ring.submit(), ring.wait(4, None)), (Ok(1), Ok(4)));
        let full = rest(&mut ring);
        assert!(full.iter().rev().skip(1).all(|cqe| cqe.more), "{full:?}");
        assert!(
            full.last()
                .is_some_and(|cqe| !cqe.more && cqe.result == Ok(1))
        );
        drop(ring);
        world.assert_at_rest();
    }
}
