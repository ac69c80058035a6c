// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the rules for hidden paths and for patterns of absent names: one set for the root of the
//! view, and one for each mount in it.
//!
//! The rules of a mount begin at its own root. A pattern that begins at the root of the view is
//! followed down to the mount, and the rest of the pattern becomes a rule of the mount.
//!
//! A read-only path is a rule as well: it exists, but no directory above it may be renamed. The
//! mount that protects it would move with the directory, and its path would be free for another
//! file.

use crate::plan::Plan;
use openpath_abi::Errno;
use openpath_commit::{PathBytes, Refusal};
use openpath_vfs::AbsentRules;

/// Matches any number of directories, in a pattern.
const MANY: &[u8] = b"**";

/// The paths and patterns that are absent in a view.
pub(crate) struct Absent {
    /// Patterns of names in any directory.
    names: Vec<Vec<u8>>,
    /// Patterns from the root on, split into names.
    patterns: Vec<Vec<Vec<u8>>>,
    /// Absent paths, split into names.
    paths: Vec<Vec<Vec<u8>>>,
    /// Paths that must not be renamed, split into names.
    stays: Vec<Vec<Vec<u8>>>,
}

impl Absent {
    /// The rules of a plan.
    pub(crate) fn new(plan: &Plan) -> Result<Absent, Refusal> {
        let mut all = Vec::new();
        for glob in &plan.absent {
            all.extend(crate::pattern::expand(glob)?);
        }
        // An invalid pattern is refused before anything is mounted.
        for glob in &all {
            let built = AbsentRules::builder().glob(glob).build();
            built.map_err(|_| {
                let glob = String::from_utf8_lossy(glob);
                Refusal::usage(format!("`{glob}` is no pattern of names or paths"))
            })?;
        }
        let (anchored, names) = all
            .into_iter()
            .partition::<Vec<_>, _>(|glob| glob.contains(&b'/'));
        let absent = Absent {
            names,
            patterns: anchored.iter().map(|glob| parts(glob)).collect(),
            paths: plan.hidden.iter().map(|path| parts(path.bytes())).collect(),
            stays: plan
                .protections()
                .iter()
                .map(|(path, _)| path)
                .chain(plan.enforced.iter().map(|held| &held.place))
                .chain(plan.part.iter().map(|part| &part.place))
                .map(|path| parts(path.bytes()))
                .collect(),
        };
        Ok(absent)
    }

    /// Makes those of the paths that do not exist impossible to create.
    pub(crate) fn forbid(&mut self, paths: &[PathBytes], exists: impl Fn(&PathBytes) -> bool) {
        let missing = paths.iter().filter(|path| !exists(path));
        self.paths.extend(missing.map(|path| parts(path.bytes())));
    }

    /// The first pattern from the root on that matches below `place`, and whether it matches
    /// nowhere else.
    pub(crate) fn reaches_into(
        &self,
        place: &PathBytes,
    ) -> Result<Option<(String, bool)>, Refusal> {
        let place = parts(place.bytes());
        for pattern in &self.patterns {
            let mut rests = Vec::new();
            follow(pattern, &place, &mut rests)?;
            if !rests.is_empty() {
                let only = pattern.len() > place.len() && pattern[..place.len()] == place[..];
                let text = pattern.join(&b'/');
                return Ok(Some((format!("/{}", String::from_utf8_lossy(&text)), only)));
            }
        }
        Ok(None)
    }

    /// Refuses a mount at an absent path.
    pub(crate) fn admits(&self, place: &PathBytes) -> Result<(), Refusal> {
        let Some(rules) = self.below(&PathBytes::root())? else {
            return Ok(());
        };
        let parts = parts(place.bytes());
        let hidden = (1..=parts.len()).any(|length| rules.means(&parts[..length].join(&b'/')));
        if hidden {
            let text = format!("{} is to be there and to be absent", place.path().display());
            return Err(Refusal::usage(text));
        }
        Ok(())
    }

