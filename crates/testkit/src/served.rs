// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is not compared where the kernel asks a server: what FUSE has no way to carry, each with
//! its line in the book of differences.

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

/// Leaves out of both runs of a case what cannot be the same, and counts what was left out.
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
        let pictures = served.pictures.iter_mut().flatten();
        pictures.chain([&mut served.end]).for_each(moved);
    }
    for trace in [host, served] {
        each(trace, stat);
        trace.outcomes.iter_mut().for_each(outcome);
    }
}

fn outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Statx(s) => statx(s),
        // L58: which file system it is.
        Outcome::StatFs(figures) => figures[0] = 0,
        _ => {}
    }
}

/// L55: access times; L60: of FIFOs, the others as well.
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

/// L62: what a listing that was kept calls the directory above, if its own moved since.
fn moved(tree: &mut Tree) {
    tree.trouble.retain(|line| !line.contains(": ..: "));
}

/// L56: what was not asked for is what the kernel knew last; of change times the host leaves out
/// what nobody asked for.
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

/// L60: the times of what truncate(2) may have cut from nothing to nothing.
fn empty(stat: &mut StatView) {
    if stat.size == 0 && mode::is_reg(stat.mode) {
        (stat.mtime, stat.ctime) = (Stamp::Begin, Stamp::Begin);
    }
}

/// L61: what may have been stripped before something that failed, and the time of that.
fn set_id(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        stat.mode &= !(mode::S_ISUID | mode::S_ISGID);
        stat.ctime = Stamp::Begin;
    }
}

/// L63: the blocks of what was not written back yet, and a change time that may be that of writing
/// back.
fn unwritten(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        stat.blocks = 0;
        stat.ctime = Stamp::Begin;
    }
}

/// L63: how much is used, as far as it is not written back.
fn used(outcome: &mut Outcome) {
    if let Outcome::StatFs(figures) = outcome {
        figures[6] = 0;
    }
}

/// L63: the times of a change that was refused, which the kernel has moved already, and of one that
/// leaves a file as long as it is, which it has not.
fn refused(stat: &mut StatView) {
    if mode::is_reg(stat.mode) {
        (stat.mtime, stat.ctime) = (Stamp::Begin, Stamp::Begin);
    }
}

/// Does something with all attributes that a run has seen.
pub(crate) fn each(trace: &mut Trace, work: fn(&mut StatView)) {
    for outcome in &mut trace.outcomes {
        match outcome {
            Outcome::Stat(s) => work(s),
            Outcome::Statx(s) => work(&mut s.stat),
            _ => {}
        }
    }
    let pictures = trace.pictures.iter_mut().flatten();
    pictures.chain([&mut trace.end]).for_each(|t| tree(t, work));
}

fn tree(tree: &mut Tree, work: fn(&mut StatView)) {
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
