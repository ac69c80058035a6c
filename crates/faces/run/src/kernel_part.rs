// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lends a part of an ordinary user's view to the kernel's overlay, and takes it back. This runs in
//! the server, which serves the rest of the view meanwhile.
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

use crate::kernel_overlay::mounts::UpperTree;
use crate::plan::Part;
use crate::view::View;
use openpath_commit::{Places, Refusal, RefusalKind, ViewLock, lend_part, take_part_back};
use openpath_overlay::Marks;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// How long the kernel may take to end an overlay that no process uses any more.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A tree in memory for the changes, and the user namespace of its mount.
pub(crate) struct MemoryTree {
    pub(crate) tree: Arc<OwnedFd>,
    pub(crate) space: OwnedFd,
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
    view.lend(&part.place)?;
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

/// Lends the part of a view in memory.
///
/// # Errors
/// The kernel refuses overlays here; there is no memory.
pub(crate) fn lend_in_memory(part: &Part, view: &View, memory: &MemoryTree) -> Result<(), Refusal> {
    view.lend(&part.place)?;
    let lent = lend_part(&*memory.tree, part.path(), Some(&memory.space));
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
    let taken = match (held, memory) {
        (Some(held), _) => take_part_back(held.dir(), None, END_TIMEOUT),
        (None, Some(memory)) => take_part_back(&*memory.tree, Some(&memory.space), END_TIMEOUT),
        (None, None) => Ok(true),
    };
    taken.map_err(|why| Refusal::step("the changes", why))
}
