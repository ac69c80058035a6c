// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remembers the latest names that files left, with the group, access control list and mode of each
//! of those files, for a new file that gets the name.

use openpath_vfs::Acl;
use std::collections::VecDeque;

/// How many names are remembered.
const MAX: usize = 64;

/// What decides who may access a file and is not presented to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HiddenAccess {
    pub(crate) gid: u32,
    pub(crate) acl: Option<Acl>,
    /// The permission and set-id bits as presented.
    pub(crate) mode: u32,
}

/// Of a new file that got group or list of a replaced one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inherited {
    /// The group that it had before.
    pub(crate) gid: u32,
    /// The list that it had before.
    pub(crate) acl: Option<Acl>,
    /// The group and set-id bits that it may have.
    pub(crate) allowed: u32,
}

struct LeftName {
    dir: u64,
    name: Vec<u8>,
    was: HiddenAccess,
    /// The node of the new file that has the name now.
    by: Option<u64>,
}

/// The names, the latest last.
#[derive(Default)]
pub(crate) struct LeftNames(VecDeque<LeftName>);

impl LeftNames {
    pub(crate) fn add(&mut self, (dir, name): (u64, &[u8]), was: HiddenAccess) {
        self.take((dir, name));
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        let name = name.to_vec();
        let by = None;
        self.0.push_back(LeftName { dir, name, was, by });
    }

    /// A new file has the name.
    pub(crate) fn fill(&mut self, (dir, name): (u64, &[u8]), number: u64) {
        let mut all = self.0.iter_mut();
        if let Some(left) = all.find(|left| left.dir == dir && left.name == name) {
            left.by = Some(number);
        }
    }

    pub(crate) fn take(&mut self, (dir, name): (u64, &[u8])) -> Option<HiddenAccess> {
        let mut all = self.0.iter();
        let at = all.position(|left| left.dir == dir && left.name == name)?;
        self.0.remove(at).map(|left| left.was)
    }

    /// What the file had whose name a new file has.
    pub(crate) fn filled_by(&self, number: u64) -> Option<&HiddenAccess> {
        let mut all = self.0.iter();
        let left = all.find(|left| left.by == Some(number));
        left.map(|left| &left.was)
    }

    /// A new file has no claim to its name any more, or a directory is gone: another one may get
    /// its number.
    pub(crate) fn forget(&mut self, number: u64) {
        self.0
            .retain(|left| left.by != Some(number) && left.dir != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_names_are_remembered_until_they_are_taken() {
        let was = |gid| HiddenAccess {
            gid,
            acl: None,
            mode: 0o640,
        };
        let mut names = LeftNames::default();
        for gid in 0..=MAX as u32 {
            names.add((1, gid.to_string().as_bytes()), was(gid));
        }
        assert_eq!(names.take((1, b"0")), None);
        names.add((1, b"2"), was(200));
        names.fill((1, b"2"), 7);
        names.fill((2, b"3"), 8);
        assert_eq!(names.filled_by(7), Some(&was(200)));
        assert_eq!(names.filled_by(8), None);
        names.forget(7);
        assert_eq!(names.take((1, b"2")), None);
        assert_eq!(names.take((1, b"3")), Some(was(3)));
        assert_eq!(names.take((1, b"3")), None);
        names.forget(1);
        assert_eq!(names.take((1, b"4")), None);
    }
}
