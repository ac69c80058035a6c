// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls of the host on a tree in memory that is mounted by FUSE give the expected
//! results, with and without opens at the server and the writeback cache. Cached calls do not reach
//! the server.

mod test_mount;

use openpath_abi::fcntl::{O_CREAT, O_NOATIME, O_RDONLY, O_WRONLY};
use openpath_abi::{AtFlags, TimeSet, Timespec};
use openpath_fuse::{Opens, Options};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use test_mount::TestMount;

/// Runs a test with and without opens at the server, with and without the writeback cache.
fn each(test: impl Fn(&TestMount)) {
    for opens in [Opens::Never, Opens::Each] {
        for writeback in [true, false] {
            let options = Options::default().opens(opens).writeback(writeback);
            let Some(mount) = TestMount::new(options) else {
                return;
            };
            test(&mount);
            mount.end();
        }
    }
}

#[test]
fn files_are_made_written_read_and_removed() {
    each(|mount| {
        let path = mount.at("a");
        fs::write(&path, "one").expect("written");
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b" two").expect("appended");
        drop(file);
        assert_eq!(fs::read(&path).expect("read"), b"one two");
        let meta = fs::metadata(&path).expect("there");
        assert_eq!((meta.len(), meta.nlink()), (7, 1));
        let big: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &big).expect("written");
        assert_eq!(fs::read(&path).expect("read"), big);
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_len(5).expect("cut");
        assert_eq!(fs::read(&path).expect("read"), big[..5]);
        fs::remove_file(&path).expect("removed");
        let gone = fs::metadata(&path).expect_err("gone");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn directories_are_made_listed_moved_and_removed() {
    each(|mount| {
        fs::create_dir_all(mount.at("x/y/z")).expect("made");
        for n in 0..500 {
            fs::write(mount.at(&format!("x/file {n:03}")), "").expect("made");
        }
        let list = |dir: &str| {
            let entries = fs::read_dir(mount.at(dir)).expect("listed");
            let mut names: Vec<_> = entries
                .map(|e| e.expect("an entry"))
                .map(|e| (e.file_name().into_string().expect("text"), e))
                .collect();
            names.sort_by(|a, b| a.0.cmp(&b.0));
            names
        };
        let names = list("x");
        assert_eq!(names.len(), 501);
        for (name, entry) in &names {
            let meta = fs::symlink_metadata(entry.path()).expect("there");
            assert_eq!(meta.is_dir(), name == "y");
            use std::os::unix::fs::DirEntryExt;
            assert_eq!(entry.ino(), meta.ino(), "{name}");
        }
        let busy = fs::remove_dir(mount.at("x")).expect_err("not empty");
        assert_eq!(busy.kind(), ErrorKind::DirectoryNotEmpty);
        fs::rename(mount.at("x"), mount.at("w")).expect("moved");
        assert_eq!(list("w").len(), 501);
        assert!(!mount.at("x").exists());
        fs::remove_dir_all(mount.at("w")).expect("removed");
        assert_eq!(list("").len(), 0);
    });
}

#[test]
fn hard_links_are_one_file_and_symbolic_links_resolve() {
    each(|mount| {
        fs::write(mount.at("one"), "text").expect("made");
        fs::hard_link(mount.at("one"), mount.at("two")).expect("linked");
        let (one, two) = (fs::metadata(mount.at("one")), fs::metadata(mount.at("two")));
        let (one, two) = (one.expect("there"), two.expect("there"));
        assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
        fs::write(mount.at("two"), "other").expect("written");
        assert_eq!(fs::read(mount.at("one")).expect("read"), b"other");
        fs::remove_file(mount.at("one")).expect("removed");
        assert_eq!(fs::metadata(mount.at("two")).expect("there").nlink(), 1);
        symlink("two", mount.at("link")).expect("made");
        assert_eq!(fs::read(mount.at("link")).expect("read"), b"other");
        assert_eq!(
            fs::read_link(mount.at("link")).expect("a link").to_str(),
            Some("two")
        );
    });
}

#[test]
fn an_open_file_lives_without_a_name() {
    each(|mount| {
        let path = mount.at("file");
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true);
            options
        };
        let mut file = options().open(&path).expect("made");
        file.write_all(b"before").expect("written");
        let before = mount.session().stats().nodes;
        fs::remove_file(&path).expect("removed");
        file.write_all(b" and after").expect("written");
        file.sync_all().expect("synced");
        file.seek(SeekFrom::Start(0)).expect("sought");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "before and after");
        assert_eq!(file.metadata().expect("there").nlink(), 0);
        let mut other = options().open(&path).expect("made anew");
        other.write_all(b"new").expect("written");
        assert_eq!(file.metadata().expect("there").len(), 16);
        drop((file, other));
        fs::remove_file(&path).expect("removed");
        settles(mount, before - 1);
    });
}

