// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a tree over a directory of the host shows changes by other programs when its policy
//! says so, and tells its subscribers. Tests also changed owners (squashed or stored), a removed
//! root, and errors of the host.

mod common;

use common::{POLICIES, SEEING, Scratch, policy, read, tree, world, write};
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::{Errno, XattrFlags, resolve};
use openpath_host::{HostFs, HostOptions, Ownership, Policy};
use openpath_vfs::{Cred, Inode, InvalidationListener, SuperBlock, Task, Vfs};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::{Arc, Mutex};

/// A `Vfs` with the tree it is made of.
fn with_tree(s: &Scratch, options: HostOptions) -> (Arc<SuperBlock>, Vfs, Task) {
    let tree = tree(s, options);
    let vfs = Vfs::builder().build(Arc::clone(&tree)).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    (tree, vfs, task)
}

#[test]
fn names_changed_by_others_are_seen() {
    for p in SEEING {
        let s = Scratch::new("names");
        std::fs::create_dir(s.at("d")).expect("mkdir");
        s.put("d/f", "one");
        let (tree, _vfs, task) = with_tree(&s, policy(p));
        assert_eq!(read(&task, "/d/f"), Ok("one".to_owned()));
        for _ in 0..2 {
            assert_eq!(read(&task, "/d/g"), Err(Errno::ENOENT), "{p:?}");
        }
        // Made, replaced, removed, and a directory that moves.
        s.put("d/g", "two");
        s.put("d/new", "three");
        std::fs::rename(s.at("d/new"), s.at("d/f")).expect("rename");
        HostFs::catch_up(&tree);
        assert_eq!(read(&task, "/d/g"), Ok("two".to_owned()), "{p:?}");
        assert_eq!(read(&task, "/d/f"), Ok("three".to_owned()), "{p:?}");
        std::fs::remove_file(s.at("d/f")).expect("remove");
        std::fs::rename(s.at("d"), s.at("e")).expect("rename");
        HostFs::catch_up(&tree);
        assert_eq!(read(&task, "/d/g"), Err(Errno::ENOENT), "{p:?}");
        assert_eq!(read(&task, "/e/g"), Ok("two".to_owned()), "{p:?}");
        assert_eq!(read(&task, "/e/f"), Err(Errno::ENOENT), "{p:?}");
    }
}

#[test]
fn file_in_use_that_comes_back_is_found_again() {
    for p in SEEING {
        let s = Scratch::new("back");
        for name in ["f", "linked"] {
            s.put(name, name);
        }
        std::fs::create_dir(s.at("d")).expect("mkdir");
        let (tree, _vfs, task) = with_tree(&s, policy(p));
        let names = ["/f", "/linked", "/d"];
        let held = names.map(|name| task.open(name.as_bytes(), O_RDONLY, 0).expect("open"));
        let away = |name: &str| s.at(&format!("{name}.away"));
        for name in ["f", "linked", "d"] {
            std::fs::rename(s.at(name), away(name)).expect("rename");
        }
        HostFs::catch_up(&tree);
        let there = |name: &str| task.stat(name.as_bytes()).map(|_| ());
        assert_eq!(names.map(there), [Err(Errno::ENOENT); 3], "{p:?}");
        for name in ["f", "d"] {
            std::fs::rename(away(name), s.at(name)).expect("rename");
        }
        std::fs::hard_link(away("linked"), s.at("linked")).expect("link");
        HostFs::catch_up(&tree);
        assert_eq!(names.map(there), [Ok(()); 3], "{p:?}");
        for fd in held {
            task.close(fd).expect("close");
        }
    }
}

#[test]
fn directory_cannot_be_sent_by_sendfile() {
    for p in POLICIES {
        let s = Scratch::new("sent");
        std::fs::create_dir(s.at("d")).expect("mkdir");
        let (_vfs, task) = world(&s, policy(p));
        let to = task.open(b"/f", O_CREAT | O_RDWR, 0o644).expect("a file");
        let dir = task.open(b"/d", O_RDONLY, 0).expect("a directory");
        assert_eq!(task.sendfile(to, dir, None, 1), Err(Errno::EINVAL), "{p:?}");
    }
}

