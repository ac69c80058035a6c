// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines rules of absent names for a mount: names that do not exist in it and cannot be made
//! there, and paths that must stay.
//!
//! # Kernel analogue
//! None: masking a path takes a mount over it, which can be seen and must exist.
//!
//! # Patterns
//! A pattern without a slash matches a name in any directory; one with a slash matches a path from
//! the root of the mount that the rules were given to. `**` between slashes stands for any number
//! of directories, none included; at the end for everything below. `*`, `?` and `[..]` stay within
//! a name and match any byte, a leading dot too; `\` comes before a literal character. Braces are
//! refused unless they are escaped.
//!
//! # Guarantees
//! G1. No path through the mount finds a name that a rule matches, whatever is cached,
//!     `RESOLVE_CACHED` included; nothing below it is found either. No entry is made for it.
//!     Listing does not show it. Making it fails with the errno of the rules; removing or moving
//!     it, with `ENOENT`.
//! G2. A rule for names in any directory looks at the name alone: no race changes its answer.
//! G3. A rule with a slash looks at the place of the directory at one moment between the beginning
//!     and the end of the step. A directory that moves meanwhile has moved before the step or after
//!     it.
//! G4. No directory moves to where a rule with a slash matches more or less below it (`EXDEV`, as
//!     between mounts). So no absent file comes back, and none comes to lie where it could not be
//!     made.
//! G5. A copy of the mount (bind, copy of a namespace) has the same rules, and they begin at the
//!     same directory. Another mount of the tree has not. Open files and working directories keep
//!     their files; paths from them are checked at each name, as all are.
//! G6. A path that must stay is neither removed nor renamed nor replaced (`EBUSY`, as a mount
//!     point), and no directory on the way to it moves (`EXDEV`).
//!
//! # Cost
//! A mount without rules costs nothing: the plain lane reads the flag with the one that says
//! whether the mount is steady, and the walk leaves its straight path when it enters a mount with
//! the flag.

mod glob;

use glob::{Glob, sweep};
use openpath_abi::Errno;
use std::sync::Arc;

/// The names that do not exist in a mount. See the head of this module.
///
/// ```
/// use openpath_abi::Errno;
/// use openpath_vfs::AbsentRules;
/// let rules = AbsentRules::builder()
///     .glob(b"*.pem")
///     .glob(b"home/*/.ssh/**")
///     .path(b"etc/shadow")
///     .deny(Errno::EPERM)
///     .build()?;
/// assert!(rules.means(b"etc/shadow") && rules.means(b"a/b/key.pem"));
/// assert!(!rules.means(b"backup/etc/shadow"));
/// # Ok::<(), Errno>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentRules(Arc<Rules>);

/// The rules of one mount.
pub(crate) struct MountRules {
    pub(crate) rules: AbsentRules,
    /// The directory that patterns with a slash begin at.
    pub(crate) anchor: u32,
}

#[derive(Debug, PartialEq, Eq)]
struct Rules {
    /// Names in any directory, sorted.
    names: Vec<Box<[u8]>>,
    /// Patterns of names in any directory.
    globs: Vec<Glob>,
    /// Patterns that begin at the root.
    anchored: Vec<Anchored>,
    /// Paths that must stay, with the directories on the way.
    stays: Vec<Anchored>,
    deny: Errno,
}

/// A pattern of a path.
#[derive(Debug, PartialEq, Eq)]
struct Anchored {
    /// For the directories.
    dirs: Box<[Part]>,
    /// For the last name.
    last: Glob,
}

/// A pattern of one part of a path.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Any number of directories.
    Many,
    /// One directory.
    One(Glob),
}

/// Makes [`AbsentRules`].
#[derive(Clone, Debug)]
pub struct AbsentRulesBuilder {
    globs: Vec<Vec<u8>>,
    paths: Vec<Vec<u8>>,
    stays: Vec<Vec<u8>>,
    deny: Errno,
}

