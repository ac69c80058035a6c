// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an observer of a mount learns of every open, every name that may not be cached, and
//! every refused call, with the results.

mod test_mount;

use openpath_abi::Errno;
use openpath_abi::access::R_OK;
use openpath_abi::mode::S_IFREG;
use openpath_abi::statx::Statx;
use openpath_fuse::{ObservedFile, Observer, OnOpened, Opens, Options, Requester, Server};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Check, Cred, Vfs};
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use test_mount::TestMount;

/// A user in no group.
const USER: u32 = 1000;

/// Notes what it observes, a line each; names that begin with `fresh` may not be cached.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, line: String) {
        self.0.lock().expect("notes").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("notes"))
    }
}

fn path(at: &ObservedFile<'_>) -> String {
    String::from_utf8(at.path().expect("a path")).expect("text")
}

impl Observer for Notes {
    fn name(
        &self,
        _: Requester,
        dir: &ObservedFile<'_>,
        name: &[u8],
        found: Result<&Statx, Errno>,
    ) -> bool {
        let name = String::from_utf8_lossy(name);
        self.note(format!("name {} {name} {}", path(dir), found.is_ok()));
        !name.starts_with("fresh")
    }

    fn attributes(&self, by: Requester, at: &ObservedFile<'_>) {
        let why = at.access(b"", Cred::user(by.uid, by.gid, &[]), R_OK);
        if why.expect("explained").refused_by() == Some(Check::Permission) {
            self.note(format!("refused {} {}", by.uid, path(at)));
        }
    }

    fn opening<'a>(
        &'a self,
        by: Requester,
        at: &ObservedFile<'_>,
        name: Option<&'a [u8]>,
        _: openpath_abi::OFlags,
    ) -> Option<OnOpened<'a>> {
        assert!(by.thread > 0);
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        let line = format!("open {} {name}", path(at));
        Some(Box::new(move |done| {
            self.note(format!("{line} {}", done.is_ok()));
        }))
    }
}

/// A mount with an observer.
fn observed_mount() -> Option<(TestMount, Arc<Notes>)> {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
    let options = Options::default().opens(Opens::Each).allow_other(true);
    let notes = Arc::new(Notes::default());
    let mut server = Server::new(&task, options).expect("a server");
    server.observe(Arc::clone(&notes) as Arc<dyn Observer>);
    Some((TestMount::serving(task, server)?, notes))
}

#[test]
fn opens_are_observed_with_their_results() {
    let Some((mount, notes)) = observed_mount() else {
        return;
    };
    fs::write(mount.at("a"), "one").expect("written");
    assert!(notes.take().contains(&"open / a true".to_owned()));
    fs::read(mount.at("a")).expect("read");
    assert_eq!(notes.take(), ["open /a  true"]);
    mount.end();
}

#[test]
fn names_that_may_not_be_cached_are_looked_up_at_each_use() {
    let Some((mount, notes)) = observed_mount() else {
        return;
    };
    // A name that is created through the mount is cached: the kernel did not ask for it.
    for name in [b"/fresh", &b"/kept"[..]] {
        let made = mount.task.mknod(name, S_IFREG | 0o644, 0);
        made.expect("made");
    }
    for name in ["fresh", "fresh-none", "kept", "kept-none"] {
        let _first = fs::metadata(mount.at(name));
        notes.take();
        for _ in 0..2 {
            let there = fs::metadata(mount.at(name)).is_ok();
            let seen = notes.take();
            let line = format!("name / {name} {there}");
            let want = Vec::from_iter(name.starts_with("fresh").then_some(line));
            assert_eq!(seen, want, "{name}");
        }
    }
    // A listing does not make them cached.
    assert_eq!(fs::read_dir(mount.at("")).expect("listed").count(), 2);
    notes.take();
    fs::metadata(mount.at("fresh")).expect("there");
    assert_eq!(notes.take(), ["name / fresh true"]);
    mount.end();
}

#[test]
fn each_refusal_is_observed() {
    let Some((mount, notes)) = observed_mount() else {
        return;
    };
    fs::write(mount.at("file"), "").expect("written");
    fs::create_dir(mount.at("dir")).expect("made");
    fs::write(mount.at("dir/file"), "").expect("written");
    for (path, mode) in [("file", 0o600), ("dir", 0o700)] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(mount.at(path), PermissionsExt::from_mode(mode)).expect("set");
    }
    let user = USER.to_string();
    let read = |path: &str| {
        let mut cat = Command::new("setpriv");
        cat.args(["--reuid", &user, "--regid", &user, "--clear-groups", "cat"]);
        cat.arg(mount.at(path)).output().expect("started").status
    };
    for (what, whose) in [
        ("file", "/file"),
        ("dir/file", "/dir"),
        ("dir/none", "/dir"),
    ] {
        read(what);
        notes.take();
        for _ in 0..3 {
            assert!(!read(what).success());
            let want = format!("refused {USER} {whose}");
            assert_eq!(notes.take(), [want], "{what}");
        }
    }
    mount.end();
}
