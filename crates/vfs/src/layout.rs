// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements layouts: a holder uses a file's blocks in the backend, and the backend recalls all
//! layouts of the file, and waits until they are dropped, before it moves the blocks.
//!
//! # Kernel analogue
//! `FL_LAYOUT` leases and `break_layout`.
//!
//! # Rules
//! R1. A layout is recalled once, in the call that needs it back, with the locks of that call held.
//!     Its holder notes that, and drops the layout elsewhere, soon.
//! R2. None is given while a recall is under way, or the work that needed it.

use crate::inode::{Inode, shield};
use crate::lease::{Layouts, Recall};
use openpath_abi::Errno;
use openpath_sync::{WaitError, Waiter};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Keeps the file in its place in the backend until this is dropped.
#[must_use]
pub struct Layout {
    inode: Arc<Inode>,
    number: u64,
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({} of {})", self.number, self.inode.ino())
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        let mut table = self.inode.rare().layouts.0.lock();
        let recall = table.held.remove(&self.number);
        let wake = table.held.is_empty().then(|| table.queue.wake_all());
        drop(table);
        // A value of the host's code may own another layout of this file.
        drop((recall, wake));
    }
}

/// No layout of the file is given until this is dropped.
#[must_use]
pub struct NoLayouts<'a>(&'a Layouts);

impl fmt::Debug for NoLayouts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoLayouts")
    }
}

impl Drop for NoLayouts<'_> {
    fn drop(&mut self) {
        self.0.0.lock().wanted -= 1;
    }
}

impl Inode {
    /// Keeps the file in its place in the backend. `recall` is called when the backend needs the
    /// layout dropped; it must neither wait nor call into the `Vfs`.
    ///
    /// # Errors
    /// `EAGAIN`: a recall is under way.
    pub fn hold_layout(
        self: &Arc<Self>,
        recall: impl Fn() + Send + Sync + 'static,
    ) -> Result<Layout, Errno> {
        let mut table = self.rare().layouts.0.lock();
        if table.wanted != 0 {
            return Err(Errno::EAGAIN);
        }
        let number = table.next;
        table.next += 1;
        table.held.insert(number, Some(Arc::new(recall)));
        drop(table);
        Ok(Layout {
            inode: Arc::clone(self),
            number,
        })
    }

    /// Recalls all layouts, for a backend that is about to move the file; none is given until the
    /// result is dropped. It may be called with locks held: a backend that gets `EWOULDBLOCK`
    /// releases them, waits by [`Inode::break_layouts`], and tries again.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: a layout is still held.
    pub fn try_break_layouts(&self) -> Result<NoLayouts<'_>, Errno> {
        let wanting = self.want_layouts();
        let recalls: Vec<Recall> = {
            let mut table = wanting.0.0.lock();
            table.held.values_mut().filter_map(Option::take).collect()
        };
        for recall in recalls {
            // A failing recall does not stop the others.
            let _called = shield(|| {
                recall();
                Ok(())
            });
        }
        if wanting.0.0.lock().held.is_empty() {
            Ok(wanting)
        } else {
            Err(Errno::EWOULDBLOCK)
        }
    }

    /// As [`Inode::try_break_layouts`], and waits until no layout is held any more. No lock may be
    /// held.
    ///
    /// # Errors
    /// `EINTR`; `ETIMEDOUT`.
    pub fn break_layouts(
        &self,
        sleeper: &Waiter,
        until: Option<Instant>,
    ) -> Result<NoLayouts<'_>, Errno> {
        let wanting = self.want_layouts();
        if let Ok(none) = self.try_break_layouts() {
            return Ok(none);
        }
        let lock = &wanting.0.0;
        let mut table = lock.lock();
        while !table.held.is_empty() {
            let waited = lock.wait(table, |table| &mut table.queue, sleeper, until);
            table = match waited {
                Ok(guard) => guard,
                Err((_, WaitError::Interrupted)) => return Err(Errno::EINTR),
                Err((_, WaitError::TimedOut)) => return Err(Errno::ETIMEDOUT),
            };
        }
        drop(table);
        Ok(wanting)
    }

    fn want_layouts(&self) -> NoLayouts<'_> {
        let layouts = &self.rare().layouts;
        layouts.0.lock().wanted += 1;
        NoLayouts(layouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{Attr, InodeOps};
    use openpath_abi::Timespec;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    struct Nothing;
    impl InodeOps for Nothing {
        fn as_any(&self) -> &dyn core::any::Any {
            self
        }
    }

    #[test]
    fn a_layout_is_called_back_once_and_none_is_given_meanwhile() {
        let inode = Inode::new(
            1,
            0,
            Attr::default(),
            Timespec::default(),
            Box::new(Nothing),
        );
        let called = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&called);
        let recall = move || assert!(!told.swap(true, Ordering::SeqCst), "called twice");
        // A layout with a failing recall, which is dropped all the same.
        let fails = inode.hold_layout(|| panic!("it cannot be called"));
        let fails = fails.expect("a layout");
        let layout = inode.hold_layout(recall).expect("a layout");
        assert_eq!(inode.try_break_layouts().map(drop), Err(Errno::EWOULDBLOCK));
        assert!(called.load(Ordering::SeqCst));
        drop(fails);
        let sleeper = Waiter::default();
        let soon = Some(Instant::now() + Duration::from_millis(50));
        assert_eq!(
            inode.break_layouts(&sleeper, soon).map(drop),
            Err(Errno::ETIMEDOUT)
        );
        let theirs = Arc::clone(&inode);
        let waits = thread::spawn(move || {
            let sleeper = Waiter::default();
            let none = theirs.break_layouts(&sleeper, None).expect("it goes");
            let refused = theirs.hold_layout(|| {});
            assert_eq!(refused.map(drop), Err(Errno::EAGAIN));
            drop(none);
        });
        thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        drop(layout);
        waits.join().expect("a thread");
        assert!(inode.hold_layout(|| {}).is_ok());
    }
}
