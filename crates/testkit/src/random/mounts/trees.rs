// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes random operations on detached trees, and on flags of whole trees.

use openpath_abi::mount as m;

use super::{Gen, TREES, path};
use crate::op::{AttrFlags, Bits, CWD, Dir, Keep, MoveFlags, MsFlags, Op, Path, TreeFlags};

impl Gen {
    /// A number that a tree may be open at.
    fn tree(&mut self) -> Dir {
        if self.trees.is_empty() || self.rng.one_in(12) {
            return Dir(*self.rng.pick(TREES));
        }
        Dir(*self.rng.pick(&self.trees))
    }

    /// A detached tree or a path.
    fn tree_or_path(&mut self) -> (Dir, Path) {
        if self.rng.below(3) == 0 {
            let tree = self.tree();
            let below = ["", "", "", "x", "y", ".."];
            return (tree, path(self.rng.pick(&below)));
        }
        (CWD, self.mounted())
    }

    pub(super) fn setattr(&mut self) -> Op {
        let (at, place) = self.tree_or_path();
        let empty = place.0.is_empty();
        let (mut set, mut clear) = (self.attr_flags(), self.attr_flags());
        match self.rng.below(6) {
            0 => set = AttrFlags(0),
            1 => clear = AttrFlags(0),
            2 => (set, clear) = (AttrFlags(1), AttrFlags(0)),
            // A new access time mode clears the old one.
            3 if set.0 & 0x30 != 0 => clear = AttrFlags(0x70),
            _ => {}
        }
        let clear = match set.0 & 0x30 {
            0 => AttrFlags(clear.0 & !0x70),
            _ if self.rng.one_in(8) => clear,
            _ => AttrFlags(clear.0 | 0x70),
        };
        let spread = match self.rng.below(4) {
            0 => self.spread_flags() & !m::MS_SILENT & !m::MS_REC,
            _ => 0,
        };
        let recursive = if self.rng.below(2) == 0 { 0x8000 } else { 0 };
        let odd = if self.rng.one_in(20) { 0x100 } else { 0 };
        let flags = recursive | odd | if empty { 0x1000 } else { 0 };
        Op::MountSetattr {
            at,
            path: place,
            flags: TreeFlags(flags),
            set,
            clear,
            spread: MsFlags(spread),
        }
    }

    /// open_tree(2), fsmount(2), move_mount(2).
    pub(super) fn trees(&mut self) -> Op {
        let number = *self.rng.pick(TREES);
        let keep = Keep::At(number);
        let kind = if self.trees.is_empty() { 0 } else { 5 };
        match kind + self.rng.below(12 - kind) {
            0..6 => {
                self.trees.push(number);
                let (at, place) = self.tree_or_path();
                let empty = if place.0.is_empty() { 0x1000 } else { 0 };
                let clone = self
                    .rng
                    .weighted(&[(6, 1), (4, 0x8001), (1, 0), (1, 0x8000)]);
                let more = self.rng.weighted(&[(8, 0), (1, 0x80000), (1, 0x100)]);
                Op::OpenTree {
                    keep,
                    at,
                    path: place,
                    flags: TreeFlags(clone | more | empty),
                }
            }
            6 | 7 => {
                self.trees.push(number);
                Op::Fsmount {
                    keep,
                    flags: Bits(self.rng.weighted(&[(6, 0), (1, 1), (1, 2)])),
                    attr: self.attr_flags(),
                }
            }
            _ => self.move_tree(),
        }
    }

    fn move_tree(&mut self) -> Op {
        let (at, from) = if self.rng.below(4) > 0 {
            (self.tree(), path(""))
        } else {
            self.tree_or_path()
        };
        let (at2, to) = if self.rng.one_in(6) {
            self.tree_or_path()
        } else {
            (CWD, self.dir())
        };
        self.warm(&to);
        let mut flags =
            self.rng
                .weighted(&[(16, 0), (3, 0x200), (2, 0x100), (1, 0x11), (1, 0x400)]);
        if from.0.is_empty() {
            flags |= 4;
        }
        if to.0.is_empty() {
            flags |= 0x40;
        }
        Op::MoveMount {
            at,
            path: from,
            at2,
            path2: to,
            flags: MoveFlags(flags),
        }
    }
}
