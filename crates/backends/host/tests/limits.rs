// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the deliberate differences of a tree over a directory of the host from a Linux file
//! system: device numbers, locks, leases, access times, files that others move, and owners. Tests
//! also which mounts of the host the tree crosses, and that links do not lead out of it.

mod common;

use common::{Scratch, policy, read, world, write};
use openpath_abi::fcntl::{O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_WRONLY};
use openpath_abi::lock::{F_RDLCK, F_SETLEASE, LOCK_EX, LOCK_NB};
use openpath_abi::{Errno, OpenHow, resolve};
use openpath_host::{Crossing, HostFs, Ownership, Policy};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

#[test]
fn inode_number_is_the_hosts_and_the_device_is_not() {
    let s = Scratch::new("numbers");
    s.put("f", "x");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    let (here, there) = (
        task.stat(b"/f").expect("stat"),
        std::fs::metadata(s.at("f")).expect("stat"),
    );
    assert_eq!(here.ino, there.ino());
    assert_ne!(here.dev, there.dev());
}

/// Whether this process has the file open on the host.
fn is_open(path: &std::path::Path) -> bool {
    let fds = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
        .any(|file| file == path)
}

#[test]
fn new_file_stays_open_on_the_host_only_with_keeps_writers() {
    for keeps in [false, true] {
        let s = Scratch::new("writers");
        let path = std::fs::canonicalize(s.at(".")).expect("a path").join("f");
        let options = policy(Policy::Exclusive).keeps_writers(keeps);
        let (vfs, task) = world(&s, options);
        write(&task, "/f", "x").expect("written");
        assert_eq!(is_open(&path), keeps);
        assert_eq!(read(&task, "/f"), Ok("x".to_owned()));
        task.unlink(b"/f").expect("unlink");
        vfs.collect();
        let gone = std::path::PathBuf::from(format!("{} (deleted)", path.display()));
        assert!(!is_open(&path) && !is_open(&gone));
    }
}

#[test]
fn locks_stay_within_the_instance() {
    let s = Scratch::new("locks");
    s.put("f", "x");
    let (vfs, task) = world(&s, policy(Policy::Exclusive));
    let (fd, other) = (0, task.fork().expect("a task"));
    assert_eq!(task.open(b"/f", O_RDONLY, 0), Ok(fd));
    assert_eq!(other.open(b"/f", O_RDONLY, 0), Ok(fd));
    assert_eq!(task.flock(fd, LOCK_EX), Ok(()));
    assert_eq!(other.flock(fd, LOCK_EX | LOCK_NB), Err(Errno::EAGAIN));
    assert_eq!(vfs.locks().len(), 1);
    let there = std::fs::File::open(s.at("f")).expect("open");
    assert!(there.try_lock().is_ok(), "the host has no lock");
}

#[test]
fn leases_stay_within_the_instance() {
    let s = Scratch::new("leases");
    s.put("f", "x");
    let (vfs, task) = world(&s, policy(Policy::Exclusive));
    let other = task.fork().expect("a task");
    let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
    task.fcntl(fd, F_SETLEASE, F_RDLCK as u64).expect("a lease");
    let there = std::fs::OpenOptions::new().write(true).open(s.at("f"));
    assert!(there.is_ok(), "the host asks nobody");
    assert_eq!(
        vfs.leases().iter().filter(|lease| lease.breaking).count(),
        0
    );
    let flags = O_WRONLY | O_NONBLOCK;
    assert_eq!(other.open(b"/f", flags, 0), Err(Errno::EAGAIN));
    assert_eq!(
        vfs.leases().iter().filter(|lease| lease.breaking).count(),
        1
    );
}

#[test]
fn access_time_lives_with_the_inode() {
    let s = Scratch::new("access");
    s.put("f", "x");
    let before = std::fs::metadata(s.at("f")).expect("stat").atime_nsec();
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    let old = task.stat(b"/f").expect("stat").atime;
    read(&task, "/f").expect("read");
    let moved = task.stat(b"/f").expect("stat").atime;
    assert!(moved > old);
    // Another change keeps it, and it never reaches the host.
    task.chmod(b"/f", 0o600).expect("chmod");
    assert_eq!(task.stat(b"/f").expect("stat").atime, moved);
    assert_eq!(
        std::fs::metadata(s.at("f")).expect("stat").atime_nsec(),
        before
    );
}

#[test]
fn file_moved_by_others_is_lost_with_its_handle() {
    let s = Scratch::new("moved");
    s.put("f", "x");
    let options = policy(Policy::Exclusive).handles_max(16);
    let (_vfs, task) = world(&s, options);
    let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
    std::fs::rename(s.at("f"), s.at("elsewhere")).expect("rename");
    // The file that took its name is another one.
    s.put("f", "another");
    for n in 0..40 {
        write(&task, &format!("/g{n}"), "x").expect("write");
        read(&task, &format!("/g{n}")).expect("read");
    }
    assert_eq!(task.read(fd, &mut [0; 8]), Err(Errno::ESTALE));
}

