// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens the paths of rules without following symbolic links, and refuses a rule whose path has a
//! link in the view.
//!
//! Paths of a plan have no links: they were resolved when the run began. A link on such a path was
//! made afterwards, by a command of another run in the real tree, or by an earlier command of the
//! same view in its changes. The user did not choose its target.
//!
//! # Kernel analogue
//! openat2(2) with `RESOLVE_NO_SYMLINKS`.

use crate::plan::{Plan, Upper};
use openpath_commit::{PathBytes, Refusal};
use openpath_vfs::Task;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::path::Path;

/// Opens a path of a plan with `O_PATH`.
///
/// # Errors
/// `ELOOP`: there is a link on the way or at its end; those of openat2(2).
pub(crate) fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    // With these flags the kernel opens a link at the end itself. Unlike fstat(2), readlinkat(2) of
    // anything else asks no server, which may be gone.
    match rustix::fs::readlinkat(&place, "", Vec::new()) {
        Err(Errno::NOENT) => Ok(place),
        Err(why) => Err(why),
        Ok(_) => Err(Errno::LOOP),
    }
}

/// Checks that a rule has no link on its path in the view of `task`; `option` and `path` are the
/// rule.
///
/// # Errors
/// There is a link on the way or at its end.
pub(crate) fn check(task: &Task, plan: &Plan, option: &str, path: &Path) -> Result<(), Refusal> {
    check_as(
        (task, plan),
        &format!("{option} {}", path.display()),
        path,
        true,
    )
}

/// Whether the view has links exactly where the real tree has them: no earlier run has changed it,
/// and no other tree is mounted in it.
fn has_links_of_host(plan: &Plan) -> bool {
    matches!(plan.upper, Upper::Memory { .. }) && plan.extra.is_empty()
}

/// The same for all hidden paths, and for the directories that patterns name. A hidden path may be
/// a link itself if it is one in the real tree: then the plan hides its target too.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn check_hidden(task: &Task, plan: &Plan) -> Result<(), Refusal> {
    for path in plan.hidden.iter().map(PathBytes::path) {
        let rule = format!("--hide {}", path.display());
        check_as((task, plan), &rule, path, !path.is_symlink())?;
    }
    for glob in plan.absent.iter().filter(|glob| glob.starts_with('/')) {
        if let Some((dir, _)) = crate::pattern::plain(glob) {
            check_as((task, plan), &format!("--absent {glob}"), &dir, true)?;
        }
    }
    Ok(())
}

fn check_as(
    (task, plan): (&Task, &Plan),
    rule: &str,
    path: &Path,
    to_the_end: bool,
) -> Result<(), Refusal> {
    let end = path.parent().filter(|_| !to_the_end).unwrap_or(path);
    // A lookup in the view would have the kernel watch each directory on the way.
    if has_links_of_host(plan) && !matches!(open(end), Err(Errno::LOOP)) {
        return Ok(());
    }
    let mut way: Vec<_> = path.ancestors().skip(usize::from(!to_the_end)).collect();
    // Outer directories first: nothing below a link is looked at.
    way.reverse();
    let is_link = |path: &&&Path| task.readlink(PathBytes::from(**path).bytes()).is_ok();
    match way.iter().find(is_link) {
        None => Ok(()),
        Some(link) => Err(Refusal::usage(format!(
            "{rule} cannot hold: {} is a symbolic link in the view: name what it leads to, or \
             leave the rule out",
            link.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::open;
    use rustix::io::Errno;
    use std::os::unix::fs::symlink;

    #[test]
    fn path_with_a_link_is_not_opened() {
        let dir = std::env::temp_dir().join(format!("openpath-links-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real/deep")).unwrap();
        let dir = dir.canonicalize().unwrap();
        symlink("real", dir.join("link")).unwrap();
        symlink("/", dir.join("out")).unwrap();
        assert!(open(&dir.join("real/deep")).is_ok());
        for link in ["link", "link/deep", "out", "out/etc"] {
            assert_eq!(open(&dir.join(link)).unwrap_err(), Errno::LOOP, "{link}");
        }
        assert_eq!(open(&dir.join("none")).unwrap_err(), Errno::NOENT);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