    /// The rules of a mount at `place`; none if no rule applies below it.
    pub(crate) fn below(&self, place: &PathBytes) -> Result<Option<AbsentRules>, Refusal> {
        let place = parts(place.bytes());
        let mut rules = AbsentRules::builder().deny(Errno::EPERM);
        let mut any = false;
        for name in &self.names {
            rules = rules.glob(name);
            any = true;
        }
        for pattern in &self.patterns {
            let mut rests = Vec::new();
            follow(pattern, &place, &mut rests)?;
            for rest in rests {
                rules = rules.glob([b"/", &rest.join(&b'/')[..]].concat());
                any = true;
            }
        }
        for path in &self.paths {
            if let Some(rest) = path
                .strip_prefix(&place[..])
                .filter(|rest| !rest.is_empty())
            {
                rules = rules.path(rest.join(&b'/'));
                any = true;
            }
        }
        for path in &self.stays {
            let rest = path.strip_prefix(&place[..]);
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                rules = rules.stay(rest.join(&b'/'));
                any = true;
            }
        }
        let built = rules.build();
        let built = built.map_err(|why| Refusal::step("the rules of absent names", why))?;
        Ok(any.then_some(built))
    }
}

/// The names of a path or pattern.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    parts
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

/// The rests of `pattern` below `place`, for each way in which its beginning matches.
fn follow(
    pattern: &[Vec<u8>],
    place: &[Vec<u8>],
    rests: &mut Vec<Vec<Vec<u8>>>,
) -> Result<(), Refusal> {
    let Some((name, deeper)) = place.split_first() else {
        let rest = pattern.to_vec();
        if !rest.is_empty() && !rests.contains(&rest) {
            rests.push(rest);
        }
        return Ok(());
    };
    let Some((part, further)) = pattern.split_first() else {
        return Ok(());
    };
    if part == MANY {
        if !further.is_empty() {
            follow(further, place, rests)?;
        }
        return follow(pattern, deeper, rests);
    }
    let rule = AbsentRules::builder().glob(part).build();
    let rule = rule.map_err(|why| Refusal::step("the rules of absent names", why))?;
    if rule.means(name) {
        follow(further, deeper, rests)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Absent;
    use crate::plan::Plan;
    use openpath_commit::PathBytes;
    use std::path::Path;

    fn path(text: &str) -> PathBytes {
        Path::new(text).into()
    }

    fn absent(globs: &[&str], hidden: &[&str]) -> Absent {
        Absent::new(&Plan {
            absent: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            hidden: hidden.iter().map(|hidden| path(hidden)).collect(),
            ..Plan::default()
        })
        .unwrap()
    }

    #[test]
    fn patterns_are_rebased_into_a_mount() {
        let globs = ["*.pem", "home/*/.ssh/**", "/home/u/p/secret", "**/.env"];
        let absent = absent(&globs, &["/home/u/.netrc", "/home/u/p/k"]);
        let root = absent.below(&path("/")).unwrap().unwrap();
        let home = absent.below(&path("/home/u")).unwrap().unwrap();
        let deep = absent.below(&path("/home/u/p")).unwrap().unwrap();
        for name in ["x.pem", "a/.env", ".env", "home/u/.ssh/id", "home/u/.netrc"] {
            assert!(root.means(name.as_bytes()), "{name}");
        }
        for name in [
            "x.pem", ".env", "q/.env", ".ssh/id", ".netrc", "p/secret", "p/k",
        ] {
            assert!(home.means(name.as_bytes()), "{name}");
        }
        assert!(deep.means(b"secret") && deep.means(b"k") && deep.means(b"q/.env"));
        assert!(!deep.means(b"q/secret") && !deep.means(b".netrc"));
    }

    #[test]
    fn mount_in_an_absent_path_is_refused() {
        let absent = absent(&["secret*"], &["/srv/x"]);
        assert!(absent.admits(&path("/srv/y")).is_ok());
        for wrong in ["/srv/x", "/srv/x/y", "/a/secrets/b"] {
            assert!(absent.admits(&path(wrong)).is_err(), "{wrong}");
        }
        assert!(
            Absent::new(&Plan {
                absent: vec!["a/../b".to_owned()],
                ..Plan::default()
            })
            .is_err()
        );
    }

    #[test]
    fn plan_without_rules_has_no_absent_rules() {
        assert!(absent(&[], &[]).below(&path("/")).unwrap().is_none());
        assert!(absent(&[], &["/a"]).below(&path("/b")).unwrap().is_none());
    }
}
