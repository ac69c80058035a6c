// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lends a part of a view to the kernel's overlay, and takes it back. This runs in the server,
//! which serves the rest of the view meanwhile.
//!
//! # States
//! Lent ([`lend`]) -> the command runs, and the overlay uses the part of the upper tree -> taken
//! back ([`take_back`]), and the view is opened anew for the changes.
//!
//! # Rules
//! R1. The server's tree shows the part empty while it is lent, and knows it by its inode. So the
//!     server touches nothing in it, whatever others do with names above it in the real tree, and a
//!     view whose overlay was detached shows nothing there.
//! R2. The time of the begin is recorded before the part is lent (R2 of `kernel_overlay`).
//! R3. In root's upper tree all entries have the kernel's format, so nothing is converted.

use crate::detached;
use crate::kernel_overlay::mounts::{UpperTree, work_path};
use crate::kernel_upper::{END_TIMEOUT, copy_up_for_run, not_kept, wait_until_unused};
use crate::plan::Part;
use crate::view::View;
use openpath_commit::{
    Places, Refusal, RefusalKind, ViewLock, lend_part, make_kernel_work, take_part_back,
    try_kernel_work,
};
use openpath_overlay::Marks;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A tree in memory for the changes.
pub(crate) struct MemoryTree {
    pub(crate) tree: Arc<OwnedFd>,
    /// The user namespace of its mount, if that is not this process's.
    pub(crate) space: Option<OwnedFd>,
}

/// Lends the part of a view in a directory; returns the directory with the upper tree.
///
/// # Errors
/// The view has something that the kernel's overlay cannot show; the kernel refuses overlays here;
/// what the file system says.
pub(crate) fn lend(part: &Part, view: &View) -> Result<UpperTree, Refusal> {
    let held = view.held();
    let held = held.ok_or_else(|| Refusal::system("the changes are kept in no directory"))?;
    openpath_commit::check_kernel_part(held.dir(), &part.place)?;
    // R2
    let kept = std::slice::from_ref(&part.place);
    openpath_commit::record_kernel_run(held.dir(), Places::new(&part.own, kept), kept)?;
    copy_up(part, view, held)?;
    if rustix::process::geteuid().is_root() {
        let tree = held.descriptor();
        let tree = tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
        // The mount namespace of the helper is another one.
        let tree = detached::copy(tree);
        let tree = tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
        return lend_by_root(part, view.marks(), tree);
    }
    lend_part(held.dir(), part.path(), None).map_err(|why| {
        // If not now, then when the view is locked the next time.
        let _later = take_part_back(held.dir(), None, Duration::ZERO);
        refused(part, &why)
    })?;
    let tree = held.descriptor();
    Ok(UpperTree {
        tree: tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?,
        marks: Marks::User,
    })
}

/// Copies the part up, which must be the directory that was chosen before and after that: what the
/// view records of it is of this directory too.
fn copy_up(part: &Part, view: &View, held: &ViewLock) -> Result<(), Refusal> {
    let upper = held.descriptor();
    let upper = upper.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
    let check = || {
        let stat = rustix::fs::statat(CWD, part.path(), AtFlags::SYMLINK_NOFOLLOW);
        part.check(&stat.map_err(not_kept)?)
    };
    copy_up_for_run((view, &upper), std::iter::once(&part.place), || {
        check()?;
        view.lend(&part.place)?;
        check()
    })
}

/// Lends the part of root's view in memory; returns the tree.
///
/// # Errors
/// As [`lend`].
pub(crate) fn lend_in_root_memory(
    part: &Part,
    view: &View,
    memory: &MemoryTree,
) -> Result<UpperTree, Refusal> {
    view.lend(&part.place)?;
    let tree = memory.tree.try_clone();
    let tree = tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
    lend_by_root(part, view.marks(), tree)
}

/// Makes the work directory of the overlay (R3).
fn lend_by_root(part: &Part, marks: Marks, tree: OwnedFd) -> Result<UpperTree, Refusal> {
    let made = || {
        make_kernel_work(&tree)?;
        try_kernel_work(&tree)?;
        Ok(rustix::fs::mkdirat(&tree, work_path(0), Mode::RWXU)?)
    };
    made().map_err(|why| refused(part, &why))?;
    Ok(UpperTree { tree, marks })
}

/// Lends the part of an ordinary user's view in memory.
///
/// # Errors
/// The kernel refuses overlays here; there is no memory.
pub(crate) fn lend_in_memory(part: &Part, view: &View, memory: &MemoryTree) -> Result<(), Refusal> {
    view.lend(&part.place)?;
    let lent = lend_part(&*memory.tree, part.path(), memory.space.as_ref());
    lent.map_err(|why| refused(part, &why))
}

fn refused(part: &Part, why: &std::io::Error) -> Refusal {
    let place = part.path().display();
    let (kind, text) = match why.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::OPNOTSUPP) => (
            RefusalKind::Unsupported,
            format!(
                "the kernel's overlay cannot show what the view has in {place}: go on without \
                 --engine kernel"
            ),
        ),
        Some(Errno::NOSPC | Errno::DQUOT) => (
            RefusalKind::NoSpace,
            format!("the changes cannot be kept: {why}"),
        ),
        _ => (
            RefusalKind::Unsupported,
            format!("the kernel makes no overlay over {place} ({why}): leave out --engine kernel"),
        ),
    };
    Refusal::new(kind, text)
}

/// Takes the part back, as soon as no overlay uses it. Returns false if processes outside the run
/// still do after [`END_TIMEOUT`].
///
/// # Errors
/// Those of [`take_part_back`].
pub(crate) fn take_back(
    held: Option<&ViewLock>,
    memory: Option<&MemoryTree>,
) -> Result<bool, Refusal> {
    crate::confine::raise_limits();
    let is_root = rustix::process::geteuid().is_root();
    let is_unused = |used: Vec<PathBuf>| used.is_empty();
    let taken = match (held, memory) {
        // R3
        (Some(held), _) if is_root => return wait_until_unused(held.dir()).map(is_unused),
        (None, Some(memory)) if is_root => return wait_until_unused(&*memory.tree).map(is_unused),
        (Some(held), _) => take_part_back(held.dir(), None, END_TIMEOUT),
        (None, Some(memory)) => take_part_back(&*memory.tree, memory.space.as_ref(), END_TIMEOUT),
        (None, None) => Ok(true),
    };
    taken.map_err(|why| Refusal::step("the changes", why))
}
