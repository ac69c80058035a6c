// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others change in a directory of the host is seen through the mount, a moment later.

mod place;

use openpath_fuse::{Options, Server};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::{Cred, Vfs};
use place::cannot;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// As long as a machine under load may take to pass on one event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks until it is so.
fn becomes(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("openpath-hear-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// Runs a test with a directory of the host, and where it is shown.
fn shown(name: &str, options: Options, test: impl Fn(&Path, &Path)) {
    let [below, above] = ["below", "above"].map(|what| scratch(&format!("{name}-{what}")));
    let host = HostOptions {
        policy: Policy::Notify,
        ..HostOptions::default()
    };
    let tree = HostFs::open(&below, host).expect("a tree");
    let vfs = Vfs::builder().build(tree.clone()).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let mut server = Server::new(&task, options).expect("a server");
    server.hear(&tree);
    match server.mount(&above) {
        Ok(session) => {
            test(&below, &above);
            session.unmount().expect("unmounted");
            session.wait().expect("a clean end");
        }
        Err(why) if cannot(&why) => {
            eprintln!("skipped: this user may not mount FUSE here ({why})");
        }
        Err(why) => panic!("no mount: {why}"),
    }
    fs::remove_dir_all(&below).expect("removed");
    fs::remove_dir(&above).expect("removed");
}

fn changes_are_seen(below: &Path, above: &Path) {
    fs::create_dir(below.join("d")).expect("made");
    becomes("a directory", || above.join("d").is_dir());
    fs::write(below.join("d/a"), "one").expect("made");
    becomes("a file", || {
        fs::read(above.join("d/a")).is_ok_and(|t| t == b"one")
    });
    assert!(!above.join("d/b").exists());
    fs::write(below.join("d/a"), "another").expect("written");
    becomes("other data", || {
        fs::read(above.join("d/a")).is_ok_and(|t| t == b"another")
    });
    fs::rename(below.join("d/a"), below.join("d/b")).expect("moved");
    becomes("a new name", || above.join("d/b").exists());
    becomes("no old name", || !above.join("d/a").exists());
    let names = || {
        let all = fs::read_dir(above.join("d")).expect("listed");
        all.map(|e| e.expect("an entry").file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["b"]);
    fs::write(below.join("d/c"), "").expect("made");
    becomes("a longer listing", || names().len() == 2);
    fs::remove_file(below.join("d/b")).expect("removed");
    becomes("a shorter listing", || names() == ["c"]);
    fs::remove_dir_all(below.join("d")).expect("removed");
    becomes("nothing", || !above.join("d").exists());
}

#[test]
fn what_others_change_is_seen_though_it_holds_for_ever() {
    shown("forever", Options::default(), changes_are_seen);
}

#[test]
fn names_that_make_room_are_asked_for_again() {
    let options = Options {
        names_max: 1,
        ..Options::default()
    };
    shown("room", options, changes_are_seen);
}

#[test]
fn what_is_in_use_stays_what_it_is() {
    shown("in-use", Options::default(), |below, above| {
        fs::create_dir(below.join("in")).expect("made");
        fs::write(below.join("in/file"), "text").expect("made");
        becomes("a file", || above.join("in/file").exists());
        let open = fs::File::open(above.join("in")).expect("opened");
        for n in 0..20 {
            fs::write(below.join(format!("in/{n}")), "").expect("made");
            fs::rename(below.join("in"), below.join("out")).expect("moved");
            fs::rename(below.join("out"), below.join("in")).expect("moved back");
        }
        becomes("the last one", || above.join("in/19").exists());
        use std::os::unix::fs::MetadataExt;
        let (held, named) = (open.metadata(), fs::metadata(above.join("in")));
        assert_eq!(held.expect("there").ino(), named.expect("there").ino());
    });
}
