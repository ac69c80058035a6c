// SPDX-License-Identifier: MIT OR Apache-2.0
//! Openings: when the host is asked, and when it is told that they end.
//!
//! # States
//! A file that can be read by a handle that is held anyway is opened for reading without a word to
//! anyone ([`openpath_vfs::flag::OPEN_HOOK`] is clear). Else the host is asked, so that what it
//! refuses (`EACCES`, `ETXTBSY`, `EIO`) is refused at open. What is opened for writing is held for
//! writing until the last such opening ends; with [`crate::Policy::None`] so is what is read.

use crate::node::Node;
use crate::pool::Use;
use openpath_abi::fcntl::{O_ACCMODE, O_RDONLY};
use openpath_abi::{Errno, mode};
use openpath_vfs::{FileOps, Inode, Patience};
use std::any::Any;
use std::sync::Arc;

/// An opening that tells when it ends.
struct Opening {
    node: Arc<Node>,
    what: Use,
}

impl FileOps for Opening {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn leaves_data(&self) -> bool {
        true
    }

    fn release(&self) {
        self.node.closed(self.what);
    }
}

impl Node {
    /// As `InodeOps::open`.
    pub(crate) fn opened(
        self: &Arc<Self>,
        inode: &Inode,
        flags: u32,
        patience: Patience,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Ok(None);
        }
        let what = match flags & O_ACCMODE {
            O_RDONLY => Use::Read,
            _ => Use::Write,
        };
        self.handle(what, patience)?;
        if what == Use::Read && self.tree.keeps_handles() {
            return Ok(None);
        }
        self.handles.lock().openings[usize::from(what == Use::Write)] += 1;
        let node = Arc::clone(self);
        Ok(Some(Box::new(Opening { node, what })))
    }

    /// One of the openings that were counted ended.
    fn closed(&self, what: Use) {
        let last = {
            let mut handles = self.handles.lock();
            let count = &mut handles.openings[usize::from(what == Use::Write)];
            *count = count.saturating_sub(1);
            *count == 0
        };
        if last {
            self.drop_handle(what);
        }
    }
}