impl AbsentRules {
    /// No rules yet; the errno for making an absent name is `EACCES`.
    #[must_use]
    pub fn builder() -> AbsentRulesBuilder {
        AbsentRulesBuilder {
            globs: Vec::new(),
            paths: Vec::new(),
            stays: Vec::new(),
            deny: Errno::EACCES,
        }
    }

    /// Whether a rule matches `path`, from the root of the mount on; slashes at its ends do not
    /// count.
    #[must_use]
    pub fn means(&self, path: &[u8]) -> bool {
        let mut dirs: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
        dirs.retain(|part| !part.is_empty());
        let Some(name) = dirs.pop() else { return false };
        self.means_name(name) || self.may_mean(name) && self.means_at(&dirs, name)
    }

    /// The errno for making an absent name.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.0.deny
    }

    /// Whether the name is absent wherever it is.
    pub(crate) fn means_name(&self, name: &[u8]) -> bool {
        let Rules { names, globs, .. } = &*self.0;
        names.binary_search_by(|n| (**n).cmp(name)).is_ok()
            || globs.iter().any(|glob| glob.matches(name))
    }

    /// Whether it is absent in some directory.
    pub(crate) fn may_mean(&self, name: &[u8]) -> bool {
        self.0.anchored.iter().any(|rule| rule.last.matches(name))
    }

    /// Whether it is absent in the directory that these names lead to from the root.
    pub(crate) fn means_at<D: AsRef<[u8]>>(&self, dirs: &[D], name: &[u8]) -> bool {
        let many = |part: &Part| *part == Part::Many;
        let meets = |part: &Part, dir: &D| match part {
            Part::Many => false,
            Part::One(glob) => glob.matches(dir.as_ref()),
        };
        let mut rules = self.0.anchored.iter();
        rules.any(|rule| rule.last.matches(name) && sweep(&rule.dirs, dirs, many, meets))
    }

    /// Whether the rules match the same below a directory whether the names `old` or `new` lead to
    /// it, and no path that must stay is below it.
    pub(crate) fn let_move<D: AsRef<[u8]>>(&self, old: &[D], new: &[D]) -> bool {
        let Rules {
            anchored, stays, ..
        } = &*self.0;
        anchored
            .iter()
            .all(|rule| rule.reached(old) == rule.reached(new))
            && stays.iter().all(|rule| {
                let (before, after) = (rule.reached(old), rule.reached(new));
                before.iter().zip(&after).all(|(was, is)| !was || *is)
            })
    }

    /// Whether a path with this last name stays.
    pub(crate) fn may_stay(&self, name: &[u8]) -> bool {
        self.0.stays.iter().any(|rule| rule.last.matches(name))
    }

    /// Whether the name stays in the directory that these names lead to from the root.
    pub(crate) fn stays_at<D: AsRef<[u8]>>(&self, dirs: &[D], name: &[u8]) -> bool {
        let is_at = |rule: &Anchored| {
            rule.last.matches(name) && rule.reached(dirs).last().is_some_and(|is_next| *is_next)
        };
        self.0.stays.iter().any(is_at)
    }
}

impl AbsentRulesBuilder {
    /// Makes the names that this pattern matches absent.
    #[must_use]
    pub fn glob(mut self, pattern: impl AsRef<[u8]>) -> Self {
        self.globs.push(pattern.as_ref().to_vec());
        self
    }

    /// Makes this path absent, from the root of the mount on; its bytes are literal.
    #[must_use]
    pub fn path(mut self, path: impl AsRef<[u8]>) -> Self {
        self.paths.push(path.as_ref().to_vec());
        self
    }

    /// Keeps this path in place, from the root of the mount on: it is neither removed nor renamed
    /// nor replaced, and no directory on the way to it moves.
    #[must_use]
    pub fn stay(mut self, path: impl AsRef<[u8]>) -> Self {
        self.stays.push(path.as_ref().to_vec());
        self
    }

    /// Sets the errno for making an absent name.
    #[must_use]
    pub fn deny(mut self, errno: Errno) -> Self {
        self.deny = errno;
        self
    }

