// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the observer of a mount's requests, which learns the caller, the file and the result.
//!
//! # Kernel analogue
//! fanotify(7), and the audit of failed opens.
//!
//! # What can be observed
//! | method | the kernel asks |
//! |---|---|
//! | [`Observer::name`] | at the first use of a name; at each use if it may not cache the reply |
//! | [`Observer::attributes`] | if it has none, and before it refuses a call because of them |
//! | [`Observer::opening`] | at each open that it granted, with [`crate::Opens::Each`] |
//!
//! # Rules
//! R1. The caller waits until the observer returns: it is stopped in its call and can be examined.
//! R2. The reply is the same as without an observer; only how long it stays valid may differ.

use crate::fs::{Entry, FuseFs, Name};
use crate::worker::Worker;
use openpath_abi::fcntl::{AT_EACCESS, AT_EMPTY_PATH};
use openpath_abi::{AtFlags, Errno, Mode, OFlags, Statx};
use openpath_vfs::{Cred, ExplainOp, Explanation, Fd};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// The caller of a request, in the kernel's numbers and in the namespaces of the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester {
    /// Thread; 0 if it is in none of those namespaces.
    pub thread: u32,
    /// User for file access.
    pub uid: u32,
    /// Group for file access.
    pub gid: u32,
}

/// Called with the result of an open.
pub type OnOpened<'a> = Box<dyn FnOnce(Result<(), Errno>) + 'a>;

/// Observes requests. See the head of this module.
pub trait Observer: Send + Sync {
    /// A name was looked up in a directory; returns whether the kernel may cache the reply.
    fn name(
        &self,
        by: Requester,
        dir: &ObservedFile<'_>,
        name: &[u8],
        found: Result<&Statx, Errno>,
    ) -> bool;

    /// Attributes are requested.
    fn attributes(&self, by: Requester, at: &ObservedFile<'_>);

    /// A file is about to be opened; with a name, to be created in a directory and opened.
    fn opening<'a>(
        &'a self,
        by: Requester,
        at: &ObservedFile<'_>,
        name: Option<&'a [u8]>,
        flags: OFlags,
    ) -> Option<OnOpened<'a>>;
}

/// A file of the mount, for an observer.
pub struct ObservedFile<'a> {
    fs: &'a FuseFs,
    worker: RefCell<&'a mut Worker>,
    node: u64,
}

impl fmt::Debug for ObservedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedFile")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl<'a> ObservedFile<'a> {
    fn new(fs: &'a FuseFs, worker: &'a mut Worker, node: u64) -> Self {
        Self {
            fs,
            worker: RefCell::new(worker),
            node,
        }
    }

    /// Its present path, from the root of the mount.
    ///
    /// # Errors
    /// `ESTALE` (the kernel has given the node back), `ENAMETOOLONG`.
    pub fn path(&self) -> Result<Vec<u8>, Errno> {
        let path_fd = self.fs.nodes.path_fd(self.node)?;
        self.worker.borrow().task.path_name(path_fd)
    }

    /// Its attributes.
    ///
    /// # Errors
    /// `ESTALE`, those of its tree.
    pub fn attributes(&self) -> Result<Statx, Errno> {
        self.fs.getattr(&self.worker.borrow(), self.node)
    }

    /// Explains the access of `cred` to what a path from here leads to, or to the file itself (an
    /// empty path): `want` is of `R_OK`, `W_OK` and `X_OK`.
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

    /// Explains, with every capability, where a path from here leads.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn find(&self, path: &[u8], at_flags: AtFlags) -> Result<Explanation, Errno> {
        self.explain(Cred::root(), |dirfd| ExplainOp::Stat {
            dirfd,
            path,
            at_flags,
        })
    }

    /// Explains, with every capability, an open of a path from here.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn open(&self, path: &[u8], flags: OFlags) -> Result<Explanation, Errno> {
        self.explain(Cred::root(), |dirfd| ExplainOp::Openat {
            dirfd,
            path,
            flags,
            mode: Mode::default(),
        })
    }

    fn explain<'p>(
        &self,
        cred: Cred,
        op: impl FnOnce(Fd) -> ExplainOp<'p>,
    ) -> Result<Explanation, Errno> {
        let path_fd = self.fs.nodes.path_fd(self.node)?;
        let mut worker = self.worker.borrow_mut();
        Ok(worker.with_cred(cred, |task| task.explain(&op(path_fd))))
    }
}

/// The observer of a mount, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Observing(pub(crate) Option<Arc<dyn Observer>>);

impl Observing {
    /// Whether there is an observer.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A name was looked up; returns whether the kernel may cache the reply.
    pub(crate) fn name(
        &self,
        (fs, w): (&FuseFs, &mut Worker),
        by: Requester,
        (parent, name): Name<'_>,
        found: &Result<Entry, Errno>,
    ) -> bool {
        let found = found.as_ref().map(|entry| &entry.attr).map_err(|e| *e);
        let observer = self.0.as_ref();
        observer.is_none_or(|it| it.name(by, &ObservedFile::new(fs, w, parent), name, found))
    }

    /// Attributes are requested.
    pub(crate) fn attributes(&self, (fs, w): (&FuseFs, &mut Worker), by: Requester, node: u64) {
        if let Some(observer) = &self.0 {
            observer.attributes(by, &ObservedFile::new(fs, w, node));
        }
    }

    /// Opens, or creates and opens, under observation.
    pub(crate) fn open<T>(
        &self,
        (fs, w): (&FuseFs, &mut Worker),
        by: Requester,
        (node, name): (u64, Option<&[u8]>),
        flags: OFlags,
        open: impl FnOnce(&mut Worker) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let observer = self.0.as_ref();
        let on_opened =
            observer.and_then(|it| it.opening(by, &ObservedFile::new(fs, w, node), name, flags));
        let opened = open(w);
        if let Some(on_opened) = on_opened {
            on_opened(opened.as_ref().map(drop).map_err(|e| *e));
        }
        opened
    }
}