#[test]
fn attributes_changed_by_others_are_seen() {
    for p in SEEING {
        let s = Scratch::new("changes");
        s.put("f", "1");
        let (tree, _vfs, task) = with_tree(&s, policy(p));
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        s.put("f", "12345");
        std::fs::set_permissions(s.at("f"), std::fs::Permissions::from_mode(0o611)).expect("chmod");
        HostFs::catch_up(&tree);
        let by_name = task.stat(b"/f").expect("stat");
        assert_eq!((by_name.size, by_name.mode & 0o7777), (5, 0o611), "{p:?}");
        let open = task.fstat(fd).expect("fstat");
        assert_eq!((open.size, open.mode & 0o7777), (5, 0o611), "{p:?}");
    }
}

#[test]
fn changed_search_permission_is_seen() {
    for p in SEEING {
        let s = Scratch::new("search");
        std::fs::create_dir(s.at("d")).expect("mkdir");
        s.put("d/f", "x");
        let (tree, vfs, task) = with_tree(&s, policy(p));
        task.chmod(b"/d", 0o755).expect("chmod");
        task.chmod(b"/d/f", 0o644).expect("chmod");
        let user = vfs.task(Cred::user(1000, 1000, &[])).expect("a task");
        for _ in 0..3 {
            assert_eq!(read(&user, "/d/f"), Ok("x".to_owned()), "{p:?}");
        }
        std::fs::set_permissions(s.at("d"), std::fs::Permissions::from_mode(0o700)).expect("chmod");
        HostFs::catch_up(&tree);
        assert_eq!(read(&user, "/d/f"), Err(Errno::EACCES), "{p:?}");
    }
}

#[test]
fn exclusive_tree_does_not_look_at_the_host() {
    let s = Scratch::new("unseen");
    s.put("f", "x");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(1));
    assert_eq!(task.stat(b"/g").map(|s| s.size), Err(Errno::ENOENT));
    s.put("f", "longer");
    s.put("g", "");
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(1));
    assert_eq!(task.stat(b"/g").map(|s| s.size), Err(Errno::ENOENT));
    // Data is never cached.
    assert_eq!(read(&task, "/f"), Ok("longer".to_owned()));
}

#[test]
fn more_directories_than_watches_can_be_used() {
    let s = Scratch::new("watches");
    for n in 0..20 {
        std::fs::create_dir(s.at(&format!("d{n}"))).expect("mkdir");
    }
    let options = policy(Policy::Notify).watches_max(4);
    let (tree, _vfs, task) = with_tree(&s, options);
    for round in 0..3 {
        for n in 0..20 {
            let name = format!("/d{n}/f{round}");
            assert_eq!(read(&task, &name), Err(Errno::ENOENT));
        }
        for n in 0..20 {
            s.put(&format!("d{n}/f{round}"), "there");
        }
        HostFs::catch_up(&tree);
        for n in 0..20 {
            let name = format!("/d{n}/f{round}");
            assert_eq!(read(&task, &name), Ok("there".to_owned()), "{name}");
        }
    }
}

#[test]
fn policy_none_holds_nothing_open() {
    let s = Scratch::new("held");
    let (_vfs, task) = world(&s, policy(Policy::None));
    write(&task, "/f", "x").expect("write");
    read(&task, "/f").expect("read");
    let file = s.at("f");
    let held = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let leads =
        |entry: &std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|p| p == file);
    assert_eq!(held.filter_map(Result::ok).filter(leads).count(), 0);
}

#[test]
fn refusal_by_the_host_comes_at_open() {
    // A running program cannot be written to.
    let s = Scratch::new("busy");
    std::fs::copy("/bin/sleep", s.at("sleep")).expect("copy");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    read_some(&task, b"/sleep");
    let mut running = std::process::Command::new(s.at("sleep"))
        .arg("30")
        .spawn()
        .expect("run");
    assert_eq!(task.open(b"/sleep", O_RDWR, 0), Err(Errno::ETXTBSY));
    running.kill().expect("kill");
    running.wait().expect("wait");
    let fd = task.open(b"/sleep", O_RDWR, 0).expect("open");
    task.close(fd).expect("close");
    // And a file that was written here can be executed once it is closed.
    let mut running = std::process::Command::new(s.at("sleep"))
        .arg("0")
        .spawn()
        .expect("run");
    running.wait().expect("wait");
}