    /// The rules.
    ///
    /// # Errors
    /// `EINVAL`, if any of these holds:
    /// * the errno is neither `EACCES` nor `EPERM`;
    /// * a pattern or path is empty, ends in a slash, or has `.`, `..` or nothing between slashes;
    /// * a pattern has a `[` without its `]`, a `\` before a slash or at the end, or a brace that
    ///   is not escaped.
    pub fn build(self) -> Result<AbsentRules, Errno> {
        if !matches!(self.deny, Errno::EACCES | Errno::EPERM) {
            return Err(Errno::EINVAL);
        }
        let mut rules = Rules {
            names: Vec::new(),
            globs: Vec::new(),
            anchored: Vec::new(),
            stays: Vec::new(),
            deny: self.deny,
        };
        for pattern in &self.globs {
            let (dirs, last) = parts_of(pattern)?;
            if !dirs.iter().chain([&last]).all(|part| Glob::is_sound(part)) {
                return Err(Errno::EINVAL);
            }
            if pattern.contains(&b'/') {
                rules.anchored.push(Anchored::of_glob((&dirs, last)));
                continue;
            }
            match Glob::new(pattern) {
                Glob::Exact(name) => rules.names.push(name),
                glob => rules.globs.push(glob),
            }
        }
        for path in &self.paths {
            let (dirs, last) = parts_of(path)?;
            rules.anchored.push(Anchored::of_path((&dirs, last)));
        }
        for path in &self.stays {
            let (dirs, last) = parts_of(path)?;
            rules.stays.push(Anchored::of_path((&dirs, last)));
        }
        rules.names.sort();
        rules.names.dedup();
        Ok(AbsentRules(Arc::new(rules)))
    }
}

/// The directories and the last name of a pattern or path; a slash in front only says that it
/// begins at the root.
fn parts_of(text: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), Errno> {
    let text = text.strip_prefix(b"/").unwrap_or(text);
    let mut parts: Vec<&[u8]> = text.split(|&b| b == b'/').collect();
    let odd = |part: &&[u8]| matches!(*part, b"" | b"." | b"..");
    if parts.iter().any(odd) {
        return Err(Errno::EINVAL);
    }
    let last = parts.pop().ok_or(Errno::EINVAL)?;
    Ok((parts, last))
}

