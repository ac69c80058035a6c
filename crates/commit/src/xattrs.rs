// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes of a file, in little memory: a commit holds those of all its files at once,
//! and a tree node of the standard library would take half a kilobyte for each.

use crate::stored_bytes::{Bytes, Stored};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name and a value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// Names and their values, in the order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xattrs(Box<[Pair]>);

impl Xattrs {
    /// The value of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(name).ok().map(|at| &*self.0[at].1)
    }

    pub(crate) fn contains_key(&self, name: &[u8]) -> bool {
        self.find(name).is_ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|(name, _)| name)
    }

    /// Gives a name a value.
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        match self.find(name) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => {
                let mut pairs = std::mem::take(&mut self.0).into_vec();
                pairs.insert(at, (name.into(), value.into()));
                self.0 = pairs.into_boxed_slice();
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Ok(at) = self.find(name) {
            let mut pairs = std::mem::take(&mut self.0).into_vec();
            pairs.remove(at);
            self.0 = pairs.into_boxed_slice();
        }
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl IntoIterator for Xattrs {
    type Item = Pair;
    type IntoIter = std::vec::IntoIter<Pair>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

/// The last value of each name counts.
impl FromIterator<Pair> for Xattrs {
    fn from_iter<T: IntoIterator<Item = Pair>>(pairs: T) -> Xattrs {
        let mut pairs: Vec<Pair> = pairs.into_iter().collect();
        pairs.reverse();
        // Stable, so the last of equal names is the first of them now.
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|a, b| a.0 == b.0);
        Xattrs(pairs.into_boxed_slice())
    }
}

/// Keys in JSON are text, which names need not be.
impl Serialize for Xattrs {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            self.iter()
                .map(|(name, value)| (Stored(name), Stored(value))),
        )
    }
}

impl<'d> Deserialize<'d> for Xattrs {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Xattrs, D::Error> {
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
