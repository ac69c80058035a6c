// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who looks on while a mount is served: who asks for what, and what he is told.
//!
//! # Kernel analogue
//! fanotify(7), and audit of opens that fail.
//!
//! # What is to be seen
//! | call of the trait | the kernel asks |
//! |---|---|
//! | [`Observer::name`] | at each first use of a name; at each use if it may not keep the answer |
//! | [`Observer::attributes`] | if it has none, and whenever it refuses by them: it makes sure then |
//! | [`Observer::opening`] | at each open that it granted, if it is to ask ([`crate::Opens::Each`]) |
//!
//! # Rules
//! R1. Who asks waits until the watch returns: it stands still in its call, and can be looked at.
//! R2. The answer is what it would be without a watch; only how long it holds may be another.

use crate::view::{Entry, Name, View};
use crate::worker::Worker;
use openpath_abi::fcntl::{AT_EACCESS, AT_EMPTY_PATH};
use openpath_abi::{Errno, Statx};
use openpath_vfs::{Cred, ExplainOp, Explanation, Fd};
use std::cell::RefCell;

/// Who asks: the kernel's numbers for it, in the namespaces that it was mounted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester {
    /// Thread; 0 if it is in none of those namespaces.
    pub thread: u32,
    /// User for file access.
    pub uid: u32,
    /// Group for file access.
    pub gid: u32,
}

/// Is told how an open went.
pub type OnOpened<'a> = Box<dyn FnOnce(Result<(), Errno>) + 'a>;

/// Looks on. See the head of this module.
pub trait Observer: Send + Sync {
    /// A name was looked up in a directory; whether the kernel may keep the answer.
    fn name(
        &self,
        by: Requester,
        dir: &ObservedFile<'_>,
        name: &[u8],
        found: Result<&Statx, Errno>,
    ) -> bool;

    /// Attributes are asked for.
    fn attributes(&self, by: Requester, at: &ObservedFile<'_>);

    /// A file is to be opened, or with a name to be made in a directory and opened.
    fn opening<'a>(
        &'a self,
        by: Requester,
        at: &ObservedFile<'_>,
        name: Option<&'a [u8]>,
        flags: u32,
    ) -> Option<OnOpened<'a>>;
}

/// A file of the mount, for who looks on.
pub struct ObservedFile<'a> {
    view: &'a View,
    worker: RefCell<&'a mut Worker>,
    node: u64,
}

impl ObservedFile<'_> {
    /// Its path from the root of the mount on, as it is now.
    ///
    /// # Errors
    /// `ESTALE` (the kernel has given it back), `ENAMETOOLONG`.
    pub fn path(&self) -> Result<Vec<u8>, Errno> {
        let place = self.view.nodes.place(self.node)?;
        self.worker.borrow().task.path_name(place)
    }

    /// Its attributes.
    ///
    /// # Errors
    /// `ESTALE`, what its tree meets.
    pub fn attributes(&self) -> Result<Statx, Errno> {
        self.view.attributes(&self.worker.borrow(), self.node)
    }

    /// Explains what `cred` may do with what a path from it on leads to, or with itself (an empty
    /// path): `want` is of `R_OK`, `W_OK` and `X_OK`.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn access(&self, path: &[u8], cred: Cred, want: u32) -> Result<Explanation, Errno> {
        self.explain(cred, |dirfd| ExplainOp::Access {
            dirfd,
            path,
            want,
            at_flags: AT_EMPTY_PATH | AT_EACCESS,
        })
    }

    /// Explains what a path from it on leads to, for who may do everything.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn find(&self, path: &[u8], at_flags: u32) -> Result<Explanation, Errno> {
        self.explain(Cred::root(), |dirfd| ExplainOp::Stat {
            dirfd,
            path,
            at_flags,
        })
    }

    /// Explains an open of a path from it on, for who may do everything.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn open(&self, path: &[u8], flags: u32) -> Result<Explanation, Errno> {
        self.explain(Cred::root(), |dirfd| ExplainOp::Openat {
            dirfd,
            path,
            flags,
            mode: 0,
        })
    }

    fn explain<'p>(
        &self,
        cred: Cred,
        op: impl FnOnce(Fd) -> ExplainOp<'p>,
    ) -> Result<Explanation, Errno> {
        let place = self.view.nodes.place(self.node)?;
        let mut worker = self.worker.borrow_mut();
        Ok(worker.as_cred(cred, |task| task.explain(&op(place))))
    }
}

impl View {
    fn sight<'a>(&'a self, worker: &'a mut Worker, node: u64) -> ObservedFile<'a> {
        ObservedFile {
            view: self,
            worker: RefCell::new(worker),
            node,
        }
    }

    /// Whether the kernel may keep what a name was found to be.
    pub(crate) fn may_keep(
        &self,
        w: &mut Worker,
        by: Requester,
        (parent, name): Name<'_>,
        found: &Result<Entry, Errno>,
    ) -> bool {
        let found = found.as_ref().map(|entry| &entry.attr).map_err(|e| *e);
        let watch = self.watch.as_ref();
        watch.is_none_or(|watch| watch.name(by, &self.sight(w, parent), name, found))
    }

    /// Attributes are asked for.
    pub(crate) fn looks_at(&self, w: &mut Worker, by: Requester, node: u64) {
        if let Some(watch) = &self.watch {
            watch.attributes(by, &self.sight(w, node));
        }
    }

    /// Opens, or makes and opens, as whoever looks on sees it.
    pub(crate) fn seen<T>(
        &self,
        w: &mut Worker,
        by: Requester,
        (node, name): (u64, Option<&[u8]>),
        flags: u32,
        open: impl FnOnce(&mut Worker) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let watch = self.watch.as_ref();
        let told = watch.and_then(|watch| watch.opening(by, &self.sight(w, node), name, flags));
        let opened = open(w);
        if let Some(told) = told {
            told(opened.as_ref().map(drop).map_err(|e| *e));
        }
        opened
    }
}
