// SPDX-License-Identifier: MIT OR Apache-2.0
//! A letter box: any thread posts, nobody waits, and who owns the box takes everything at once.
//!
//! # Kernel analogue
//! `llist_add`, `llist_del_all`; arming it is what `IORING_SQ_NEED_WAKEUP` says in its word.
//!
//! # States of a box
//! Empty -> armed (who takes is about to sleep) -> not empty -> empty.
//!
//! # Rules
//! R1. PAIR(inbox.post): a parcel is filled before it becomes the top of the box. Who takes the top
//!     sees it filled, and all below, whose posts this one's exchange continues.
//! R2. A box is taken as a whole, so no parcel is the top twice while somebody looks at it.
//! R3. Arming succeeds only where the box is empty, in the same step; the one post that follows
//!     learns of it. So between arming and that post nothing is in the box, and no wake-up is lost.
//!
//! # Guarantees
//! G1. A post retries only if another post, or a taking, succeeded meanwhile; taking never retries.
//! G2. Parcels are taken in the order of their posts, each once.
//! G3. Nothing is allocated or freed by posting and taking: a parcel is its own link.
//!
//! # Limits
//! Bounded by how many parcels there are: whoever makes them counts.

use crate::prim::{AtomicPtr, Ordering, unfailing};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, null_mut};
use std::boxed::Box;

struct Node<T> {
    below: *mut Node<T>,
    value: T,
}

/// A value on its way: what is posted and taken.
pub struct Parcel<T>(Box<Node<T>>);

// SAFETY: `below` is null while the parcel is somebody's own; it owns its value like a box.
unsafe impl<T: Send> Send for Parcel<T> {}
// SAFETY: a shared parcel gives no more than a shared value.
unsafe impl<T: Sync> Sync for Parcel<T> {}

impl<T> Parcel<T> {
    /// A parcel with `value` in it.
    #[must_use]
    pub fn new(value: T) -> Self {
        let below = null_mut();
        Self(Box::new(Node { below, value }))
    }

    /// What is in it.
    #[must_use]
    pub fn open(self) -> T {
        self.0.value
    }
}

impl<T> Deref for Parcel<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Parcel<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl<T> fmt::Debug for Parcel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parcel({:p})", &raw const *self.0)
    }
}

/// A letter box. See the module head.
///
/// ```
/// use openpath_sync::{Inbox, Parcel};
/// let inbox = Inbox::default();
/// assert!(inbox.arm());
/// assert!(inbox.post(Parcel::new(1)), "it was armed");
/// assert!(!inbox.post(Parcel::new(2)) && !inbox.arm());
/// let taken: Vec<i32> = inbox.take().map(Parcel::open).collect();
/// assert_eq!((taken, inbox.is_empty()), (vec![1, 2], true));
/// ```
pub struct Inbox<T> {
    /// Null, [`armed`], or the parcel that was posted last, which the box owns.
    top: AtomicPtr<Node<T>>,
}

// SAFETY: values only pass through, each to one thread.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above; nobody sees a value that is in the box.
unsafe impl<T: Send> Sync for Inbox<T> {}

/// What an armed box has for its top: no node lies at an odd address.
fn armed<T>() -> *mut Node<T> {
    ptr::without_provenance_mut(1)
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            top: AtomicPtr::new(null_mut()),
        }
    }
}