#[test]
fn attributes_are_changed() {
    each(|mount| {
        let path = mount.at("file");
        fs::write(&path, "x").expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).expect("changed");
        std::os::unix::fs::chown(&path, Some(12), Some(34)).expect("given away");
        let meta = fs::metadata(&path).expect("there");
        assert_eq!(
            (meta.mode() & 0o7777, meta.uid(), meta.gid()),
            (0o750, 12, 34)
        );
        let file = File::open(&path).expect("opened");
        let early = std::time::UNIX_EPOCH - std::time::Duration::new(5, 250_000_000);
        let times = fs::FileTimes::new().set_modified(early);
        file.set_times(times).expect("set");
        assert_eq!(
            fs::metadata(&path).expect("there").modified().ok(),
            Some(early)
        );
    });
}

#[test]
fn holes_are_found_unless_writes_may_be_under_way() {
    each(|mount| {
        let path = mount.at("fresh");
        fs::write(&path, "fresh").expect("written");
        let file = File::open(&path).expect("opened");
        let seek = |whence| rustix::fs::seek(&file, whence);
        // Written data is data, whether written back or not.
        assert_eq!(seek(rustix::fs::SeekFrom::Data(2)), Ok(2));
        assert_eq!(seek(rustix::fs::SeekFrom::Hole(0)), Ok(5));
        file.sync_all().expect("synced");
        assert_eq!(seek(rustix::fs::SeekFrom::Data(2)), Ok(2));
    });
}

#[test]
fn data_written_by_a_mapping_is_not_a_hole() {
    each(|mount| {
        let path = mount.at("mapped");
        let open = |write| OpenOptions::new().read(true).write(write).open(&path);
        File::create_new(&path)
            .expect("made")
            .set_len(1 << 20)
            .expect("long");
        let python = "import mmap, sys; f = open(sys.argv[1], 'r+b'); \
            m = mmap.mmap(f.fileno(), 0); f.close(); m[500000] = 7; \
            print('on', flush=True); sys.stdin.read()";
        let mut writer = std::process::Command::new("python3")
            .args(["-c", python])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("begun");
        let mut on = [0; 3];
        let mut said = writer.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut said, &mut on).expect("it is mapped");
        let file = open(false).expect("opened");
        let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
        assert!(data.is_ok_and(|at| at <= 500_000), "{data:?}");
        drop(writer.stdin.take());
        writer.wait().expect("ended");
    });
}

#[test]
fn holes_are_found_with_opens_each() {
    let Some(mount) = TestMount::new(Options::default().opens(Opens::Each)) else {
        return;
    };
    let path = mount.at("sparse");
    let both = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let both = both.expect("made");
    both.write_at(b"data", 1 << 20).expect("written");
    let reader = File::open(&path).expect("opened");
    let seek = |whence| rustix::fs::seek(&reader, whence);
    assert_eq!(
        seek(rustix::fs::SeekFrom::Data(0)),
        Ok(0),
        "it may be mapped"
    );
    assert_eq!(seek(rustix::fs::SeekFrom::Hole(0)), Ok((1 << 20) + 4));
    drop(both);
    // The kernel sends the release of an opening in its own time.
    let found = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        seek(rustix::fs::SeekFrom::Data(0)) == Ok(1 << 20)
    });
    assert!(found, "nobody may map it any more");
    assert_eq!(seek(rustix::fs::SeekFrom::Hole(0)), Ok(0));
    drop(reader);
    mount.end();
}

#[test]
fn sparse_files_keep_their_holes() {
    each(|mount| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(mount.at("file"))
            .expect("made");
        file.write_at(b"end", 1 << 20).expect("written");
        file.sync_all().expect("synced");
        let blocks = file.metadata().expect("there").blocks();
        assert_eq!(blocks, 8);
        let seek = |whence| rustix::fs::seek(&file, whence).expect("found");
        let data = seek(rustix::fs::SeekFrom::Data(0));
        assert!(data == 1 << 20 || data == 0, "{data}");
        assert_eq!(seek(rustix::fs::SeekFrom::Hole(1 << 20)), (1 << 20) + 3);
        let keep = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, keep, 0, 1 << 21).expect("room");
        assert_eq!(file.metadata().expect("there").len(), 1 << 21);
        let other = File::create_new(mount.at("copy")).expect("made");
        let copied = rustix::fs::copy_file_range(&file, Some(&mut 0), &other, None, 1 << 21);
        assert_eq!(copied, Ok(1 << 21));
        assert_eq!(
            fs::read(mount.at("copy")).expect("read")[1 << 20..][..3],
            *b"end"
        );
    });
}

