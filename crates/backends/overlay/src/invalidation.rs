// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes invalidations on: layers report changes by others, and the overlay reports them to the
//! core for its own inodes.

use crate::fs::Fs;
use crate::node::Node;
use openpath_vfs::{Inode, InvalidationListener, SuperBlock};
use std::sync::{Arc, Weak};

/// The subscriber to the invalidations of the layers.
pub(crate) struct Subscriber(pub(crate) Weak<Fs>);

impl Subscriber {
    /// Runs `with_overlay` with the overlay, while that lives.
    fn with_overlay(&self, with_overlay: impl FnOnce(&Arc<Fs>, &SuperBlock)) {
        if let Some(fs) = self.0.upgrade()
            && let Some(sb) = fs.sb.get().and_then(Weak::upgrade)
        {
            with_overlay(&fs, &sb);
        }
    }
}

impl InvalidationListener for Subscriber {
    fn name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.with_overlay(|fs, sb| {
            for above in fs.inodes_above(dir) {
                bump_version(&above);
                sb.forget_name(&above, name);
            }
        });
    }

    fn names_of(&self, dir: &Arc<Inode>) {
        self.with_overlay(|fs, sb| {
            for above in fs.inodes_above(dir) {
                bump_version(&above);
                sb.forget_names_of(&above);
            }
        });
    }

    fn all(&self) {
        self.with_overlay(|fs, sb| {
            fs.all().iter().for_each(bump_version);
            sb.forget_all();
        });
    }

    fn attributes(&self, inode: &Arc<Inode>) {
        self.with_overlay(|fs, sb| {
            for above in fs.inodes_above(inode) {
                if let Some(node) = Node::of(&above) {
                    node.copy_attr(&above);
                    sb.forget_permission(&above);
                }
            }
        });
    }
}

/// Invalidates a directory's cached listing.
fn bump_version(dir: &Arc<Inode>) {
    if let Some(node) = Node::of(dir) {
        node.bump_version();
    }
}