#[test]
fn squashed_symlinks_have_the_given_owner() {
    let s = Scratch::new("links");
    let options = policy(Policy::Exclusive).ownership(Ownership::Squash { uid: 7, gid: 8 });
    let (_vfs, task) = world(&s, options);
    task.symlink(b"f", b"/l").expect("symlink");
    let link = task.lstat(b"/l").expect("lstat");
    assert_eq!((link.uid, link.gid), (7, 8));
    assert_eq!(task.lchown(b"/l", 1, 1), Err(Errno::EPERM));
}

#[test]
fn mounts_of_the_host_are_crossed_as_the_option_says() {
    let s = Scratch::new("mounts");
    std::fs::create_dir(s.at("m")).expect("mkdir");
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(s.at("m")).status();
    if !mount(&["-t", "tmpfs", "tmpfs"]).is_ok_and(|status| status.success()) {
        return;
    }
    s.put("m/f", "over there");
    {
        let (_vfs, task) = world(&s, policy(Policy::Exclusive));
        assert_eq!(read(&task, "/m/f"), Ok("over there".to_owned()));
        let (here, below) = (
            task.stat(b"/").expect("stat"),
            task.stat(b"/m/f").expect("stat"),
        );
        assert_eq!(here.dev, below.dev);
        assert_ne!(
            below.ino,
            std::fs::metadata(s.at("m/f")).expect("stat").ino()
        );
        let fd = task.open(b"/m", O_RDONLY | O_DIRECTORY, 0).expect("open");
        let listed = task.getdents64(fd, 4096).expect("getdents64");
        let entry = listed
            .iter()
            .find(|entry| entry.name == b"f")
            .expect("listed");
        assert_eq!(entry.ino, below.ino);
        let options = policy(Policy::Exclusive).crossing(Crossing::Stay);
        let (_vfs, task) = world(&s, options);
        assert_eq!(read(&task, "/m/f"), Err(Errno::EXDEV));
    }
    let _unmounted = Command::new("umount").arg("-l").arg(s.at("m")).status();
}

#[test]
fn pseudo_file_systems_are_not_entered_with_stored() {
    let s = Scratch::new("made-up");
    for name in ["proc", "tmpfs"] {
        std::fs::create_dir(s.at(name)).expect("mkdir");
        let mount = Command::new("mount")
            .args(["-t", name, name])
            .arg(s.at(name))
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            return;
        }
    }
    s.put("tmpfs/f", "stored");
    std::fs::write(s.at("version"), "").expect("write");
    let file = ["--bind", "/proc/version"];
    let mount = Command::new("mount")
        .args(file)
        .arg(s.at("version"))
        .status();
    assert!(mount.expect("mount").success());
    let options = |crossing| policy(Policy::Exclusive).crossing(crossing);
    {
        let (_vfs, task) = world(&s, options(Crossing::Cross));
        assert!(read(&task, "/proc/version").is_ok() && read(&task, "/version").is_ok());
        let (_vfs, task) = world(&s, options(Crossing::Stored));
        assert_eq!(read(&task, "/tmpfs/f"), Ok("stored".to_owned()));
        for refused in ["/proc/version", "/proc/self/environ", "/version"] {
            assert_eq!(read(&task, refused), Err(Errno::EXDEV), "{refused}");
        }
        let top = HostFs::open(s.at("proc"), options(Crossing::Stored));
        assert_eq!(top.err(), Some(Errno::EXDEV));
    }
    for name in ["proc", "tmpfs", "version"] {
        let _unmounted = Command::new("umount").arg("-l").arg(s.at(name)).status();
    }
}

#[test]
fn links_do_not_lead_outside() {
    let s = Scratch::new("outside");
    std::os::unix::fs::symlink("/etc/passwd", s.at("absolute")).expect("symlink");
    std::os::unix::fs::symlink("../../../../../../etc/passwd", s.at("relative")).expect("symlink");
    std::os::unix::fs::symlink("/proc/self/root/etc/passwd", s.at("magic")).expect("symlink");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    for name in ["/absolute", "/relative", "/magic", "/../../etc/passwd"] {
        assert_eq!(read(&task, name), Err(Errno::ENOENT), "{name}");
    }
    let how = OpenHow {
        flags: u64::from(O_RDONLY),
        mode: 0,
        resolve: resolve::RESOLVE_CACHED,
    };
    let tried = task.openat2(openpath_abi::fcntl::AT_FDCWD, b"/absolute", &how);
    assert!(
        matches!(tried, Err(Errno::ENOENT | Errno::EAGAIN)),
        "{tried:?}"
    );
}
