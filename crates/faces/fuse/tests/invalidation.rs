// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a mount of a directory of the host shows changes of names, data and sizes by others a
//! moment later, even if the kernel caches without a time limit.

mod test_mount;

use openpath_fuse::{Options, Server};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::{Cred, SuperBlock, Task, Vfs};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_mount::{end, lacks_fuse};

/// How long a machine under load may take for one event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until it is so.
fn eventually(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < EVENT_TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("openpath-hear-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// Runs a test with a directory of the host and its mount.
fn with_mount(name: &str, options: Options, test: impl Fn(&Path, &Path)) {
    with_mount_as(name, options, Server::subscribe, |below, above, _| {
        test(below, above);
    });
}

/// The same, subscribed in this way; with a task beside the mount.
fn with_mount_as(
    name: &str,
    options: Options,
    subscribe: fn(&mut Server, &Arc<SuperBlock>),
    test: impl Fn(&Path, &Path, &Task),
) {
    let [below, above] = ["below", "above"].map(|what| scratch(&format!("{name}-{what}")));
    let host = HostOptions::default().policy(Policy::Notify);
    let tree = HostFs::open(&below, host).expect("a tree");
    let vfs = Vfs::builder().build(tree.clone()).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let mut server = Server::new(&task, options).expect("a server");
    subscribe(&mut server, &tree);
    match server.mount(&above) {
        Ok(session) => {
            test(&below, &above, &task);
            end(session);
        }
        Err(why) if lacks_fuse(&why) => {
            eprintln!("skipped: this user may not mount FUSE here ({why})");
        }
        Err(why) => panic!("no mount: {why}"),
    }
    fs::remove_dir_all(&below).expect("removed");
    fs::remove_dir(&above).expect("removed");
}

fn changes_are_seen(below: &Path, above: &Path) {
    fs::create_dir(below.join("d")).expect("made");
    eventually("a directory", || above.join("d").is_dir());
    fs::write(below.join("d/a"), "one").expect("made");
    eventually("a file", || {
        fs::read(above.join("d/a")).is_ok_and(|t| t == b"one")
    });
    assert!(!above.join("d/b").exists());
    fs::write(below.join("d/a"), "another").expect("written");
    eventually("other data", || {
        fs::read(above.join("d/a")).is_ok_and(|t| t == b"another")
    });
    fs::rename(below.join("d/a"), below.join("d/b")).expect("moved");
    eventually("a new name", || above.join("d/b").exists());
    eventually("no old name", || !above.join("d/a").exists());
    let names = || {
        let all = fs::read_dir(above.join("d")).expect("listed");
        all.map(|e| e.expect("an entry").file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["b"]);
    fs::write(below.join("d/c"), "").expect("made");
    eventually("a longer listing", || names().len() == 2);
    fs::remove_file(below.join("d/b")).expect("removed");
    eventually("a shorter listing", || names() == ["c"]);
    fs::remove_dir_all(below.join("d")).expect("removed");
    eventually("nothing", || !above.join("d").exists());
}

#[test]
fn changes_by_others_are_seen_with_endless_timeouts() {
    with_mount("forever", Options::default(), changes_are_seen);
}

#[test]
fn evicted_names_are_looked_up_again() {
    let options = Options::default().tracked_names_max(1);
    with_mount("room", options, changes_are_seen);
}

#[test]
fn a_directory_in_use_keeps_its_inode() {
    with_mount("in-use", Options::default(), |below, above| {
        fs::create_dir(below.join("in")).expect("made");
        fs::write(below.join("in/file"), "text").expect("made");
        eventually("a file", || above.join("in/file").exists());
        let open = fs::File::open(above.join("in")).expect("opened");
        for n in 0..20 {
            fs::write(below.join(format!("in/{n}")), "").expect("made");
            fs::rename(below.join("in"), below.join("out")).expect("moved");
            fs::rename(below.join("out"), below.join("in")).expect("moved back");
        }
        eventually("the last one", || above.join("in/19").exists());
        use std::os::unix::fs::MetadataExt;
        let (held, named) = (open.metadata(), fs::metadata(above.join("in")));
        assert_eq!(held.expect("there").ino(), named.expect("there").ino());
    });
}

#[test]
fn an_append_goes_to_the_end_that_others_have_moved() {
    for (name, subscribe) in [
        (
            "append",
            Server::subscribe as fn(&mut Server, &Arc<SuperBlock>),
        ),
        ("append-others", Server::subscribe_disjoint),
    ] {
        with_mount_as(name, Options::default(), subscribe, |below, above, task| {
            use std::io::Write;
            let path = below.join("log");
            let append = |path: &Path| fs::File::options().append(true).open(path);
            fs::write(&path, "begun\n").expect("made");
            let mut mine = append(&above.join("log")).expect("opened");
            writeln!(mine, "one").expect("written");
            let mut theirs = append(&path).expect("opened");
            let mut expected = String::from("begun\none\n");
            for n in 0..20 {
                writeln!(theirs, "theirs {n}").expect("written");
                expected += &format!("theirs {n}\n");
                if n % 2 == 0 {
                    // The tree knows the new length by now, and the kernel, which did not ask, may
                    // not. In every other round the tree may not know it either.
                    eventually("the length", || {
                        let len = task.stat(b"/log").map(|stat| stat.size);
                        len == Ok(expected.len() as i64)
                    });
                }
                writeln!(mine, "mine {n}").expect("written");
                expected += &format!("mine {n}\n");
            }
            assert_eq!(fs::read_to_string(&path).expect("read"), expected);
            eventually("the text", || {
                fs::read_to_string(above.join("log")).is_ok_and(|text| text == expected)
            });
        });
    }
}

#[test]
fn rwf_noappend_is_refused_or_appends() {
    with_mount("noappend", Options::default(), |below, above| {
        fs::write(below.join("log"), "begun\n").expect("made");
        let python = "import errno, os, sys\n\
            f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)\n\
            try: os.pwritev(f, [b'here'], 0, 0x20)\n\
            except OSError as e: assert e.errno == errno.EOPNOTSUPP; os.write(f, b'here')\n";
        let mut writer = std::process::Command::new("python3");
        let done = writer.args(["-c", python]).arg(above.join("log")).status();
        assert!(done.expect("run").success());
        let text = fs::read(below.join("log")).expect("read");
        assert_eq!(text, b"begun\nhere");
    });
}

#[test]
fn a_truncation_by_others_is_seen_by_open_files() {
    with_mount("cut", Options::default(), |below, above| {
        fs::write(below.join("log"), "long enough\n").expect("made");
        let open = fs::File::open(above.join("log")).expect("opened");
        assert_eq!(open.metadata().expect("there").len(), 12);
        for (text, len) in [("short\n", 6), ("", 0), ("longer than it was\n", 19)] {
            fs::write(below.join("log"), text).expect("written");
            eventually("the length", || {
                open.metadata().is_ok_and(|now| now.len() == len)
            });
            eventually("the text", || {
                fs::read_to_string(above.join("log")).is_ok_and(|now| now == text)
            });
        }
    });
}

#[test]
fn sizes_that_others_change_are_seen_with_the_writeback_cache() {
    let subscribe = Server::subscribe_disjoint;
    let options = Options::default().writeback(true);
    with_mount_as(
        "kept-back",
        options.clone(),
        subscribe,
        |below, above, _| {
            changes_are_seen(below, above);
        },
    );
    with_mount_as("lengths", options, subscribe, |below, above, _| {
        use std::io::{Read, Seek, Write};
        fs::write(below.join("log"), "begun\n").expect("made");
        let mut followed = fs::File::open(above.join("log")).expect("opened");
        let mut text = String::new();
        followed.read_to_string(&mut text).expect("read");
        // A file that grows also grows for open descriptors, across pages as well.
        let mut log = fs::File::options();
        let mut log = log.append(true).open(below.join("log")).expect("opened");
        for n in 0..3 {
            let line = format!("{n}").repeat(3000) + "\n";
            log.write_all(line.as_bytes()).expect("written");
            let whole = fs::read_to_string(below.join("log")).expect("read");
            eventually("the length", || {
                let now = followed.metadata().expect("there").len();
                now == whole.len() as u64
            });
            eventually("the text", || {
                let mut open = &followed;
                let mut text = String::new();
                open.rewind().expect("rewound");
                open.read_to_string(&mut text).expect("read");
                text == whole
            });
        }
        // A truncated file is another node for the next open.
        fs::write(below.join("log"), "anew\n").expect("written");
        eventually("the shorter one", || {
            fs::read(above.join("log")).is_ok_and(|t| t == b"anew\n")
        });
        drop(followed);
        fs::write(below.join("log"), "1\n").expect("written");
        eventually("the shortest one", || {
            fs::read(above.join("log")).is_ok_and(|t| t == b"1\n")
        });
        fs::write(below.join("log"), "longer again\n").expect("written");
        eventually("the longer one", || {
            fs::read(above.join("log")).is_ok_and(|t| t == b"longer again\n")
        });
    });
}

/// The kernel drops an answer that an event overtakes, also the first one about the root.
#[test]
fn root_directory_has_its_mode_before_the_kernel_has_asked() {
    let dir = std::env::temp_dir().join(format!("openpath-root-mode-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let fuse = match openpath_fuse::attach(&dir, &Options::default().root_mode(0o555)) {
        Err(why) if lacks_fuse(&why) => return,
        fuse => fuse.expect("a mount"),
    };
    // Nothing serves it.
    let unasked = rustix::fs::AtFlags::STATX_DONT_SYNC;
    let mode = rustix::fs::StatxFlags::MODE;
    let stat = rustix::fs::statx(rustix::fs::CWD, &dir, unasked, mode).expect("known");
    drop(fuse);
    openpath_fuse::detach(&dir, true).expect("unmounted");
    std::fs::remove_dir(&dir).expect("removed");
    assert_eq!(stat.stx_mode, 0o40555);
}
