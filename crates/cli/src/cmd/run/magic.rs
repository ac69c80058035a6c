// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the file of a command, and tells by its first bytes whether it is a native program or
//! WebAssembly.
//!
//! A name without a slash is looked up as a shell does, in the directories of `PATH`: files that
//! may not be executed are skipped. WebAssembly need not be executable: if no executable file is
//! found, a WebAssembly file in one of these directories or in the working directory is taken.

use rustix::fs::Access;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The search path if `PATH` is not set, as in execvp(3).
const PATH: &str = "/bin:/usr/bin";
/// The number of first bytes that tell what a file is.
pub(crate) const HEAD: usize = 8;

/// What a file is, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A module of WebAssembly.
    Module,
    /// A component of WebAssembly.
    Component,
    /// Anything else.
    Other,
}

impl What {
    pub(crate) fn of(head: &[u8]) -> What {
        match head.get(..HEAD) {
            Some([0, b'a', b's', b'm', _, _, 0, 0]) => What::Module,
            Some([0, b'a', b's', b'm', _, _, 1, 0]) => What::Component,
            _ => What::Other,
        }
    }
}

/// The facts about a file that decide what it is.
pub(crate) struct File {
    /// Its first bytes; empty if it cannot be read.
    pub(crate) head: Vec<u8>,
    /// Whether this user may execute it.
    pub(crate) executable: bool,
}

/// The paths where the file of a command may be. For a name without a slash these are in the
/// directories of `PATH`, and last in the working directory.
pub(crate) fn places(command: &OsStr, cwd: &Path) -> Vec<PathBuf> {
    let here = cwd.join(command);
    if command.as_bytes().contains(&b'/') {
        return vec![here];
    }
    let dirs = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let dirs = std::env::split_paths(&dirs).map(|dir| cwd.join(dir).join(command));
    dirs.chain([here]).collect()
}

/// The file of a command and what it is; `file` looks at a path. `None`: there is no such file.
pub(crate) fn find(
    command: &OsStr,
    cwd: &Path,
    file: impl Fn(&Path) -> Option<File>,
) -> Option<(PathBuf, What)> {
    let mut places = places(command, cwd);
    let here = places.pop()?;
    let by_path = command.as_bytes().contains(&b'/');
    let mut otherwise = None;
    for path in places {
        let Some(file) = file(&path) else {
            continue;
        };
        let what = What::of(&file.head);
        if file.executable {
            return Some((path, what));
        }
        if what != What::Other {
            otherwise.get_or_insert((path, what));
        }
    }
    otherwise.or_else(|| {
        let what = What::of(&file(&here)?.head);
        (by_path || what != What::Other).then_some((here, what))
    })
}

/// A file of the real tree.
pub(crate) fn file(path: &Path) -> Option<File> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut head = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        file.take(HEAD as u64).read_to_end(&mut head).ok();
    }
    let executable = rustix::fs::access(path, Access::EXEC_OK).is_ok();
    Some(File { head, executable })
}

#[cfg(test)]
mod tests {
    use super::{File, What, find};
    use std::path::{Path, PathBuf};

    #[test]
    fn first_bytes_tell_what_a_file_is() {
        assert_eq!(What::of(b"\0asm\x01\0\0\0..."), What::Module);
        assert_eq!(What::of(b"\0asm\x0d\0\x01\0..."), What::Component);
        for other in [&b"\x7fELF\x02\x01\x01\0"[..], b"\0asm", b"#!/bin/sh\n", b""] {
            assert_eq!(What::of(other), What::Other);
        }
    }

    const WASM: &[u8] = b"\0asm\x01\0\0\0";
    const ELF: &[u8] = b"\x7fELF\x02\x01\x01\0";

    /// What is found from the directory `/w` in a tree of paths, first bytes and executable bits.
    fn found(command: &str, tree: &[(&str, &[u8], bool)]) -> Option<(PathBuf, What)> {
        // A path without `.`.
        let plain = |path: &Path| path.components().collect::<PathBuf>();
        let known = |path: &Path, name: &str| {
            let path = plain(path);
            // `PATH/` is any directory of the search path.
            name.strip_prefix("PATH")
                .map_or(path == Path::new(name), |end| {
                    !path.starts_with("/w") && path.ends_with(end.trim_start_matches('/'))
                })
        };
        find(command.as_ref(), Path::new("/w"), |path| {
            let (_, head, executable) = tree.iter().find(|(name, ..)| known(path, name))?;
            Some(File {
                head: head.to_vec(),
                executable: *executable,
            })
        })
    }

    #[test]
    fn module_in_the_working_directory_needs_no_slash() {
        let tree: &[(&str, &[u8], bool)] = &[
            ("/w/app.wasm", WASM, false),
            ("/w/sh", WASM, true),
            ("/w/script", b"#!/bin/sh\n", true),
            ("PATH/sh", ELF, true),
        ];
        let found = |command| found(command, tree);
        let module = |path: &str| Some((PathBuf::from(path), What::Module));
        assert_eq!(found("app.wasm"), module("/w/app.wasm"));
        assert_eq!(found("./sh"), module("/w/./sh"));
        assert_eq!(found("sh").unwrap().1, What::Other);
        assert_eq!(found("script"), None);
        assert_eq!(found("./script").unwrap().1, What::Other);
        assert_eq!(found("none"), None);
    }

    #[test]
    fn executable_file_in_the_path_precedes_an_earlier_module() {
        let last = |head, executable| ("PATH/jq", head, executable);
        let dirs = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
        let first = dirs[0].join("jq");
        let first = first.to_str().unwrap();
        let what = |tree: &[(&str, &[u8], bool)]| found("jq", tree).map(|(_, what)| what);
        // One file in the first directory, another in all others.
        for (before, after, wanted) in [
            ((WASM, false), (ELF, true), Some(What::Other)),
            ((&b"data"[..], false), (WASM, true), Some(What::Module)),
            ((b"data", false), (WASM, false), Some(What::Module)),
            ((WASM, false), (b"data", false), Some(What::Module)),
            ((WASM, true), (ELF, true), Some(What::Module)),
            ((b"data", false), (b"data", false), None),
        ] {
            let tree = [(first, before.0, before.1), last(after.0, after.1)];
            assert_eq!(what(&tree), wanted, "{before:?} {after:?}");
        }
    }
}
