// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a guest's path is taken apart: what is walked, and the one name that a call is about.
//!
//! # Kernel analogue
//! `filename_parentat`.
//!
//! # Rules
//! R1. What is walked is walked by the engine under `RESOLVE_BENEATH`; nothing here decides whether
//!     a path leads out.
//! R2. The name that is left is neither `..` nor empty, so that a call on it stays in its directory
//!     by itself.

use openpath_abi::Errno;
use openpath_abi::limits::PATH_MAX;

/// A path, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Split<'a> {
    /// The directory that is walked to; empty for the one that the path begins at.
    pub(super) dir: &'a [u8],
    /// What is in it, with the slashes that followed it.
    pub(super) name: &'a [u8],
}

/// What a slash behind the last name means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    /// The name itself, which has to be a directory: calls that make, remove and move names.
    Named,
    /// What the name leads to: calls that look a file up.
    Followed,
}

/// Refuses what no call takes, before it is copied.
///
/// # Errors
/// `ENAMETOOLONG`, `ENOENT` (empty), `EINVAL` (a zero byte, which ends a path elsewhere).
pub(super) fn check(path: &[u8]) -> Result<(), Errno> {
    if path.len() >= PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    if path.contains(&0) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Takes `path`, which is not empty, apart.
pub(super) fn split(path: &[u8], slash: Slash) -> Split<'_> {
    let here = Split {
        dir: path,
        name: b".",
    };
    let Some(end) = path.iter().rposition(|&byte| byte != b'/') else {
        return here;
    };
    let begin = path[..=end].iter().rposition(|&byte| byte == b'/');
    let begin = begin.map_or(0, |slash| slash + 1);
    let (dir, name) = path.split_at(begin);
    let has_slash = end + 1 < path.len();
    match &path[begin..=end] {
        b".." => here,
        _ if has_slash && slash == Slash::Followed => here,
        _ => Split { dir, name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str, slash: Slash) -> (String, String) {
        let Split { dir, name } = split(path.as_bytes(), slash);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(dir), text(name))
    }

    #[test]
    fn the_last_name_is_never_one_that_leads_out() {
        let cases = [
            ("a", "", "a"),
            ("a/b", "a/", "b"),
            ("/a", "/", "a"),
            ("a/", "", "a/"),
            ("a/b//", "a/", "b//"),
            (".", "", "."),
            ("a/.", "a/", "."),
            ("..", "..", "."),
            ("../", "../", "."),
            ("a/..", "a/..", "."),
            ("/", "/", "."),
            ("//", "//", "."),
            ("...", "", "..."),
        ];
        for (path, dir, name) in cases {
            let want = (dir.to_owned(), name.to_owned());
            assert_eq!(parts(path, Slash::Named), want, "{path}");
        }
        assert_eq!(parts("a/b/", Slash::Followed), ("a/b/".into(), ".".into()));
    }

    #[test]
    fn what_no_call_takes_is_refused_at_once() {
        assert_eq!(check(b""), Err(Errno::ENOENT));
        assert_eq!(check(b"a\0b"), Err(Errno::EINVAL));
        assert_eq!(check(&[b'a'; PATH_MAX]), Err(Errno::ENAMETOOLONG));
        assert_eq!(check(&[b'a'; PATH_MAX - 1]), Ok(()));
    }
}
