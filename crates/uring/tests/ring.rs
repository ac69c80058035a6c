// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that data operations by the kernel's ring return their results and buffers to their own
//! callers, also late, after the ring was dropped or beside a callback that panics. A read of an
//! empty pipe is an operation that does not end.

use openpath_abi::Errno;
use openpath_uring::KernelRing;
use openpath_vfs::{Bytes, IoRequest};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

type Moved = (IoRequest, Result<usize, Errno>);

/// A ring, or `None` where the kernel refuses one.
fn ring(places: u32) -> Option<KernelRing> {
    match KernelRing::new(places, "test-uring") {
        Ok(ring) => Some(ring),
        Err(errno) => {
            eprintln!("skipped: no io_uring here ({errno:?})");
            None
        }
    }
}

/// Begins an operation; its result comes by the channel.
fn begin(
    ring: &KernelRing,
    file: impl AsFd + Send + 'static,
    request: IoRequest,
    offset: u64,
) -> Receiver<Moved> {
    let (done, moved) = channel();
    let operation = ring.reserve(file).expect("a place");
    operation.begin(
        request,
        offset,
        Box::new(move |request, moved| {
            let _nobody_waits = done.send((request, moved));
        }),
    );
    moved
}

fn scratch(name: &str, data: &[u8]) -> Arc<File> {
    let path = std::env::temp_dir().join(format!("openpath-uring-{}-{name}", std::process::id()));
    std::fs::write(&path, data).expect("a file");
    let file = File::options().read(true).write(true).open(&path);
    std::fs::remove_file(&path).expect("its name goes");
    Arc::new(file.expect("opened"))
}

fn pipe() -> (Arc<PipeReader>, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (Arc::new(reader), writer)
}

#[test]
fn operations_use_their_offset_and_return_their_buffer() {
    let Some(ring) = ring(4) else { return };
    let file = scratch("data", b"0123456789");
    let read = |offset, len| {
        let back = begin(
            &ring,
            Arc::clone(&file),
            IoRequest::Read(vec![0; len]),
            offset,
        );
        match back.recv().expect("it comes back") {
            (IoRequest::Read(buf), moved) => (buf, moved),
            (request, _) => panic!("{request:?}"),
        }
    };
    assert_eq!(read(2, 3), (b"234".to_vec(), Ok(3)));
    assert_eq!(read(8, 4), (b"89\0\0".to_vec(), Ok(2)));
    assert_eq!(read(99, 2), (vec![0; 2], Ok(0)));
    let shared: Arc<[u8]> = Arc::from(&b"ab"[..]);
    let pieces = [
        Bytes::Shared(shared),
        Bytes::Static(b"cd"),
        Bytes::Owned(b"ef".to_vec()),
    ];
    for (offset, data) in (4..).step_by(2).zip(pieces) {
        let back = begin(&ring, Arc::clone(&file), IoRequest::Write(data), offset);
        assert_eq!(back.recv().map(|(_, moved)| moved), Ok(Ok(2)));
    }
    for data_only in [true, false] {
        let back = begin(&ring, Arc::clone(&file), IoRequest::Sync(data_only), 0);
        assert_eq!(back.recv().map(|(_, moved)| moved), Ok(Ok(0)));
    }
    let mut whole = [0; 10];
    assert_eq!(file.read_at(&mut whole, 0).ok(), Some(10));
    assert_eq!(&whole, b"0123abcdef");
    let closed = scratch("closed", b"");
    let only_read = File::open(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&*closed)
    ));
    let only_read = Arc::new(only_read.expect("opened again"));
    let back = begin(&ring, only_read, IoRequest::Write(Bytes::Static(b"x")), 0);
    assert_eq!(back.recv().map(|(_, moved)| moved), Ok(Err(Errno::EBADF)));
}