fn read_some(task: &Task, path: &[u8]) {
    let fd = task.open(path, O_RDONLY, 0).expect("open");
    task.read(fd, &mut [0; 16]).expect("read");
    task.close(fd).expect("close");
}

#[test]
fn removed_root_is_stale_and_a_new_one_is_found() {
    for p in POLICIES {
        let s = Scratch::new("gone");
        let dir = s.at("root");
        std::fs::create_dir(&dir).expect("mkdir");
        let tree = HostFs::open(&dir, policy(p)).expect("a tree");
        let vfs = Vfs::builder().build(Arc::clone(&tree)).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        std::fs::remove_dir(&dir).expect("rmdir");
        assert_eq!(read(&task, "/f"), Err(Errno::ESTALE), "{p:?}");
        assert_eq!(task.mkdir(b"/d", 0o755), Err(Errno::ESTALE), "{p:?}");
        std::fs::create_dir(&dir).expect("mkdir");
        std::fs::write(dir.join("f"), "back").expect("a file");
        HostFs::catch_up(&tree);
        assert_eq!(read(&task, "/f"), Ok("back".to_owned()), "{p:?}");
        write(&task, "/g", "new").expect("write");
        assert_eq!(std::fs::read(dir.join("g")).expect("read"), b"new");
    }
}

#[test]
fn squashed_owners_are_shown() {
    let s = Scratch::new("squash");
    let options = policy(Policy::Exclusive).ownership(Ownership::Squash { uid: 7, gid: 8 });
    let (vfs, task) = world(&s, options);
    task.chmod(b"/", 0o777).expect("chmod");
    let user = vfs.task(Cred::user(1000, 1000, &[])).expect("a task");
    write(&user, "/f", "x").expect("write");
    let stat = user.stat(b"/f").expect("stat");
    assert_eq!((stat.uid, stat.gid), (7, 8));
    let mine = std::fs::metadata(s.at("f")).expect("stat");
    assert_eq!(mine.uid(), std::fs::metadata(s.path()).expect("stat").uid());
    assert_eq!(task.chown(b"/f", 1000, 1000), Err(Errno::EPERM));
    assert_eq!(task.chown(b"/f", 7, u32::MAX), Ok(()));
}

#[test]
fn owners_are_stored_in_attributes() {
    let s = Scratch::new("kept");
    let options = || policy(Policy::Exclusive).ownership(Ownership::Xattr { uid: 5, gid: 6 });
    s.put("plain", "x");
    {
        let (_vfs, task) = world(&s, options());
        match task.mkdir(b"/d", 0o751) {
            // A file system without such attributes.
            Err(Errno::EOPNOTSUPP) => return,
            made => made.expect("mkdir"),
        }
        task.chown(b"/d", 1000, 2000).expect("chown");
        task.chmod(b"/d", 0o2751).expect("chmod");
        write(&task, "/d/f", "x").expect("write");
        task.chmod(b"/d/f", 0o4640).expect("chmod");
        task.mknod(
            b"/d/null",
            openpath_abi::mode::S_IFCHR | 0o666,
            openpath_abi::stat::makedev(1, 3),
        )
        .expect("mknod");
        assert_eq!(
            task.getxattr(b"/d/f", b"user.openpath.attr").err(),
            Some(Errno::ENODATA)
        );
        assert!(task.listxattr(b"/d/f").expect("listxattr").is_empty());
        // A guest's attribute with such a name is another one.
        let names = [&b"user.openpath.attr"[..], b"user.openpath.openpath.attr"];
        for name in names {
            let set = task.setxattr(b"/d/f", name, name, XattrFlags::empty());
            set.expect("setxattr");
        }
        let listed = task.listxattr(b"/d/f").expect("listxattr");
        assert_eq!(listed.len(), names.concat().len() + names.len());
        for name in names {
            assert_eq!(task.getxattr(b"/d/f", name).as_deref(), Ok(name));
        }
    }
    let (_vfs, task) = world(&s, options());
    let shown = |path: &str| task.stat(path.as_bytes()).map(|s| (s.mode, s.uid, s.gid));
    assert_eq!(shown("/plain").map(|s| (s.1, s.2)), Ok((5, 6)));
    assert_eq!(shown("/d"), Ok((0o042_751, 1000, 2000)));
    assert_eq!(shown("/d/f").map(|s| s.0), Ok(0o104_640));
    let device = task.stat(b"/d/null").expect("stat");
    assert_eq!(
        (device.mode, device.rdev),
        (0o020_644, openpath_abi::stat::makedev(1, 3))
    );
    assert!(std::fs::metadata(s.at("d/null")).expect("stat").is_file());
    let fd = task.open(b"/d/null", O_RDWR, 0).expect("open");
    assert_eq!(task.write(fd, b"gone"), Ok(4));
    assert_eq!(
        std::fs::metadata(s.at("d/f")).expect("stat").mode() & 0o7777,
        0o600
    );
}