#[test]
fn extended_attributes_are_kept() {
    each(|mount| {
        let path = mount.at("file");
        fs::write(&path, "").expect("made");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.one", b"1", flags).expect("set");
        rustix::fs::setxattr(&path, "trusted.two", b"22", flags).expect("set");
        let mut room = [0; 100];
        let n = rustix::fs::getxattr(&path, "trusted.two", &mut room).expect("got");
        assert_eq!(&room[..n], b"22");
        let n = rustix::fs::listxattr(&path, &mut room).expect("listed");
        assert_eq!(n, "user.one\0trusted.two\0".len());
        let small = rustix::fs::getxattr(&path, "trusted.two", &mut room[..1]);
        assert_eq!(small, Err(rustix::io::Errno::RANGE));
        rustix::fs::removexattr(&path, "user.one").expect("removed");
        let gone = rustix::fs::getxattr(&path, "user.one", &mut room);
        assert_eq!(gone, Err(rustix::io::Errno::NODATA));
    });
}

#[test]
fn an_unnamed_file_is_linked_or_freed() {
    each(|mount| {
        let unnamed = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .mode(0o640)
                .custom_flags(libc::O_TMPFILE | flags)
                .open(mount.dir())
                .expect("made")
        };
        let link = |file: &File, to: &str| {
            use rustix::fs::{AtFlags, CWD, linkat};
            linkat(file, "", CWD, mount.at(to), AtFlags::EMPTY_PATH)
        };
        let before = mount.session().stats().nodes;
        let mut file = unnamed(0);
        file.write_all(b"hidden").expect("written");
        assert_eq!(file.metadata().expect("there").nlink(), 0);
        assert_eq!(fs::read_dir(mount.dir()).expect("listed").count(), 0);
        assert_eq!(link(&file, "named"), Ok(()));
        assert_eq!(fs::read(mount.at("named")).expect("read"), b"hidden");
        let (open, named) = (file.metadata(), fs::metadata(mount.at("named")));
        let (open, named) = (open.expect("there"), named.expect("there"));
        assert_eq!((open.ino(), open.nlink()), (named.ino(), 1));
        assert_eq!(named.mode() & 0o7777, 0o640);
        let mut alone = unnamed(libc::O_EXCL);
        alone.write_all(b"never seen").expect("written");
        assert_eq!(link(&alone, "other"), Err(rustix::io::Errno::NOENT));
        drop((file, alone));
        fs::remove_file(mount.at("named")).expect("removed");
        settles(mount, before);
    });
}

#[test]
fn the_time_of_birth_is_that_of_the_tree() {
    each(|mount| {
        fs::write(mount.at("file"), "x").expect("made");
        let ours = mount.task.statx(
            openpath_abi::fcntl::AT_FDCWD,
            b"/file",
            AtFlags::empty(),
            openpath_abi::statx::STATX_BTIME,
        );
        let ours = ours.expect("there").btime;
        let born = fs::metadata(mount.at("file")).and_then(|m| m.created());
        let since = born.expect("said").duration_since(std::time::UNIX_EPOCH);
        let since = since.expect("after the epoch");
        assert_eq!(since.as_secs(), ours.sec.cast_unsigned());
        assert_eq!(since.subsec_nanos(), ours.nsec);
    });
}

#[test]
fn a_kill_stops_a_long_copy() {
    // More than one request copies, and not a multiple of what one does.
    const LEN: usize = 100 << 20;
    const ONCE: u64 = 64 << 20;
    let Some(mount) = TestMount::new(Options::default()) else {
        return;
    };
    fs::write(mount.at("from"), vec![b'x'; LEN]).expect("written");
    // The kill may come too early or too late.
    for _ in 0..50 {
        let _gone = fs::remove_file(mount.at("to"));
        let before = mount.asked("fallocate, lseek, copy_file_range");
        let copying = std::process::Command::new("cp")
            .arg("--sparse=never")
            .args([mount.at("from"), mount.at("to")])
            .spawn();
        let mut copying = copying.expect("begun");
        while mount.asked("fallocate, lseek, copy_file_range") == before
            && copying.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        copying.kill().expect("killed");
        copying.wait().expect("ended");
        let len = fs::metadata(mount.at("to")).map_or(0, |m| m.len());
        if mount.asked("interrupt") > 0 && !len.is_multiple_of(ONCE) && len < LEN as u64 {
            return mount.end();
        }
    }
    panic!("no copy was interrupted");
}

