// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a file of the host when the core opens it, and counts opens so that the last close can
//! close it.
//!
//! A handle is a descriptor of the host that a [`Node`] holds and that all opens of the file share
//! ([`crate::pool`]). If the node has none for the access yet, the host is asked for one at open,
//! so that its refusals (`EACCES`, `ETXTBSY`, `EIO`) come there.
//!
//! # Rules
//! R1. While a node has a handle that can read, the core opens the file for reading without calling
//!     this module ([`openpath_vfs::flag::OPEN_HOOK`] is clear).
//! R2. An open for writing is counted, and the last close drops the write handle, except with
//!     [`crate::HostOptions::keeps_writers`]. A file without a name keeps it, because nothing else
//!     leads to the file.
//! R3. The read handle stays for later opens. Under [`crate::Policy::None`] it does not: R1 does
//!     not hold, opens for reading are counted too, and the last close drops the read handle.

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
        let stays = kind == HandleKind::Write && self.tree.options.keeps_writers;
        if last && !stays {
            self.drop_handle(kind);
        }
    }
}
