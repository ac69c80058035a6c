// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses and records the prefix of the overlay's marks (attributes such as redirects) in the
//! upper tree of a view.
//!
//! # Rules
//! R1. A view of root has marks `trusted.overlay.*` where the process may set them, and the kernel
//!     shows them to no other user. Other views, and those of older versions, have
//!     `user.overlay.*`, which any user can set on own files of the real tree: there the kernel
//!     takes them for its own.
//! R2. The prefix is recorded before there is an upper tree, and stays. It cannot be found from the
//!     tree: a command can set attributes of the other prefix.
//! R3. The directory of a view with trusted marks has an attribute of that kind. A process that
//!     does not see it would see no mark either, and is refused.

use crate::host::view_dir::ViewDir;
use crate::report::refusal::{Refusal, RefusalKind};
use openpath_overlay::Marks;
use rustix::io::Errno;
use std::io;

/// The record, in the directory of a view.
pub(crate) const MARKS: &str = "marks";
/// What it says of trusted marks; without a record the marks are those of any user.
const TRUSTED: &[u8] = b"trusted\n";
/// The attribute by which a process knows that it sees trusted ones (R3).
const SEEN: &str = "trusted.openpath.marks";

/// Lets the directory at a path show that a process sees trusted attributes.
///
/// # Errors
/// Those of setxattr(2): the process, or the file system, has no such attributes.
pub fn set_trusted(path: &str) -> rustix::io::Result<()> {
    rustix::fs::setxattr(path, SEEN, b"y", rustix::fs::XattrFlags::empty())
}

/// The marks of a view, which are chosen if it has no changes yet (R1). The view is locked.
///
/// # Errors
/// Those of [`marks_of`]; the record cannot be written.
pub fn choose_marks(view: &ViewDir) -> Result<Marks, Refusal> {
    let failed = |why: io::Error| view.failed(why);
    let is_new = !view.has(MARKS).map_err(failed)? && !view.has("upper").map_err(failed)?;
    if is_new && rustix::process::geteuid().is_root() && set_trusted(&view.proc_path()).is_ok() {
        view.replace(MARKS, TRUSTED).map_err(failed)?;
    }
    marks_of(view)
}

/// The marks of a view.
///
/// # Errors
/// This process does not see them (R3); the record cannot be read.
pub fn marks_of(view: &ViewDir) -> Result<Marks, Refusal> {
    let record = view.read(MARKS, TRUSTED.len() as u64);
    match record.map_err(|why| view.failed(why))?.as_deref() {
        None => return Ok(Marks::User),
        Some(TRUSTED) => {}
        Some(_) => return Err(view.failed(format!("{MARKS} is damaged"))),
    }
    match rustix::fs::getxattr(view.proc_path(), SEEN, &mut [0; 1][..]) {
        Ok(_) => Ok(Marks::Trusted),
        Err(Errno::NODATA | Errno::PERM | Errno::OPNOTSUPP) => {
            let text = format!(
                "{} keeps its changes with attributes trusted.*, which are not to be seen here: \
                 go on as root of the machine, outside of containers, and copy views with their \
                 extended attributes",
                view.path().display()
            );
            Err(Refusal::new(RefusalKind::Unsupported, text))
        }
        Err(why) => Err(view.failed(why)),
    }
}
