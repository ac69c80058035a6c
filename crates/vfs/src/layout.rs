// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layouts: who uses a file as it lies in its backend says so, and is called back by a backend that
//! is about to move it.
//!
//! # Kernel analogue
//! `FL_LAYOUT` leases and `break_layout`.
//!
//! # Rules
//! R1. Whoever has a layout is called once for it, in the call that needs it back, with the locks
//!     of that call held: it notes that, and drops the layout elsewhere, soon.
//! R2. None is given while somebody wants those back that there are, or does what that was for.

use crate::inode::{Inode, shield};
use crate::lease::{Layouts, Recall};
use openpath_abi::Errno;
use openpath_sync::{Ended, Waiter};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The file stays where it is in its backend until this is dropped.
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
        // What a host's code owns may be another layout of this file.
        drop((recall, wake));
    }
}

/// Nobody gets a layout of the file until this is dropped.
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
    /// Has the file stay where it is in its backend, for who uses it there. `recall` is called when
    /// the backend wants it to be dropped; it must neither wait nor call into the `Vfs`.
    ///
    /// # Errors
    /// `EAGAIN`: somebody wants those back that there are.
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

    /// Calls back whoever has a layout, for a backend that is about to move the file; nobody gets
    /// one until what this gives is dropped. It may be called with locks held: a backend that is
    /// told to wait lets go of them, waits by [`Inode::break_layouts`], and looks again.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: somebody still has one.
    pub fn try_break_layouts(&self) -> Result<NoLayouts<'_>, Errno> {
        let wanting = self.want_layouts();
        let recalls: Vec<Recall> = {
            let mut table = wanting.0.0.lock();
            table.held.values_mut().filter_map(Option::take).collect()
        };
        for recall in recalls {
            // One that fails keeps nobody else from being called.
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

    /// As [`Inode::try_break_layouts`], and waits until nobody has one any more. No lock may be
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
                Err((_, Ended::Interrupted)) => return Err(Errno::EINTR),
                Err((_, Ended::TimedOut)) => return Err(Errno::ETIMEDOUT),
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
        // One whose call fails, and which goes all the same.
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
