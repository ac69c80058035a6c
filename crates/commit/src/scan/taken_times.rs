// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records before each run when a view took its files from the real tree (R1 of `baseline`), and
//! refuses an upper tree that the kernel's overlay would show otherwise.
//!
//! # Rules
//! R1. The times are recorded before each run, which may replace files in the view.
//! R2. The overlay of the kernel may copy a file that others have replaced in the real tree, since
//!     it keeps names that it has looked up. So the birth of its copy proves nothing: all that is
//!     new after such a run was taken when the run began. That time is recorded before the run, and
//!     counts until the entries have times of their own.
//! R3. Such a time is also a mark of the entry, since a later run can rename a directory above it.
//!     It is looked for in all directories: others may have moved the one beneath away for a while.
//! R4. Where these times cannot be written, as without room, or an entry cannot be compared, the
//!     begin of the earlier run goes on to count. So a commit may find more conflicts, never fewer,
//!     and a run that makes room is possible.

use crate::attributes::clock::file_clock;
use crate::attributes::file_stat::Time;
use crate::host::names::is_below;
use crate::host::tree::Tree;
use crate::host::view_dir::ViewDir;
use crate::journal::records::Records;
use crate::journal::{Bytes, TakenAt};
use crate::report::messages::{failed, public_path};
use crate::report::path_bytes::PathBytes;
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::baseline::{Baseline, is_in_parts};
use crate::scan::places::{self, Places};
use crate::scan::{Entry, EntryKind, Scan};
use openpath_abi::mode;
use openpath_overlay::Marks;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::Path;

/// Records when a view took its files from the real tree, before a run may replace them (R1).
///
/// # Errors
/// It cannot be written: the next run would lose it. A view that cannot be read for this cannot be
/// committed either.
pub fn record_taken(view: &ViewDir) -> Result<(), Refusal> {
    let Ok(Some(Times {
        records,
        upper,
        now,
        before,
        earlier,
    })) = times(view)
    else {
        return Ok(());
    };
    for (path, since) in &earlier {
        match mark(&upper, path, *since) {
            // R4
            Err(Errno::NOSPC | Errno::DQUOT) => return Ok(()),
            done => done.map_err(|why| failed(path, why))?,
        }
    }
    if now != before {
        match TakenAt::write(&records, &now) {
            // R4
            Err(_) if records.begun()?.is_some() => return Ok(()),
            done => done?,
        }
    }
    records.forget_begun()
}

