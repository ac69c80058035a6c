// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements open files in the store: each is identified by the index of its pin word, and has a
//! reference count and a body of shared words.
//!
//! # Kernel analogue
//! `struct file` from a `SLAB_TYPESAFE_BY_RCU` cache, with `file_ref`.
//!
//! # States of a file
//! Free -> local (only the set that made it reaches it) -> shared (any thread may) -> last
//! reference put ([`LastRef`]) -> free. A file may also be shared from the start, or stay local.
//!
//! # Layout of the reference word
//! bits 0..31 count, bit 31 SHARED, bits 32..64 incarnation.
//!
//! # Rules
//! R1. Only the owning set changes the word of a local file, with plain stores; one thread at a
//!     time uses a set.
//! R2. The word of a shared file is changed by compare-and-swap only, and only while its count is
//!     not zero. So a late attempt on a file that was freed, or in a slot that now holds another
//!     set's local file, changes nothing: the incarnation differs, or SHARED is missing.
//! R3. The thread that takes the count to zero has exclusive access to the file until it releases
//!     the pin word; only then can the owner of the word use the file again.
//! R4. A reference is a value: it is counted when made, and must be put back where it came from. A
//!     lost reference keeps its file for ever, which is safe.
//!
//! # Guarantees
//! G1. While a [`FileRef`] lives, the file's pin holds: its mount and dentry stay.
//! G2. [`LastRef`] is made once in the life of a file.

use super::item::{Item, PayloadCell};
use super::pins::{Pin, PinSet};
use super::{OPEN, Store, WRITE};
use crate::primitive::{AtomicU64, Ordering};
use crate::zero_valid::ZeroValid;
use std::sync::Arc;

const SHARED: u64 = 1 << 31;
const COUNT: u64 = SHARED - 1;
const LIFE_ONE: u64 = 1 << 32;

/// The words of a file that this module uses; the first field of a file's body.
#[derive(Default)]
#[repr(C)]
pub struct FileHead {
    refs: AtomicU64,
    /// The set that made it.
    owner: AtomicU64,
}

// SAFETY: two zero-valid atomics.
unsafe impl ZeroValid for FileHead {}

/// The body of a file; made by [`crate::file_item!`] only.
///
/// # Safety
/// `head` and `payload` must return the item's own fields, always the same ones.
pub unsafe trait FileItem: ZeroValid {
    /// Per-open state of the owner.
    type Payload: Send + Sync + 'static;
    /// The file's own head.
    fn head(&self) -> &FileHead;
    /// The file's own payload slot.
    fn payload(&self) -> &PayloadCell<Self::Payload>;
}

