// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no call that takes a path leads a guest out of its directory: by `..`, absolute
//! paths, links and chains of links, existing or made by the guest.
//!
//! The control gives the same path to the same call of a task in the guest's directory, which must
//! get out by each call, with one path at least. After each call nothing outside has changed.

use std::collections::BTreeMap;

use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::{Errno, Stat};
use openpath_host::{HostFs, HostOptions};
use openpath_vfs::{Limits, Task};

use super::path_calls::{ACTS, PathCall, Returned};
use super::setting::{Failed, JAIL, Jail, Report, SECRET};

/// Links in the guest's directory: name and target.
const LINKS: &[(&str, &str)] = &[
    ("rel", "../secret"),
    ("abs", "/secret"),
    ("dot", "./.././secret"),
    ("dir", ".."),
    ("absdir", "/outside"),
    ("root", "/"),
    ("in/far", "../../secret"),
    ("in/deep/back", "../../../outside"),
    ("chain0", "chain1"),
    ("chain1", "in/chain2"),
    ("in/chain2", "deep/chain3"),
    ("in/deep/chain3", "../../dir/secret"),
    ("again", "dir/jail/dir/jail/rel"),
];

/// Paths to something outside, from the guest's directory.
const WAYS: &[&str] = &[
    "../secret",
    "/secret",
    "//secret",
    "./../secret",
    "..//secret",
    "in/../../secret",
    "in/deep/../../../secret",
    "in/deep/../../../jail/../secret",
    "../outside/secret",
    "../outside/sub/secret",
    "/outside/sub/secret",
    "/jail/../secret",
    "rel",
    "abs",
    "dot",
    "chain0",
    "again",
    "in/far",
    "dir/secret",
    "dir/outside/secret",
    "dir/jail/in/far",
    "root/secret",
    "root/outside/sub/secret",
    "absdir/secret",
    "absdir/sub/../secret",
    "in/deep/back/secret",
    "in/deep/back/../secret",
    "dir/../secret",
];

/// Directories outside.
const DIRS: &[&str] = &[
    "..",
    "../",
    "/",
    "../.",
    "in/../..",
    "../outside",
    "/outside",
    "dir",
    "dir/",
    "dir/outside",
    "root",
    "absdir",
    "absdir/sub",
    "in/deep/back",
    "in/deep/back/sub/..",
];

/// The state outside: what each path must keep.
type Outside = BTreeMap<Vec<u8>, String>;

/// The state outside; only the attributes of the root and of the guest's own directory.
pub(super) fn outside(host: &Task) -> Result<Outside, Errno> {
    let mut seen = Outside::new();
    let mut todo = vec![b"/".to_vec()];
    while let Some(dir) = todo.pop() {
        let fd = host.open(&dir, O_RDONLY, 0)?;
        let mut entries = Vec::new();
        loop {
            let more = host.getdents64(fd, 1 << 16)?;
            if more.is_empty() {
                break;
            }
            entries.extend(more);
        }
        host.close(fd)?;
        for entry in entries {
            if entry.name[..] == b"."[..] || entry.name[..] == b".."[..] {
                continue;
            }
            let path = [&dir[..], b"/", &entry.name[..]].concat();
            let stat: Stat = host.lstat(&path)?;
            if path.ends_with(JAIL) && dir == b"/" {
                seen.insert(path, format!("{} {:o}", stat.ino, stat.mode));
                continue;
            }
            let text = format!(
                "{} {:o} {} {} {:?}",
                stat.ino, stat.mode, stat.nlink, stat.size, stat.mtime
            );
            if stat.mode & 0o170_000 == 0o040_000 {
                todo.push(path.clone());
            }
            seen.insert(path, text);
        }
    }
    Ok(seen)
}

/// Creates a jail with each kind of way out.
fn lay(jail: &Jail) -> Result<Vec<u64>, Failed> {
    let host = &jail.host;
    for (name, target) in LINKS {
        host.symlink(target.as_bytes(), format!("/jail/{name}").as_bytes())?;
    }
    for dir in ["", "/outside", "/outside/sub"] {
        host.mkdir(format!("{dir}/empty").as_bytes(), 0o777)?;
        host.symlink(SECRET, format!("{dir}/note").as_bytes())?;
    }
    let mut inodes = Vec::new();
    let all = [
        "/",
        "/secret",
        "/outside",
        "/outside/secret",
        "/outside/sub",
        "/outside/sub/secret",
    ];
    for path in all {
        inodes.push(host.stat(path.as_bytes())?.ino);
    }
    Ok(inodes)
}

/// Whether a call got out, by its result or by a change outside.
fn is_out(brought: &Returned, inodes: &[u64]) -> bool {
    match brought {
        Returned::Nothing => false,
        Returned::Bytes(bytes) => bytes == SECRET,
        Returned::Inode(inode) => inodes.contains(inode),
    }
}

fn paths(act: &PathCall) -> Vec<Vec<u8>> {
    let ways = WAYS.iter().map(|way| way.as_bytes().to_vec());
    match act.plants {
        false => ways.collect(),
        true => {
            let dirs = DIRS.iter().map(|dir| format!("{dir}/planted").into_bytes());
            dirs.collect()
        }
    }
}

/// Makes every call with every path, as a guest and then as an unconfined task.
fn attack(f: &mut Report, make: &dyn Fn() -> Result<Jail, Failed>) -> Result<(), Failed> {
    let (mut tried, mut out) = (0, 0);
    for act in ACTS {
        let jail = make()?;
        let inodes = lay(&jail)?;
        let mut guest = jail.guest(None)?;
        let before = outside(&jail.host)?;
        for path in paths(act) {
            let brought = (act.guest)(&mut guest, &path);
            tried += 1;
            let text = String::from_utf8_lossy(&path).into_owned();
            f.must(!is_out(&brought, &inodes), || {
                format!("{} {text}: it got out", act.name)
            });
            let after = outside(&jail.host)?;
            if after != before {
                f.wrong(format!("{} {text}: it changed what is outside", act.name));
                return Ok(());
            }
        }
        let jail = make()?;
        let inodes = lay(&jail)?;
        let task = jail.vfs.task(openpath_vfs::Cred::root())?;
        task.chdir(JAIL)?;
        let mut got_out = 0;
        for path in paths(act) {
            let before = outside(&jail.host)?;
            let brought = (act.task)(&task, &path).unwrap_or(Returned::Nothing);
            let after = outside(&jail.host)?;
            got_out += u64::from(is_out(&brought, &inodes) || before != after);
        }
        f.must(got_out > 0, || {
            format!("{}: the control did not get out either", act.name)
        });
        out += got_out;
    }
    f.say(&format!(
        "{tried} ways by {} calls; unconfined, {out} got out",
        ACTS.len()
    ));
    Ok(())
}

/// Attacks a tree in memory.
pub(super) fn from_memory(f: &mut Report) -> Result<(), Failed> {
    attack(f, &|| Jail::in_memory(Limits::default()))
}

/// Attacks a directory of the host.
pub(super) fn from_host(f: &mut Report) -> Result<(), Failed> {
    let base = std::env::temp_dir().join(format!("openpath-hostile-{}", std::process::id()));
    let number = std::cell::Cell::new(0);
    let made = attack(f, &|| {
        number.set(number.get() + 1);
        let dir = base.join(number.get().to_string());
        std::fs::create_dir_all(&dir).map_err(Failed::new)?;
        let tree = HostFs::open(&dir, HostOptions::default())?;
        Jail::over(tree, Limits::default())
    });
    std::fs::remove_dir_all(&base).map_err(Failed::new)?;
    made
}
