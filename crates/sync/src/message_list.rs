// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a lock-free list of messages: any thread posts without waiting, and the owner takes
//! the whole list at once.
//!
//! # Kernel analogue
//! `llist_add`, `llist_del_all`; an armed list is like `IORING_SQ_NEED_WAKEUP`.
//!
//! # States
//! Empty -> armed (the owner is about to sleep) -> not empty -> empty.
//!
//! # Rules
//! R1. PAIR(message_list.post): a node is filled before it becomes the top. A taker of the top sees
//!     it filled, and all nodes below, since its exchange continues their posts.
//! R2. The list is only taken as a whole, so no node becomes the top twice while a thread looks at
//!     it.
//! R3. Arming succeeds only if the list is empty, in one step, and the one post that follows learns
//!     of it. So between arming and that post the list is empty, and no wake-up is lost.
//!
//! # Guarantees
//! G1. A post retries only if another post or a take succeeded meanwhile; a take never retries.
//! G2. Messages are taken in the order of their posts, each once.
//! G3. Post and take neither allocate nor free: a message carries its own link.
//!
//! # Limits
//! Bounded only by the number of messages that the callers make.

use crate::primitive::{AtomicPtr, Ordering, no_fault_injection};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, null_mut};
use std::boxed::Box;

struct Node<T> {
    below: *mut Node<T>,
    value: T,
}

/// A message with its link: what is posted and taken.
pub struct Message<T>(Box<Node<T>>);

// SAFETY: `below` is null while the message is not in a list; it owns its value like a box.
unsafe impl<T: Send> Send for Message<T> {}
// SAFETY: a shared message gives access to its value only by shared reference.
unsafe impl<T: Sync> Sync for Message<T> {}

impl<T> Message<T> {
    /// A message with this value.
    #[must_use]
    pub fn new(value: T) -> Self {
        let below = null_mut();
        Self(Box::new(Node { below, value }))
    }

    /// The value.
    #[must_use]
    pub fn open(self) -> T {
        self.0.value
    }
}

impl<T> Deref for Message<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Message<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl<T> fmt::Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({:p})", &raw const *self.0)
    }
}

/// A lock-free list of messages. See the module head.
///
/// ```
/// use openpath_sync::{Message, MessageList};
/// let list = MessageList::default();
/// assert!(list.arm());
/// assert!(list.post(Message::new(1)), "it was armed");
/// assert!(!list.post(Message::new(2)) && !list.arm());
/// let taken: Vec<i32> = list.take().map(Message::open).collect();
/// assert_eq!((taken, list.is_empty()), (vec![1, 2], true));
/// ```
pub struct MessageList<T> {
    /// Null, [`armed`], or the newest message, which the list owns.
    top: AtomicPtr<Node<T>>,
}

// SAFETY: values only pass through, each to one thread.
unsafe impl<T: Send> Send for MessageList<T> {}
// SAFETY: as above; no thread sees a value that is in the list.
unsafe impl<T: Send> Sync for MessageList<T> {}

/// The top of an armed list: no node lies at an odd address.
fn armed<T>() -> *mut Node<T> {
    ptr::without_provenance_mut(1)
}

impl<T> Default for MessageList<T> {
    fn default() -> Self {
        Self {
            top: AtomicPtr::new(null_mut()),
        }
    }
}

