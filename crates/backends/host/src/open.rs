// SPDX-License-Identifier: MIT OR Apache-2.0
//! Openings: when the host is asked, and when an opening reports its end.
//!
//! # States
//! A file with a readable handle is opened for reading without a call of the host or of this
//! backend ([`openpath_vfs::flag::OPEN_HOOK`] is clear). Otherwise the host is asked, so that its
//! refusals (`EACCES`, `ETXTBSY`, `EIO`) come at open. A file that is opened for writing keeps its
//! write handle until the last such opening ends; with [`crate::Policy::None`] so does one that is
//! read.

use crate::node::Node;
use crate::pool::HandleKind;
use openpath_abi::fcntl::{O_ACCMODE, O_RDONLY};
use openpath_abi::{Errno, OFlags, mode};
use openpath_vfs::{FileOps, Inode, WaitMode};
use std::any::Any;
use std::sync::Arc;

/// An opening that reports its end.
struct Opening {
    node: Arc<Node>,
    kind: HandleKind,
}

impl FileOps for Opening {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn leaves_data(&self) -> bool {
        true
    }

    fn release(&self) {
        self.node.close(self.kind);
    }
}

impl Node {
    /// As `InodeOps::open`.
    pub(crate) fn open(
        self: &Arc<Self>,
        inode: &Inode,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Ok(None);
        }
        let kind = match flags & O_ACCMODE {
            O_RDONLY => HandleKind::Read,
            _ => HandleKind::Write,
        };
        self.handle(kind, wait_mode)?;
        if kind == HandleKind::Read && self.tree.keeps_handles() {
            return Ok(None);
        }
        self.handles.lock().openings[usize::from(kind == HandleKind::Write)] += 1;
        let node = Arc::clone(self);
        Ok(Some(Box::new(Opening { node, kind })))
    }

    /// Counts an opening that ended.
    fn close(&self, kind: HandleKind) {
        let last = {
            let mut handles = self.handles.lock();
            let count = &mut handles.openings[usize::from(kind == HandleKind::Write)];
            *count = count.saturating_sub(1);
            *count == 0
        };
        if last {
            self.drop_handle(kind);
        }
    }
}
