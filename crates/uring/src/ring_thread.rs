// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the thread that owns the kernel's ring: it takes operations, submits them, and calls back
//! with results.
//!
//! # States of the thread
//! Takes operations -> arms the queue -> in the kernel, which takes entries and waits for a
//! completion -> calls back -> takes operations. A thread that posts to an armed queue writes to
//! the eventfd, which the kernel polls like any other entry. The thread ends once the ring is
//! closing and no permit is in use.
//!
//! # Rules
//! R1. If the kernel takes no more entries (a system-call filter was set later), no permit is
//!     granted any more. Entries that the kernel has not taken are cancelled; those that it has are
//!     awaited.

use crate::operation::{Operation, Shared};
use crate::sys::{Completion, Kernel, Submission};
use openpath_abi::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// How long the thread sleeps when it cannot wait in the kernel.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Calls back with the result, then returns the permit.
fn finish(operation: Operation, moved: Result<usize, Errno>) {
    let Operation {
        request,
        file,
        then,
        permit,
        ..
    } = operation;
    drop(file);
    // A panic of the callback concerns only its operation.
    let _panicked = catch_unwind(AssertUnwindSafe(|| then(request, moved)));
    drop(permit);
}

/// The thread's main function, from the making of the ring to its end.
pub(crate) fn run(shared: &Arc<Shared>, permits: u32, say: &SyncSender<Result<(), Errno>>) {
    let made = Kernel::new(permits);
    let said = say.send(made.as_ref().map(drop).map_err(|errno| *errno));
    let (Ok(mut kernel), Ok(())) = (made, said) else {
        return;
    };
    let mut polling = false;
    while shared.closing.get() == 0 || shared.in_use.get() != 0 {
        for operation in shared.operations.take() {
            if let Err(operation) = kernel.push(operation.open()) {
                finish(operation, Err(Errno::ECANCELED));
            }
        }
        polling = polling || kernel.poll_wake_fd(&shared.wake_fd);
        // Operations posted meanwhile are taken before any wait.
        let wait = shared.operations.arm();
        match kernel.enter(wait) {
            Submission::Done => {}
            Submission::Retry => std::thread::sleep(RETRY_PAUSE),
            Submission::Refused => return refused(shared, kernel),
        }
        polling = !complete(shared, &mut kernel) && polling;
    }
}

/// Calls back for every completion; returns whether the eventfd was readable.
fn complete(shared: &Shared, kernel: &mut Kernel) -> bool {
    let mut woken = false;
    while let Some(completion) = kernel.next() {
        match completion {
            Completion::Operation(operation, moved) => finish(operation, moved),
            Completion::Wake => {
                woken = true;
                // From here on it may be written again.
                let _count = rustix::io::read(&shared.wake_fd, &mut [0; 8]);
            }
        }
    }
    woken
}

/// R1
fn refused(shared: &Shared, mut kernel: Kernel) {
    shared.refused.set(1);
    for operation in kernel.take_unsubmitted() {
        finish(operation, Err(Errno::ECANCELED));
    }
    while shared.closing.get() == 0 || shared.in_use.get() != 0 {
        for operation in shared.operations.take() {
            finish(operation.open(), Err(Errno::ECANCELED));
        }
        let _woken = complete(shared, &mut kernel);
        std::thread::sleep(RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Permit;
    use openpath_vfs::IoRequest;
    use std::fs::File;
    use std::sync::mpsc::channel;

    #[test]
    fn unsubmitted_operations_are_cancelled_when_the_kernel_refuses() {
        let Ok(mut kernel) = Kernel::new(3) else {
            return;
        };
        let wake_fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            operations: openpath_sync::MessageList::default(),
            wake_fd: wake_fd.expect("an eventfd"),
            permits: 3,
            in_use: openpath_sync::Word::new(0),
            closing: openpath_sync::Word::new(0),
            refused: openpath_sync::Word::new(0),
        });
        let (say, heard) = channel();
        let operation = |mark: usize| {
            assert!(shared.acquire());
            let say = say.clone();
            Operation {
                request: IoRequest::Read(vec![0; 4]),
                offset: 0,
                file: Box::new(File::open("/proc/self/exe").expect("a file")),
                then: Box::new(move |_, moved| {
                    let _heard = say.send((mark, moved));
                }),
                permit: Permit(Arc::clone(&shared)),
            }
        };
        assert!(kernel.push(operation(0)).is_ok());
        assert!(matches!(kernel.enter(true), Submission::Done));
        assert!(kernel.push(operation(1)).is_ok());
        shared.post(operation(2));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || refused(&theirs, kernel));
        let mut all: Vec<_> = (0..3).map_while(|_| heard.recv().ok()).collect();
        all.sort_unstable_by_key(|(mark, _)| *mark);
        let cancelled = Err(Errno::ECANCELED);
        assert_eq!(all, [(0, Ok(4)), (1, cancelled), (2, cancelled)]);
        shared.closing.set(1);
        assert!(thread.join().is_ok());
        assert!(!shared.acquire(), "nobody gets a permit");
    }
}