impl<T> Inbox<T> {
    /// Posts a parcel; whether the box was armed, which it is no longer: who owns it is to be
    /// woken.
    #[must_use]
    pub fn post(&self, parcel: Parcel<T>) -> bool {
        let _step = unfailing();
        let node = Box::into_raw(parcel.0);
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            let was_armed = top == armed();
            let below = if was_armed { null_mut() } else { top };
            // SAFETY: `node` came from a box above and is not posted yet.
            unsafe { (*node).below = below };
            // PAIR(inbox.post): release, so the parcel is filled first.
            let posted = self
                .top
                .compare_exchange(top, node, Ordering::AcqRel, Ordering::Relaxed);
            match posted {
                Ok(_) => return was_armed,
                Err(now) => top = now,
            }
        }
    }

    /// Whether nothing is in it; a hint, but for who takes: what was posted before a wake-up is
    /// seen after it.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let top = self.top.load(Ordering::Relaxed);
        top.is_null() || top == armed()
    }

    /// Takes all that is in it, in the order of the posts. An armed box stays armed only if nothing
    /// is asked of it: taking from it disarms.
    #[must_use]
    pub fn take(&self) -> Taken<T> {
        let _step = unfailing();
        // PAIR(inbox.post): acquire; a top that is seen was filled, and all below it.
        let mut top = self.swap(null_mut());
        let mut first = null_mut();
        while !top.is_null() {
            // SAFETY: taken out with the exchange above, so it is this thread's alone (R2).
            let below = unsafe { core::mem::replace(&mut (*top).below, first) };
            first = top;
            top = below;
        }
        Taken { first }
    }

    /// The top, which is replaced; null if it was armed.
    fn swap(&self, new: *mut Node<T>) -> *mut Node<T> {
        let top = self.top.swap(new, Ordering::AcqRel);
        if top == armed() { null_mut() } else { top }
    }

    /// Makes the next post say that the box is to be looked at; `false` if something is in it
    /// already.
    #[must_use]
    pub fn arm(&self) -> bool {
        let armed =
            self.top
                .compare_exchange(null_mut(), armed(), Ordering::AcqRel, Ordering::Acquire);
        armed.is_ok() || armed == Err(self::armed())
    }

    /// Takes back that the next post is to say so, if none was made.
    pub fn disarm(&self) {
        let _posted =
            self.top
                .compare_exchange(armed(), null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// What was in a box, in the order of the posts.
pub struct Taken<T> {
    /// Null, or a parcel that this owns, as the parcel owns the next.
    first: *mut Node<T>,
}

// SAFETY: it owns its parcels like a vector.
unsafe impl<T: Send> Send for Taken<T> {}

impl<T> Iterator for Taken<T> {
    type Item = Parcel<T>;

    fn next(&mut self) -> Option<Parcel<T>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: it came from a box in `post`, and was taken out of the list by who made this.
        let mut node = unsafe { Box::from_raw(self.first) };
        self.first = core::mem::replace(&mut node.below, null_mut());
        Some(Parcel(node))
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn what_is_posted_comes_out_in_order_and_once() {
        let inbox = Arc::new(Inbox::default());
        let posts = (0..4).map(|who| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                for n in 0..1000 {
                    let _told = inbox.post(Parcel::new((who, n)));
                }
            })
        });
        let posts: Vec<_> = posts.collect();
        let (mut next, mut left) = ([0; 4], 4000);
        while left > 0 {
            for (who, n) in inbox.take().map(Parcel::open) {
                let expected: &mut i32 = &mut next[who];
                assert_eq!(n, *expected);
                *expected += 1;
                left -= 1;
            }
            thread::yield_now();
        }
        posts.into_iter().for_each(|p| p.join().unwrap());
        assert!(inbox.is_empty());
    }

    #[test]
    fn only_the_first_post_after_arming_is_told() {
        let inbox = Inbox::default();
        assert!(!inbox.post(Parcel::new(0)) && !inbox.arm());
        drop(inbox.take());
        assert!(inbox.arm() && inbox.arm() && inbox.is_empty());
        inbox.disarm();
        assert!(!inbox.post(Parcel::new(1)));
        inbox.disarm();
        drop(inbox.take());
        assert!(inbox.arm() && inbox.post(Parcel::new(2)) && !inbox.post(Parcel::new(3)));
        assert!(inbox.take().count() == 2 && !inbox.post(Parcel::new(4)));
    }

    #[test]
    fn what_nobody_took_is_dropped_with_the_box() {
        let value = Arc::new(());
        let inbox = Inbox::default();
        for _ in 0..3 {
            let _told = inbox.post(Parcel::new(Arc::clone(&value)));
        }
        let mut some = inbox.take();
        assert!(some.next().is_some());
        drop(some);
        let _told = inbox.post(Parcel::new(Arc::clone(&value)));
        drop(inbox);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