/// Waits until the kernel has given back nodes, which it does in its own time.
fn settles(mount: &TestMount, nodes: usize) {
    for _ in 0..1000 {
        if mount.session().stats().nodes <= nodes {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} nodes stay", mount.session().stats().nodes);
}

#[test]
fn cached_calls_do_not_reach_the_server() {
    let Some(mount) = TestMount::new(Options::default()) else {
        return;
    };
    fs::write(mount.at("file"), "text").expect("made");
    let round = || {
        assert_eq!(fs::read(mount.at("file")).expect("read"), b"text");
        assert!(fs::metadata(mount.at("none")).is_err());
        assert_eq!(fs::read_dir(mount.dir()).expect("listed").count(), 1);
    };
    // Reading moves the access time, which the second round requests.
    round();
    round();
    // The kernel sends the release of an opening in its own time.
    for _ in 0..1000 {
        if mount.asked("flush, release") >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let before = mount.session().stats();
    for _ in 0..50 {
        round();
    }
    let after = mount.session().stats();
    for kind in [
        "lookup",
        "getattr",
        "open, opendir",
        "read",
        "flush, release",
        "readdir",
    ] {
        assert_eq!(before.of(kind), after.of(kind), "{kind}");
    }
    mount.end();
}

/// Whether the kernel can be asked to give nodes back: from Linux 6.18 on.
fn can_be_asked() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

#[test]
fn the_kernel_gives_nodes_back_beyond_the_bound() {
    const BOUND: usize = 400;
    let Some(mount) = TestMount::new(Options::default().nodes_max(BOUND)) else {
        return;
    };
    let made = |n: u32| {
        let fd = mount.task.open(
            format!("/{n}").as_bytes(),
            openpath_abi::fcntl::O_CREAT | openpath_abi::fcntl::O_WRONLY,
            0o644,
        );
        mount.task.close(fd.expect("made")).expect("closed");
    };
    (0..2000).for_each(made);
    let begun = std::time::Instant::now();
    for n in 0..2000u32 {
        while let Err(why) = fs::metadata(mount.at(&n.to_string())) {
            // The kernel gives nodes back in its own time, and one before 6.18 only when it likes.
            assert_eq!(why.raw_os_error(), Some(libc::ENFILE), "{n}");
            if begun.elapsed().as_secs() > 60 {
                assert!(!can_be_asked(), "nothing is given back");
                return eprintln!("skipped: this kernel cannot be asked to give back");
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(mount.session().stats().nodes <= BOUND);
    }
    mount.end();
}

#[test]
fn each_open_reaches_the_server_with_opens_each() {
    let Some(mount) = TestMount::new(Options::default().opens(Opens::Each)) else {
        return;
    };
    fs::write(mount.at("file"), "text").expect("made");
    let before = mount.asked("open, opendir");
    for _ in 0..10 {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOATIME)
            .open(mount.at("file"))
            .expect("opened");
        drop(file);
    }
    assert_eq!(mount.asked("open, opendir") - before, 10);
    mount.end();
}

#[test]
fn file_opened_with_noatime_keeps_its_access_time() {
    each(|mount| {
        for (name, flags, moves) in [("quiet", O_NOATIME, false), ("plain", O_RDONLY, true)] {
            // Created beside the mount, so that the kernel has to read the data.
            let path = ["/", name].concat();
            let fd = mount.task.open(path.as_bytes(), O_CREAT | O_WRONLY, 0o644);
            let fd = fd.expect("made");
            mount.task.write(fd, b"text").expect("written");
            let old = TimeSet::At(Timespec::new(1_000_000, 0));
            mount.task.futimens(fd, [old, old]).expect("times");
            mount.task.close(fd).expect("closed");
            let mut options = File::options();
            options.read(true).custom_flags(flags.bits().cast_signed());
            let mut file = options.open(mount.at(name)).expect("opened");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("read");
            assert_eq!(text, "text");
            let seen = file.metadata().expect("attributes").atime();
            assert_eq!(seen != 1_000_000, moves, "{name}");
        }
    });
}
