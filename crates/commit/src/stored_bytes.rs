// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores byte strings in records: as text where they are UTF-8, else as a list of numbers.
//!
//! A list of numbers takes four times the room of text, and a commit of many files stores several
//! paths for each. Records of older versions have lists of numbers only; both are read.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::rc::Rc;

/// A path, from the root of its tree. A commit holds several for each file, most of them equal, so
/// copies share their bytes.
pub(crate) type Bytes = Rc<[u8]>;

/// A stored byte string.
pub(crate) struct Stored<T>(pub(crate) T);

impl Serialize for Stored<&[u8]> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => to.collect_seq(self.0),
        }
    }
}

impl<'d> Deserialize<'d> for Stored<Bytes> {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'d> Visitor<'d> for Either {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Ok(text.as_bytes().into())
            }

            fn visit_seq<A: SeqAccess<'d>>(self, mut seq: A) -> Result<Bytes, A::Error> {
                let mut bytes: Vec<u8> = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(bytes.into())
            }
        }
        from.deserialize_any(Either).map(Stored)
    }
}

/// One byte string.
pub(crate) mod one {
    use crate::stored_bytes::{Bytes, Stored};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        Stored(bytes).serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Bytes, D::Error> {
        Stored::<Bytes>::deserialize(from).map(|stored| stored.0)
    }
}

/// A list of them.
pub(crate) mod list {
    use crate::stored_bytes::{Bytes, Stored};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(all: &[Bytes], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|bytes| Stored(&bytes[..])))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Bytes>, D::Error> {
        let all = Vec::<Stored<Bytes>>::deserialize(from)?;
        Ok(all.into_iter().map(|stored| stored.0).collect())
    }
}

/// One with something else, or none.
pub(crate) mod with {
    use crate::stored_bytes::{Bytes, Stored};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Pair<T> = Option<(Bytes, T)>;

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        pair: &Pair<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let pair = pair.as_ref();
        let pair = pair.map(|(bytes, other)| (Stored(&bytes[..]), other));
        pair.serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>, T: Deserialize<'d>>(
        from: D,
    ) -> Result<Pair<T>, D::Error> {
        let pair = Option::<(Stored<Bytes>, T)>::deserialize(from)?;
        Ok(pair.map(|(bytes, other)| (bytes.0, other)))
    }
}

/// A list of pairs, of a byte string and something else.
pub(crate) mod list_with {
    use crate::stored_bytes::{Bytes, Stored};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        all: &[(Bytes, T)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let all = all.iter();
        to.collect_seq(all.map(|(bytes, other)| (Stored(&bytes[..]), other)))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>, T: Deserialize<'d>>(
        from: D,
    ) -> Result<Vec<(Bytes, T)>, D::Error> {
        let all = Vec::<(Stored<Bytes>, T)>::deserialize(from)?;
        Ok(all
            .into_iter()
            .map(|(bytes, other)| (bytes.0, other))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Record {
        #[serde(with = "super::one")]
        one: Bytes,
        #[serde(with = "super::list")]
        list: Vec<Bytes>,
        #[serde(with = "super::with")]
        with: Option<(Bytes, u8)>,
        #[serde(with = "super::list_with")]
        list_with: Vec<(Bytes, u8)>,
    }

    #[test]
    fn text_and_lists_of_numbers_are_read() {
        let bytes = |bytes: &[u8]| Bytes::from(bytes);
        let record = Record {
            one: bytes("/a\"\n\u{e9}".as_bytes()),
            list: vec![bytes(b"/\xff"), bytes(b"")],
            with: Some((bytes(b"b"), 1)),
            list_with: vec![(bytes(b"c"), 2)],
        };
        let new = r#"{"one":"/a\"\né","list":[[47,255],""],"with":["b",1],"list_with":[["c",2]]}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), new);
        let old = r#"{"one":[47,97,34,10,195,169],"list":[[47,255],[]],"with":[[98],1],
            "list_with":[[[99],2]]}"#;
        for text in [new, old] {
            let read: Record = serde_json::from_reader(text.as_bytes()).unwrap();
            assert_eq!(read, record, "{text}");
        }
    }
}
