// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `Bytes`, the paths and data that an asynchronous operation keeps until it is done:
//! owned, shared or static.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that belong to an operation, or are shared.
///
/// What is borrowed is copied; a path that is used again and again is best shared.
///
/// ```
/// use openpath_vfs::Bytes;
/// use std::sync::Arc;
/// let path: Arc<[u8]> = Arc::from(&b"/etc/passwd"[..]);
/// let (owned, shared) = (Bytes::from(b"/tmp"), Bytes::from(&path));
/// assert_eq!((&owned[..], &shared[..]), (&b"/tmp"[..], &path[..]));
/// ```
#[derive(Clone)]
pub enum Bytes {
    /// Its own.
    Owned(Vec<u8>),
    /// A share.
    Shared(Arc<[u8]>),
    /// There for ever.
    Static(&'static [u8]),
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Static(bytes) => bytes,
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Static(b"")
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Self::Owned(text.into_bytes())
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Shared(bytes)
    }
}

impl From<&Arc<[u8]>> for Bytes {
    fn from(bytes: &Arc<[u8]>) -> Self {
        Self::Shared(Arc::clone(bytes))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::Owned(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Owned(bytes.to_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self::Owned(text.as_bytes().to_vec())
    }
}