/// Marks an entry with the time when it was taken: the mark moves with it (R3). Files that can have
/// no attributes have their times by their paths alone.
fn mark(upper: &Tree, path: &[u8], (sec, nsec): Time) -> rustix::io::Result<()> {
    let Some(held) = upper.hold(path)? else {
        return Ok(());
    };
    let time = format!("{sec}.{nsec:09}");
    let set = rustix::fs::setxattr(
        held.path(),
        &*upper.mark(b"taken"),
        time.as_bytes(),
        XattrFlags::empty(),
    );
    match set {
        Err(Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
        set => set,
    }
}

/// Records that a run begins now in which the kernel's overlay takes the files (R2), and its places
/// (`places`). `parts`: the directories that the kernel's overlays serve; none: all. The times of
/// earlier runs are recorded already.
///
/// # Errors
/// It cannot be written.
pub fn record_kernel_run(
    view: &ViewDir,
    places: Places<'_>,
    parts: &[PathBytes],
) -> Result<(), Refusal> {
    let records = Records::of(view)?;
    places::record(&records, places)?;
    // Without times of an earlier run its begin still counts.
    let begun = records
        .begun()?
        .map_or(just_before(), |before| before.min(just_before()));
    records.set_begun(begun, parts)
}

/// Refuses an upper tree that the kernel's overlays would show otherwise: they hide devices 0:0,
/// and follow redirects of trusted marks alone, within the root's overlay. At `places` and above
/// them the view must show the directories of the real tree: something is to be mounted there.
/// `mounts`: those of the host, where the root's overlay shows nothing.
///
/// # Errors
/// There is such a file; a place is not shown, or was not kept by an earlier run; the view cannot
/// be read.
pub fn check_kernel_upper(
    view: &ViewDir,
    places: &[PathBytes],
    mounts: &[PathBytes],
) -> Result<(), Refusal> {
    let records = Records::of(view)?;
    let Some(upper) = records.upper_if_any()? else {
        return Ok(());
    };
    places::check(&records)?;
    let baseline = Baseline::new(&records, 0)?;
    let base = Tree::open(Path::new("/"))?;
    let scan = Scan::whole(&base, &upper, &baseline)?;
    let refuse = |entry: &Entry, (before, after): (&str, &str)| {
        let path = public_path(&entry.path);
        let path = path.path().display();
        let text = format!("{before} {path}{after}: go on without --engine kernel");
        Err(Refusal::new(RefusalKind::Unsupported, text))
    };
    let is_above_place = |entry: &&Entry| {
        let path = public_path(&entry.path);
        let above = |place: &PathBytes| is_below(place.bytes(), path.bytes());
        (entry.entry_kind != EntryKind::Merged || entry.is_moved()) && places.iter().any(above)
    };
    if let Some(entry) = scan.entries.iter().find(is_above_place) {
        let what = "the view has removed or replaced";
        return refuse(entry, (what, ", where the kernel has to mount something"));
    }
    let follows = upper.marks == Marks::Trusted;
    let is_shown_otherwise = |entry: &&Entry| {
        let file = &entry.upper_file;
        file.mark("redirect").is_some() && !follows
            || file.stat.is_null_device() && !file.is_whiteout
    };
    if let Some(entry) = scan.entries.iter().find(is_shown_otherwise) {
        let what = "the kernel's overlay cannot show";
        return refuse(
            entry,
            (what, " of this view, a renamed directory or a device 0:0"),
        );
    }
    let touches = |path: &[u8]| {
        let both = |at: &PathBytes| is_below(path, at.bytes()) || is_below(at.bytes(), path);
        mounts.iter().any(both)
    };
    let leads_over_mount = |entry: &&Entry| {
        let from = entry.redirect();
        let from = from.filter(|from| entry.place.as_ref() != Some(from) || *from != entry.path);
        from.is_some_and(|from| touches(&from) || touches(&entry.path))
    };
    match scan.entries.iter().find(leads_over_mount) {
        Some(entry) => {
            let what = "the kernel's overlay cannot show";
            refuse(
                entry,
                (
                    what,
                    ", a directory that was renamed in a mount of the host, from \
                                  or to one",
                ),
            )
        }
        None => Ok(()),
    }
}

/// Refuses an upper tree of which the kernel's overlay would show the part at `part` otherwise: it
/// follows no redirect, knows one owner, and reads no lists and devices of our format. The view
/// must show the directory of the real tree there.
///
/// # Errors
/// There is such a file; the view cannot be read.
pub fn check_kernel_part(view: &ViewDir, part: &PathBytes) -> Result<(), Refusal> {
    let records = Records::of(view)?;
    let Some(upper) = records.upper_if_any()? else {
        return Ok(());
    };
    let baseline = Baseline::new(&records, 0)?;
    let base = Tree::open(Path::new("/"))?;
    let scan = Scan::whole(&base, &upper, &baseline)?;
    let refuse = |entry: &Entry, what: &str| {
        let path = public_path(&entry.path);
        let path = path.path().display();
        let text = format!("{what} {path} of this view: go on without --engine kernel");
        Err(Refusal::new(RefusalKind::Unsupported, text))
    };
    let user = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if let Some(path) = scan
        .unreadable
        .iter()
        .find(|path| is_below(path, part.bytes()))
    {
        let path = public_path(path);
        let path = path.path().display();
        let text = format!(
            "you may not look into the directory of {path} in the real tree: go on without \
             --engine kernel, or `chmod u+rx` it"
        );
        return Err(Refusal::new(RefusalKind::Unsupported, text));
    }
    // Root's overlay knows all owners, and the format is the kernel's.
    let is_root = rustix::process::geteuid().is_root();
    for entry in &scan.entries {
        let (file, path) = (&entry.upper_file, &*entry.path);
        if is_below(part.bytes(), path)
            && !path.is_empty()
            && (entry.entry_kind != EntryKind::Merged || entry.is_moved())
        {
            return refuse(
                entry,
                "the kernel's overlay needs a directory of the real tree at",
            );
        }
        if !is_below(path, part.bytes()) {
            continue;
        }
        let owner = (file.stat.uid, file.stat.gid);
        let is_other = !is_root && owner != user && !file.is_whiteout;
        let is_device = match is_root {
            true => file.stat.is_null_device(),
            false => matches!(file.stat.mode & mode::S_IFMT, mode::S_IFCHR | mode::S_IFBLK),
        };
        let kind = file.stat.mode & mode::S_IFMT;
        let is_linked =
            !is_root && matches!(kind, mode::S_IFIFO | mode::S_IFSOCK) && file.stat.nlink > 1;
        if file.mark("redirect").is_some()
            || is_other
            || !is_root && file.has_acl()
            || is_linked
            || is_device && !file.is_whiteout
        {
            return refuse(entry, "the kernel's overlay cannot show");
        }
    }
    Ok(())
}

/// The latest time that no change of a file from now on has.
fn just_before() -> Time {
    match file_clock() {
        (sec, nsec @ 1..) => (sec, nsec - 1),
        (sec, 0) => (sec - 1, 999_999_999),
    }
}

/// The times at which a view took its files, now and as recorded.
struct Times {
    records: Records,
    now: Vec<TakenAt>,
    before: Vec<TakenAt>,
    /// The entries that tell a later time by themselves.
    earlier: Vec<(Bytes, Time)>,
    upper: Tree,
}

/// `None`: the view has not run yet.
fn times(view: &ViewDir) -> Result<Option<Times>, Refusal> {
    let records = Records::of(view)?;
    let Some(upper) = records.upper_if_any()? else {
        return Ok(None);
    };
    let (begun, parts) = (records.begun()?, records.parts()?);
    let base = Tree::open(Path::new("/"))?;
    let scan = match begun {
        // R3
        Some(_) => Scan::whole(&base, &upper, &Baseline::new(&records, 0)?)?,
        None => Scan::above(&base, &upper)?,
    };
    if !scan.unreadable.is_empty() {
        // R4
        return Ok(None);
    }
    let before = TakenAt::read(&records)?;
    let first: HashMap<_, _> = before
        .iter()
        .map(|taken| (&taken.path, taken.since))
        .collect();
    let mut earlier = Vec::new();
    let of_entry = scan.entries.iter().filter_map(|entry| {
        let first = first.get(&entry.path).copied();
        let begun = begun.filter(|_| is_in_parts(&parts, &entry.path));
        // A directory has not taken the files that it shows, and the overlay of this program
        // records which directory it shows.
        let is_known = first.is_none() && begun.is_none();
        if is_known && (entry.entry_kind == EntryKind::Merged || entry.here.is_none()) {
            return None;
        }
        let since = entry.taken().into_iter().chain(first.or(begun)).min()?;
        if begun.is_some() && entry.taken().is_none_or(|taken| since < taken) {
            earlier.push((entry.path.clone(), since));
        }
        Some(TakenAt {
            path: entry.path.clone(),
            since,
        })
    });
    let now = of_entry.collect();
    Ok(Some(Times {
        records,
        now,
        before,
        earlier,
        upper,
    }))
}
