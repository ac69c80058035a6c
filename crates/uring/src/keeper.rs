// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that has the kernel's ring: it takes orders, submits them, and tells who gave them
//! what came of them.
//!
//! # States of the thread
//! Takes what was ordered -> arms the box -> in the kernel, which takes entries and waits for a
//! completion -> tells -> takes. Who finds the box armed rings the bell, for which the kernel
//! listens as for all else. It ends when nobody can order any more and no place is taken.
//!
//! # Rules
//! R1. If the kernel takes no more entries (a filter of system calls that was set later), nobody
//!     gets a place any more, what it has not taken is cancelled, and what it has is waited for.

use crate::Place;
use crate::Shared;
use crate::sys::{Back, Entered, Kernel};
use openpath_abi::Errno;
use openpath_vfs::{Cargo, Carried};
use rustix::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// How long the thread rests where it cannot wait in the kernel.
const REST: Duration = Duration::from_millis(1);

/// One operation.
pub(crate) struct Order {
    pub(crate) cargo: Cargo,
    pub(crate) offset: u64,
    pub(crate) file: Box<dyn AsFd + Send>,
    pub(crate) then: Carried,
    pub(crate) place: Place,
}

/// Tells what came of it; its place is free when that is done.
fn end(order: Order, moved: Result<usize, Errno>) {
    let Order {
        cargo,
        file,
        then,
        place,
        ..
    } = order;
    drop(file);
    // A panic is the host's own, and harms nobody else's operations.
    let _panicked = catch_unwind(AssertUnwindSafe(|| then(cargo, moved)));
    drop(place);
}

/// What the thread does, from the making of the ring to its end.
pub(crate) fn keep(shared: &Arc<Shared>, places: u32, say: &SyncSender<Result<(), Errno>>) {
    let made = Kernel::new(places);
    let said = say.send(made.as_ref().map(drop).map_err(|errno| *errno));
    let (Ok(mut kernel), Ok(())) = (made, said) else {
        return;
    };
    let mut listening = false;
    while shared.over.get() == 0 || shared.taken.get() != 0 {
        for order in shared.orders.take() {
            if let Err(order) = kernel.push(order.open()) {
                end(order, Err(Errno::ECANCELED));
            }
        }
        listening = listening || kernel.listen(&shared.bell);
        // What was ordered meanwhile is taken before anything is waited for.
        let wait = shared.orders.arm();
        match kernel.enter(wait) {
            Entered::Fine => {}
            Entered::Later => std::thread::sleep(REST),
            Entered::Refused => return refused(shared, kernel),
        }
        listening = !tell(shared, &mut kernel) && listening;
    }
}

/// Tells what has come back; whether the bell rang.
fn tell(shared: &Shared, kernel: &mut Kernel) -> bool {
    let mut rang = false;
    while let Some(back) = kernel.next() {
        match back {
            Back::Done(order, moved) => end(order, moved),
            Back::Bell => {
                rang = true;
                // It may ring again from here on.
                let _count = rustix::io::read(&shared.bell, &mut [0; 8]);
            }
        }
    }
    rang
}

/// R1
fn refused(shared: &Shared, mut kernel: Kernel) {
    shared.refused.set(1);
    for order in kernel.take_back() {
        end(order, Err(Errno::ECANCELED));
    }
    while shared.over.get() == 0 || shared.taken.get() != 0 {
        for order in shared.orders.take() {
            end(order.open(), Err(Errno::ECANCELED));
        }
        let _rang = tell(shared, &mut kernel);
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::mpsc::channel;

    #[test]
    fn what_a_kernel_that_refuses_has_not_taken_comes_back() {
        let Ok(mut kernel) = Kernel::new(3) else {
            return;
        };
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            orders: openpath_sync::Inbox::default(),
            bell: bell.expect("a bell"),
            places: 3,
            taken: openpath_sync::Word::new(0),
            over: openpath_sync::Word::new(0),
            refused: openpath_sync::Word::new(0),
        });
        let (say, heard) = channel();
        let order = |mark: usize| {
            assert!(shared.take());
            let say = say.clone();
            Order {
                cargo: Cargo::Read(vec![0; 4]),
                offset: 0,
                file: Box::new(File::open("/proc/self/exe").expect("a file")),
                then: Box::new(move |_, moved| {
                    let _heard = say.send((mark, moved));
                }),
                place: Place(Arc::clone(&shared)),
            }
        };
        assert!(kernel.push(order(0)).is_ok());
        assert!(matches!(kernel.enter(true), Entered::Fine));
        assert!(kernel.push(order(1)).is_ok());
        shared.put(order(2));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || refused(&theirs, kernel));
        let mut all: Vec<_> = (0..3).map_while(|_| heard.recv().ok()).collect();
        all.sort_unstable_by_key(|(mark, _)| *mark);
        let cancelled = Err(Errno::ECANCELED);
        assert_eq!(all, [(0, Ok(4)), (1, cancelled), (2, cancelled)]);
        shared.over.set(1);
        assert!(thread.join().is_ok());
        assert!(!shared.take(), "nobody gets a place");
    }
}