impl<T> MessageList<T> {
    /// Posts a message. Returns whether the list was armed, which it is no longer: then the caller
    /// must wake its owner.
    #[must_use]
    pub fn post(&self, parcel: Message<T>) -> bool {
        let _step = no_fault_injection();
        let node = Box::into_raw(parcel.0);
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            let was_armed = top == armed();
            let below = if was_armed { null_mut() } else { top };
            // SAFETY: `node` came from a box above and is not posted yet.
            unsafe { (*node).below = below };
            // PAIR(message_list.post): release, so the node is filled first.
            let posted = self
                .top
                .compare_exchange(top, node, Ordering::AcqRel, Ordering::Relaxed);
            match posted {
                Ok(_) => return was_armed,
                Err(now) => top = now,
            }
        }
    }

    /// Whether the list is empty. A hint, except for the owner: it sees after a wake-up what was
    /// posted before it.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let top = self.top.load(Ordering::Relaxed);
        top.is_null() || top == armed()
    }

    /// Takes all messages, in the order of their posts. This disarms the list.
    #[must_use]
    pub fn take(&self) -> TakenMessages<T> {
        let _step = no_fault_injection();
        // PAIR(message_list.post): acquire; the top and all nodes below it are filled.
        let mut top = self.swap(null_mut());
        let mut first = null_mut();
        while !top.is_null() {
            // SAFETY: taken out by the exchange above, so it belongs to this thread alone (R2).
            let below = unsafe { core::mem::replace(&mut (*top).below, first) };
            first = top;
            top = below;
        }
        TakenMessages { first }
    }

    /// Replaces the top and returns the old one; null if the list was armed.
    fn swap(&self, new: *mut Node<T>) -> *mut Node<T> {
        let top = self.top.swap(new, Ordering::AcqRel);
        if top == armed() { null_mut() } else { top }
    }

    /// Makes the next post return `true`; `false` if the list is not empty.
    #[must_use]
    pub fn arm(&self) -> bool {
        let armed =
            self.top
                .compare_exchange(null_mut(), armed(), Ordering::AcqRel, Ordering::Acquire);
        armed.is_ok() || armed == Err(self::armed())
    }

    /// Disarms the list, if no post has.
    pub fn disarm(&self) {
        let _posted =
            self.top
                .compare_exchange(armed(), null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl<T> Drop for MessageList<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The messages of a list, in the order of their posts.
pub struct TakenMessages<T> {
    /// Null, or a message that this owns, as each owns the next.
    first: *mut Node<T>,
}

// SAFETY: it owns its messages like a vector.
unsafe impl<T: Send> Send for TakenMessages<T> {}

impl<T> Iterator for TakenMessages<T> {
    type Item = Message<T>;

    fn next(&mut self) -> Option<Message<T>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: it came from a box in `post`, and `take` took it out of the list.
        let mut node = unsafe { Box::from_raw(self.first) };
        self.first = core::mem::replace(&mut node.below, null_mut());
        Some(Message(node))
    }
}

impl<T> Drop for TakenMessages<T> {
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
    fn messages_are_taken_once_and_in_order() {
        let list = Arc::new(MessageList::default());
        let posts = (0..4).map(|poster| {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                for n in 0..1000 {
                    let _armed = list.post(Message::new((poster, n)));
                }
            })
        });
        let posts: Vec<_> = posts.collect();
        let (mut next, mut left) = ([0; 4], 4000);
        while left > 0 {
            for (poster, n) in list.take().map(Message::open) {
                let expected: &mut i32 = &mut next[poster];
                assert_eq!(n, *expected);
                *expected += 1;
                left -= 1;
            }
            thread::yield_now();
        }
        posts.into_iter().for_each(|p| p.join().unwrap());
        assert!(list.is_empty());
    }

    #[test]
    fn only_the_first_post_after_arming_returns_true() {
        let list = MessageList::default();
        assert!(!list.post(Message::new(0)) && !list.arm());
        drop(list.take());
        assert!(list.arm() && list.arm() && list.is_empty());
        list.disarm();
        assert!(!list.post(Message::new(1)));
        list.disarm();
        drop(list.take());
        assert!(list.arm() && list.post(Message::new(2)) && !list.post(Message::new(3)));
        assert!(list.take().count() == 2 && !list.post(Message::new(4)));
    }

    #[test]
    fn messages_not_taken_are_dropped_with_the_list() {
        let value = Arc::new(());
        let list = MessageList::default();
        for _ in 0..3 {
            let _armed = list.post(Message::new(Arc::clone(&value)));
        }
        let mut some = list.take();
        assert!(some.next().is_some());
        drop(some);
        let _armed = list.post(Message::new(Arc::clone(&value)));
        drop(list);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