#[test]
fn ring_grants_as_many_permits_as_requested() {
    let Some(ring) = ring(3) else { return };
    let pipes = [pipe(), pipe()];
    let waiting = pipes.map(|(reader, writer)| {
        let back = begin(&ring, reader, IoRequest::Read(vec![0; 1]), 0);
        (writer, back)
    });
    let file = scratch("places", b"");
    let unused = ring.reserve(Arc::clone(&file)).expect("the third");
    assert!(ring.reserve(Arc::clone(&file)).is_none(), "none is left");
    assert_eq!(ring.under_way(), 3);
    drop(unused);
    assert!(ring.reserve(Arc::clone(&file)).is_some(), "given back");
    for (mut writer, back) in waiting {
        assert_eq!(back.try_recv().err(), Some(TryRecvError::Empty));
        writer.write_all(b"x").expect("room");
        let (request, moved) = back.recv().expect("it comes back");
        assert_eq!(moved, Ok(1));
        assert!(matches!(request, IoRequest::Read(buf) if buf == b"x"));
    }
}

#[test]
fn operation_in_flight_outlives_ring_and_file() {
    let Some(ring) = ring(2) else { return };
    let (reader, mut writer) = pipe();
    let weak = Arc::downgrade(&reader);
    let back = begin(&ring, reader, IoRequest::Read(vec![0; 8]), 0);
    drop(ring);
    assert_eq!(weak.strong_count(), 1, "the kernel has it");
    assert_eq!(back.try_recv().err(), Some(TryRecvError::Empty));
    writer.write_all(b"late").expect("room");
    let (request, moved) = back.recv().expect("it comes back");
    assert_eq!(moved, Ok(4));
    assert!(matches!(request, IoRequest::Read(buf) if buf == b"late\0\0\0\0"));
    assert_eq!(weak.strong_count(), 0, "it let go before it told");
}

#[test]
fn ring_can_be_dropped_by_its_callback() {
    let Some(ring) = ring(2) else { return };
    let (done, over) = channel();
    let file = scratch("self", b"x");
    let operation = ring.reserve(file).expect("a place");
    operation.begin(
        IoRequest::Sync(false),
        0,
        Box::new(move |_, moved| {
            drop(ring);
            let _heard = done.send(moved);
        }),
    );
    assert_eq!(over.recv(), Ok(Ok(0)));
}

#[test]
fn panicking_callback_affects_no_other_operation() {
    let Some(ring) = ring(1) else { return };
    let file = scratch("panic", b"fine");
    let operation = ring.reserve(Arc::clone(&file)).expect("a place");
    operation.begin(
        IoRequest::Sync(true),
        0,
        Box::new(|_, _| panic!("as it is told")),
    );
    let again = loop {
        // The permit is free once the callback is over.
        if let Some(operation) = ring.reserve(Arc::clone(&file)) {
            break operation;
        }
        std::thread::yield_now();
    };
    let (done, moved) = channel();
    let then = Box::new(move |_, moved| {
        let _heard = done.send(moved);
    });
    again.begin(IoRequest::Read(vec![0; 9]), 0, then);
    assert_eq!(moved.recv(), Ok(Ok(4)));
}

#[test]
fn concurrent_operations_return_to_their_own_callers() {
    let Some(ring) = ring(16) else { return };
    let data: Vec<u8> = (0..=255).collect();
    let file = scratch("many", &data);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (ring, file) = (&ring, &file);
            scope.spawn(move || {
                for turn in 0..500u64 {
                    let at = (thread * 61 + turn * 7) % 256;
                    let (done, moved) = channel();
                    let operation = loop {
                        if let Some(operation) = ring.reserve(Arc::clone(file)) {
                            break operation;
                        }
                        std::thread::yield_now();
                    };
                    let then = Box::new(move |request, moved| {
                        let _heard = done.send((request, moved));
                    });
                    operation.begin(IoRequest::Read(vec![0; 1]), at, then);
                    let (request, moved) = moved.recv().expect("it comes back");
                    assert_eq!(moved, Ok(1));
                    assert!(matches!(request, IoRequest::Read(buf) if u64::from(buf[0]) == at));
                }
            });
        }
    });
    // The last permits are free once the callbacks have returned.
    while ring.under_way() != 0 {
        std::thread::yield_now();
    }
}