#[test]
fn cached_lookup_is_answered_from_the_hosts_memory() {
    for p in [Policy::Exclusive, Policy::Revalidate] {
        let s = Scratch::new("tries");
        std::fs::create_dir(s.at("d")).expect("mkdir");
        s.put("d/f", "x");
        let (_vfs, task) = world(&s, policy(p));
        let how = openpath_abi::OpenHow {
            flags: u64::from(O_RDONLY),
            mode: 0,
            resolve: resolve::RESOLVE_CACHED,
        };
        // The host has the names in memory, because they were just made.
        let fd = task
            .openat2(openpath_abi::fcntl::AT_FDCWD, b"/d/f", &how)
            .expect("cached there");
        let mut buf = [0];
        assert_eq!(task.read(fd, &mut buf), Ok(1), "{p:?}");
    }
}

#[test]
fn full_file_system_is_reported_and_recovers() {
    let s = Scratch::new("full");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(s.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    {
        let (_vfs, task) = world(&s, policy(Policy::Exclusive));
        let fd = task.open(b"/f", O_RDWR | O_CREAT, 0o644).expect("open");
        let mut written = 0;
        let refused = loop {
            match task.write(fd, &[1; 4096]) {
                Ok(n) => written += n,
                Err(errno) => break errno,
            }
        };
        assert_eq!(refused, Errno::ENOSPC);
        assert_eq!(task.fstat(fd).map(|s| s.size), Ok(written as i64));
        task.ftruncate(fd, 0).expect("ftruncate");
        assert_eq!(task.pwrite(fd, b"room", 0), Ok(4));
    }
    let _unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(s.path())
        .status();
}

/// Records what a tree forgets.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Ear {
    fn note(&self, what: &str, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let mut heard = self.0.lock().expect("nobody panics with it");
        heard.push(format!("{what} {name}"));
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

impl InvalidationListener for Ear {
    fn name(&self, _: &Arc<Inode>, name: &[u8]) {
        self.note("name", name);
    }
    fn names_of(&self, _: &Arc<Inode>) {
        self.note("names", b"");
    }
    fn all(&self) {
        self.note("all", b"");
    }
    fn attributes(&self, inode: &Arc<Inode>) {
        self.note("attributes", inode.size().to_string().as_bytes());
    }
}

#[test]
fn subscriber_is_told_of_changes_by_others() {
    let s = Scratch::new("above");
    s.put("f", "1");
    let (tree, _vfs, task) = with_tree(&s, policy(Policy::Notify));
    let ear = Arc::new(Ear::default());
    tree.add_listener(&(Arc::clone(&ear) as Arc<dyn InvalidationListener>));
    assert_eq!(read(&task, "/f"), Ok("1".to_owned()));
    // A change here may be reported, if its event is processed before the call ends, or may not.
    write(&task, "/f", "12").expect("write");
    HostFs::catch_up(&tree);
    ear.heard();
    s.put("f", "1234567");
    HostFs::catch_up(&tree);
    assert!(ear.heard().contains(&"attributes 7".to_owned()));
    s.put("new", "");
    std::fs::remove_file(s.at("f")).expect("remove");
    HostFs::catch_up(&tree);
    let heard = ear.heard();
    for name in ["name new", "name f"] {
        assert!(heard.contains(&name.to_owned()), "{name}: {heard:?}");
    }
}
