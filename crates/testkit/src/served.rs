// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leaves out of a comparison of a FUSE mount of openpath with tmpfs what cannot be equal, because
//! FUSE does not carry it or the kernel keeps its own value. Each such difference has its entry in
//! `docs/LINUX.md`.

use crate::case::{Case, Trace};
use crate::host::fuse::Serve;
use crate::op::Op;
use crate::outcome::{Outcome, Stamp, StatView, StatxView};
use crate::skips::Counts;
use crate::tree::{Node, Tree};
use openpath_abi::mode;
use openpath_abi::statx::{
    STATX_BTIME, STATX_CTIME, STATX_DIOALIGN, STATX_MTIME, STATX_NLINK, STATX_SIZE,
};

/// Drops from both runs of a case what cannot be equal, and counts it.
pub(crate) fn leave_out(serve: Serve, case: &Case, both: [&mut Trace; 2], counts: &mut Counts) {
    counts.add("L55");
    let [host, served] = both;
    if serve == Serve::Writeback {
        counts.add("L63");
        for trace in [&mut *host, &mut *served] {
            each(trace, unwritten);
            trace.outcomes.iter_mut().for_each(used);
        }
    }
    let cut = |op: &Op| matches!(op, Op::Truncate { len: 0, .. });
    if case.ops.iter().any(cut) {
        counts.add("L60");
        each(host, empty);
        each(served, empty);
    }
    let failed = |(op, o): (&Op, &Outcome)| matches!(op, Op::Fallocate { .. }) && !o.is_ok();
    let failed = case.ops.iter().zip(&host.outcomes).any(failed);
    if failed {
        counts.add("L61");
        each(host, set_id);
        each(served, set_id);
    }
    let cut = |op: &Op| matches!(op, Op::Truncate { .. });
    if serve == Serve::Writeback && (failed || case.ops.iter().any(cut)) {
        each(host, refused);
        each(served, refused);
    }
    let outcomes = host.outcomes.iter().zip(&mut served.outcomes);
    for (op, (a, b)) in case.ops.iter().zip(outcomes) {
        if let (Op::Statx { mask, .. }, Outcome::Statx(a), Outcome::Statx(b)) = (op, a, b) {
            unasked(mask.low(), a, b);
        }
    }
    if serve != Serve::Opens {
        let snapshots = served.snapshots.iter_mut().flatten();
        snapshots.chain([&mut served.end]).for_each(moved);
    }
    for trace in [host, served] {
        each(trace, stat);
        trace.outcomes.iter_mut().for_each(outcome);
    }
}

fn outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Statx(s) => statx(s),
        // L58: the file system's type.
        Outcome::StatFs(figures) => figures[0] = 0,
        _ => {}
    }
}

/// L55: access times; L60: all times of FIFOs.
fn stat(stat: &mut StatView) {
    stat.atime = Stamp::Begin;
    if mode::is_fifo(stat.mode) {
        (stat.mtime, stat.ctime) = (Stamp::Begin, Stamp::Begin);
    }
}

/// L56: attributes.
fn statx(statx: &mut StatxView) {
    statx.mask &= !STATX_DIOALIGN.bits();
    statx.attributes = 0;
    statx.attributes_mask = 0;
}

/// L62: the name of `..` in a cached listing after the directory moved.
fn moved(tree: &mut Tree) {
    tree.trouble.retain(|line| !line.contains(": ..: "));
}

/// L56: an attribute that was not requested is the one that the kernel knew last; the host omits
/// change times that were not requested.
fn unasked(asked: u32, host: &StatxView, served: &mut StatxView) {
    if asked & STATX_SIZE.bits() == 0 {
        (served.stat.size, served.stat.blocks) = (host.stat.size, host.stat.blocks);
    }
    if asked & STATX_BTIME.bits() == 0 {
        served.mask &= !STATX_BTIME.bits() | host.mask;
        served.btime = host.btime;
    }
    if asked & STATX_NLINK.bits() == 0 {
        served.stat.nlink = host.stat.nlink;
    }
    const CHANGES: u32 = STATX_MTIME.bits() | STATX_CTIME.bits();
    if host.mask & CHANGES == 0 {
        served.mask &= !CHANGES;
        (served.stat.mtime, served.stat.ctime) = (host.stat.mtime, host.stat.ctime);
    }
}

/// L60: the times of a file that truncate(2) may have cut from size 0 to size 0.
fn empty(stat: &mut StatView) {
    if stat.size == 0 && mode::is_reg(stat.mode) {
        (stat.mtime, stat.ctime) = (Stamp::Begin, Stamp::Begin);
    }
}

/// L61: set-id bits that may have been stripped before an operation that failed, and the change
/// time.
fn set_id(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        stat.mode &= !(mode::S_ISUID | mode::S_ISGID);
        stat.ctime = Stamp::Begin;
    }
}

/// L63: the blocks of data that is not written back yet, and a change time that may be that of the
/// writeback.
fn unwritten(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        stat.blocks = 0;
        stat.ctime = Stamp::Begin;
    }
}

/// L63: used space, as far as data is not written back.
fn used(outcome: &mut Outcome) {
    if let Outcome::StatFs(figures) = outcome {
        figures[6] = 0;
    }
}

/// L63: the times of a refused change, which the kernel has moved already, and of a change that
/// keeps the size, which it has not.
fn refused(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        (stat.mtime, stat.ctime) = (Stamp::Begin, Stamp::Begin);
    }
}

/// Applies a function to all attributes in a run.
pub(crate) fn each(trace: &mut Trace, work: fn(&mut StatView)) {
    for outcome in &mut trace.outcomes {
        match outcome {
            Outcome::Stat(s) => work(s),
            Outcome::Statx(s) => work(&mut s.stat),
            _ => {}
        }
    }
    let snapshots = trace.snapshots.iter_mut().flatten();
    snapshots
        .chain([&mut trace.end])
        .for_each(|t| each_of_tree(t, work));
}

/// Does something with all attributes in a tree.
pub(crate) fn each_of_tree(tree: &mut Tree, work: fn(&mut StatView)) {
    let node = |node: &mut Node| work(&mut node.stat);
    tree.nodes.iter_mut().for_each(node);
    tree.views.iter_mut().flatten().for_each(node);
    let open = tree.tables.iter_mut().flatten();
    open.filter_map(|desc| desc.stat.as_mut()).for_each(work);
    for place in tree.places.iter_mut().flatten() {
        let both = [&mut place.root, &mut place.cwd];
        both.into_iter().flatten().for_each(work);
    }
}