/// Declares the body of a file: a 64-byte-aligned struct of shared words, with a head and a payload
/// slot in front.
#[macro_export]
macro_rules! file_item {
    ($(#[$m:meta])* $v:vis struct $name:ident : $payload:ty {
        $($(#[$fm:meta])* $fv:vis $field:ident : $ty:ty),* $(,)?
    }) => {
        $(#[$m])*
        #[derive(Default)]
        #[repr(C, align(64))]
        $v struct $name {
            head: $crate::FileHead,
            payload: $crate::PayloadCell<$payload>,
            $($(#[$fm])* $fv $field: $ty,)*
        }
        // SAFETY: every field is zero-valid (checked by the bound), and the struct adds nothing to
        // them.
        unsafe impl $crate::ZeroValid for $name where $($ty: $crate::ZeroValid),* {}
        // SAFETY: the two fields above are the item's own.
        unsafe impl $crate::FileItem for $name {
            type Payload = $payload;
            #[inline(always)]
            fn head(&self) -> &$crate::FileHead {
                &self.head
            }
            #[inline(always)]
            fn payload(&self) -> &$crate::PayloadCell<$payload> {
                &self.payload
            }
        }
    };
}

file_item! {
    /// The body of files in a store that has none.
    #[derive(Debug)]
    pub struct NoFile: () {}
}

/// A counted reference to an open file. Put it back ([`PinSet::put_file`], [`Store::put_file`]).
#[derive(Debug)]
#[must_use = "a reference that is not put back keeps its file for ever"]
pub struct FileRef {
    pin: Pin,
}

impl FileRef {
    /// The file's number: that of its pin word, never 0 for a file of a [`super::Store`].
    #[inline(always)]
    pub fn id(&self) -> u32 {
        self.pin.slot()
    }
    /// The mount and dentry that it is open at.
    #[inline(always)]
    pub fn pin(&self) -> &Pin {
        &self.pin
    }
    /// A null reference, to be left behind where one is moved out: putting it back does nothing.
    #[inline(always)]
    pub fn none() -> Self {
        Self { pin: Pin::none() }
    }
    pub(super) fn of(pin: Pin) -> Self {
        Self { pin }
    }
}

/// The last reference to a file, after its put: its holder ends the file ([`PinSet::end_file`],
/// [`Store::end_file`]).
#[derive(Debug)]
#[must_use = "a file that is not ended keeps its place for ever"]
pub struct LastRef {
    pin: Pin,
}

impl LastRef {
    /// The file's number.
    pub fn id(&self) -> u32 {
        self.pin.slot()
    }
    /// The mount and dentry that it was open at.
    #[inline(always)]
    pub fn pin(&self) -> &Pin {
        &self.pin
    }
}

impl<M: Item, D: Item, F: FileItem> Store<M, D, F> {
    /// The body of the file with this number: always readable, whichever file the slot holds now.
    #[inline(always)]
    pub fn file(&self, id: u32) -> &F {
        self.files.at(id)
    }

    /// The per-open state, if any.
    #[inline(always)]
    pub fn file_payload<'a>(&'a self, file: &'a FileRef) -> Option<&'a F::Payload> {
        self.check(&file.pin);
        self.payload_at(file.pin.slot())
    }

    /// As [`Store::file_payload`], for the end of the file.
    pub fn last_payload<'a>(&'a self, last: &'a LastRef) -> Option<&'a F::Payload> {
        self.check(&last.pin);
        self.payload_at(last.pin.slot())
    }

    #[inline(always)]
    fn payload_at(&self, id: u32) -> Option<&F::Payload> {
        let p = self.file(id).payload().0.load(Ordering::Acquire);
        // SAFETY: callers hold a reference to the file, or its last one, as long as they borrow the
        // result; a payload is set once in a life and taken in `end_file` only.
        unsafe { p.as_ref() }
    }

    /// Gives the file its per-open state.
    ///
    /// # Errors
    /// Hands the payload back if there is one already.
    pub fn set_file_payload(
        &self,
        file: &FileRef,
        payload: Arc<F::Payload>,
    ) -> Result<(), Arc<F::Payload>> {
        self.check(&file.pin);
        self.file(file.pin.slot()).payload().set(payload)
    }

    /// Whether any thread may hold references to the file.
    #[inline(always)]
    pub fn is_file_shared(&self, file: &FileRef) -> bool {
        self.word_of(file.pin.slot()).load(Ordering::Relaxed) & SHARED != 0
    }

    /// The number of references now.
    #[inline(always)]
    pub fn file_count(&self, file: &FileRef) -> u64 {
        self.word_of(file.pin.slot()).load(Ordering::Relaxed) & COUNT
    }

    /// One more reference to a shared file.
    ///
    /// # Panics
    /// If the file is local: its references stay with its owner.
    pub fn dup_file(&self, file: &FileRef) -> FileRef {
        self.check(&file.pin);
        assert!(
            self.count_shared(file.pin.slot()),
            "a file leaves its owner only as a shared one"
        );
        FileRef::of(file.pin.copy())
    }

    /// Puts back a reference to a shared file; returns the last one as a [`LastRef`]. Any thread
    /// may.
    ///
    /// # Panics
    /// If the file is local.
    pub fn put_file(&self, file: FileRef) -> Option<LastRef> {
        if file.id() == 0 {
            return None;
        }
        self.check(&file.pin);
        assert!(
            self.is_file_shared(&file),
            "a file leaves its owner only as a shared one"
        );
        self.uncount_shared(file.pin)
    }

    /// Ends a file: drops its per-open state, and frees its slot.
    pub fn end_file(&self, last: LastRef) {
        self.check(&last.pin);
        drop(self.take_file_payload(&last));
        self.release(last.pin);
    }

    #[inline(always)]
    fn word_of(&self, id: u32) -> &AtomicU64 {
        &self.file(id).head().refs
    }

    /// R2: increments the count if the file is shared and alive.
    #[inline]
    fn count_shared(&self, id: u32) -> bool {
        let word = self.word_of(id);
        let mut now = word.load(Ordering::Relaxed);
        while now & SHARED != 0 && now & COUNT != 0 && now & COUNT != COUNT {
            match word.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// R2: decrements the count; returns the pin with the last reference.
    #[inline]
    fn uncount_shared(&self, pin: Pin) -> Option<LastRef> {
        let word = self.word_of(pin.slot());
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let left = now - 1;
            // Each holder releases and the last one acquires: what any of them did to the file
            // happens before its end.
            match word.compare_exchange_weak(now, left, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (left & COUNT == 0).then_some(LastRef { pin }),
                Err(seen) => now = seen,
            }
        }
    }

    /// The pin of a file that is known to be alive.
    #[inline(always)]
    pub(super) fn pin_of(&self, id: u32) -> Pin {
        let word = self.pins.at(id).get();
        Pin::new(id, self.id, word & !(WRITE | OPEN))
    }

    /// Takes the per-open state, at the end of the file.
    #[inline(always)]
    pub fn take_file_payload(&self, last: &LastRef) -> Option<Arc<F::Payload>> {
        self.check(&last.pin);
        self.file(last.pin.slot()).payload().take_if_any()
    }
}

impl<M: Item, D: Item, F: FileItem> PinSet<M, D, F> {
    /// Makes a file of a pin of this set, in the pin's slot. `init` sets its words before any other
    /// thread can see it; `shared` says whether other threads will.
    ///
    /// # Panics
    /// If the pin belongs to another set.
    #[inline(always)]
    pub fn open_file(&self, pin: Pin, shared: bool, init: impl FnOnce(&F)) -> FileRef {
        assert!(
            self.owns(pin.slot()),
            "a file is made of a pin of its own set"
        );
        let body = self.store().file(pin.slot());
        let head = body.head();
        head.owner.store(self.id(), Ordering::Relaxed);
        init(body);
        let kind = if shared { SHARED } else { 0 };
        let life = head.refs.load(Ordering::Relaxed) & !(SHARED | COUNT);
        // R3: no other thread changes the word between the end of the last file and this.
        head.refs
            .store(life.wrapping_add(LIFE_ONE) | kind | 1, Ordering::Release);
        FileRef::of(pin)
    }

    /// The word of the file, if it is a local one of this set.
    #[inline(always)]
    fn local(&self, id: u32) -> Option<(&AtomicU64, u64)> {
        let head = self.store().file(id).head();
        let now = head.refs.load(Ordering::Relaxed);
        let ours = now & SHARED == 0 && head.owner.load(Ordering::Relaxed) == self.id();
        (ours && now & COUNT != 0).then_some((&head.refs, now))
    }

    /// A reference to the file with this number; `None` if it is not alive or not reachable from
    /// this set. The slot may have been reused for another file: the caller reads the number again
    /// where it found it.
    #[inline(always)]
    pub fn get_file(&self, id: u32) -> Option<FileRef> {
        if let Some((word, now)) = self.local(id) {
            if now & COUNT == COUNT {
                return None;
            }
            word.store(now + 1, Ordering::Relaxed);
        } else if !self.store().count_shared(id) {
            return None;
        }
        Some(FileRef::of(self.store().pin_of(id)))
    }

    /// Puts a reference back; returns the last one as a [`LastRef`].
    #[inline(always)]
    pub fn put_file(&self, file: FileRef) -> Option<LastRef> {
        if file.id() == 0 {
            return None;
        }
        self.store().check(&file.pin);
        if let Some((word, now)) = self.local(file.pin.slot()) {
            word.store(now - 1, Ordering::Relaxed);
            let last = now & COUNT == 1;
            return last.then_some(LastRef { pin: file.pin });
        }
        self.store().put_file(file)
    }

    /// Lets any thread hold the file, before a reference leaves this set's thread.
    pub fn share_file(&self, file: &FileRef) {
        if let Some((word, now)) = self.local(file.pin.slot()) {
            word.store(now | SHARED, Ordering::Release);
        }
    }

    /// As [`PinSet::share_file`], for a file that is otherwise kept alive; other files are
    /// unchanged.
    pub fn share_file_at(&self, id: u32) {
        if let Some((word, now)) = self.local(id) {
            word.store(now | SHARED, Ordering::Release);
        }
    }

    /// As [`Store::end_file`]; if the slot is this set's, the next pin uses it.
    #[inline(always)]
    pub fn end_file(&self, last: LastRef) {
        let store = self.store();
        drop(store.take_file_payload(&last));
        let slot = last.pin.slot();
        let ours = store.file(slot).head().owner.load(Ordering::Relaxed) == self.id();
        store.release(last.pin);
        if ours {
            self.look_first_at(slot);
        }
    }
}