impl Anchored {
    fn of_glob((dirs, last): (&[&[u8]], &[u8])) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let mut push = |part: &[u8]| {
            if part != b"**" {
                parts.push(Part::One(Glob::new(part)));
            } else if parts.last() != Some(&Part::Many) {
                parts.push(Part::Many);
            }
        };
        dirs.iter().for_each(|dir| push(dir));
        if last == b"**" {
            // Everything below, not the directory itself.
            push(last);
        }
        Self {
            last: Glob::new(last),
            dirs: parts.into(),
        }
    }

    fn of_path((dirs, last): (&[&[u8]], &[u8])) -> Self {
        let dirs = dirs.iter().map(|part| Part::One(Glob::exact(part)));
        Self {
            dirs: dirs.collect(),
            last: Glob::exact(last),
        }
    }

    /// How far these directories may have led in the pattern: for each of its parts, and for the
    /// last name, whether it may be the next.
    fn reached<D: AsRef<[u8]>>(&self, dirs: &[D]) -> Vec<bool> {
        let mut reached = vec![false; self.dirs.len() + 1];
        reached[0] = true;
        self.pass_many(&mut reached);
        for dir in dirs {
            let mut next = vec![false; reached.len()];
            for (at, part) in self.dirs.iter().enumerate() {
                match part {
                    Part::Many => next[at] |= reached[at],
                    Part::One(glob) => next[at + 1] |= reached[at] && glob.matches(dir.as_ref()),
                }
            }
            self.pass_many(&mut next);
            reached = next;
        }
        reached
    }

    /// Any number of directories may be none.
    fn pass_many(&self, reached: &mut [bool]) {
        for (at, part) in self.dirs.iter().enumerate() {
            reached[at + 1] |= *part == Part::Many && reached[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(globs: &[&str], paths: &[&str]) -> AbsentRules {
        let mut builder = AbsentRules::builder();
        for glob in globs {
            builder = builder.glob(glob);
        }
        for path in paths {
            builder = builder.path(path);
        }
        builder.build().expect("rules")
    }

    #[test]
    fn slashes_anchor_and_stars_between_them_span() {
        for (glob, means, not) in [
            ("*.pem", &["a.pem", "x/y/a.pem"][..], &["a.pem/x"][..]),
            ("secret", &["secret", "a/secret"], &["secret/x", "secrets"]),
            ("/top", &["top"], &["a/top"]),
            ("etc/*.d", &["etc/x.d"], &["x.d", "a/etc/x.d", "etc/a/x.d"]),
            (
                "a/**/z",
                &["a/z", "a/b/z", "a/b/c/z"],
                &["z", "a/b", "b/a/z"],
            ),
            ("**/z", &["z", "a/z", "a/b/z"], &["z/a"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b"]),
            ("a/**/b/**/c", &["a/b/c", "a/x/b/y/b/c"], &["a/c", "b/c"]),
            ("**/**", &["a", "a/b"], &[]),
            ("h/*/.ssh/**", &["h/u/.ssh/id"], &["h/u/.ssh", "h/.ssh/id"]),
        ] {
            let rules = rules(&[glob], &[]);
            for path in means {
                assert!(rules.means(path.as_bytes()), "{glob} {path}");
            }
            for path in not {
                assert!(!rules.means(path.as_bytes()), "{glob} {path}");
            }
        }
    }

    #[test]
    fn a_path_is_itself() {
        let rules = rules(&[], &["etc/shadow", "*", "/a/[b]"]);
        assert!(rules.means(b"etc/shadow") && rules.means(b"*") && rules.means(b"a/[b]"));
        assert!(!rules.means(b"x") && !rules.means(b"a/b") && !rules.means(b"x/etc/shadow"));
    }

    #[test]
    fn directory_moves_only_to_where_the_same_is_meant() {
        let globs = ["*.pem", "home/*/.ssh/**", "**/.env", "a/**/b/c"];
        let rules = rules(&globs, &["etc/shadow"]);
        let AbsentRules(mut inner) = rules;
        let stays = Arc::get_mut(&mut inner).expect("no other");
        stays.stays.push(Anchored::of_path((&[b"ro"], b"x")));
        let rules = AbsentRules(inner);
        for (old, new, may) in [
            ("etc", "etd", false),
            ("etc", "x/etc", false),
            ("x/etc", "etc", false),
            ("x/etc", "y", true),
            ("etc/deep", "deep", true),
            ("home", "house", false),
            ("home/u", "home/v", true),
            ("home/u", "u", false),
            ("home/u/.ssh", "home/u/ssh", false),
            ("home/u/.ssh", "home/v/.ssh", true),
            ("home/u/work", "work", true),
            ("a", "b", false),
            ("a/x/b", "a/b", true),
            ("q", "home", false),
            ("a/x/b", "a/c", false),
            ("a/x", "a/y/z", true),
            ("x", "a/y", false),
            ("ro", "rw", false),
            ("ro/x", "x", true),
            ("p", "q", true),
        ] {
            let parts = |path: &'static str| path.split('/').collect::<Vec<_>>();
            assert_eq!(rules.let_move(&parts(old), &parts(new)), may, "{old} {new}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let build = AbsentRulesBuilder::build;
        let none = AbsentRules::builder;
        for builder in [
            none().glob(b""),
            none().glob(b"a//b"),
            none().glob(b"a/"),
            none().glob(b"[ab"),
            none().glob(b"[a/b]"),
            none().glob(b"a\\"),
            none().glob(b"{k,z}.pem"),
            none().glob(b"a/b}/c"),
            none().path(b"a/../b"),
            none().path(b"/"),
            none().deny(Errno::ENOENT),
        ] {
            assert_eq!(build(builder), Err(Errno::EINVAL));
        }
        assert!(build(none().deny(Errno::EPERM)).is_ok());
        assert!(build(none().glob(br"\{k,z\}[{\]}]\[").path(b"{[")).is_ok());
    }
}
