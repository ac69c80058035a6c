// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the suites of other projects as programs, once, in a directory of their own, and holds
//! the configuration of pjdfstest.

use crate::cmd::{cargo, target};
use std::io;
use std::path::PathBuf;

/// The configuration of pjdfstest: two users that every system has, and sleeps longer than a tick
/// of the coarse clock that sets times.
pub(super) const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// The path of program `name` of this version, which is built if missing.
///
/// # Errors
/// It cannot be built.
pub(super) fn installed(name: &str, version: &str) -> io::Result<PathBuf> {
    let folder = target("outside");
    let mut install = cargo(&["install", "--quiet", "--locked", "--version", version, name]);
    install.arg("--root").arg(&folder);
    install.arg("--target-dir").arg(folder.join("build"));
    if !install.status()?.success() {
        return Err(io::Error::other(format!("{name} {version} was not built")));
    }
    Ok(folder.join("bin").join(name))
}
