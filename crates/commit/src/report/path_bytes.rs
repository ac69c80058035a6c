// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a path that is stored as bytes, because it need not be UTF-8.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path by its bytes, for a path need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathBytes(Vec<u8>);

impl From<&Path> for PathBytes {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_owned())
    }
}

impl PathBytes {
    /// The path itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A path of these bytes.
#[must_use]
pub fn path_of(path: &[u8]) -> PathBytes {
    Path::new(OsStr::from_bytes(path)).into()
}
