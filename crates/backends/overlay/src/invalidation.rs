// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the layers tell when others change them: passed on to the core, for the names of the
//! overlay that show it.

use crate::fs::Fs;
use crate::node::Node;
use openpath_vfs::{Above, Inode, SuperBlock};
use std::sync::{Arc, Weak};

/// Whom the layers tell.
pub(crate) struct Ear(pub(crate) Weak<Fs>);

impl Ear {
    /// Runs `pass` with the overlay, while there is one.
    fn pass(&self, pass: impl FnOnce(&Arc<Fs>, &SuperBlock)) {
        if let Some(fs) = self.0.upgrade()
            && let Some(sb) = fs.home.get().and_then(Weak::upgrade)
        {
            pass(&fs, &sb);
        }
    }
}

impl Above for Ear {
    fn name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.pass(|fs, sb| {
            for above in fs.above(dir) {
                note(&above);
                sb.forget_name(&above, name);
            }
        });
    }

    fn names_of(&self, dir: &Arc<Inode>) {
        self.pass(|fs, sb| {
            for above in fs.above(dir) {
                note(&above);
                sb.forget_names_of(&above);
            }
        });
    }

    fn all(&self) {
        self.pass(|fs, sb| {
            fs.all().iter().for_each(note);
            sb.forget_all();
        });
    }

    fn attributes(&self, inode: &Arc<Inode>) {
        self.pass(|fs, sb| {
            for above in fs.above(inode) {
                if let Some(node) = Node::of(&above) {
                    node.settle(&above);
                    sb.forget_permission(&above);
                }
            }
        });
    }
}

/// What is kept of a directory's listing does not hold any more.
fn note(dir: &Arc<Inode>) {
    if let Some(node) = Node::of(dir) {
        node.note_change();
    }
}
