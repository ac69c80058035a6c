// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the extended attributes of a file and holds them in one block of memory, sorted by name. A
//! commit holds those of all its files at once, and a tree node of the standard library would take
//! half a kilobyte for each.

use crate::stored_bytes::{Bytes, Stored};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The longest list of names, and the longest value.
const XATTR_MAX: usize = 1 << 16;

/// A name and a value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// Names and their values, in the order of names: the length of each (4 bytes) and its bytes, all
/// in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xattrs(Box<[u8]>);

/// The first byte string, and the rest.
fn first(packed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = packed.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Removes an attribute; one that is not there is no error.
pub(crate) fn remove(path: &str, name: &[u8]) -> Result<()> {
    match rustix::fs::removexattr(path, name) {
        Err(Errno::NODATA) => Ok(()),
        done => done,
    }
}

impl Xattrs {
    /// All extended attributes of a descriptor's file, by its path.
    pub(crate) fn read(path: &str) -> Result<Xattrs> {
        // Most files have few or none.
        let mut list = vec![0; 1024];
        let length = match rustix::fs::listxattr(path, &mut list[..]) {
            Err(Errno::OPNOTSUPP) => return Ok(Xattrs::default()),
            Err(Errno::RANGE) => {
                list.resize(XATTR_MAX, 0);
                rustix::fs::listxattr(path, &mut list[..])?
            }
            length => length?,
        };
        if length == 0 {
            return Ok(Xattrs::default());
        }
        let mut all = Vec::new();
        let mut value = vec![0; XATTR_MAX];
        let names = list[..length].split(|byte| *byte == 0);
        for name in names.filter(|name| !name.is_empty()) {
            match rustix::fs::getxattr(path, name, &mut value[..]) {
                // It was removed, or this user may not read it.
                Err(Errno::NODATA | Errno::ACCESS | Errno::PERM | Errno::OPNOTSUPP) => {}
                // A copy of its length: all files of a commit are held in memory at once.
                length => {
                    all.push((name.into(), value[..length?].into()));
                }
            }
        }
        Ok(all.into_iter().collect())
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let mut all = self.iter();
        all.find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (name, after) = first(rest)?;
            let (value, after) = first(after)?;
            rest = after;
            Some((name, value))
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|(name, _)| name)
    }

    /// Gives a name a value.
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let pairs = self.iter().chain([(name, value)]);
        let pairs = pairs.map(|(name, value)| (name.into(), value.into()));
        *self = pairs.collect();
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        let pairs = self.iter().filter(|(known, _)| *known != name);
        let pairs = pairs.map(|(name, value)| (name.into(), value.into()));
        *self = pairs.collect();
    }
}

/// The last value of each name counts.
impl FromIterator<Pair> for Xattrs {
    fn from_iter<T: IntoIterator<Item = Pair>>(pairs: T) -> Xattrs {
        let pairs: BTreeMap<_, _> = pairs.into_iter().collect();
        let mut packed = Vec::new();
        for bytes in pairs.iter().flat_map(|(name, value)| [name, value]) {
            // No name and no value has more than 64 KiB; a longer one of a damaged record is cut.
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            packed.extend_from_slice(&length.to_le_bytes());
            packed.extend_from_slice(&bytes[..length as usize]);
        }
        Xattrs(packed.into_boxed_slice())
    }
}

/// Keys in JSON are text, which names need not be.
impl Serialize for Xattrs {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_seq(
            self.iter()
                .map(|(name, value)| (Stored(name), Stored(value))),
        )
    }
}

impl<'d> Deserialize<'d> for Xattrs {
    fn deserialize<D: Deserializer<'d>>(from: D) -> std::result::Result<Xattrs, D::Error> {
        let pairs = Vec::<(Stored<Bytes>, Stored<Bytes>)>::deserialize(from)?;
        let pairs = pairs.into_iter();
        Ok(pairs
            .map(|(name, value)| ((*name.0).into(), (*value.0).into()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Xattrs;

    #[test]
    fn values_are_found_replaced_and_removed_by_name() {
        let pair = |name: &str, value: &str| (name.as_bytes().into(), value.as_bytes().into());
        let mut all: Xattrs = [pair("b", "1"), pair("a", "2"), pair("b", "3")]
            .into_iter()
            .collect();
        assert_eq!(all.get(b"b"), Some(&b"3"[..]));
        all.insert(b"aa", b"4");
        all.insert(b"a", b"5");
        all.remove(b"b");
        all.remove(b"none");
        let pairs: Vec<_> = all.iter().collect();
        assert_eq!(pairs, [(&b"a"[..], &b"5"[..]), (b"aa", b"4")]);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"[["a","5"],["aa","4"]]"#);
        for text in [&text[..], r#"[[[97],[53]],[[97,97],"4"]]"#] {
            assert_eq!(serde_json::from_str::<Xattrs>(text).unwrap(), all, "{text}");
        }
    }
}
